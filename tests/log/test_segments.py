"""Segments and their indexes: named by their first offset, rolled in time, found by bisection.

Method: logs with tiny segments; every look-up is compared with a plain walk over the bytes.
"""

import random
from struct import iter_unpack

import pytest

from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.log import names, reading
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.runtime.files import join
from support.log.log_kit import DIRECTORY, NOW, batch_of, content, disk, file_bytes, open_at, send


def filled(seed: int = 1, batches: int = 120, **settings: int) -> PartitionLog:
    """Batches of one to five records with jittering timestamps, over several segments."""
    dice = random.Random(seed)
    log = open_at(disk(), LogConfig(**{"segment_bytes": 3000, "index_interval_bytes": 200, **settings}))  # type: ignore[arg-type]
    for n in range(batches):
        values = [
            RecordInput(
                key=None,
                value=dice.randbytes(dice.randrange(50)),
                timestamp_ms=NOW + n + dice.randrange(-9, 9),
            )
            for _ in range(dice.randrange(1, 6))
        ]
        send(log, build_batch(values))
    return log


@pytest.mark.mission("LOG-03", "R-33")
def test_files_are_named_by_the_first_offset_in_twenty_digits() -> None:
    log = filled()
    assert len(log.segments) > 3
    bases = [segment.base_offset for segment in log.segments]
    found = set(log._files.list_directory(DIRECTORY))
    for base in bases:
        assert {f"{base:020d}.log", f"{base:020d}.index", f"{base:020d}.timeindex"} <= found
        data = file_bytes(log._files, endings=[f"{base:020d}.log"])
        assert batch.read_header(next(iter(data.values()))).base_offset == base


@pytest.mark.mission("LOG-04")
def test_offset_index_entries_are_eight_bytes_and_point_at_batches() -> None:
    log = filled()
    log.close(NOW)
    for segment in log.segments:
        data = file_bytes(log._files, endings=[f"{segment.base_offset:020d}.log"]).popitem()[1]
        starts = dict(batch.headers(data))
        raw = file_bytes(log._files, endings=[f"{segment.base_offset:020d}.index"]).popitem()[1]
        entries = list(iter_unpack(">ii", raw))
        assert len(entries) >= len(data) // 1000
        for relative, position in entries:
            assert starts[position].last_offset == segment.base_offset + relative
        for (_, before), (_, after) in zip([(0, 0), *entries], entries, strict=False):
            assert after - before >= 200
    again = open_at(log._files, log.config)
    every = [header for _position, header in batch.headers(content(again))]
    for header in every:
        for offset in range(header.base_offset, header.next_offset):
            piece = reading.read(again, offset, max_bytes=1, upper_bound=again.log_end_offset)
            assert piece is not None
            assert piece.base_offset == header.base_offset


def test_a_look_up_in_a_sealed_segment_reads_a_few_entries_only() -> None:
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=200_000, index_interval_bytes=1))
    for n in range(2500):
        send(log, batch_of(b"%d" % n))
    log.roll(NOW)
    sealed = log.segments[0]
    assert sealed.offset_index.file.count > 1000
    before = files.counters.reads
    sealed.locate(1234)
    assert files.counters.reads - before < 20


@pytest.mark.mission("LOG-05")
def test_an_entry_of_the_time_index_is_twelve_bytes_and_rises() -> None:
    log = filled()
    log.close(NOW)
    for segment in log.segments:
        raw = file_bytes(log._files, endings=[f"{segment.base_offset:020d}.timeindex"]).popitem()[1]
        entries = list(iter_unpack(">qi", raw))
        timestamps = [timestamp for timestamp, _relative in entries]
        assert timestamps == sorted(set(timestamps))
        assert timestamps[-1] == segment.max_timestamp


def test_a_search_by_time_finds_the_first_record_at_or_after_it() -> None:
    log = filled()
    data = content(log)
    every = [
        record for position, header in batch.headers(data) for record in iter_records(data, position, header)
    ]
    for wanted in range(NOW - 12, NOW + 135):
        expected = next((r for r in every if r.timestamp_ms >= wanted), None)
        found = reading.searched(reading.offset_for_timestamp(log, wanted))
        assert (found and (found.offset, found.timestamp_ms)) == (
            expected and (expected.offset, expected.timestamp_ms)
        )
    largest = max(r.timestamp_ms for r in every)
    newest = reading.searched(reading.offset_of_max_timestamp(log))
    assert newest is not None
    assert newest.offset == next(r.offset for r in every if r.timestamp_ms == largest)
    assert reading.searched(reading.offset_of_max_timestamp(open_at(disk()))) is None


def test_a_segment_never_grows_beyond_its_limit() -> None:
    log = filled(segment_bytes=1000)
    assert all(segment.size_bytes <= 1000 for segment in log.segments)
    assert len(log.segments) > 8


def test_a_segment_is_closed_when_its_records_span_too_long() -> None:
    log = open_at(disk(), LogConfig(segment_ms=1000))
    send(log, batch_of(b"a", timestamp_ms=NOW))
    send(log, batch_of(b"b", timestamp_ms=NOW + 1000))
    assert len(log.segments) == 1
    send(log, batch_of(b"c", timestamp_ms=NOW + 1001))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_segment_of_records_without_time_is_closed_by_the_clock() -> None:
    log = open_at(disk(), LogConfig(segment_ms=1000))
    send(log, batch_of(b"a", timestamp_ms=-1))
    send(log, batch_of(b"b", timestamp_ms=-1), now_ms=NOW + 1000)
    assert len(log.segments) == 1
    send(log, batch_of(b"c", timestamp_ms=-1), now_ms=NOW + 1001)
    assert len(log.segments) == 2


def test_a_segment_is_closed_when_an_index_is_full() -> None:
    log = open_at(disk(), LogConfig(segment_index_bytes=80, index_interval_bytes=1))
    for n in range(40):
        send(log, batch_of(b"x", timestamp_ms=NOW + n))
    assert len(log.segments) > 3
    assert all(segment.offset_index.file.count <= 10 for segment in log.segments)
    assert all(segment.time_index.file.count * 12 <= 80 for segment in log.segments)


def test_offsets_too_far_from_the_first_begin_a_new_segment() -> None:
    log = open_at(disk())
    send(log, batch_of(b"a"))
    far = batch_of(b"b")
    batch.set_base_offset(far, 0, 2**31)
    log.append_as_follower(far, NOW)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31]


@pytest.mark.parametrize(
    "name", ["00000000000000000042.log", "00000000000000000042.timeindex", "00000000000000000042.snapshot"]
)
def test_names_are_read_back(name: str) -> None:
    parsed = names.parse(name)
    assert parsed is not None
    assert names.file_name(parsed.base_offset, parsed.kind) == name


@pytest.mark.parametrize(
    "name", ["leader-epoch-checkpoint", "42.log", "0000000000000000004x.log", "partition.metadata"]
)
def test_other_names_are_no_segments(name: str) -> None:
    assert names.parse(name) is None


def test_paths_have_one_spelling() -> None:
    assert join("/data/", "orders-0", "x.log") == "/data/orders-0/x.log"


def test_jitter_closes_segments_earlier_and_not_all_at_once() -> None:
    """By less than the jitter, by the same after a start, and never later than `segment.ms`."""
    config = LogConfig(segment_ms=1000, segment_jitter_ms=400)
    waited = []
    for index in range(12):
        directory = f"/data/orders-{index}"
        for again in (False, True):
            files = disk()
            log = open_at(files, config, directory=directory)
            send(log, batch_of(b"x", timestamp_ms=NOW))
            if again:
                log.close(NOW)
                log = open_at(files, config, directory=directory)
            age = 0
            while len(log.segments) == 1:
                age += 20
                send(log, batch_of(b"x", timestamp_ms=NOW + age))
            waited.append(age)
    assert waited[::2] == waited[1::2]
    assert all(600 < age <= 1020 for age in waited)
    assert len(set(waited)) > 3
