"""Compaction: of every key the latest record stays, and with it everything else a reader or a producer may rely on.

Method: small stories whose outcome can be seen at a glance, played with kernels and without; then random logs with
transactions, tombstones, codecs and several cleanings, held against a plain dictionary of what is latest.
"""

import pytest

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.core.records.build import RecordInput, build_batch
from semel.errors import CorruptBatchError
from semel.log import reading
from semel.log.compaction import cleaning as cleaning_module
from semel.log.compaction.cleaning import CleanerLimits
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.runtime.files import Files
from support.log.compaction_kit import clean, told, with_kernels, without_kernels
from support.log.log_kit import NOW, batch_of, content, disk, end, open_at, send

DAY = 86_400_000
CONFIG = LogConfig(
    segment_bytes=400,
    index_interval_bytes=100,
    cleanup_compact=True,
    cleanup_delete=False,
    delete_retention_ms=DAY,
    producer_id_expiration_ms=10**13,
)
DELETE_HORIZON_BIT = batch.DELETE_HORIZON_BIT


@pytest.fixture(params=["kernels", "plain"], autouse=True)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every story is played by both."""
    made = with_kernels if request.param == "kernels" else without_kernels
    monkeypatch.setattr(cleaning_module, "key_offsets", made)
    return str(request.param)


def put(log: PartitionLog, *pairs: tuple[str, str | None], **more: object) -> None:
    """One batch of keys and values; None deletes."""
    rows = [RecordInput(key.encode(), None if value is None else value.encode(), NOW) for key, value in pairs]
    send(log, build_batch(rows, **more))  # type: ignore[arg-type]  # The arguments of build_batch, by name.


def seal(log: PartitionLog) -> None:
    """Close the active segment and sync everything: all of it may be cleaned now."""
    log.roll(NOW)
    log.flush(NOW)


def survivors(log: PartitionLog) -> list[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for one in told(log)
        if not one.header.is_control
        for record in one.records
    ]


def filled(files: Files | None = None) -> PartitionLog:
    log = open_at(files or disk(), CONFIG)
    put(log, ("a", "1"), ("b", "1"))
    put(log, ("a", "2"))
    put(log, ("c", "1"), ("b", None))
    put(log, ("a", "3"))
    seal(log)
    return log


@pytest.mark.mission("LOG-07")
def test_the_latest_record_of_every_key_stays_where_it_was() -> None:
    log = filled()
    done = clean(log, now_ms=NOW)
    assert survivors(log) == [(3, "c", "1"), (4, "b", None), (5, "a", "3")]
    assert done.end_offset == 6 == log.log_end_offset
    assert (done.stats.records_read, done.stats.records_kept, done.stats.keys) == (6, 3, 3)
    assert len(log.segments) == 2


def test_a_read_from_a_gap_begins_with_the_next_record() -> None:
    log = filled()
    clean(log, now_ms=NOW)
    piece = reading.read(log, 0, max_bytes=1 << 20, upper_bound=6)
    assert piece is not None
    assert piece.base_offset == 3
    found = reading.searched(reading.offset_for_timestamp(log, NOW))
    assert found is not None
    assert found.offset == 3


def test_a_tombstone_gets_its_horizon_at_the_first_cleaning_and_goes_when_it_has_passed() -> None:
    log = filled()
    clean(log, now_ms=NOW + 5)
    (stamped,) = [one for one in told(log) if any(record.value is None for record in one.records)]
    assert stamped.header.delete_horizon_ms == NOW + 5 + DAY
    assert [record.timestamp_ms for record in stamped.records] == [NOW, NOW]
    assert stamped.header.max_timestamp == NOW

    put(log, ("d", "1"))
    seal(log)
    clean(log, now_ms=NOW + 4 + DAY, cleaned_offset=6)
    assert (4, "b", None) in survivors(log)
    assert [one.header for one in told(log) if one.header.base_offset == 3] == [stamped.header]

    put(log, ("e", "1"))
    seal(log)
    clean(log, now_ms=NOW + 5 + DAY, cleaned_offset=7)
    assert survivors(log) == [(3, "c", "1"), (5, "a", "3"), (6, "d", "1"), (7, "e", "1")]


def test_a_record_without_a_key_goes() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=400))  # Written before the topic was compacted.
    send(log, build_batch([RecordInput(None, b"lost", NOW), RecordInput(b"k", b"kept", NOW)]))
    seal(log)
    log.reconfigure(CONFIG)
    clean(log, now_ms=NOW)
    assert survivors(log) == [(1, "k", "kept")]


@pytest.mark.parametrize("codec", range(5))
def test_a_batch_stays_in_the_codec_it_came_in_with_its_first_and_last_offset(codec: int) -> None:
    log = open_at(disk(), CONFIG)
    put(log, ("a", "1" * 90), ("b", "1" * 90), ("c", "1" * 90), compression=codec)
    put(log, ("a", "2"), ("c", "2"), compression=codec)
    before = told(log)
    seal(log)
    clean(log, now_ms=NOW)
    assert survivors(log) == [(1, "b", "1" * 90), (3, "a", "2"), (4, "c", "2")]
    rewritten, untouched = told(log)
    assert rewritten.header.compression == codec
    assert (rewritten.header.base_offset, rewritten.header.last_offset) == (0, 2)
    assert untouched.header == before[1].header
    for header, data in ((h, d) for s in log.segments for _p, h, d in s.scan()):
        batch.check_crc(data, 0, header)


@pytest.mark.mission("LOG-07")
def test_records_of_an_aborted_transaction_go_and_those_of_a_committed_one_count() -> None:
    log = open_at(disk(), CONFIG)
    put(log, ("a", "1"))
    put(log, ("a", "void"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end(log, 7, commit=False)
    put(log, ("b", "1"))
    put(log, ("b", "2"), producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    end(log, 8, commit=True)
    put(log, ("c", "1"))
    seal(log)
    clean(log, now_ms=NOW)
    assert survivors(log) == [(0, "a", "1"), (4, "b", "2"), (6, "c", "1")]


def test_an_open_transaction_holds_the_cleaning_back() -> None:
    log = open_at(disk(), CONFIG)
    put(log, ("a", "1"))
    seal(log)
    put(log, ("a", "open"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    put(log, ("a", "3"))
    seal(log)
    put(log, ("a", "4"))
    seal(log)
    clean(log, now_ms=NOW)
    assert [row[0] for row in survivors(log)] == [0, 1, 2, 3]
    end(log, 7, commit=True)
    seal(log)
    clean(log, now_ms=NOW)
    assert survivors(log) == [(3, "a", "4")]


@pytest.mark.mission("LOG-07")
def test_a_marker_stays_until_its_records_are_gone_and_its_horizon_has_passed() -> None:
    log = open_at(disk(), CONFIG)
    put(log, ("a", "1"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    end(log, 7, commit=True)
    put(log, ("b", "1"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    end(log, 7, commit=True)
    seal(log)

    def marker() -> int | None:
        """The horizon of the first marker, -1 if it has none, None if it is gone."""
        headers = [one.header for one in told(log) if one.header.is_control and one.header.base_offset == 1]
        if not headers:
            return None
        return -1 if headers[0].delete_horizon_ms is None else headers[0].delete_horizon_ms

    clean(log, now_ms=NOW)
    assert marker() == -1
    put(log, ("a", "2"))
    seal(log)
    clean(log, now_ms=NOW + 1, cleaned_offset=4)
    assert survivors(log) == [(2, "b", "1"), (4, "a", "2")]
    assert marker() == -1  # This cleaning has met the last record it belongs to.
    for n, now_ms in enumerate([NOW + 2, NOW + 1 + DAY]):
        put(log, ("x", str(n)))
        seal(log)
        clean(log, now_ms=now_ms, cleaned_offset=5 + n)
        assert marker() == NOW + 2 + DAY
    put(log, ("x", "3"))
    seal(log)
    clean(log, now_ms=NOW + 2 + DAY, cleaned_offset=7)
    assert marker() is None


@pytest.mark.mission("LOG-07")
def test_the_last_batch_of_a_producer_stays_as_a_header_and_retries_are_known_by_it() -> None:
    files = disk()
    log = open_at(files, CONFIG)
    first = batch_of(b"1", producer_id=7, sequence=0)
    last = batch_of(b"2", producer_id=7, sequence=1)
    send(log, first)
    send(log, last)
    put(log, ("k", "3"))
    put(log, ("other", "1"))
    seal(log)
    clean(log, now_ms=NOW)
    (kept,) = [one for one in told(log) if one.header.producer_id == 7]
    assert kept.records == []
    assert (kept.header.base_offset, kept.header.last_sequence, kept.header.producer_epoch) == (1, 1, 0)
    log.close(NOW)
    for path in files.list_directory(log.directory):
        if path.endswith(".snapshot"):
            files.remove(f"{log.directory}/{path}")  # The log alone must say it.
    again = open_at(files, CONFIG)
    answer = send(again, last)
    assert isinstance(answer, Duplicate)
    assert answer.base_offset == 1
    assert not isinstance(send(again, batch_of(b"4", producer_id=7, sequence=2)), Duplicate)


def test_a_cleaned_segment_ends_where_the_next_begins() -> None:
    log = open_at(disk(), CONFIG)
    for n in range(40):
        put(log, ("same", str(n) * 40))
    seal(log)
    clean(log, now_ms=NOW)
    assert survivors(log) == [(39, "same", "39" * 40)]
    ends = [one.header.next_offset for one in told(log)]
    bases = [segment.base_offset for segment in log.segments]
    assert set(bases[1:]) <= set(ends)
    while len(log.segments) > 2:  # The kept records of neighbouring segments fit one segment.
        before = len(log.segments)
        clean(log, now_ms=NOW)
        assert len(log.segments) < before
    assert survivors(log) == [(39, "same", "39" * 40)]


def test_what_is_not_synced_is_not_cleaned() -> None:
    log = open_at(disk(), CONFIG)
    put(log, ("a", "1"))
    seal(log)
    put(log, ("a", "2"))
    log.roll(NOW)
    put(log, ("b", "1"))
    clean(log, now_ms=NOW)
    assert [row[0] for row in survivors(log)] == [0, 1, 2]


def test_keys_that_do_not_fit_are_left_for_the_next_cleaning() -> None:
    log = open_at(disk(), CONFIG)
    for n in range(60):
        put(log, (f"key {n % 20}", str(n)))
    seal(log)
    few = CleanerLimits(dedupe_bytes=24 * 16, load_factor=0.5, io_bytes=100)
    done = clean(log, now_ms=NOW, limits=few)
    assert done.end_offset == 8
    assert [row[0] for row in survivors(log)] == list(range(60))
    cleaned = 0
    while cleaned < 60:
        cleaned = clean(log, now_ms=NOW, limits=few, cleaned_offset=cleaned).end_offset
    assert [row[0] for row in survivors(log)] == list(range(40, 60))


def test_a_damaged_batch_stops_the_cleaning_and_nothing_is_written_anew() -> None:
    files = disk()
    log = filled(files)
    before = content(log)
    segment = log.segments[0]
    segment.file.write_at(segment.size_bytes - 3, b"\xff")
    damaged = content(log)
    assert damaged != before
    with pytest.raises(CorruptBatchError, match="checksum"):
        clean(log, now_ms=NOW)
    assert content(log) == damaged


def test_a_reader_in_the_middle_of_an_old_segment_is_not_disturbed() -> None:
    log = filled()
    piece = reading.read(log, 0, max_bytes=1 << 20, upper_bound=6)
    assert piece is not None
    before = piece.read()
    clean(log, now_ms=NOW)
    log.remove_deleted_files(NOW + DAY)
    assert piece.read() == before


def test_the_log_is_the_same_after_it_is_opened_again() -> None:
    files = disk()
    log = filled(files)
    clean(log, now_ms=NOW)
    before, rows = content(log), survivors(log)
    assert not [n for n in files.list_directory(log.directory) if n.endswith((".cleaned", ".swap"))]
    log.close(NOW)
    again = open_at(files, CONFIG)
    assert (content(again), survivors(again)) == (before, rows)
    files.kill()
    third = open_at(files, CONFIG, clean=False)
    assert (content(third), survivors(third)) == (before, rows)


def test_retention_waits_while_segments_are_exchanged() -> None:
    log = filled()
    log.reconfigure(LogConfig(segment_bytes=400, cleanup_compact=True, retention_ms=0))
    log.swapping = True
    assert log.delete_old_segments(NOW + DAY) == 0
    log.swapping = False
    assert log.delete_old_segments(NOW + DAY) > 0
