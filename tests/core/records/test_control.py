"""Markers end transactions: written as Kafka writes them, read back, and never confused with other control records.

Method: round trips by property, other types and broken ones by hand. Equality with Kafka's own bytes is in
test_kafka_agrees.py.
"""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records.batch import HEADER_SIZE, BatchHeader, check_crc, read_header
from semel.core.records.build import RecordInput, build_batch, check_records
from semel.core.records.control import (
    ControlType,
    EndTxnMarker,
    build_marker,
    read_control_type,
    read_end,
    read_marker,
)
from semel.errors import CorruptBatchError, UnsupportedCompressionError


@given(
    producer_id=st.integers(0, (1 << 63) - 1),
    producer_epoch=st.integers(0, 32767),
    coordinator_epoch=st.integers(-1, (1 << 31) - 1),
    commit=st.booleans(),
)
def test_a_marker_is_read_back(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, commit: bool
) -> None:
    batch = build_marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        commit=commit,
        timestamp_ms=1_700_000_000_000,
        base_offset=12,
        partition_leader_epoch=3,
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    check_records(batch, 0, header)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (
        producer_id,
        producer_epoch,
        -1,
    )
    assert (header.base_offset, header.partition_leader_epoch, header.max_timestamp) == (
        12,
        3,
        1_700_000_000_000,
    )
    assert read_marker(batch, 0, header) == EndTxnMarker(commit=commit, coordinator_epoch=coordinator_epoch)
    assert read_end(b"before" + batch, 6, header) == read_marker(batch, 0, header)


@given(data=st.data())
def test_a_marker_is_read_alike_the_short_way_and_the_long_way(data: st.DataObject) -> None:
    """Any bytes of the record, and any flags and count, in the place of a marker's."""
    batch = build_marker(producer_id=1, producer_epoch=2, coordinator_epoch=3, commit=True, timestamp_ms=4)
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.sampled_from([21, 22, 60, *range(HEADER_SIZE, len(batch))]))
        batch[place] = data.draw(st.integers(0, 8) | st.integers(0, 255))
    header = read_header(batch)

    def the_long_way() -> EndTxnMarker | None:
        if not header.records_count:
            return None
        ends = read_control_type(batch, 0, header) in (ControlType.ABORT, ControlType.COMMIT)
        return read_marker(batch, 0, header) if ends else None

    assert _outcome(lambda: read_end(batch, 0, header)) == _outcome(the_long_way)


def _outcome(read: Callable[[], EndTxnMarker | None]) -> EndTxnMarker | str | None:
    try:
        return read()
    except (CorruptBatchError, UnsupportedCompressionError) as error:
        return repr(error)


def test_a_marker_that_the_cleaner_took_out_ends_nothing() -> None:
    batch = build_batch([], control=True, transactional=True, producer_id=1, producer_epoch=0)
    assert read_end(batch, 0, read_header(batch)) is None


def control(key: bytes | None, value: bytes | None = b"") -> tuple[bytearray, BatchHeader]:
    batch = build_batch(
        [RecordInput(key, value, 1)], control=True, producer_id=1, producer_epoch=0, base_offset=9
    )
    return batch, read_header(batch)


@pytest.mark.parametrize(
    ("number", "kind"),
    [(0, ControlType.ABORT), (1, ControlType.COMMIT), (2, ControlType.LEADER_CHANGE), (6, ControlType.KRAFT_VOTERS),
     (7, ControlType.UNKNOWN), (-1, ControlType.UNKNOWN), (30000, ControlType.UNKNOWN)],
)  # fmt: skip
def test_other_control_records_are_recognised(number: int, kind: ControlType) -> None:
    batch, header = control(struct.pack(">hh", 0, number), struct.pack(">hi", 0, 5))
    assert read_control_type(batch, 0, header) is kind
    if kind in (ControlType.ABORT, ControlType.COMMIT):
        assert read_marker(batch, 0, header).coordinator_epoch == 5
    else:
        with pytest.raises(CorruptBatchError, match=f"control type {kind.name} ends no transaction"):
            read_marker(batch, 0, header)


def test_newer_versions_are_read_as_far_as_they_are_known() -> None:
    batch, header = control(struct.pack(">hhq", 3, 1, 99), struct.pack(">hiq", 2, 8, 99))
    assert read_marker(batch, 0, header) == EndTxnMarker(commit=True, coordinator_epoch=8)


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (None, b"", "needs a record with a key of 4 bytes"),
        (b"\x00\x00\x00", b"", "needs a record with a key of 4 bytes"),
        (struct.pack(">hh", -1, 0), b"", "control key of version -1"),
        (struct.pack(">hh", 0, 0), None, "marker with no value"),
        (struct.pack(">hh", 0, 0), b"\x00\x00\x00", "marker with a value of 3 bytes"),
        (struct.pack(">hh", 0, 0), struct.pack(">hi", -2, 0), "marker of version -2"),
    ],
)
def test_broken_markers_are_named(key: bytes | None, value: bytes | None, reason: str) -> None:
    batch, header = control(key, value)
    with pytest.raises(CorruptBatchError, match=f"at offset 9: .*{reason}"):
        read_marker(batch, 0, header)


def test_data_is_no_marker() -> None:
    batch = build_batch([RecordInput(struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 1), 1)])
    with pytest.raises(CorruptBatchError, match="not a control batch"):
        read_marker(batch, 0, read_header(batch))


@given(
    commit=st.booleans(),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    coordinator_epoch=st.integers(0, 2**31 - 1),
    timestamp_ms=st.integers(-1, 2**62),
    base_offset=st.integers(0, 2**62),
    leader_epoch=st.integers(-1, 2**31 - 1),
)
def test_the_shape_of_a_marker_is_that_of_any_batch_with_its_record(
    *,
    commit: bool,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    timestamp_ms: int,
    base_offset: int,
    leader_epoch: int,
) -> None:
    """`build_marker` packs one known shape; `build_batch` builds any."""
    record = RecordInput(
        key=struct.pack(">hh", 0, commit),
        value=struct.pack(">hi", 0, coordinator_epoch),
        timestamp_ms=timestamp_ms,
    )
    assert build_marker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        commit=commit,
        timestamp_ms=timestamp_ms,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
    ) == build_batch(
        [record],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=leader_epoch,
    )
