"""A snapshot must be Kafka's bytes, come back as it was, and never be believed when it is damaged.

Method: one file written by hand, round trips by property, every single-bit flip and every cut of a real file. Kafka
reading and writing the same files: `test_kafka_agrees`; its dump tool: here.
"""

from dataclasses import replace
from pathlib import Path
from struct import pack

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate, ProducerEntry, WindowBatch, pack_batches
from semel.errors import CorruptSnapshotError, Refuse
from semel.peers.kafka import KafkaHome
from support.idempotence.idempotence_kit import NOW_MS, header

INT32 = st.integers(-1, 2**31 - 1)
INT64 = st.integers(0, 2**63 - 1)
BATCHES = st.builds(WindowBatch, INT32, INT64, st.integers(0, 2**31 - 1), INT64)
ENTRIES = st.builds(
    ProducerEntry,
    INT64,
    st.integers(-1, 32767),
    INT32,
    st.integers(-1, 2**63 - 1),
    st.one_of(st.none(), INT64),
    st.lists(BATCHES, max_size=5).map(pack_batches),
    st.integers(-1, 2**63 - 1),
)


def sample() -> ProducerState:
    state = ProducerState()
    for number in range(7):
        state.record(header(5, 1, 10 * number, 10, offset=10 * number, timestamp_ms=NOW_MS + number))
    state.record(header(6, 0, 0, 2, offset=70, transactional=True))
    state.record_marker(
        producer_id=8, producer_epoch=3, coordinator_epoch=2, commit=True, offset=72, timestamp_ms=NOW_MS
    )
    return state


def test_the_bytes_written_out_by_hand() -> None:
    state = ProducerState()
    state.record(header(5, 1, 10, 4, offset=40, timestamp_ms=77, transactional=True))
    body = pack(">i", 1) + pack(">qhiqiqiq", 5, 1, 13, 43, 3, 77, -1, 40)
    assert snapshot.encode(state.entries()) == pack(">hI", 1, crc32c(body)) + body


def test_no_producers_make_a_file_too() -> None:
    assert snapshot.decode(snapshot.encode([])) == []


@given(st.lists(ENTRIES, max_size=6, unique_by=lambda entry: entry.producer_id))
def test_whole_windows_come_back(entries: list[ProducerEntry]) -> None:
    back = snapshot.decode(snapshot.encode(entries, keep_windows=True))
    assert back == entries
    for entry, one in zip(entries, back, strict=True):
        if entry.last_write_ms > entry.last_timestamp_ms + 60_000:
            assert one.last_write_ms == entry.last_write_ms


@given(st.lists(ENTRIES, max_size=6, unique_by=lambda entry: entry.producer_id))
def test_kafkas_rows_bring_back_the_last_batch(entries: list[ProducerEntry]) -> None:
    rows = snapshot.encode(entries)
    assert len(rows) == 10 + 46 * len(entries)
    for entry, back in zip(entries, snapshot.decode(rows), strict=True):
        assert replace(back, window=b"") == replace(entry, window=b"")
        assert [batch[:3] for batch in back.batches] == [batch[:3] for batch in entry.batches[-1:]]
    assert snapshot.encode(snapshot.decode(rows)) == rows


def test_a_client_may_resend_any_of_five_batches_after_a_restart() -> None:
    state = sample()
    for keep, oldest in ((True, 2), (False, 6)):
        restarted = ProducerState()
        data = snapshot.encode(state.entries(), keep_windows=keep)
        restarted.load(snapshot.decode(data), map_end_offset=state.map_end_offset)
        for number in range(7):
            verdict = restarted.judge(header(5, 1, 10 * number, 10, offset=90))
            if number < oldest:
                assert isinstance(verdict, Refuse)
            else:
                assert verdict == Duplicate(10 * number, 10 * number + 9, NOW_MS + number)
        assert isinstance(restarted.judge(header(5, 1, 70, offset=90)), Append)


@pytest.mark.parametrize("keep", [False, True])
def test_every_flipped_bit_and_every_cut_is_noticed(keep: bool) -> None:
    data = snapshot.encode(sample().entries(), keep_windows=keep)
    for position in range(len(data)):
        with pytest.raises(CorruptSnapshotError):
            snapshot.decode(data[:position])
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptSnapshotError):
                snapshot.decode(damaged)


def with_checksum(body: bytes) -> bytes:
    return pack(">hI", 1, crc32c(body)) + body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (pack(">i", -1), "-1 producers"),
        (pack(">i", 2**31 - 1), "do not fit"),
        (pack(">i", 1) + bytes(45), "1 producers do not fit"),
        (pack(">i", 0) + b"SEMELWIN", "cut off"),
        (pack(">i", 0) + b"SEMELWIN" + pack(">iqqb", 1, 5, 0, 6), "6 batches of producer 5"),
        (pack(">i", 0) + b"SEMELWIN" + pack(">iqqb", 1, 5, 0, -1), "-1 batches of producer 5"),
        (
            pack(">i", 0) + b"SEMELWIN" + pack(">iqqb", 1, 5, 0, 5) + bytes(119),
            "5 batches of producer 5 in 119 bytes",
        ),
        (pack(">i", 0) + b"SEMELWIN" + pack(">i", 2**31 - 1), "cut off"),
    ],
)
def test_a_right_checksum_does_not_make_a_file_right(body: bytes, reason: str) -> None:
    with pytest.raises(CorruptSnapshotError, match=reason):
        snapshot.decode(with_checksum(body))


def test_bytes_of_another_version_are_refused() -> None:
    data = bytearray(snapshot.encode([]))
    data[1] = 2
    with pytest.raises(CorruptSnapshotError, match="version 2"):
        snapshot.decode(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for candidate in (data, with_checksum(data)):
        try:
            snapshot.decode(candidate)
        except CorruptSnapshotError:
            continue


@pytest.mark.java
def test_kafkas_dump_tool_shows_our_snapshot(kafka_home: KafkaHome, tmp_path: Path) -> None:
    for keep in (False, True):
        file = tmp_path / f"{73 + keep:020d}.snapshot"
        file.write_bytes(snapshot.encode(sample().entries(), keep_windows=keep))
        shown = kafka_home.run("org.apache.kafka.tools.DumpLogSegments", "--files", str(file))
        assert "producerId: 5 producerEpoch: 1 coordinatorEpoch: -1" in shown, shown
        assert "lastSequence: 69" in shown, shown
        assert "producerId: 6" in shown, shown
        assert "producerId: 8 producerEpoch: 3 coordinatorEpoch: 2" in shown, shown
