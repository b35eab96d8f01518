"""A consumer's subscription and positions: topics, a pattern and partitions exclude each other; outdated answers are
ignored.

Method: by example, and a property: whatever happens, a position found in an earlier turn never replaces one that was sought.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.reset import EARLIEST, LATEST
from semel.core.client.subscription import (
    NO_EPOCH,
    Mode,
    NotAssignedError,
    Subscription,
    SubscriptionClashError,
)
from semel.types import TopicPartition

A, B, C = (TopicPartition("t", index) for index in range(3))


def test_topics_patterns_and_partitions_exclude_each_other() -> None:
    def topics(one: Subscription) -> None:
        one.subscribe(["t"])

    def pattern(one: Subscription) -> None:
        one.subscribe_pattern(re.compile("t.*"))

    def partitions(one: Subscription) -> None:
        one.assign([A])

    ways = {Mode.TOPICS: topics, Mode.PATTERN: pattern, Mode.PARTITIONS: partitions}
    for first, begin in ways.items():
        for second, change in ways.items():
            subscription = Subscription()
            begin(subscription)
            if first is second:
                change(subscription)
            else:
                with pytest.raises(
                    SubscriptionClashError, match=f"has {first.value}, it cannot have {second.value}"
                ):
                    change(subscription)
            assert subscription.mode is first
            subscription.unsubscribe()
            change(subscription)
            assert subscription.mode is second


def test_an_assignment_keeps_the_positions_of_what_stays() -> None:
    subscription = Subscription()
    subscription.assign([A, B])
    subscription.seek(A, 5)
    subscription.seek(B, 7)
    subscription.assign([B, C])
    assert subscription.state(B).position == 7
    assert subscription.state(C).position is None
    with pytest.raises(NotAssignedError):
        subscription.state(A)


def test_what_comes_and_goes_is_neither_read_nor_looked_for_before_the_user_knows() -> None:
    subscription = Subscription()
    subscription.subscribe(["t"])
    subscription.assign_owned([A, B])
    assert subscription.without_position() == {}
    subscription.seek(A, 3)  # In the listener.
    assert not subscription.state(A).is_fetchable
    subscription.arrived()
    assert list(subscription.without_position()) == [B]
    assert subscription.state(A).is_fetchable
    subscription.leave([A])
    assert not subscription.state(A).is_fetchable
    assert list(subscription.all_consumed()) == [A], "its position can still be committed"
    subscription.drop([A])
    assert list(subscription.partitions) == [B]


def test_a_pattern_means_whole_names() -> None:
    subscription = Subscription()
    subscription.subscribe_pattern(re.compile("orders-.*"))
    assert subscription.matched(["orders-b", "my-orders-a", "orders-a", "orders"])
    assert subscription.topics == ("orders-a", "orders-b")
    assert not subscription.matched(["orders-a", "orders-b", "else"])


def test_lags_are_measured_to_the_end_the_consumer_may_read() -> None:
    subscription = Subscription()
    subscription.assign([A, B])
    subscription.seek(A, 10)
    state = subscription.state(A)
    state.high_watermark, state.last_stable_offset = 25, 20
    assert subscription.lags(committed_only=True) == {A: 10}
    assert subscription.lags(committed_only=False) == {A: 15}


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("seek"), st.integers(0, 9)),
            st.tuples(st.just("reset"), st.sampled_from([EARLIEST, LATEST])),
            st.tuples(st.just("look"), st.just(0)),
            st.tuples(st.just("found"), st.integers(100, 109)),
            st.tuples(st.just("again"), st.just(0)),
        ),
        max_size=30,
    )
)
def test_an_answer_to_an_old_question_never_moves_the_consumer(steps: list[tuple[str, object]]) -> None:
    subscription = Subscription()
    subscription.assign([A])
    wanted: int | None = None
    questions: list[tuple[int, bool]] = []  # The turn, and whether it is still open.
    for kind, value in steps:
        match kind, value:
            case "seek", int(offset):
                subscription.seek(A, offset)
                wanted = offset
                questions = [(turn, False) for turn, _ in questions]
            case "reset", _:
                subscription.reset(A, EARLIEST)
                wanted = None
                questions = [(turn, False) for turn, _ in questions]
            case "look", _:
                questions.append((subscription.state(A).turn, wanted is None))
            case "found", int(offset) if questions:
                turn, is_open = questions.pop(0)
                assert subscription.found(A, turn, offset) == (is_open and wanted is None)
                if is_open and wanted is None:
                    wanted = offset
            case "again", _:
                subscription.assign([B])
                subscription.assign([A])
                wanted = None
                questions = [(turn, False) for turn, _ in questions]
            case _:
                pass
        assert subscription.state(A).position == wanted


def test_a_position_is_checked_under_every_new_leader_and_only_then() -> None:
    subscription = Subscription()
    subscription.assign([A])
    state = subscription.state(A)
    assert subscription.led_under(A, 3), "without a position there is nothing to check"
    subscription.seek(A, 5)
    assert subscription.led_under(A, 3)
    subscription.consumed(A, 7, 3)
    assert subscription.led_under(A, 3), "the same leader"
    assert subscription.led_under(A, NO_EPOCH), "a broker that does not say"
    assert set(subscription.all_consumed()) == {A}

    turn = state.turn
    assert not subscription.led_under(A, 4)
    assert not subscription.led_under(A, 4)
    assert (state.position, state.fetch_offset, state.is_fetchable) == (7, 7, False)
    assert state.turn > turn, "what the leader before sent does not count"
    assert set(subscription.unchecked()) == {A}
    assert not subscription.all_consumed()

    subscription.checked(A, turn, 4)
    assert state.is_unchecked, "an answer of an earlier turn"
    subscription.checked(A, state.turn, 4)
    assert state.is_fetchable
    assert subscription.led_under(A, 4)
    assert not subscription.led_under(A, 6)
    subscription.reset(A, EARLIEST)
    assert not subscription.unchecked()


def test_a_position_that_is_sought_with_its_epoch_is_checked_first() -> None:
    subscription = Subscription()
    subscription.assign([A, B])
    subscription.seek(A, 5, 2)
    subscription.seek(B, 5)
    assert set(subscription.unchecked()) == {A}
    subscription.leave([A])
    assert not subscription.unchecked(), "nobody will read it"
