"""A leader's rules one by one, where an order of events that shows them is rare.

Method: one `Leading` of broker 1 with two followers, told of fetches and answers by hand.
"""

from typing import NamedTuple

import pytest

from semel.core.replication.leading import Altered, Granted, Leading
from semel.errors import ErrorCode

LAG_MS = 100


class Life(NamedTuple):
    """A broker that is alive."""

    epoch: int


ALIVE = {1: Life(10), 2: Life(20), 3: Life(30)}


def leading(*isr: int, end: int = 10, now_ms: int = 0) -> Leading:
    one = Leading(1, lag_max_ms=LAG_MS)
    assert one.become(
        leader_epoch=5, partition_epoch=7, replicas=(1, 2, 3), isr=isr, log_end_offset=end, now_ms=now_ms
    )
    return one


def fetched(
    one: Leading, replica_id: int, offset: int, *, end: int = 10, now_ms: int = 0, broker_epoch: int = -1
) -> ErrorCode:
    return one.fetched(
        replica_id,
        offset,
        log_start_offset=0,
        log_end_offset=end,
        now_ms=now_ms,
        broker_epoch=broker_epoch,
        alive=ALIVE,
    )


def replicated(
    one: Leading, *, end: int = 10, own: int | None = None, now_ms: int = 0, least: int = 1
) -> int | None:
    return one.replicated_offset(
        end if own is None else own, log_end_offset=end, now_ms=now_ms, min_insync=least, alive=ALIVE
    )


# The high watermark


def test_one_replica_alone_has_replicated_what_it_has_itself() -> None:
    one = Leading(1, lag_max_ms=LAG_MS)
    one.become(leader_epoch=0, partition_epoch=0, replicas=(1,), isr=(1,), log_end_offset=0, now_ms=0)
    assert replicated(one, end=9, own=4, least=3) == 4, (
        "what is not as durable as asked is not replicated either"
    )
    assert one.judge_append(3) is ErrorCode.NONE, "three in sync, of one there is"


def test_a_member_nothing_is_known_of_holds_the_high_watermark() -> None:
    one = leading(1, 2)
    assert replicated(one) == -1
    fetched(one, 2, 6)
    assert replicated(one) == 6


def test_a_replica_that_is_not_in_sync_holds_nothing_unless_it_is_caught_up_and_alive() -> None:
    one = leading(1, 2)
    fetched(one, 2, 10)
    fetched(one, 3, 4)
    assert replicated(one) == 10
    fetched(one, 3, 10)
    assert replicated(one, end=12, own=12) == 10
    fetched(one, 2, 12, end=12)
    assert replicated(one, end=12, now_ms=LAG_MS) == 10, "caught up so long ago that it may still join"
    assert replicated(one, end=12, now_ms=LAG_MS + 1) == 12
    fetched(one, 3, 10, end=10, now_ms=LAG_MS)
    only_two = {broker: epoch for broker, epoch in ALIVE.items() if broker != 3}
    found = one.replicated_offset(12, log_end_offset=12, now_ms=LAG_MS, min_insync=1, alive=only_two)
    assert found == 12, "a dead broker is not waited for"


def test_below_min_insync_nothing_is_shown_and_nothing_taken() -> None:
    one = leading(1)
    assert replicated(one, least=2) is None
    assert replicated(one, least=1) == 10
    assert one.judge_append(2) is ErrorCode.NOT_ENOUGH_REPLICAS
    assert one.judge_replicated(2) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    assert leading(1, 2).judge_append(2) is ErrorCode.NONE
    assert leading(1, 2, 3).judge_append(9) is ErrorCode.NONE, "as many as there are replicas"
    assert leading(1, 2).judge_append(9) is ErrorCode.NOT_ENOUGH_REPLICAS


# Who is in sync


def test_a_replica_joins_with_its_log_at_the_start_of_the_leader_epoch() -> None:
    one = leading(1, end=10)
    fetched(one, 2, 9)
    assert one.expand(2, high_watermark=3, alive=ALIVE) is None, "KAFKA-7128"
    fetched(one, 2, 10)
    assert one.expand(2, high_watermark=11, alive=ALIVE) is None
    proposal = one.expand(2, high_watermark=3, alive=ALIVE)
    assert proposal is not None
    assert (proposal.isr, proposal.leader_epoch, proposal.partition_epoch) == ((1, 2), 5, 7)
    assert (set(one.isr), set(one.maximal_isr)) == ({1}, {1, 2})
    fetched(one, 3, 10)
    assert one.expand(3, high_watermark=3, alive=ALIVE) is None, "one proposal at a time"


@pytest.mark.parametrize(
    ("fetched_with", "registered", "joins"),
    [(20, 20, True), (-1, 20, True), (19, 19, True), (20, -1, True), (21, 20, False)],
)
def test_only_the_broker_that_is_registered_joins(fetched_with: int, registered: int, joins: bool) -> None:
    one = leading(1)
    one.fetched(
        2,
        10,
        log_start_offset=0,
        log_end_offset=10,
        now_ms=0,
        broker_epoch=fetched_with,
        alive={2: Life(registered)},
    )
    assert (one.expand(2, high_watermark=0, alive={2: Life(registered)}) is not None) is joins
    assert leading(1).expand(2, high_watermark=0, alive={}) is None


def test_a_fetch_from_an_earlier_life_moves_nothing() -> None:
    one = leading(1, 2)
    assert fetched(one, 2, 4, broker_epoch=20) is ErrorCode.NONE
    assert fetched(one, 2, 9, broker_epoch=19) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replicated(one) == 4
    assert fetched(one, 2, 9, broker_epoch=-1) is ErrorCode.NONE, "who names no epoch is not fenced by it"
    assert fetched(one, 4, 9) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_stranger_is_told_to_try_again() -> None:
    one = leading(1, 2)
    assert one.check_replica(2, knows_epoch=True) is ErrorCode.NONE
    assert one.check_replica(4, knows_epoch=True) is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert one.check_replica(4, knows_epoch=False) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert one.check_replica(1, knows_epoch=True) is ErrorCode.UNKNOWN_LEADER_EPOCH, "nobody follows himself"


def test_a_member_leaves_when_it_was_not_caught_up_for_too_long() -> None:
    one = leading(1, 2, 3)
    fetched(one, 2, 10, now_ms=50)
    assert one.shrink(log_end_offset=12, now_ms=LAG_MS) is None, "all had their time since the epoch began"
    proposal = one.shrink(log_end_offset=12, now_ms=LAG_MS + 1)
    assert proposal is not None
    assert proposal.isr == (1, 2)
    assert one.maximal_isr == {1, 2, 3}, "who is to leave still counts"


def test_a_follower_at_the_leaders_end_stays_however_long_nothing_comes() -> None:
    one = leading(1, 2)
    fetched(one, 2, 10)
    assert one.shrink(log_end_offset=10, now_ms=3_600_000) is None, "KAFKA-7152"


def test_a_follower_that_is_always_a_little_behind_is_in_sync() -> None:
    one = leading(1, 2)
    end = 10
    for now_ms in range(0, 1000, 50):
        fetched(one, 2, end, end=end + 5, now_ms=now_ms)
        end += 5
    assert one.shrink(log_end_offset=end, now_ms=1000) is None


# What a controller says


def test_a_proposal_is_settled_by_its_own_answer_only() -> None:
    one = leading(1, 2)
    proposal = one.shrink(log_end_offset=10, now_ms=LAG_MS + 1)
    assert proposal is not None
    one.become(leader_epoch=5, partition_epoch=8, replicas=(1, 2, 3), isr=(1, 2), log_end_offset=10, now_ms=0)
    assert one.altered(proposal, Granted((1,), 5, 8)) is Altered.LATE
    assert one.isr == {1, 2}


@pytest.mark.parametrize(
    ("answer", "what", "isr", "maximal"),
    [
        (Granted((1, 2), 5, 8), Altered.COMMITTED, {1, 2}, {1, 2}),
        (Granted((1, 2), 5, 7), Altered.COMMITTED, {1, 2}, {1, 2}),
        (Granted((1, 2), 6, 9), Altered.WAITING, {1}, {1, 2}),
        (Granted((1, 2), 5, 6), Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.INELIGIBLE_REPLICA, Altered.REVERTED, {1}, {1}),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Altered.REVERTED, {1}, {1}),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.UNKNOWN_TOPIC_ID, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.FENCED_LEADER_EPOCH, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.INVALID_UPDATE_VERSION, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.INVALID_REQUEST, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.NEW_LEADER_ELECTED, Altered.WAITING, {1}, {1, 2}),
        (ErrorCode.NOT_CONTROLLER, Altered.AGAIN, {1}, {1, 2}),
        (ErrorCode.NETWORK_EXCEPTION, Altered.AGAIN, {1}, {1, 2}),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Altered.AGAIN, {1}, {1, 2}),
    ],
)
def test_what_an_answer_means(
    answer: Granted | ErrorCode, what: Altered, isr: set[int], maximal: set[int]
) -> None:
    one = leading(1)
    fetched(one, 2, 10)
    proposal = one.expand(2, high_watermark=0, alive=ALIVE)
    assert proposal is not None
    assert one.altered(proposal, answer) is what
    assert (set(one.isr), set(one.maximal_isr)) == (isr, maximal)
    pending = what in (Altered.WAITING, Altered.AGAIN)
    assert (one.proposal is proposal) is pending
    if what is Altered.COMMITTED:
        assert one.partition_epoch == answer.partition_epoch  # type: ignore[union-attr]


def test_who_was_found_ineligible_is_not_proposed_with_every_fetch() -> None:
    one = leading(1)
    fetched(one, 2, 10, broker_epoch=20)
    proposal = one.expand(2, high_watermark=0, alive=ALIVE)
    assert proposal is not None
    one.altered(proposal, ErrorCode.INELIGIBLE_REPLICA)
    fetched(one, 2, 10, broker_epoch=20)
    assert one.expand(2, high_watermark=0, alive=ALIVE) is None
    fetched(one, 2, 10, broker_epoch=21)
    assert one.expand(2, high_watermark=0, alive={2: Life(21)}) is not None, "its broker has begun again"
    one = leading(1)
    fetched(one, 2, 10)
    proposal = one.expand(2, high_watermark=0, alive=ALIVE)
    assert proposal is not None
    one.altered(proposal, ErrorCode.INELIGIBLE_REPLICA)
    one.brokers_changed()
    assert one.expand(2, high_watermark=0, alive=ALIVE) is not None


# Becoming


def test_older_metadata_changes_nothing() -> None:
    one = leading(1, 2)
    assert not one.become(
        leader_epoch=6, partition_epoch=6, replicas=(1,), isr=(1,), log_end_offset=99, now_ms=0
    )
    assert (one.leader_epoch, sorted(one.isr), list(one.followers)) == (5, [1, 2], [2, 3])


def test_a_leader_elected_again_still_knows_its_followers_ends() -> None:
    one = leading(1, 2)
    fetched(one, 2, 8)
    assert one.become(
        leader_epoch=6, partition_epoch=8, replicas=(1, 2, 4), isr=(1, 2), log_end_offset=12, now_ms=0
    )
    assert replicated(one, end=12) == 8
    assert (list(one.followers), one.epoch_start_offset) == ([2, 4], 12)


def test_the_isr_changes_without_a_new_epoch() -> None:
    one = leading(1, 2)
    fetched(one, 2, 8)
    one.become(leader_epoch=5, partition_epoch=8, replicas=(1, 2, 3), isr=(1,), log_end_offset=12, now_ms=0)
    assert (set(one.isr), one.epoch_start_offset) == ({1}, 10)


def test_records_are_deleted_everywhere_once_all_that_live_have_deleted_them() -> None:
    one = leading(1, 2, 3)
    assert one.low_watermark(5, ALIVE) == -1
    for replica_id, start in ((2, 4), (3, 2)):
        one.fetched(
            replica_id, 10, log_start_offset=start, log_end_offset=10, now_ms=0, broker_epoch=-1, alive=ALIVE
        )
    assert one.low_watermark(5, ALIVE) == 2
    assert one.low_watermark(5, {1: Life(10), 2: Life(20)}) == 4
    assert one.low_watermark(3, {1: Life(10)}) == 3
