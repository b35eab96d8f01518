"""Static members come back under a new id and keep their place; whoever else claims to be them is fenced.

Method: stories on a clock that only the test moves.
"""

import pytest

from semel.errors import ErrorCode
from support.groups.classic_kit import REBALANCE_MS, SESSION_MS, ClassicWorld, subscription


def test_a_follower_that_comes_back_gets_its_part_without_a_rebalance() -> None:
    world = ClassicWorld()
    leader, old = world.stable(None, "s")
    rows = len(world.log)
    ticket = world.join(instance="s")
    answer = world.joined(ticket)
    assert (answer.error_code, answer.generation_id, answer.leader) == (ErrorCode.NONE, 1, leader)
    assert answer.member_id.startswith("s-")
    assert answer.member_id != old
    assert not answer.members
    assert world.state == "Stable"
    assert len(world.log) == rows + 1, "that it has another id now is written"
    assert world.synced(world.sync(answer.member_id, instance="s")).assignment == old.encode()
    assert world.heartbeat(leader) is ErrorCode.NONE
    assert world.heartbeat(old, instance="s") is ErrorCode.FENCED_INSTANCE_ID
    assert world.code(world.sync(old, instance="s")) is ErrorCode.FENCED_INSTANCE_ID
    assert world.code(world.join(old, instance="s")) is ErrorCode.FENCED_INSTANCE_ID
    assert world.leave((old, "s")).members[0].error_code == ErrorCode.FENCED_INSTANCE_ID


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_leader_that_comes_back_does_not_assign_again(version: int) -> None:
    """Since version 9 it is told that it leads and has nothing to do; before, it is not told that it leads."""
    world = ClassicWorld()
    old, follower = world.stable("s", None)
    answer = world.joined(world.join(instance="s", version=version))
    assert world.group.leader_id == answer.member_id
    if version >= 9:
        assert answer.leader == answer.member_id
        assert answer.skip_assignment
        assert {one.member_id for one in answer.members} == {answer.member_id, follower}
    else:
        assert answer.leader == old
        assert not answer.skip_assignment
        assert not answer.members
    assert world.synced(world.sync(answer.member_id, instance="s")).assignment == old.encode()


def test_it_keeps_its_part_after_a_restart_of_the_coordinator() -> None:
    world = ClassicWorld()
    _leader, old = world.stable(None, "s")
    answer = world.joined(world.join(instance="s"))
    world.reload()
    assert world.synced(world.sync(answer.member_id, instance="s")).assignment == old.encode()
    assert world.heartbeat(old, instance="s") is ErrorCode.FENCED_INSTANCE_ID


def test_its_session_counts_from_its_return() -> None:
    world = ClassicWorld()
    leader, _ = world.stable(None, "s")
    world.pass_time(SESSION_MS - 1)
    world.heartbeat(leader)
    again = world.joined(world.join(instance="s")).member_id
    world.pass_time(SESSION_MS - 1)
    assert again in world.group.members
    world.pass_time(1)
    assert world.coordinator.group("readers") is not None
    assert again not in world.group.members


def test_one_that_comes_back_with_another_favourite_protocol_starts_a_rebalance() -> None:
    world = ClassicWorld()
    _leader, _old = world.stable(None, "s", names=("range", "sticky"))
    ticket = world.join(instance="s", names=("sticky", "other"))
    assert ticket in world.open
    assert world.state == "PreparingRebalance"


def test_one_that_comes_back_during_a_rebalance_waits_like_everybody() -> None:
    world = ClassicWorld()
    leader, old = world.stable(None, "s")
    world.join(leader)
    fenced = world.join(old, instance="s")
    # It joined already; now another process claims to be it, before the rebalance has ended.
    world.join(version=3)
    assert world.code(fenced) is ErrorCode.NONE
    again = world.join(instance="s")
    assert world.state == "PreparingRebalance"
    assert again in world.open


def test_what_the_old_one_waits_for_is_fenced() -> None:
    world = ClassicWorld()
    leader, old, other = world.stable(None, "s", None)
    joining = world.join(old, instance="s", metadata=subscription("more"))
    again = world.join(instance="s")
    assert world.code(joining) is ErrorCode.FENCED_INSTANCE_ID
    assert world.joined(joining).member_id == old
    world.join(leader)
    world.join(other)
    member_id = world.joined(again).member_id
    syncing = world.sync(member_id, instance="s")
    world.join(instance="s")
    assert world.code(syncing) is ErrorCode.FENCED_INSTANCE_ID
    assert world.state == "PreparingRebalance", "its old id may be in the leader's list already"


def test_it_keeps_its_place_through_a_rebalance_it_missed() -> None:
    """Its session is what counts, not the rebalance."""
    world = ClassicWorld()
    leader, static = world.stable(None, "s", session_ms=100_000)
    ticket = world.join(leader, session_ms=100_000)
    world.pass_time(REBALANCE_MS)
    assert {one.member_id for one in world.joined(ticket).members} == {leader, static}
    waiting = world.sync(leader, given={static: b"kept"})
    assert world.code(waiting) is ErrorCode.NONE
    assert world.synced(world.sync(static, instance="s")).assignment == b"kept"


def test_a_group_whose_static_members_all_stay_away_waits_for_their_sessions() -> None:
    world = ClassicWorld()
    leader, static = world.stable(None, "s", session_ms=200_000)
    world.leave(leader)
    world.pass_time(REBALANCE_MS)
    assert world.state == "PreparingRebalance"
    world.pass_time(200_000)
    assert world.state == "Empty"
    assert static not in world.group.members


def test_an_administrator_removes_it_by_its_instance() -> None:
    world = ClassicWorld()
    _leader, static, other = world.stable(None, "s", "t")
    answer = world.leave(("", "s"), ("", "u"), ("", None), (static, "t"))
    assert [(one.member_id, one.group_instance_id, one.error_code) for one in answer.members] == [
        ("", "s", ErrorCode.NONE),
        ("", "u", ErrorCode.UNKNOWN_MEMBER_ID),
        ("", None, ErrorCode.UNKNOWN_MEMBER_ID),
        (static, "t", ErrorCode.FENCED_INSTANCE_ID),
    ]
    assert static not in world.group.members
    assert other in world.group.members
    assert world.state == "PreparingRebalance"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_oldest_leaves_name_one_member(version: int) -> None:
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    assert world.leave(follower, version=version).error_code == ErrorCode.NONE
    assert world.leave(follower, version=version).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(leader, version=version).members == []
    assert world.state == "Empty"
