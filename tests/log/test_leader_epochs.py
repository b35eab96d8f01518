"""Leader epochs: which leader wrote from where, and where an epoch ended.

Method: the answers of Kafka's cache for small lists, and what is on disk after each change.
"""

import pytest

from log_kit import disk
from semel.log.leader_epochs import EpochEnd, EpochStart, LeaderEpochs
from semel.runtime.files import read_whole

PATH = "/data/leader-epoch-checkpoint"


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    files = disk()
    files.make_directory("/data")
    cache = LeaderEpochs.open(files, PATH)
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


def test_the_file_is_kafkas() -> None:
    cache = epochs((0, 0), (3, 12))
    assert read_whole(cache._files, PATH) == b"0\n2\n0 0\n3 12\n"
    assert LeaderEpochs.open(cache._files, PATH).entries == [EpochStart(0, 0), EpochStart(3, 12)]


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
    cache.clear()
    assert read_whole(cache._files, PATH) == b"0\n0\n"
