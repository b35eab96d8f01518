"""How a classic group gets from one generation to the next, and what time does to it.

Method: stories on a clock that only the test moves, each about one rule; and for the assignment itself a property: groups
of up to fifty members that come and go, led by Kafka's assignors.
"""

from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors.members import without_racks
from semel.core.groups.assignors.protocol import (
    MemberAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from semel.core.groups.classic.joining import PENDING_JOINS_MAX
from semel.core.groups.group import GroupSettings
from semel.errors import ErrorCode
from semel.types import TopicPartition
from support.groups.classic_kit import DELAY_MS, REBALANCE_MS, SESSION_MS, ClassicWorld, subscription

NEW_MEMBER_MS: Final = 5 * 60 * 1000


# The first generation


def test_the_first_rebalance_waits_for_more_members() -> None:
    world = ClassicWorld()
    first = world.join(world.member_id())
    world.pass_time(DELAY_MS - 1)
    assert first in world.open
    world.pass_time(1)
    assert world.code(first) is ErrorCode.NONE
    assert world.joined(first).generation_id == 1


def test_who_comes_during_the_delay_extends_it() -> None:
    world = ClassicWorld()
    first = world.join(world.member_id())
    world.pass_time(DELAY_MS - 1)
    second = world.join(world.member_id())
    world.pass_time(DELAY_MS)
    assert {first, second} <= set(world.open)
    world.pass_time(1)
    assert [world.joined(one).generation_id for one in (first, second)] == [1, 1]


def test_the_delay_ends_with_the_longest_rebalance_timeout() -> None:
    world = ClassicWorld()
    first = world.join(world.member_id(), rebalance_ms=7_000)
    for _ in range(6):  # Somebody comes all the time.
        world.pass_time(1_000)
        world.join(world.member_id(), rebalance_ms=7_000)
    world.pass_time(999)
    assert first in world.open
    world.pass_time(1)
    assert world.joined(first).generation_id == 1
    assert len(world.joined(first).members) == 7


def test_without_a_delay_the_first_member_gets_its_generation_at_once() -> None:
    world = ClassicWorld(GroupSettings(group_initial_rebalance_delay_ms=0))
    first = world.join(world.member_id())
    world.pass_time(0)
    assert world.joined(first).generation_id == 1


def test_a_member_that_is_expected_does_not_hold_up_the_first_generation_forever() -> None:
    """An id was given out and its owner never came back: the delay is all it gets."""
    world = ClassicWorld()
    world.member_id()
    first = world.join(world.member_id())
    world.pass_time(DELAY_MS)
    assert world.joined(first).generation_id == 1


@pytest.mark.parametrize("version", range(10))
def test_every_version_joins(version: int) -> None:
    """Before version 4 a member is in with its first request, after that with the id it is given."""
    world = ClassicWorld()
    ticket = world.join(version=version)
    if version >= 4:
        assert world.code(ticket) is ErrorCode.MEMBER_ID_REQUIRED
        ticket = world.join(world.joined(ticket).member_id, version=version)
    world.pass_time(DELAY_MS)
    answer = world.joined(ticket)
    assert answer.error_code == ErrorCode.NONE
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("client-")
    member = world.group.members[answer.member_id]
    # Before there was a rebalance timeout, the session's stood for it.
    assert member.rebalance_timeout_ms == (SESSION_MS if version == 0 else REBALANCE_MS)


@pytest.mark.parametrize(
    ("session_ms", "code"),
    [
        (5_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
        (-1, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_sessions_have_bounds(session_ms: int, code: ErrorCode) -> None:
    world = ClassicWorld()
    assert world.code(world.join(session_ms=session_ms)) is code
    assert (world.state == "none") == (code is ErrorCode.INVALID_SESSION_TIMEOUT)


def test_a_group_without_a_name_is_refused() -> None:
    world = ClassicWorld()
    world.stable(None)
    assert world.code(world.join(group_id="")) is ErrorCode.INVALID_GROUP_ID
    assert world.code(world.sync("m", group_id="")) is ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", group_id="") is ErrorCode.INVALID_GROUP_ID
    assert world.leave("m", group_id="").error_code == ErrorCode.INVALID_GROUP_ID


# The leader and its JoinGroup response


@pytest.mark.mission("CONS-08", "CONS-09")
def test_the_first_to_join_leads_and_only_it_is_told_who_is_there() -> None:
    world = ClassicWorld()
    tickets = [world.join(world.member_id(), metadata=subscription(f"t{n}")) for n in range(5)]
    world.pass_time(2 * DELAY_MS)
    first, *others = [world.joined(ticket) for ticket in tickets]
    assert first.leader == first.member_id
    assert {one.member_id: one.metadata for one in first.members} == {
        world.joined(ticket).member_id: subscription(f"t{n}") for n, ticket in enumerate(tickets)
    }
    for one in others:
        assert one.leader == first.member_id
        assert one.members == []
    # The leader's SyncGroup carries the assignment; assignments of other members are ignored.
    second = others[0].member_id
    world.sync(second, given={second: b"mine"})
    asked = world.sync(first.member_id, given={second: b"yours"})
    assert world.synced(asked).assignment == b""
    assert world.synced(asked - 1).assignment == b"yours"


@pytest.mark.mission("CONS-12")
def test_each_member_gets_its_own_part_and_nothing_else() -> None:
    world = ClassicWorld()
    leader, *others = world.generation(None, None, None, None)
    waiting = {one: world.sync(one) for one in others[:2]}
    assert set(waiting.values()) == set(world.open)
    given = {one: b"part of " + one.encode() for one in (leader, *others)}
    own = world.sync(leader, given={**given, "a stranger": b"lost"})
    late = world.sync(others[2])  # After the others have theirs.
    for one, ticket in {**waiting, leader: own, others[2]: late}.items():
        answer = world.synced(ticket)
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, given[one])
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
    assert b"a stranger" not in world.log[-1].value  # type: ignore[operator]  # It is a row with a value.


def test_who_the_leader_forgets_gets_nothing() -> None:
    world = ClassicWorld()
    leader, other = world.generation(None, None)
    waiting = world.sync(other)
    world.sync(leader, given={leader: b"all"})
    assert world.synced(waiting).assignment == b""
    assert world.group.members[other].assignment == b""


def test_a_leader_that_does_not_come_back_is_followed_by_the_next_that_did() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable(None, None, None)
    tickets = [world.join(one, metadata=subscription("more")) for one in (third, second)]
    world.heartbeat(leader)
    world.pass_time(REBALANCE_MS)
    assert leader not in world.group.members
    assert {world.joined(one).leader for one in tickets} == {second}
    assert len(world.joined(tickets[1]).members) == 2


def test_a_leader_that_leaves_is_followed_by_the_next() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable(None, None, None)
    world.leave(leader)
    tickets = [world.join(one) for one in (third, second)]
    assert {world.joined(one).leader for one in tickets} == {second}


# The next generation


@pytest.mark.mission("CONS-15")
def test_heartbeats_tell_the_others_to_join_again() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    newcomer = world.join(world.member_id())
    assert world.state == "PreparingRebalance"
    codes = [world.heartbeat(one) for one in (leader, follower)]
    assert codes == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    tickets = [world.join(one) for one in (leader, follower)]
    answers = [world.joined(one) for one in (newcomer, *tickets)]
    assert {one.generation_id for one in answers} == {2}
    assert {one.leader for one in answers} == {leader}
    assert world.heartbeat(leader, 1) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(leader, 2) is ErrorCode.NONE


def test_the_rebalance_ends_when_the_last_one_has_joined() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable(None, None, None)
    tickets = [world.join(leader), world.join(second)]
    assert set(tickets) == set(world.open)
    tickets.append(world.join(third))
    assert [world.joined(one).generation_id for one in tickets] == [2, 2, 2]


def test_who_does_not_join_in_time_is_out() -> None:
    """The rebalance timeout is the longest of any member; heartbeats alone do not help."""
    world = ClassicWorld()
    leader, silent = world.stable(None, None)
    ticket = world.join(leader)
    for _ in range(REBALANCE_MS // 5_000 - 1):
        world.pass_time(5_000)
        assert world.heartbeat(silent) is ErrorCode.REBALANCE_IN_PROGRESS
    assert ticket in world.open
    world.pass_time(5_000)
    assert [one.member_id for one in world.joined(ticket).members] == [leader]
    assert world.heartbeat(silent) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_that_ends_ends_the_waiting_for_it() -> None:
    world = ClassicWorld()
    leader, silent = world.stable(None, None)
    ticket = world.join(leader)
    world.pass_time(SESSION_MS)
    assert world.joined(ticket).generation_id == 2
    assert silent not in world.group.members


def test_a_member_that_leaves_ends_the_waiting_for_it() -> None:
    world = ClassicWorld()
    leader, other = world.stable(None, None)
    ticket = world.join(leader)
    world.leave(other)
    assert world.joined(ticket).generation_id == 2


def test_one_that_was_given_an_id_is_waited_for_until_its_session_ends() -> None:
    world = ClassicWorld()
    [leader] = world.stable(None)
    expected = world.member_id(session_ms=6_000)
    ticket = world.join(leader)
    world.pass_time(5_999)
    assert ticket in world.open
    world.pass_time(1)
    assert world.joined(ticket).generation_id == 2
    assert world.code(world.join(expected)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_was_given_an_id_and_leaves_is_not_waited_for() -> None:
    world = ClassicWorld()
    [leader] = world.stable(None)
    expected = world.member_id()
    ticket = world.join(leader)
    world.leave(expected)
    assert world.joined(ticket).generation_id == 2


def test_a_second_request_of_a_member_that_waits_takes_the_place_of_the_first() -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    first = world.join(leader)
    second = world.join(leader, metadata=subscription("other"))
    assert world.code(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(follower)
    [told] = [one.metadata for one in world.joined(second).members if one.member_id == leader]
    assert told == subscription("other")


def test_a_second_sync_takes_the_place_of_the_first() -> None:
    world = ClassicWorld()
    leader, follower = world.generation(None, None)
    first = world.sync(follower)
    second = world.sync(follower)
    assert world.code(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.sync(leader, given={follower: b"part"})
    assert world.synced(second).assignment == b"part"


def test_a_generation_that_ends_early_sends_its_syncs_away() -> None:
    world = ClassicWorld()
    leader, follower = world.generation(None, None)
    waiting = world.sync(follower)
    world.join(version=3)
    assert world.code(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_parts_of_a_generation_that_was_given_up_are_forgotten() -> None:
    """A static member that does not join keeps its place, but not what it had two generations ago."""
    world = ClassicWorld()
    leader, static = world.stable(None, "s", session_ms=100_000)
    world.join(leader, metadata=subscription("other"), session_ms=100_000)
    world.pass_time(REBALANCE_MS)
    assert world.state == "CompletingRebalance"
    assert world.group.members[static].assignment == static.encode()
    world.join(version=3)
    assert {one.assignment for one in world.group.members.values()} == {b""}


def test_who_does_not_sync_in_time_is_out() -> None:
    world = ClassicWorld()
    leader, silent = world.generation(None, None, rebalance_ms=20_000)
    world.sync(leader, given={})
    assert world.state == "Stable"
    for _ in range(3):
        world.pass_time(5_000)
        assert world.heartbeat(leader) is ErrorCode.NONE
        assert world.heartbeat(silent) is ErrorCode.NONE
    world.pass_time(4_999)
    assert world.state == "Stable"
    world.pass_time(1)
    assert world.state == "PreparingRebalance"
    assert silent not in world.group.members
    assert world.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_syncs_is_out() -> None:
    world = ClassicWorld()
    leader, follower = world.generation(None, None)
    waiting = world.sync(follower)
    for _ in range(REBALANCE_MS // 5_000):
        world.pass_time(5_000)
        if world.state == "CompletingRebalance":
            world.heartbeat(leader)
    assert leader not in world.group.members
    assert world.code(waiting) is ErrorCode.REBALANCE_IN_PROGRESS


# Sessions


@pytest.mark.parametrize("sign", ["heartbeat", "commit", "sync"])
def test_a_session_counts_from_the_last_sign_of_life(sign: str) -> None:
    world = ClassicWorld()
    leader, follower = world.generation(None, None)
    waiting = world.sync(follower)
    world.pass_time(SESSION_MS - 1)
    if sign == "sync":
        world.heartbeat(leader)
        world.pass_time(SESSION_MS - 1)
        world.sync(leader, given={})  # The follower waited two sessions long, and has one from here.
        assert world.code(waiting) is ErrorCode.NONE
    else:
        world.sync(leader, given={})
        world.pass_time(SESSION_MS - 1)
        if sign == "heartbeat":
            assert world.heartbeat(follower) is ErrorCode.NONE
        else:
            world.group.commit_heard(follower, world.now_ms)
    for _ in range(2):
        world.heartbeat(leader)
        world.pass_time(SESSION_MS // 2 - 1)
    assert follower in world.group.members
    world.pass_time(2)
    assert follower not in world.group.members
    assert world.state == "PreparingRebalance"


def test_a_commit_before_the_part_is_known_is_no_sign_of_life() -> None:
    world = ClassicWorld()
    leader, follower = world.generation(None, None)
    world.pass_time(SESSION_MS - 1)
    world.group.commit_heard(follower, world.now_ms)
    world.heartbeat(leader)
    world.pass_time(1)
    assert follower not in world.group.members


def test_a_new_member_that_waits_is_given_up_after_five_minutes() -> None:
    """Its client may have gone: nobody sends heartbeats for it."""
    world = ClassicWorld()
    leader, second = world.stable(None, None, rebalance_ms=1_200_000)
    waiting = world.join(version=3)
    for _ in range(NEW_MEMBER_MS // 5_000):
        assert waiting in world.open
        world.heartbeat(leader)
        world.heartbeat(second)
        world.pass_time(5_000)
    assert world.code(waiting) is ErrorCode.UNKNOWN_MEMBER_ID
    assert set(world.group.members) == {leader, second}


def test_a_known_member_that_waits_needs_no_heartbeats() -> None:
    world = ClassicWorld()
    leader, second = world.stable(None, None, rebalance_ms=1_200_000)
    waiting = world.join(leader, rebalance_ms=1_200_000)
    for _ in range(200):
        world.heartbeat(second)
        world.pass_time(5_000)
    assert waiting in world.open
    world.join(second)
    assert world.code(waiting) is ErrorCode.NONE


def test_the_last_member_leaves_an_empty_group_behind() -> None:
    world = ClassicWorld()
    members = world.stable(None, None)
    answer = world.leave(*members)
    assert [one.error_code for one in answer.members] == [ErrorCode.NONE] * 2
    assert world.state == "Empty"
    assert world.group.generation_id == 2
    assert (world.group.protocol_type, world.group.protocol_name) == ("consumer", None)
    ticket = world.join(world.member_id(protocol_type="connect"), protocol_type="connect")
    world.pass_time(DELAY_MS)
    assert world.joined(ticket).generation_id == 3
    assert world.joined(ticket).protocol_type == "connect"


def test_members_that_end_at_the_same_moment_leave_one_row_behind() -> None:
    """Their clocks and that of one that was only expected run out in one step."""
    world = ClassicWorld()
    members = world.stable(None, None, None)
    world.pass_time(SESSION_MS // 2)
    for one in members:
        world.heartbeat(one)
    world.member_id()
    rows = len(world.log)
    world.now_ms += SESSION_MS
    world.settle(world.coordinator.due(world.now_ms))
    world.pass_time(0)
    assert world.state == "Empty"
    assert len(world.log) == rows + 1
    assert world.group.generation_id == 2


# How large a group may be


def test_a_full_group_lets_nobody_in() -> None:
    world = ClassicWorld(GroupSettings(group_max_size=2))
    world.stable(None, None)
    refused = world.join()
    assert world.code(refused) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.joined(refused).member_id == ""
    assert len(world.group.members) == 2


def test_of_too_many_the_last_to_join_again_are_out() -> None:
    world = ClassicWorld()
    leader, second, third = world.stable(None, None, None)
    world.settings = GroupSettings(group_max_size=2)
    world.reload()
    assert world.state == "PreparingRebalance"
    tickets = [world.join(leader), world.join(second), world.join(third)]
    assert world.code(tickets[2]) is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.pass_time(SESSION_MS)
    world.pass_time(REBALANCE_MS)
    assert [world.joined(one).generation_id for one in tickets[:2]] == [2, 2]


def test_ids_are_given_out_to_so_many() -> None:
    world = ClassicWorld()
    first = world.member_id(session_ms=6_000)
    for _ in range(PENDING_JOINS_MAX - 1):
        world.member_id()
    assert world.code(world.join()) is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.joined(world.join()).member_id == ""
    assert world.join(first) in world.open, "who has one may come"
    assert world.code(world.join()) is ErrorCode.MEMBER_ID_REQUIRED


# Which protocol


def test_the_protocol_most_members_like_best_is_taken() -> None:
    world = ClassicWorld()
    tickets = [
        world.join(version=3, names=names)
        for names in (("range", "sticky"), ("sticky", "range"), ("other", "sticky", "range"))
    ]
    world.pass_time(3 * DELAY_MS)
    assert {world.joined(ticket).protocol_name for ticket in tickets} == {"sticky"}


def test_one_that_shares_no_protocol_with_all_is_refused() -> None:
    world = ClassicWorld()
    world.join(version=3, names=("a", "b"))
    world.join(version=3, names=("b", "c"))
    refused = [world.join(version=3, names=names) for names in (("a",), ("c",), ("a", "c"))]
    assert {world.code(one) for one in refused} == {ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    world.join(version=3, names=("c", "b"))
    world.pass_time(3 * DELAY_MS)
    assert world.group.protocol_name == "b"


# Every partition has one owner


@pytest.mark.mission("CONS-02")
@settings(max_examples=40)
@given(
    assignor=st.sampled_from(["range", "roundrobin", "sticky"]),
    topics=st.dictionaries(st.sampled_from("abc"), st.integers(1, 30), min_size=1),
    sizes=st.lists(st.integers(1, 50), min_size=1, max_size=4),
    dice=st.randoms(use_true_random=False),
)
def test_every_generation_divides_all_partitions(
    assignor: str, topics: dict[str, int], sizes: list[int], dice: st.DataObject
) -> None:
    """Groups of 1 to 50 grow and shrink; whatever their members want, each partition has exactly one owner."""
    world = ClassicWorld()
    wants: dict[str, bytes] = {}
    for generation, size in enumerate(sizes, start=1):
        members = list(world.group.members) if world.state == "Stable" else []
        gone, staying = members[size:], members[:size]
        if gone:
            world.leave(*gone)
        # Newcomers have their ids before anybody joins: the generation waits for them.
        coming = [world.member_id(names=(assignor,)) for _ in range(size - len(staying))]
        for member_id in coming:
            some = [one for one in topics if dice.random() < 0.7]  # type: ignore[attr-defined]  # A Random.
            wants[member_id] = subscription(*(some or topics))
        # The leader first: others that say nothing new would be told the generation there is.
        first = [*staying[:1], *coming]
        tickets = [world.join(one, names=(assignor,), metadata=wants[one]) for one in first]
        tickets += [world.join(one, names=(assignor,), metadata=wants[one]) for one in staying[1:]]
        world.pass_time(2 * DELAY_MS)
        answers = [world.joined(ticket) for ticket in tickets]
        assert {one.generation_id for one in answers} == {world.group.generation_id}
        [leader] = [one for one in answers if one.members]
        assert len(leader.members) == size, generation
        joined = [decode_subscription(one.member_id, one.metadata) for one in leader.members]
        divided = ASSIGNORS[assignor].assign(without_racks(topics), joined)
        given = {one: encode_assignment(MemberAssignment(parts)) for one, parts in divided.items()}
        syncs = [
            world.sync(one.member_id, given=given if one is leader else {}, protocol=("consumer", assignor))
            for one in answers
        ]
        owned = [p for s in syncs for p in decode_assignment(world.synced(s).assignment).partitions]
        wanted_topics = {topic for one in joined for topic in one.topics}
        everything = {TopicPartition(topic, n) for topic in wanted_topics for n in range(topics[topic])}
        assert len(owned) == len(everything)
        assert set(owned) == everything
