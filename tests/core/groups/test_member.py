"""The client's end of a classic group.

Method: members and our own coordinator live together without I/O on a clock that ticks, with a network that delays and
loses. For any sequence of faults, no partition has two owners at any tick, and once the faults end every partition has
one. Single steps are tried by hand: what a member answers to each error, when it is silent, when it gives up.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.groups.assignors.members import without_racks
from semel.core.groups.assignors.protocol import MemberAssignment, encode_assignment
from semel.core.groups.member import Member
from semel.core.groups.member_words import (
    MOVES,
    Fail,
    FindCoordinator,
    Instruction,
    LookAtTopics,
    Lose,
    MemberConfig,
    Own,
    Phase,
    Revoke,
    Send,
)
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.errors import ConfigError, ErrorCode, InvariantError
from semel.types import TopicPartition
from support.groups.member_world import MemberWorld

STRATEGIES = (
    ("range",),
    ("roundrobin",),
    ("sticky",),
    ("cooperative-sticky",),
    ("range", "cooperative-sticky"),
)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_members_share_and_take_over(strategy: tuple[str, ...]) -> None:
    world = MemberWorld(1, t=6, u=3)
    first = world.start("first", ["t", "u"], strategy)
    world.run_until_settled()
    assert len(first.owned) == 9
    second = world.start("second", ["t", "u"], strategy)
    third = world.start("third", ["t"], strategy)
    world.run(5_000)
    world.run_until_settled()
    assert all(actor.owned for actor in (first, second, third))
    world.leave(second)
    world.run(1_000)
    world.run_until_settled()
    assert second.owned == set()
    third.is_alive = False  # It dies: the others wait for its session to end.
    world.run_until_settled()
    assert len(first.owned) == 9


def test_a_cooperative_member_keeps_reading_what_it_keeps() -> None:
    world = MemberWorld(2, t=4)
    first = world.start("first", ["t"], ["cooperative-sticky"])
    world.run_until_settled()
    before = set(first.owned)
    second = world.start("second", ["t"], ["cooperative-sticky"])
    smallest = len(before)
    for _ in range(100):
        world.run(50)
        smallest = min(smallest, len(first.owned))
    assert smallest == 2
    assert first.owned <= before
    assert len(second.owned) == 2
    revoked = [line for line in first.story if "Revoke" in line]
    assert len(revoked) == 1


def test_a_static_member_comes_back_to_what_it_had() -> None:
    world = MemberWorld(3, t=4)
    world.start("a", ["t"], ["range"], instance="a")
    old = world.start("b", ["t"], ["range"], instance="b")
    world.run_until_settled()
    had, generation = set(old.owned), world.broker.group.generation_id
    old.is_alive = False
    world.run(3_000)
    new = world.start("b2", ["t"], ["range"], instance="b")
    world.run_until_settled()
    assert new.owned == had
    assert world.broker.group.generation_id == generation


def test_a_topic_that_grows_is_divided_anew() -> None:
    world = MemberWorld(4, t=2)
    leader = world.start("a", ["t"], ["range"])
    world.run_until_settled()
    world.start("b", ["t"], ["range"])
    world.run(3_000)
    world.run_until_settled()
    world.topics["t"] = 5
    world._do(leader, leader.member.topics_known(without_racks({"t": 5}), world.now_ms))
    world.run_until_settled()
    assert len(world.owners()) == 5


def test_another_subscription_takes_effect_with_the_next_poll() -> None:
    world = MemberWorld(5, t=2, u=2)
    alone = world.start("a", ["t"], ["cooperative-sticky"])
    world.run_until_settled()
    alone.member.subscribe(["u"])
    world.run_until_settled()
    assert {one.topic for one in alone.owned} == {"u"}


def test_who_does_not_poll_leaves_and_comes_back() -> None:
    world = MemberWorld(6, t=2)
    busy = world.start("busy", ["t"], ["range"])
    world.run_until_settled()
    busy.next_poll_ms = world.now_ms + 30_000
    world.run(25_000)
    assert busy.owned == set()
    assert busy.member.phase is Phase.OUT
    assert world.broker.state == "Empty"
    world.run_until_settled()
    assert len(busy.owned) == 2


def test_the_broker_crashes_and_nobody_joins_again() -> None:
    world = MemberWorld(7, t=6)
    for name in "abc":
        world.start(name, ["t"], ["range"])
    world.run_until_settled()
    generation = world.broker.group.generation_id
    world.crash_broker()
    world.run(20_000)
    assert world.is_settled()
    assert world.broker.group.generation_id == generation


@settings(max_examples=60)
@given(st.integers(0, 2**32), st.sampled_from(STRATEGIES))
def test_whatever_happens_no_partition_has_two_owners(seed: int, strategy: tuple[str, ...]) -> None:
    randomness = random.Random(seed)
    world = MemberWorld(seed, loss=randomness.choice([0, 0.05, 0.2]), t=5, u=3)
    for number in range(randomness.randrange(1, 4)):
        world.start(f"m{number}", ["t", "u"], strategy)
    for number in range(randomness.randrange(3, 9)):
        world.run(randomness.randrange(100, 8_000))
        actor = randomness.choice(world.actors)
        match randomness.randrange(6):
            case 0:
                world.start(f"n{number}", randomness.choice([["t"], ["t", "u"]]), strategy)
            case 1:
                actor.is_alive = False
            case 2 if actor.is_alive and actor.frozen_until_ms <= world.now_ms:
                world.leave(actor)
            case 3:
                actor.frozen_until_ms = world.now_ms + randomness.randrange(500, 25_000)
            case 4:
                world.crash_broker()
            case _:
                actor.member.subscribe(["t"])
    world.loss = 0.0
    world.start("last", ["t", "u"], strategy)
    world.run(30_000)
    world.run_until_settled()


# Single steps


def member(*strategy: str, instance: str | None = None) -> Member:
    made = Member(
        MemberConfig(
            group_id="g",
            partition_assignment_strategy=strategy or ("range",),
            group_instance_id=instance,
        )
    )
    made.subscribe(["t"])
    return made


def sent(instructions: list[Instruction]) -> list[object]:
    return [one.request for one in instructions if isinstance(one, Send)]


def joining(made: Member) -> JoinGroupRequest:
    assert made.polled(0) == [FindCoordinator()]
    assert made.polled(1) == []  # It is looked for already.
    [request] = sent(made.coordinator_found(2))
    assert isinstance(request, JoinGroupRequest)
    return request


def joined(made: Member, code: ErrorCode = ErrorCode.NONE, *, now_ms: int = 10) -> list[Instruction]:
    answer = JoinGroupResponse(
        error_code=code,
        generation_id=3,
        protocol_name=made.config.partition_assignment_strategy[0],
        leader="other",
        member_id="me",
    )
    return made.answered(joining(made), answer, now_ms)


def stable(made: Member, *partitions: TopicPartition, now_ms: int = 20) -> Member:
    [request] = sent(joined(made))
    assert isinstance(request, SyncGroupRequest)
    assignment = encode_assignment(MemberAssignment(list(partitions)))
    done = made.answered(request, SyncGroupResponse(assignment=assignment), now_ms)
    assert done == [Own(tuple(partitions))]
    assert made.phase is Phase.STABLE
    return made


def beat(made: Member, code: ErrorCode, now_ms: int = 5_000) -> list[Instruction]:
    [request] = sent(made.due(now_ms))
    assert isinstance(request, HeartbeatRequest)
    return made.answered(request, HeartbeatResponse(error_code=code), now_ms)


@pytest.mark.mission("CONS-05")
def test_nothing_is_sent_before_the_first_poll() -> None:
    made = member()
    assert made.phase is Phase.OUT
    assert made.next_deadline_ms() is None
    assert made.due(10**9) == []
    assert made.leave(0) == []
    assert isinstance(joining(made), JoinGroupRequest)


def test_a_member_id_is_taken_and_used() -> None:
    made = member()
    required = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="me-1")
    [again] = sent(made.answered(joining(made), required, 3))
    assert isinstance(again, JoinGroupRequest)
    assert again.member_id == "me-1"


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ],
)
def test_what_passes_is_tried_again_after_a_pause(code: ErrorCode) -> None:
    made = member()
    assert joined(made, code) == []
    assert made.polled(50) == []
    assert made.next_deadline_ms() == 10 + made.config.retry_backoff_ms
    [again] = made.due(110)
    moved = code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert isinstance(again, FindCoordinator if moved else Send)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_SESSION_TIMEOUT,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_what_does_not_pass_ends_it(code: ErrorCode) -> None:
    made = member()
    [failure] = joined(made, code)
    assert failure == Fail(code, f"the coordinator of group g refuses to let it join: {code.name}")
    assert made.polled(100) == made.due(10**9) == made.leave(5) == []


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_thrown_out_it_loses_everything_and_joins_anew(code: ErrorCode) -> None:
    made = stable(member("cooperative-sticky"), T0, T1)
    lost, again = beat(made, code)
    assert lost == Lose((T0, T1))
    assert isinstance(again, Send)
    assert isinstance(again.request, JoinGroupRequest)
    assert again.request.member_id == ("" if code is ErrorCode.UNKNOWN_MEMBER_ID else "me")
    assert made.identity.generation_id == -1


def test_an_eager_member_lets_go_before_it_joins_and_a_cooperative_one_does_not() -> None:
    eager = stable(member("sticky"), T0)
    assert beat(eager, ErrorCode.REBALANCE_IN_PROGRESS) == [Revoke((T0,))]
    [request] = sent(eager.revoked(6_000))
    assert isinstance(request, JoinGroupRequest)
    assert eager.owned == ()
    cooperative = stable(member("cooperative-sticky"), T0)
    [again] = beat(cooperative, ErrorCode.REBALANCE_IN_PROGRESS)
    assert isinstance(again, Send)
    assert cooperative.owned == (T0,)
    assert cooperative.revoked(6_000) == []


def test_silence_for_a_session_is_a_loss() -> None:
    """Counted from when the last answered request was sent, so that it ends before the coordinator's does."""
    made = stable(member(), T0, now_ms=900)
    [request] = sent(made.due(4_000))
    assert isinstance(request, HeartbeatRequest)
    assert made.unanswered(request, 34_000) == []
    assert made.due(34_100) == [FindCoordinator()]
    assert made.coordinator_lost(34_200) == []
    ends_ms = 2 + made.config.session_timeout_ms  # The join was sent at 2.
    assert made.due(ends_ms - 1) == [FindCoordinator()]
    assert made.next_deadline_ms() == ends_ms
    assert made.due(ends_ms) == [Lose((T0,))]


def test_a_join_that_took_longer_than_a_session_is_followed_by_a_heartbeat() -> None:
    """The coordinator began to count at a moment nobody knows."""
    made = member()
    late_ms = 60_000
    [sync] = sent(joined(made, now_ms=late_ms))
    assert isinstance(sync, SyncGroupRequest)
    assert made.next_deadline_ms() == late_ms
    [heartbeat] = sent(made.due(late_ms))
    assert isinstance(heartbeat, HeartbeatRequest)


def test_a_join_that_took_almost_a_session_is_not_taken_for_a_lost_one() -> None:
    """It would be over before the first heartbeat: a member lost what it had just got, and read it again."""
    made = member()
    late_ms = made.config.session_timeout_ms - 50
    [sync] = sent(joined(made, now_ms=late_ms))
    assert isinstance(sync, SyncGroupRequest)
    [heartbeat] = sent(made.due(late_ms))
    assert isinstance(heartbeat, HeartbeatRequest)
    assert made.due(late_ms + 1_000) == []
    assert made.answered(heartbeat, HeartbeatResponse(), late_ms + 1_000) == []
    assert made.phase is Phase.SYNCING


def test_a_leader_asks_for_topics_and_hands_in_an_assignment() -> None:
    made = member()
    request = joining(made)
    from semel.core.wire.messages.join_group import JoinGroupResponseMember

    everybody = [
        JoinGroupResponseMember(member_id="me", metadata=request.protocols[0].metadata),
        JoinGroupResponseMember(member_id="strange", metadata=b"\x00"),
    ]
    answer = JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="me", member_id="me", members=everybody
    )
    assert made.answered(request, answer, 5) == [LookAtTopics(("t",))]
    assert made.topics_known(without_racks({"another": 1}), 6) == []  # Asked for in another generation.
    [sync] = sent(made.topics_known(without_racks({"t": 2}), 7))
    assert isinstance(sync, SyncGroupRequest)
    assert {one.member_id: one.assignment for one in sync.assignments} == {
        "me": encode_assignment(MemberAssignment([T0, T1])),
        "strange": encode_assignment(MemberAssignment([])),
    }


def test_leaving() -> None:
    made = stable(member(), T0)
    assert made.leave(100) == [Revoke((T0,))]
    [request] = sent(made.revoked(200))
    assert isinstance(request, LeaveGroupRequest)
    assert [one.member_id for one in request.members] == ["me"]
    assert made.polled(250) == []
    assert made.answered(request, LeaveGroupResponse(), 300) == []
    assert made.phase is Phase.OUT
    static = stable(member(instance="i"))
    assert static.leave(100) == []
    assert static.phase is Phase.OUT


def test_leaving_while_something_is_given_up_or_lost() -> None:
    made = stable(member("cooperative-sticky"), T0, T1)
    [again] = sent(beat(made, ErrorCode.REBALANCE_IN_PROGRESS))
    assert isinstance(again, JoinGroupRequest)
    answer = JoinGroupResponse(
        generation_id=4, protocol_name="cooperative-sticky", leader="other", member_id="me"
    )
    [sync] = sent(made.answered(again, answer, 5_010))
    assert isinstance(sync, SyncGroupRequest)
    kept = encode_assignment(MemberAssignment([T0]))
    assert made.answered(sync, SyncGroupResponse(assignment=kept), 5_020) == [Revoke((T1,))]
    assert made.leave(5_030) == []
    assert made.revoked(5_040) == [Revoke((T0,))]
    [last] = sent(made.revoked(5_050))
    assert isinstance(last, LeaveGroupRequest)
    thrown_out = stable(member(), T0)
    assert thrown_out.leave(4_000) == [Revoke((T0,))]
    assert beat(thrown_out, ErrorCode.UNKNOWN_MEMBER_ID) == [Lose((T0,))]
    assert thrown_out.phase is Phase.OUT


def test_a_commit_tells_as_much_as_a_heartbeat() -> None:
    made = stable(member(), T0)
    assert made.committed(ErrorCode.NONE, 30) == []
    assert made.committed(ErrorCode.REBALANCE_IN_PROGRESS, 40) == [Revoke((T0,))]
    made = stable(member(), T0)
    assert made.committed(ErrorCode.ILLEGAL_GENERATION, 40)[0] == Lose((T0,))


def test_stale_answers_are_ignored() -> None:
    made = stable(member(), T0)
    before = (made.phase, made.owned, made.generation_id)
    stranger = JoinGroupRequest(group_id="g")
    assert made.answered(stranger, JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID), 50) == []
    assert made.unanswered(stranger, 50) == []
    assert made.revoked(50) == []
    assert (made.phase, made.owned, made.generation_id) == before


def test_an_assignment_nobody_can_read_ends_it() -> None:
    made = member()
    [request] = sent(joined(made))
    assert isinstance(request, SyncGroupRequest)
    [failure] = made.answered(request, SyncGroupResponse(assignment=b"\x00"), 20)
    assert isinstance(failure, Fail)
    assert "the leader's assignment cannot be read" in failure.reason


def test_only_listed_moves_are_made() -> None:
    assert set(MOVES) == set(Phase)
    made = member()
    with pytest.raises(InvariantError, match="cannot go from out to stable"):
        made._to(Phase.STABLE)


def test_an_assignor_nobody_knows_is_refused() -> None:
    with pytest.raises(ConfigError, match="use cooperative-sticky, range, roundrobin, sticky"):
        member("best")
