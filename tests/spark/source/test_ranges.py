"""What a micro-batch reads, what it has lost, and how it is divided among tasks.

Method: properties against the set of offsets that must be read: every offset once, whatever the options.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import IllegalArgumentException, IllegalStateException
from semel.spark.source.ranges import (
    TASKS_ALONE,
    DataLossException,
    OffsetRange,
    between,
    divided,
    gathered,
    lost,
    plan_read,
)
from semel.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
WHERE = st.builds(TopicPartition, st.sampled_from(["t", "u"]), st.integers(min_value=0, max_value=5))
RANGES = st.dictionaries(
    WHERE,
    st.tuples(st.integers(min_value=0, max_value=1000), st.integers(min_value=0, max_value=300)),
    max_size=10,
).map(lambda found: [OffsetRange(where, start, start + size) for where, (start, size) in found.items()])


def offsets_of(ranges: "tuple[OffsetRange, ...] | list[OffsetRange]") -> list[tuple[TopicPartition, int]]:
    return [(one.where, offset) for one in ranges for offset in range(one.start, one.end)]


@given(
    ranges=RANGES,
    min_partitions=st.none() | st.integers(min_value=1, max_value=40),
    max_records=st.none() | st.integers(min_value=1, max_value=100),
)
def test_every_offset_is_read_by_one_task(
    ranges: list[OffsetRange], min_partitions: int | None, max_records: int | None
) -> None:
    parts = divided(ranges, min_partitions=min_partitions, max_records=max_records)
    assert offsets_of(parts) == sorted(offsets_of(ranges))
    assert all(part.size > 0 for part in parts)
    if max_records is not None:
        assert all(part.size <= max_records for part in parts)
    assert parts == divided(reversed(ranges), min_partitions=min_partitions, max_records=max_records)


@given(ranges=RANGES, min_partitions=st.integers(min_value=1, max_value=40))
def test_there_are_about_as_many_tasks_as_asked_for(ranges: list[OffsetRange], min_partitions: int) -> None:
    busy = [one for one in ranges if one.size]
    parts = divided(ranges, min_partitions=min_partitions)
    if len(busy) >= min_partitions:
        assert sorted(parts) == sorted(busy)
    else:
        assert len(parts) >= len(busy)
        assert len(parts) <= min_partitions + len(busy)


def test_large_partitions_are_cut_and_small_ones_are_not() -> None:
    parts = divided([OffsetRange(T0, 0, 90), OffsetRange(T1, 0, 10)], min_partitions=4)
    assert parts == (
        OffsetRange(T0, 0, 30),
        OffsetRange(T0, 30, 60),
        OffsetRange(T0, 60, 90),
        OffsetRange(T1, 0, 10),
    )


def test_more_tasks_than_a_driver_survives_are_refused() -> None:
    with pytest.raises(IllegalArgumentException, match="maxRecordsPerPartition=1 makes 2000000 tasks"):
        divided([OffsetRange(T0, 0, 2_000_000)], max_records=1)


@given(
    sizes=st.lists(st.integers(min_value=1, max_value=300), max_size=400),
    min_records=st.integers(min_value=0, max_value=2_000),
    min_partitions=st.none() | st.integers(min_value=1, max_value=600),
    max_records=st.none() | st.integers(min_value=1, max_value=500),
)
def test_small_ranges_share_tasks(
    sizes: list[int], min_records: int, min_partitions: int | None, max_records: int | None
) -> None:
    whole = [OffsetRange(TopicPartition("t", number), 0, size) for number, size in enumerate(sizes)]
    parts = divided(whole, min_partitions=min_partitions, max_records=max_records)
    tasks = gathered(parts, min_records=min_records, min_partitions=min_partitions, max_records=max_records)
    assert tuple(one for task in tasks for one in task) == parts
    assert len(tasks) >= min(len(parts), max(TASKS_ALONE, min_partitions or 0))
    for task in tasks:
        assert len({one.where for one in task}) == len(task)
        assert len(task) == 1 or sum(one.size for one in task) <= min(min_records, max_records or min_records)


def test_a_thousand_small_partitions_are_a_few_tasks_and_large_ones_have_one_each() -> None:
    small = [OffsetRange(TopicPartition("t", number), 0, 10) for number in range(1000)]
    large = [OffsetRange(TopicPartition("u", number), 0, 10_000) for number in range(1000)]
    assert len(gathered(small, min_records=10_000)) == 33
    assert len(gathered(large, min_records=10_000)) == 1000
    assert len(gathered(small[:TASKS_ALONE], min_records=10_000)) == TASKS_ALONE
    assert len(gathered(small, min_records=0)) == 1000


@given(
    start=st.dictionaries(WHERE, st.integers(min_value=0, max_value=50)),
    end=st.dictionaries(WHERE, st.integers(min_value=0, max_value=50)),
    begins=st.dictionaries(WHERE, st.integers(min_value=0, max_value=50)),
)
def test_a_batch_reads_what_it_can_and_names_the_rest(
    start: dict[TopicPartition, int], end: dict[TopicPartition, int], begins: dict[TopicPartition, int]
) -> None:
    batch = between(start, end, begins)
    wanted = {where: (start.get(where, begins.get(where)), end[where]) for where in end}
    expected = [
        OffsetRange(where, begin, until)
        for where, (begin, until) in sorted(wanted.items())
        if begin is not None and until > begin
    ]
    assert list(batch.ranges) == expected
    is_whole = (
        set(start) <= set(end)
        and all(until >= begin for begin, until in wanted.values() if begin is not None)
        and all(begins.get(where) == 0 for where in end if where not in start)
    )
    assert is_whole == (not batch.losses)


def test_losses_are_named() -> None:
    batch = between({T0: 50, T1: 5}, {T0: 20, U0: 9}, {U0: 3})
    words = "; ".join(batch.losses)
    assert "t-1 are gone" in words
    assert "t-0 ends at 20, before 50" in words
    assert "u-0 is new and begins at 3 instead of 0" in words
    assert "u-0 came and went" in between({}, {U0: 9}, {}).losses[0]


def test_a_loss_says_what_to_do() -> None:
    with pytest.raises(DataLossException, match="failOnDataLoss to false"):
        raise lost("t-1 are gone")


def test_a_batch_query_reads_between_its_ends() -> None:
    ranges = plan_read({T0: 0, T1: 4, U0: 2}, {T0: 10, T1: 4, U0: 5})
    assert ranges == (OffsetRange(T0, 0, 10), OffsetRange(U0, 2, 5))


def test_a_batch_query_does_not_run_backwards() -> None:
    with pytest.raises(IllegalArgumentException, match="t-0 is to be read from 7 to 3"):
        plan_read({T0: 7}, {T0: 3})


def test_partitions_that_come_while_a_read_is_planned_are_noticed() -> None:
    with pytest.raises(IllegalStateException, match="t-1 came or went"):
        plan_read({T0: 0}, {T0: 3, T1: 5})
