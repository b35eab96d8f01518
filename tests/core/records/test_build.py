"""A batch of Python records is read back as it was written, and a batch that is not sound is named.

Method: round trips by property; the bytes of a small batch spelled out by hand; one damaged record per reason a
batch can be refused for, each checked by the plain parser and by the compiled scan.
"""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records import build, kernels
from semel.core.records.batch import HEADER_SIZE, TimestampType, check_crc, read_header, set_base_offset
from semel.core.records.build import (
    RecordFacts,
    RecordInput,
    build_batch,
    check_records,
    iter_records,
    survey_in_python,
    survey_records,
)
from semel.errors import CorruptBatchError, InvalidRecordError, UnsupportedCompressionError
from support.records.records_kit import CODECS, SEQUENCE_MAX, expected, header_of, record_lists, sequences


@given(records=record_lists, codec=st.sampled_from(CODECS), base_sequence=sequences)
def test_what_is_built_is_read_back(records: list[RecordInput], codec: int, base_sequence: int) -> None:
    batch = build_batch(
        records,
        base_offset=1000,
        compression=codec,
        producer_id=7,
        producer_epoch=2,
        base_sequence=base_sequence,
    )
    header = read_header(batch)
    check_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (
        check_records(batch, 0, header)
        == max(record.timestamp_ms for record in records)
        == header.max_timestamp
    )
    assert list(iter_records(batch, 0, header)) == expected(
        records, base_offset=1000, base_sequence=base_sequence
    )
    assert header.last_sequence == (base_sequence + len(records) - 1) % (SEQUENCE_MAX + 1)


def test_the_bytes_of_a_batch_are_these() -> None:
    """The layout of the format, field by field, independent of any code of ours."""
    batch = build_batch(
        [RecordInput(b"k", b"vv", 1000, [("h", None)]), RecordInput(None, b"", 999)],
        producer_id=0x0102030405060708,
        producer_epoch=3,
        base_sequence=4,
        transactional=True,
        partition_leader_epoch=9,
        base_offset=5,
    )
    first = "18 00 00 00 02 6b 04 76 76 02 02 68 01"
    second = "0c 00 01 02 01 00 00"
    records = bytes.fromhex(first + second)
    assert batch[HEADER_SIZE:] == records
    fixed = (
        "0000000000000005"  # base offset
        "00000045"  # length: 61 + 20 - 12
        "00000009"  # leader epoch
        "02"  # magic
    )
    covered = (
        "0010"  # attributes: transactional
        "00000001"  # last offset delta
        "00000000000003e8"  # base timestamp
        "00000000000003e8"  # max timestamp
        "0102030405060708"  # producer id
        "0003"  # producer epoch
        "00000004"  # base sequence
        "00000002"  # count
    )
    assert batch[:17].hex() == fixed
    assert batch[21:HEADER_SIZE].hex() == covered


def test_offsets_are_patched_without_a_new_checksum() -> None:
    batch = build_batch([RecordInput(b"k", b"v", 1)])
    set_base_offset(batch, 0, 77)
    check_crc(batch, 0, read_header(batch))
    assert [record.offset for record in iter_records(batch, 0, read_header(batch))] == [77]


def test_a_batch_stamped_by_the_broker_shows_its_time_for_all_records() -> None:
    records = [RecordInput(None, b"a", 5), RecordInput(None, b"b", 9)]
    batch = build_batch(records, timestamp_type=TimestampType.LOG_APPEND_TIME, log_append_time_ms=4242)
    header = read_header(batch)
    assert list(iter_records(batch, 0, header)) == expected(records, stamp=4242)
    assert check_records(batch, 0, header) == 9  # The content of the records is still there.


def test_compaction_leaves_gaps_which_a_log_reads_and_a_producer_may_not_send() -> None:
    records = [RecordInput(b"a", b"1", 5), RecordInput(b"b", b"2", 6)]
    batch = build_batch(
        records, offset_deltas=[3, 7], last_offset_delta=9, base_offset=100, delete_horizon_ms=50
    )
    header = read_header(batch)
    assert header.next_offset == 110
    assert header.delete_horizon_ms == 50
    assert [(r.offset, r.timestamp_ms) for r in iter_records(batch, 0, header)] == [(103, 5), (107, 6)]
    assert check_records(batch, 0, header, gaps=True) == 6
    with pytest.raises(CorruptBatchError, match="offset 100: the header counts 2 records"):
        check_records(batch, 0, header)

    empty = build_batch([], last_offset_delta=4, producer_id=1, producer_epoch=0, base_sequence=8)
    header = read_header(empty)
    assert list(iter_records(empty, 0, header)) == []
    assert survey_records(empty, 0, header, gaps=True) == RecordFacts(-1, -1, -1)
    with pytest.raises(CorruptBatchError, match="counts 0 records"):
        check_records(empty, 0, header)


def test_a_survey_knows_what_a_broker_asks() -> None:
    records = [RecordInput(b"k", None, -1), RecordInput(b"", None, 30), RecordInput(None, None, 20)]
    batch = build_batch(records)
    facts = survey_records(batch, 0, read_header(batch))
    assert facts == RecordFacts(largest_timestamp=30, smallest_timestamp=20, first_without_key=2)


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(InvalidRecordError, match="timestamp -2 of record 1"):
        build_batch([RecordInput(None, None), RecordInput(None, None, -2)])
    with pytest.raises(UnsupportedCompressionError, match="compression id 5"):
        build_batch([RecordInput(None, None)], compression=5)


GOOD = "0c 00 00 00 01 01 00"  # length 6, attributes, timestamp delta, offset delta, null key, null value, 0 headers
FLAWS = [
    ("two records announced, one is there", GOOD, 2, {}, "the header counts 2 records"),
    ("no records announced", GOOD, 0, {"last_offset_delta": 0}, "the header counts 0 records"),
    ("negative count", GOOD, -1, {}, "the header counts -1 records"),
    ("count and offsets disagree", GOOD + GOOD, 2, {"last_offset_delta": 5}, "the header counts 2 records"),
    (
        "the second is missing",
        "1a" + "00 00 00 01 01 00" + "00" * 7,
        2,
        {},
        "record 0, byte 7 .*: 7 bytes are left in it",
    ),
    ("bytes behind", GOOD + "00 00", 1, {}, "2 bytes are left after the last record"),
    (
        "length too small",
        "0a 00 00 00 01 01 00",
        1,
        {},
        "record 0, byte 0 of the records: length 5 is below 6",
    ),
    ("length negative", "01 00 00 00 01 01 00", 1, {}, "length -1 is below 6"),
    ("length too large", "0e 00 00 00 01 01 00", 1, {}, "length 7 .* runs past the end of the batch"),
    ("length never ends", "ff ff ff ff ff ff ff", 1, {}, "byte 0 .*: a number is longer than its type"),
    ("length above 32 bits", "80 80 80 80 10 00 00", 1, {}, "byte 0 .*: a number is longer than its type"),
    ("timestamp never ends", "18 00" + "ff" * 11, 1, {}, "byte 2 .*: a number is longer than its type"),
    (
        "timestamp above 64 bits",
        "18 00" + "ff" * 9 + "02 00",
        1,
        {},
        "byte 2 .*: a number is longer than its type",
    ),
    (
        "timestamp overflows",
        "0c 00 02 00 01 01 00",
        1,
        {"base_timestamp": (1 << 63) - 1},
        "timestamp delta 1 leaves 64 bits",
    ),
    (
        "timestamp underflows",
        "0c 00 01 00 01 01 00",
        1,
        {"base_timestamp": -(1 << 63)},
        "timestamp delta -1 leaves 64 bits",
    ),
    (
        "offsets begin at one",
        "0c 00 00 02 01 01 00",
        1,
        {},
        "record 0, byte 3 .*: offset delta 1 is not the next",
    ),
    ("offsets repeat", GOOD + GOOD, 2, {}, "record 1, byte 10 .*: offset delta 0 is not the next"),
    ("key length below -1", "0c 00 00 00 03 01 00", 1, {}, "byte 4 .*: key length -2"),
    ("key past the record", "0c 00 00 00 06 01 00", 1, {}, "byte 4 .*: key length 3"),
    ("value length below -1", "0c 00 00 00 01 03 00", 1, {}, "byte 5 .*: value length -2"),
    ("value past the record", "0c 00 00 00 01 04 00", 1, {}, "byte 5 .*: value length 2"),
    ("value takes the header count", "0c 00 00 00 01 02 00", 1, {}, "byte 7 .*: a number runs past the end"),
    ("header count negative", "0c 00 00 00 01 01 01", 1, {}, "byte 6 .*: header count -1"),
    ("more headers than fit", "10 00 00 00 01 01 04 00 00", 1, {}, "byte 6 .*: header count 2"),
    ("header without a key", "10 00 00 00 01 01 02 01 01", 1, {}, "byte 7 .*: header key length -1"),
    ("header key past the record", "10 00 00 00 01 01 02 06 01", 1, {}, "byte 7 .*: header key length 3"),
    ("header value below -1", "10 00 00 00 01 01 02 00 03", 1, {}, "byte 8 .*: header value length -2"),
    ("header value past the record", "10 00 00 00 01 01 02 00 02", 1, {}, "byte 8 .*: header value length 1"),
    ("bytes left in the record", "0e 00 00 00 01 01 00 00", 1, {}, "byte 7 .*: 1 bytes are left in it"),
    (
        "a record is missing",
        "0c 00 00 00 01 01 00" + "0e 00 00 02 01 01 00 00",
        2,
        {},
        "record 1, byte 14 .*: 1 bytes",
    ),
]


@pytest.mark.parametrize(
    ("data", "count", "changes", "reason"), [case[1:] for case in FLAWS], ids=[case[0] for case in FLAWS]
)
def test_every_flaw_is_named_the_same_by_both_parsers(
    data: str, count: int, changes: dict[str, int], reason: str
) -> None:
    section = bytes.fromhex(data)
    header = header_of(section, count, **{"base_offset": 40, **changes})
    with pytest.raises(CorruptBatchError, match=f"record batch at offset 40: .*{reason}") as by_python:
        survey_in_python(section, header, False)
    with pytest.raises(CorruptBatchError) as by_kernel:
        kernels.survey(section, header, False)
    assert str(by_kernel.value) == str(by_python.value)


def test_the_bytes_may_end_before_the_last_record() -> None:
    """Seven bytes per record suffice for the count, so only reading on shows that one is missing."""
    section = bytes.fromhex("1a 00 00 00 01 0e" + "00" * 7 + "00")
    header = header_of(section, 2)
    for survey in (survey_in_python, kernels.survey):
        with pytest.raises(
            CorruptBatchError, match="record 1, byte 14 of the records: the bytes end before it"
        ):
            survey(section, header, False)


def test_a_buffer_that_is_shorter_than_the_batch_is_refused() -> None:
    batch = build_batch([RecordInput(b"k", b"v", 1)])
    header = read_header(batch)
    with pytest.raises(CorruptBatchError, match="bytes there"):
        check_records(batch[:-1], 0, header)
    with pytest.raises(CorruptBatchError, match="bytes there"):
        list(iter_records(batch, 5, header))


def test_the_broker_checks_with_kernels_once_they_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_survey", survey_in_python)
    assert not build.kernels_loaded()
    batch = build_batch([RecordInput(b"k", b"v", 8)])
    before = survey_records(batch, 0, read_header(batch))
    build.load_kernels()
    assert build.kernels_loaded()
    assert survey_records(batch, 0, read_header(batch)) == before


def test_building_and_checking_need_no_heavy_library() -> None:
    program = (
        "import sys; from semel.core.records import batch, build, control, visibility;"
        "print([name for name in ('numba', 'numpy', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
