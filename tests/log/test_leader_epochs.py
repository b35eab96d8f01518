"""Leader epochs: which leader wrote from where, and where an epoch ended.

Method: the answers of Kafka's cache for small lists, and what is on disk after a flush.
"""

import pytest

from semel.core.replication.epochs import EpochEnd, EpochStart
from semel.log.leader_epochs import EpochRuns, LeaderEpochs
from semel.runtime.files import read_whole
from support.log.log_kit import disk

PATH = "/data/leader-epoch-checkpoint"


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    files = disk()
    files.make_directory("/data")
    cache = LeaderEpochs.open(files, PATH)
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def write(cache: LeaderEpochs) -> None:
    """What a flush of the log does."""
    to_write = cache.unwritten()
    assert to_write is not None
    to_write.write()
    cache.wrote(to_write)


def test_the_file_is_kafkas() -> None:
    cache = epochs((0, 0), (3, 12))
    write(cache)
    assert read_whole(cache._files, PATH) == b"0\n2\n0 0\n3 12\n"
    assert LeaderEpochs.open(cache._files, PATH).entries == [EpochStart(0, 0), EpochStart(3, 12)]


def test_what_changes_while_it_is_written_is_written_next() -> None:
    cache = epochs((0, 0))
    to_write = cache.unwritten()
    assert to_write is not None
    cache.assign(1, 10)
    to_write.write()
    cache.wrote(to_write)
    assert read_whole(cache._files, PATH) == b"0\n1\n0 0\n"
    write(cache)
    assert read_whole(cache._files, PATH) == b"0\n2\n0 0\n1 10\n"
    assert cache.unwritten() is None


@pytest.mark.parametrize(
    ("file", "batches", "extended"),
    [
        (
            [(3, 50), (4, 60)],
            [(0, 0), (2, 10), (2, 20), (3, 45), (3, 50)],
            [(0, 0), (2, 10), (3, 45), (4, 60)],
        ),
        ([(3, 50)], [(0, 0), (2, 10)], [(0, 0), (2, 10), (3, 50)]),
        ([(3, 50)], [(-1, 0), (-1, 10)], [(3, 50)]),
    ],
)
def test_batches_tell_of_what_lies_below_the_file(
    file: list[tuple[int, int]], batches: list[tuple[int, int]], extended: list[tuple[int, int]]
) -> None:
    """Retention shortens the list; a power cut may bring the segments back."""
    cache, runs = epochs(*file), EpochRuns()
    for epoch, base_offset in batches:
        runs.note(epoch, base_offset)
    cache.extend_down(runs)
    assert cache.entries == extended


@pytest.mark.parametrize(
    ("file", "batches", "corrected"),
    [
        ([], [(0, 0), (0, 5), (3, 9)], [(0, 0), (3, 9)]),
        ([(0, 0), (2, 10)], [(0, 5), (2, 12), (3, 20), (7, 21)], [(0, 0), (2, 10), (3, 20), (7, 21)]),
        # The log was cut back to 50 and others wrote from there on; the file did not hear of it.
        ([(0, 0), (5, 100)], [(0, 49), (4, 50), (4, 90), (6, 120)], [(0, 0), (4, 50), (6, 120)]),
        ([(0, 0), (5, 100)], [(0, 40), (0, 99), (0, 100), (0, 150), (6, 160)], [(0, 0), (6, 160)]),
        ([(0, 0), (5, 100)], [(0, 49), (5, 60), (5, 150)], [(0, 0), (5, 60)]),
        # Compaction has taken the first batches of an epoch.
        ([(0, 0), (5, 100)], [(0, 49), (5, 130)], [(0, 0), (5, 100)]),
        ([(0, 0), (5, 100)], [], [(0, 0), (5, 100)]),
        # The log begins at 50: what lies below was deleted, and may still be in its first segment.
        ([(3, 50), (5, 100)], [(0, 0), (3, 40), (3, 60), (7, 120)], [(3, 50), (5, 100), (7, 120)]),
        ([(3, 50), (5, 100)], [(0, 0), (3, 40), (7, 120)], [(3, 50), (5, 100), (7, 120)]),
    ],
)
def test_batches_correct_the_file(
    file: list[tuple[int, int]], batches: list[tuple[int, int]], corrected: list[tuple[int, int]]
) -> None:
    cache, runs = epochs(*file), EpochRuns()
    for epoch, base_offset in batches:
        runs.note(epoch, base_offset)
    cache.correct(runs)
    assert cache.entries == corrected


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (-1, EpochEnd(-1, -1)),
        (0, EpochEnd(0, 10)),
        (1, EpochEnd(1, 20)),
        (2, EpochEnd(1, 20)),
        (4, EpochEnd(4, 55)),
        (5, EpochEnd(-1, -1)),
    ],
)
def test_where_an_epoch_ended(asked: int, expected: EpochEnd) -> None:
    assert epochs((0, 0), (1, 10), (4, 20)).end_offset(asked, log_end_offset=55) == expected


def test_an_epoch_before_the_first_ends_where_the_first_begins() -> None:
    assert epochs((3, 7)).end_offset(1, log_end_offset=55) == EpochEnd(1, 7)


def test_who_wrote_an_offset() -> None:
    cache = epochs((1, 5), (4, 20))
    assert [cache.epoch_for(offset) for offset in (4, 5, 19, 20)] == [-1, 1, 1, 4]


def test_an_assignment_that_contradicts_later_entries_removes_them() -> None:
    cache = epochs((0, 0), (1, 10), (2, 20))
    cache.assign(3, 15)
    assert cache.entries == [(0, 0), (1, 10), (3, 15)]
    cache.assign(3, 99)
    assert cache.entries == [(0, 0), (1, 10), (3, 15)]


def test_truncation_at_both_ends() -> None:
    cache = epochs((0, 0), (1, 10), (2, 20))
    cache.truncate_from_end(20)
    assert cache.entries == [(0, 0), (1, 10)]
    cache.truncate_from_start(5)
    assert cache.entries == [(0, 5), (1, 10)]
    cache.truncate_from_start(12)
    assert cache.entries == [(1, 12)]
    cache.truncate_from_end(0)
    write(cache)
    assert read_whole(cache._files, PATH) == b"0\n0\n"
