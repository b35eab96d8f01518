"""A KIP-848 member follows the broker: it lets go before it takes, says what changed, and starts again when it is thrown out.

Method: answers are made by hand, one per situation of the protocol; what the member says next is looked at field by field. The same
member lives in groups of the real broker in tests/client/consumer.
"""

from typing import Any

import pytest

from semel.core.groups.kip848_member import Instruction, Kip848Member, LookAtIds, SendHeartbeat
from semel.core.groups.member_words import Fail, FindCoordinator, Lose, MemberConfig, Own, Phase, Revoke
from semel.core.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition

ID = b"t" * 16
INTERVAL_MS = 5_000
POLL_MS = 300_000


def places(*indexes: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("t", index) for index in indexes)


class Story:
    """A member, a clock, and what it said last."""

    def __init__(self, **settings: Any) -> None:
        config = MemberConfig(group_id="g", max_poll_interval_ms=POLL_MS, **settings)
        self.member = Kip848Member(config, "me", server_assignor="uniform")
        self.now_ms = 1_000
        self.said: ConsumerGroupHeartbeatRequest | None = None

    def hear(self, instructions: list[Instruction]) -> list[Instruction]:
        """Everything but heartbeats, which are kept."""
        others: list[Instruction] = []
        for one in instructions:
            if isinstance(one, SendHeartbeat):
                assert self.said is None, "one heartbeat at a time"
                self.said = one.request
            else:
                others.append(one)
        return others

    def last(self) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat that waits for an answer."""
        assert self.said is not None, "it said nothing"
        return self.said

    @property
    def is_quiet(self) -> bool:
        return self.said is None

    def answer(
        self, epoch: int, *indexes: int, code: ErrorCode = ErrorCode.NONE, news: bool = True
    ) -> list[Instruction]:
        request, self.said = self.said, None
        assert request is not None, "nothing was asked"
        assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=ID, partitions=list(indexes))])
        response = ConsumerGroupHeartbeatResponse(
            error_code=code,
            member_id="me",
            member_epoch=epoch,
            heartbeat_interval_ms=INTERVAL_MS,
            assignment=assignment if news and not code else None,
        )
        return self.hear(self.member.answered(request, response, self.now_ms))

    def pass_time(self, ms: int) -> list[Instruction]:
        self.now_ms += ms
        return self.hear(self.member.due(self.now_ms))

    def joined(self, *indexes: int) -> "Story":
        """A stable member that owns these."""
        self.member.subscribe(["t"])
        assert self.hear(self.member.polled(self.now_ms)) == [FindCoordinator()]
        assert self.hear(self.member.coordinator_found(self.now_ms)) == []
        found = self.answer(1, *indexes)
        if indexes:
            assert found == [LookAtIds((ID,))]
            assert self.hear(self.member.names_known({ID: "t"}, self.now_ms)) == [Own(places(*indexes))]
            self.answer(1, news=False)
        return self


def test_it_joins_with_everything_and_then_says_only_what_changed() -> None:
    story = Story(group_instance_id="static", client_rack="rack")
    story.member.subscribe(["t", "s"])
    story.hear(story.member.polled(story.now_ms))
    story.hear(story.member.coordinator_found(story.now_ms))
    first = story.last()
    assert (first.member_epoch, first.member_id, first.instance_id, first.rack_id) == (
        0,
        "me",
        "static",
        "rack",
    )
    assert (first.subscribed_topic_names, first.server_assignor) == (["s", "t"], "uniform")
    assert (first.topic_partitions, first.rebalance_timeout_ms) == ([], POLL_MS)
    assert story.member.identity.generation_id == -1, "no commit before there is an epoch"
    assert story.answer(3, 0, 1) == [LookAtIds((ID,))]
    assert story.hear(story.member.names_known({ID: "t"}, story.now_ms)) == [Own(places(0, 1))]
    second = story.last()  # It says at once what it owns.
    assert second.member_epoch == 3
    assert [(bytes(one.topic_id), one.partitions) for one in second.topic_partitions or ()] == [(ID, [0, 1])]
    assert (second.subscribed_topic_names, second.rebalance_timeout_ms, second.rack_id) == (None, -1, None)
    story.answer(3, news=False)
    assert story.is_quiet
    story.pass_time(INTERVAL_MS - 1)
    assert story.is_quiet
    story.pass_time(1)
    third = story.last()
    assert (third.topic_partitions, third.subscribed_topic_names) == (None, None)
    story.answer(3, news=False)
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    fourth = story.last()
    assert fourth.subscribed_topic_names == ["t"], "a change does not wait for the interval"


def test_it_lets_go_before_it_takes_and_tells_the_broker_when_both_are_done() -> None:
    story = Story().joined(0, 1)
    story.pass_time(INTERVAL_MS)
    assert story.answer(2, 1, 2) == [Revoke(places(0))]
    assert story.is_quiet
    assert story.member.owned == places(0, 1)
    story.pass_time(INTERVAL_MS)  # The user takes his time: heartbeats go on and say nothing of it.
    assert story.last().topic_partitions is None
    assert story.answer(2, 2) == [], "what the broker wants meanwhile waits"
    assert story.hear(story.member.revoked(story.now_ms)) == [Revoke(places(1))]
    assert story.hear(story.member.revoked(story.now_ms)) == [Own(places(2))]
    assert [one.partitions for one in story.last().topic_partitions or ()] == [[2]]
    assert story.member.owned == places(2)


def test_what_it_never_took_is_given_back_all_the_same() -> None:
    """The broker waits to hear that it let go, for minutes, though it has not come to take it before it was to let go."""
    story = Story()
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    story.hear(story.member.coordinator_found(story.now_ms))
    assert story.answer(1, 0) == [LookAtIds((ID,))]  # Nobody knows the topic's name for a while.
    assert story.is_quiet
    story.pass_time(INTERVAL_MS)
    assert story.answer(1) == [], "it is to have nothing now"
    assert story.last().topic_partitions == []
    story.answer(2, news=False)
    assert story.hear(story.member.names_known({ID: "t"}, story.now_ms)) == []
    assert story.is_quiet


@pytest.mark.parametrize(
    "code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND]
)
def test_thrown_out_it_loses_everything_and_joins_again_under_its_name(code: ErrorCode) -> None:
    story = Story().joined(0, 1)
    story.pass_time(INTERVAL_MS)
    assert story.answer(0, code=code) == [Lose(places(0, 1))]
    assert (story.last().member_epoch, story.last().member_id) == (0, "me")
    assert story.last().topic_partitions == []
    assert story.hear(story.member.revoked(story.now_ms)) == [], "there is nothing left to let go"


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_looked_for_and_told_everything(code: ErrorCode) -> None:
    story = Story().joined(0)
    story.pass_time(INTERVAL_MS)
    assert story.answer(0, code=code) == []
    assert story.pass_time(100) == [FindCoordinator()]
    story.hear(story.member.coordinator_found(story.now_ms))
    assert story.last().subscribed_topic_names == ["t"]
    assert [one.partitions for one in story.last().topic_partitions or ()] == [[0]]
    assert story.member.owned == places(0), "nothing is lost by that"


def test_a_silence_says_everything_again() -> None:
    story = Story().joined(0)
    story.pass_time(INTERVAL_MS)
    request, story.said = story.last(), None
    assert story.hear(story.member.unanswered(request, story.now_ms)) == []
    assert story.pass_time(100) == [FindCoordinator()]
    story.hear(story.member.coordinator_found(story.now_ms))
    assert story.last().rebalance_timeout_ms == POLL_MS
    assert story.hear(story.member.answered(request, ConsumerGroupHeartbeatResponse(), story.now_ms)) == [], (
        "stale"
    )


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.INVALID_REQUEST,
    ],
)
def test_what_cannot_pass_ends_the_membership(code: ErrorCode) -> None:
    story = Story().joined(0)
    story.pass_time(INTERVAL_MS)
    lost, failed = story.answer(0, code=code)
    assert lost == Lose(places(0))
    assert isinstance(failed, Fail)
    assert failed.code is code
    assert story.member.phase is Phase.FAILED
    assert story.member.next_deadline_ms() is None
    assert story.hear(story.member.polled(story.now_ms)) == []


def told_that_its_instance_id_is_taken() -> Story:
    """The answer to its first join was lost on the way."""
    story = Story(group_instance_id="static")
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    story.hear(story.member.coordinator_found(story.now_ms))
    request, story.said = story.last(), None
    story.hear(story.member.unanswered(request, story.now_ms))
    story.pass_time(100)
    story.hear(story.member.coordinator_found(story.now_ms))
    assert story.last().member_epoch == 0
    assert story.answer(0, code=ErrorCode.UNRELEASED_INSTANCE_ID) == []
    assert (story.last().member_epoch, story.last().member_id, story.last().instance_id) == (
        -2,
        "me",
        "static",
    )
    return story


@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID])
def test_an_instance_id_it_took_itself_is_released_and_taken_again(code: ErrorCode) -> None:
    story = told_that_its_instance_id_is_taken()
    assert story.answer(-2, code=code, news=False) == []
    assert story.last().member_epoch == 0
    assert story.last().subscribed_topic_names == ["t"]
    story.answer(1, 0)
    assert story.member.phase is Phase.STABLE


def test_an_instance_id_another_took_stays_the_other_s() -> None:
    story = told_that_its_instance_id_is_taken()
    (failed,) = story.answer(0, code=ErrorCode.FENCED_INSTANCE_ID)
    assert isinstance(failed, Fail)
    assert failed.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert story.member.phase is Phase.FAILED


def test_who_is_not_answered_when_it_steps_aside_begins_anew() -> None:
    story = told_that_its_instance_id_is_taken()
    request, story.said = story.last(), None
    assert story.hear(story.member.unanswered(request, story.now_ms)) == []
    assert story.pass_time(100) == [FindCoordinator()]
    story.hear(story.member.coordinator_found(story.now_ms))
    assert story.last().member_epoch == 0


def test_a_group_that_cannot_be_joined_is_not_joined_again_and_again() -> None:
    """The name is that of a group of another kind."""
    story = Story()
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    story.hear(story.member.coordinator_found(story.now_ms))
    (failed,) = story.answer(0, code=ErrorCode.GROUP_ID_NOT_FOUND)
    assert isinstance(failed, Fail)
    assert story.is_quiet


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("static", -2)])
def test_leaving_lets_go_first_and_a_static_member_only_steps_aside(instance: str | None, epoch: int) -> None:
    story = Story(group_instance_id=instance).joined(0, 1)
    assert story.hear(story.member.leave(story.now_ms)) == [Revoke(places(0, 1))]
    assert story.is_quiet
    assert story.hear(story.member.revoked(story.now_ms)) == []
    assert story.last().member_epoch == epoch
    story.answer(epoch, news=False)
    assert story.member.phase is Phase.OUT
    story.hear(story.member.polled(story.now_ms))
    assert story.last().member_epoch == 0, "it may come back"


def test_who_leaves_while_it_joins_says_so() -> None:
    """The coordinator may have taken it in already, and would keep partitions for it until its session is over."""
    story = Story()
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    story.hear(story.member.coordinator_found(story.now_ms))
    joining, story.said = story.last(), None
    assert story.hear(story.member.leave(story.now_ms)) == []
    assert story.last().member_epoch == -1
    joined = ConsumerGroupHeartbeatResponse(member_id="me", member_epoch=1)
    assert story.hear(story.member.answered(joining, joined, story.now_ms)) == []
    assert story.member.next_deadline_ms() is None, "what it was answered meanwhile comes too late"
    story.answer(-1, news=False)
    assert story.member.phase is Phase.OUT


def test_who_leaves_before_it_said_anything_says_nothing() -> None:
    story = Story()
    story.member.subscribe(["t"])
    story.hear(story.member.polled(story.now_ms))
    assert story.hear(story.member.leave(story.now_ms)) == []
    assert story.is_quiet
    assert story.member.phase is Phase.OUT


def test_who_does_not_poll_leaves_and_comes_back_with_the_next_poll() -> None:
    story = Story().joined(0)
    while story.now_ms < 1_000 + POLL_MS - INTERVAL_MS:
        story.pass_time(INTERVAL_MS)
        story.answer(1, news=False)
    assert story.pass_time(INTERVAL_MS) == [Lose(places(0))]
    assert story.last().member_epoch == -1
    story.answer(-1, news=False)
    assert story.member.phase is Phase.OUT
    story.hear(story.member.polled(story.now_ms))
    assert story.last().member_epoch == 0


def test_a_commit_that_was_refused_is_looked_into_at_once() -> None:
    story = Story().joined(0)
    story.hear(story.member.committed(ErrorCode.STALE_MEMBER_EPOCH, story.now_ms))
    story.last()
    assert story.answer(9, news=False) == []
    assert story.member.identity.generation_id == 9
