"""How dirty a log is, when it is due, and which segments become one.

Method: logs of a few segments whose sizes and times are known, asked at different moments under different settings.
"""

from dataclasses import replace

import pytest

from semel.core.records.build import RecordInput, build_batch
from semel.log.compaction.plan import Dirtiness, dirtiness, grouped, is_due
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from support.log.compaction_kit import clean, told
from support.log.log_kit import NOW, disk, open_at, send

HOUR = 3_600_000
CONFIG = LogConfig(segment_bytes=250, cleanup_compact=True, cleanup_delete=False)


def log_of(segments: int, config: LogConfig = CONFIG) -> PartitionLog:
    """One batch of 200 bytes per segment, an hour apart; the last one is active and empty."""
    log = open_at(disk(), config)
    for n in range(segments):
        send(log, build_batch([RecordInput(b"k", bytes(129), NOW + n * HOUR)]), now_ms=NOW + n * HOUR)
        log.roll(NOW)
    log.flush(NOW)
    return log


def test_a_log_that_was_never_cleaned_is_all_dirt() -> None:
    log = log_of(4)
    size = log.segments[0].size_bytes
    dirt = dirtiness(log, None, NOW)
    assert dirt == Dirtiness(0, 4, 0, 4 * size, overdue=False)
    assert dirt.ratio == 1.0
    assert is_due(log, dirt)


def test_the_ratio_is_dirty_bytes_against_all_that_can_be_cleaned() -> None:
    log = log_of(4)
    for cleaned, ratio, due in ((4, 0.0, False), (3, 0.25, False), (2, 0.5, False), (1, 0.75, True)):
        dirt = dirtiness(log, cleaned, NOW)
        assert (dirt.ratio, is_due(log, dirt)) == (ratio, due)


@pytest.mark.parametrize("cleaned_offset", [-5, 99])
def test_a_checkpoint_outside_of_the_log_counts_for_nothing(cleaned_offset: int) -> None:
    assert dirtiness(log_of(3), cleaned_offset, NOW).first_dirty_offset == 0


def test_young_records_are_left_alone() -> None:
    log = log_of(4, replace(CONFIG, min_compaction_lag_ms=2 * HOUR))
    assert dirtiness(log, None, NOW + 3 * HOUR).first_uncleanable_offset == 2
    assert dirtiness(log, None, NOW + 4 * HOUR).first_uncleanable_offset == 3
    assert dirtiness(log, None, NOW).first_uncleanable_offset == 0
    assert not is_due(log, dirtiness(log, None, NOW))


def test_old_records_are_cleaned_however_clean_the_log_is() -> None:
    log = log_of(4, replace(CONFIG, max_compaction_lag_ms=2 * HOUR))
    early = dirtiness(log, 3, NOW + 5 * HOUR)
    assert (early.overdue, is_due(log, early)) == (False, False)
    late = dirtiness(log, 3, NOW + 5 * HOUR + 1)
    assert (late.overdue, is_due(log, late)) == (True, True)


def test_nothing_above_the_recovery_point_is_cleaned() -> None:
    log = log_of(4)
    log.recovery_point = 2
    assert dirtiness(log, None, NOW).first_uncleanable_offset == 2


def test_segments_are_grouped_up_to_the_size_of_one() -> None:
    log = log_of(6)
    size = log.segments[0].size_bytes
    sealed = log.segments[:-1]

    def bases(**limits: int) -> list[list[int]]:
        defaults = {"segment_bytes": 10**6, "index_bytes": 10**6, "end_offset": 6}
        return [[s.base_offset for s in group] for group in grouped(sealed, **{**defaults, **limits})]

    assert bases() == [[0, 1, 2, 3, 4, 5]]
    assert bases(segment_bytes=2 * size) == [[0, 1], [2, 3], [4, 5]]
    assert bases(segment_bytes=1) == [[0], [1], [2], [3], [4], [5]]
    assert bases(index_bytes=36) == [
        [0, 1, 2],
        [3, 4, 5],
    ]  # A time index has an entry of 12 bytes per segment.
    assert bases(end_offset=2**31 + 1) == [[0, 1, 2, 3, 4], [5]]


@pytest.mark.mission("LOG-07")
def test_a_log_that_is_compacted_and_deleted_from_loses_by_age_and_by_key() -> None:
    both = replace(CONFIG, cleanup_delete=True, retention_ms=2 * HOUR)
    log = log_of(4, both)
    cleaned = clean(log, now_ms=NOW).end_offset
    assert [r.offset for one in told(log) for r in one.records] == [3]
    for n in range(4, 8):
        send(
            log,
            build_batch([RecordInput(b"k%d" % (n % 2), bytes(129), NOW + n * HOUR)]),
            now_ms=NOW + n * HOUR,
        )
        log.roll(NOW)
    log.flush(NOW)
    log.delete_old_segments(NOW + 7 * HOUR)
    assert log.log_start_offset == 5
    assert cleaned < log.log_start_offset
    clean(log, now_ms=NOW + 7 * HOUR, cleaned_offset=cleaned)
    assert [r.offset for one in told(log) for r in one.records] == [6, 7]
