"""Offsets as Spark and its users write them, and how much a trigger takes: pure rules, against the plainest reference.

Method: properties over generated offsets; what a broker would answer is made up.
"""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import IllegalArgumentException
from semel.spark.source.offsets import (
    BEGAN,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    as_json,
    began_in,
    from_json,
    is_delayed,
    limited,
    parse_offsets,
    parse_partitions,
    parse_timestamps,
    questions,
    resolved,
)
from semel.types import TopicPartition

ORDERS_0, ORDERS_1, PAYMENTS_0 = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("payments", 0),
)
PARTITIONS = st.builds(
    TopicPartition, st.sampled_from(["a", "b", "c.d-e_f"]), st.integers(min_value=0, max_value=12)
)
OFFSETS = st.dictionaries(PARTITIONS, st.integers(min_value=0, max_value=2**60), max_size=20)


@given(offsets=OFFSETS)
def test_offsets_survive_sparks_log(offsets: dict[TopicPartition, int]) -> None:
    kept = json.loads(json.dumps(as_json(offsets)))
    assert from_json(kept) == offsets
    assert began_in(kept) is None


@given(offsets=OFFSETS, began=OFFSETS)
def test_the_first_batch_remembers_where_it_began(
    offsets: dict[TopicPartition, int], began: dict[TopicPartition, int]
) -> None:
    kept = json.loads(json.dumps(as_json(offsets, began=began)))
    assert from_json(kept) == offsets
    assert began_in(kept) == began


@given(offsets=OFFSETS)
def test_equal_offsets_are_equal_text(offsets: dict[TopicPartition, int]) -> None:
    backwards = dict(reversed(offsets.items()))
    assert json.dumps(as_json(offsets)) == json.dumps(as_json(backwards))
    assert json.dumps(json.loads(json.dumps(as_json(offsets)))) == json.dumps(as_json(offsets))


def test_partitions_stand_in_the_order_of_their_numbers() -> None:
    offsets = {TopicPartition("t", 10): 1, TopicPartition("t", 9): 2}
    assert json.dumps(as_json(offsets, began={})) == f'{{"t": {{"9": 2, "10": 1}}, "{BEGAN}": {{}}}}'


def test_what_users_write() -> None:
    assert parse_partitions("assign", '{"orders": [1, 0, 1], "payments": [0]}') == (
        ORDERS_0,
        ORDERS_1,
        PAYMENTS_0,
    )
    assert parse_offsets("o", '{"orders": {"0": 23, "1": -1}, "payments": {"0": -2}}') == AtOffsets(
        {ORDERS_0: 23, ORDERS_1: -1, PAYMENTS_0: -2}
    )
    assert parse_timestamps("t", '{"orders": {"0": 1700000000000}}') == AtTimestamps(
        {ORDERS_0: 1_700_000_000_000}
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "earlist",
        "[]",
        "{}",
        '{"orders": 3}',
        '{"orders": {"zero": 1}}',
        '{"orders": {"-1": 1}}',
        '{"orders": {"0": "1"}}',
        '{"orders": {"0": 1.5}}',
        '{"orders": {"0": true}}',
        '{"orders": {"0": -3}}',
        '{"orders": {"4294967296": 0}}',
        '{"orders": {"0": 9223372036854775808}}',
        "[" * 100_000,
    ],
)
def test_what_is_no_offsets_is_refused_with_an_example(content: str) -> None:
    with pytest.raises(IllegalArgumentException, match=r"startingOffsets: .*(topicA|offset of)") as refusal:
        parse_offsets("startingOffsets", content)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize(
    "content", ["x", "{}", '{"orders": {}}', '{"orders": []}', '{"orders": [-1]}', '{"orders": ["0"]}']
)
def test_what_is_no_partitions_is_refused_with_an_example(content: str) -> None:
    with pytest.raises(IllegalArgumentException, match=r"assign: expected e\.g\. {"):
        parse_partitions("assign", content)


def test_a_time_before_1970_is_refused() -> None:
    with pytest.raises(IllegalArgumentException, match="-5 is not a time of orders-0"):
        parse_timestamps("startingOffsetsByTimestamp", '{"orders": {"0": -5}}')


def test_an_end_of_the_log_is_asked_for_everywhere() -> None:
    both = [ORDERS_1, ORDERS_0]
    assert questions(Edge.EARLIEST, both, "x") == {ORDERS_0: -2, ORDERS_1: -2}
    assert questions(Edge.LATEST, both, "x") == {ORDERS_0: -1, ORDERS_1: -1}
    assert questions(AtTimestamp(7), both, "x") == {ORDERS_0: 7, ORDERS_1: 7}


def test_only_the_ends_among_offsets_are_asked_for() -> None:
    bound = AtOffsets({ORDERS_0: 5, ORDERS_1: -1})
    assert questions(bound, [ORDERS_0, ORDERS_1], "x") == {ORDERS_1: -1}
    assert resolved(bound, {ORDERS_1: 90}) == ({ORDERS_0: 5, ORDERS_1: 90}, {})


@pytest.mark.parametrize("bound", [AtOffsets({ORDERS_0: 5}), AtTimestamps({ORDERS_0: 5})])
def test_offsets_must_name_every_partition_and_no_other(bound: AtOffsets | AtTimestamps) -> None:
    with pytest.raises(IllegalArgumentException, match="it lacks orders-1"):
        questions(bound, [ORDERS_0, ORDERS_1], "startingOffsets")
    with pytest.raises(IllegalArgumentException, match="there is no orders-0"):
        questions(bound, [], "startingOffsets")


def test_partitions_without_a_record_that_young_are_named_with_their_time() -> None:
    assert resolved(AtTimestamp(50), {ORDERS_0: 3, ORDERS_1: -1}) == ({ORDERS_0: 3}, {ORDERS_1: 50})
    by_partition = AtTimestamps({ORDERS_0: 40, ORDERS_1: 60})
    assert resolved(by_partition, {ORDERS_0: -1, ORDERS_1: 8}) == ({ORDERS_1: 8}, {ORDERS_0: 40})


@given(
    sizes=st.dictionaries(PARTITIONS, st.integers(min_value=0, max_value=10**9), min_size=1, max_size=20),
    maximum=st.integers(min_value=1, max_value=10**10),
    new=st.sets(PARTITIONS),
    start=st.integers(min_value=0, max_value=10**6),
)
def test_a_limit_divides_what_there_is(
    sizes: dict[TopicPartition, int], maximum: int, new: set[TopicPartition], start: int
) -> None:
    latest = {where: start + size for where, size in sizes.items()}
    begins = dict.fromkeys(sizes, start)
    known = {where: begin for where, begin in begins.items() if where not in new}
    asked: list[TopicPartition] = []

    def earliest(partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        asked.extend(partitions)
        return {where: begins[where] for where in partitions}

    ends = limited(maximum, known, latest, earliest)
    assert asked == sorted(set(sizes) & new)
    assert set(ends) == set(latest)
    taken = {where: ends[where] - begins[where] for where in ends}
    assert all(0 <= taken[where] <= sizes[where] for where in taken)
    # Nobody starves: whoever has something gets at least one, which is all that a limit may be passed by.
    assert all(taken[where] >= 1 for where, size in sizes.items() if size)
    assert sum(taken.values()) <= maximum + len(sizes)
    # And nothing stands still, nor is anything held back without need.
    total = sum(sizes.values())
    if total <= maximum:
        assert all(abs(taken[where] - size) <= 1 + size * 1e-12 for where, size in sizes.items())


def test_a_limit_leaves_alone_what_went_backwards() -> None:
    assert limited(10, {ORDERS_0: 50}, {ORDERS_0: 20}, lambda _: {}) == {ORDERS_0: 20}


def test_a_new_partition_that_is_gone_again_is_taken_whole() -> None:
    assert limited(1, {}, {ORDERS_0: 20}, lambda _: {}) == {ORDERS_0: 20}


@given(
    minimum=st.integers(min_value=1, max_value=100),
    available=st.integers(min_value=0, max_value=100),
    waited_ms=st.integers(min_value=0, max_value=100),
    delay_ms=st.integers(min_value=0, max_value=100),
)
def test_a_trigger_waits_for_its_minimum_but_not_for_ever(
    minimum: int, available: int, waited_ms: int, delay_ms: int
) -> None:
    start, latest = {ORDERS_0: 7}, {ORDERS_0: 7 + available}
    delayed = is_delayed(minimum, start, latest, waited_ms=waited_ms, max_trigger_delay_ms=delay_ms)
    assert delayed == (available < minimum and waited_ms < delay_ms)
