"""Retention: what is too old or too much goes from the beginning, and nothing else does.

Method: the pure decision by table, then a log whose files are looked at.
"""

import random

import pytest

from semel.core.idempotence.producer_window import Duplicate
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.retention import SegmentFacts, expired_prefix
from semel.log.retiring import Retirement
from semel.runtime.memory_files import MemoryDisk
from support.log.log_kit import NOW, batch_of, content, disk, file_bytes, open_at, send

DAY = 86_400_000
SEGMENTS = [
    SegmentFacts(end_offset=10, size_bytes=100, largest_timestamp=NOW - 3 * DAY),
    SegmentFacts(end_offset=20, size_bytes=100, largest_timestamp=NOW - 2 * DAY),
    SegmentFacts(end_offset=30, size_bytes=100, largest_timestamp=NOW - DAY),
    SegmentFacts(end_offset=40, size_bytes=100, largest_timestamp=NOW),
]
KEEP = {"retention_ms": -1, "retention_bytes": -1}


@pytest.mark.parametrize(
    ("settings", "log_start", "limit", "expected"),
    [
        (KEEP, 0, 40, 0),
        ({**KEEP, "retention_ms": DAY}, 0, 40, 2),
        ({**KEEP, "retention_ms": DAY}, 0, 19, 1),
        ({**KEEP, "retention_ms": 0}, 0, 40, 3),
        ({**KEEP, "retention_bytes": 400}, 0, 40, 0),
        ({**KEEP, "retention_bytes": 399}, 0, 40, 0),
        ({**KEEP, "retention_bytes": 300}, 0, 40, 1),
        ({**KEEP, "retention_bytes": 0}, 0, 40, 4),
        (KEEP, 20, 40, 2),
        (KEEP, 19, 40, 1),
        ({**KEEP, "retention_ms": 0, "cleanup_delete": False}, 0, 40, 0),
        ({**KEEP, "retention_ms": 0, "cleanup_delete": False}, 10, 40, 1),
    ],
)
def test_what_may_go(settings: dict[str, int], log_start: int, limit: int, expected: int) -> None:
    config = LogConfig(**settings)  # type: ignore[arg-type]  # Numbers and one flag, by name.
    assert (
        expired_prefix(SEGMENTS, config, now_ms=NOW, log_start_offset=log_start, limit_offset=limit)
        == expected
    )


def test_old_segments_go_with_their_files_and_the_start_moves() -> None:
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=300, retention_ms=DAY, file_delete_delay_ms=1000))
    for n in range(9):
        send(log, batch_of(b"x" * 60, producer_id=1, sequence=n, timestamp_ms=NOW + n))
    rolled = len(log.segments)
    piece = reading.read(log, 0, max_bytes=1, upper_bound=9)
    assert piece is not None
    removed = log.delete_old_segments(NOW + DAY + 5)
    assert 0 < removed < rolled
    assert log.log_start_offset == log.segments[0].base_offset > 0
    assert len(file_bytes(files, endings=[".log.deleted"])) == removed
    assert len(piece.read()) > 0, "a reader that holds the file goes on"
    log.remove_deleted_files(NOW + DAY + 6)
    assert file_bytes(files, endings=[".deleted"])
    log.remove_deleted_files(NOW + DAY + 1005)
    assert not file_bytes(files, endings=[".deleted"])
    assert isinstance(
        send(log, batch_of(b"x" * 60, producer_id=1, sequence=8, timestamp_ms=NOW + 8)), Duplicate
    )


def test_a_log_whose_every_record_is_too_old_goes_on_empty() -> None:
    files = disk()
    log = open_at(files, LogConfig(retention_ms=DAY, producer_id_expiration_ms=10 * DAY))
    send(log, batch_of(b"x", producer_id=1, sequence=0))
    assert log.delete_old_segments(NOW + 2 * DAY) == 1
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (1, 1, b"")
    assert log.delete_old_segments(NOW + 4 * DAY) == 0
    files.kill()
    again = open_at(files, log.config, clean=False)
    assert (again.log_start_offset, again.log_end_offset) == (1, 1)
    assert isinstance(send(again, batch_of(b"x", producer_id=1, sequence=0)), Duplicate)


@pytest.mark.parametrize("seed", range(30))
def test_producers_outlive_their_records_through_a_power_cut(seed: int) -> None:
    """Nothing was ever synced but what retention syncs: of producer 1 only the snapshot tells."""
    files = disk(seed)
    config = LogConfig(segment_bytes=300, retention_bytes=300)
    log = open_at(files, config)
    for path in ("/", "/data"):
        files.sync_directory(path)
    for n in range(12):
        producer_id, sequence = (1, n) if n < 6 else (2, n - 6)
        send(log, batch_of(b"x" * 60, producer_id=producer_id, sequence=sequence))
    assert log.delete_old_segments(NOW) > 2
    assert log.log_start_offset > 6
    files.crash()
    again = open_at(files, config, clean=False)
    assert again.log_start_offset == log.log_start_offset
    assert isinstance(send(again, batch_of(b"x" * 60, producer_id=1, sequence=5)), Duplicate)


@pytest.mark.parametrize("what", ["truncated", "compacting"])
def test_a_log_that_changed_while_retention_waited_loses_nothing(what: str) -> None:
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=300, retention_bytes=300))
    for n in range(12):
        send(log, batch_of(b"x" * 60, producer_id=1, sequence=n))
    before = len(log.segments)
    retirement = Retirement.plan(log, files, NOW)
    assert retirement is not None
    retirement.sync_snapshot()
    if what == "truncated":
        log.truncate_to(2, NOW)
    else:
        log.swapping = True
    retirement.name_snapshot()
    retirement.sync_names()
    assert retirement.drop(NOW) == 0
    assert len(log.segments) == (1 if what == "truncated" else before)
    assert log.log_start_offset == 0
    assert not [offset for offset in log.snapshots.offsets if offset > log.log_end_offset]
    files.kill()
    again = open_at(files, log.config, clean=False)
    assert again.log_end_offset == log.log_end_offset
    last = again.log_end_offset - 1
    assert isinstance(send(again, batch_of(b"x" * 60, producer_id=1, sequence=last)), Duplicate)


def test_records_not_yet_replicated_stay() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=300, retention_ms=1))
    for n in range(9):
        log.append(batch_of(b"x" * 60, timestamp_ms=NOW + n), leader_epoch=0, now_ms=NOW)
    assert log.high_watermark == 0
    assert log.delete_old_segments(NOW + DAY) == 0
    bases = [segment.base_offset for segment in log.segments]
    assert len(bases) > 3
    log.advance_high_watermark(bases[2] + 1)
    log.delete_old_segments(NOW + DAY)
    assert [segment.base_offset for segment in log.segments] == bases[2:]


def test_idle_producers_are_forgotten_and_others_stay() -> None:
    log = open_at(disk(), LogConfig(producer_id_expiration_ms=1000))
    send(log, batch_of(b"x", producer_id=1, sequence=0))
    send(log, batch_of(b"x", producer_id=2, sequence=0, transactional=True))
    assert log.expire_producers(NOW + 1000) == 1
    assert 1 not in log.producers
    assert 2 in log.producers


@pytest.mark.parametrize("again", [False, True])
def test_records_without_timestamps_age_with_their_file(again: bool) -> None:
    """As in Kafka: by when the file was last written. A start in between makes nothing younger."""
    now = [NOW]
    files = MemoryDisk(random.Random(0), now_ms=lambda: now[0])
    config = LogConfig(segment_bytes=400, retention_ms=1000, producer_id_expiration_ms=10**12)
    log = open_at(files, config)
    for _ in range(9):
        send(log, batch_of(b"x" * 40, timestamp_ms=-1))
        now[0] += 300
    assert log.active.max_timestamp == -1
    if again:
        log.close(now[0])
        log = open_at(files, config, now_ms=now[0])
    segments = len(log.segments)
    written = [files.modified_ms(segment.file.path) for segment in log.segments]
    expected = sum(1 for at_ms in written if now[0] - at_ms > 1000)
    assert 0 < expected < segments
    assert log.delete_old_segments(now[0]) == expected
    assert len(log.segments) == segments - expected
