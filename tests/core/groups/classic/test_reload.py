"""After a restart a classic group is what its rows say, and its members go on as if nothing had happened.

Method: a group is brought somewhere, the coordinator is thrown away, another one is made from the log.
"""

from semel.core.coordination.outcome import LogRow
from semel.core.groups.classic.states import ClassicGroupState
from semel.core.groups.group import GroupSettings
from semel.core.wire.messages.group_rows import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from semel.errors import ErrorCode
from support.groups.classic_kit import GROUP, REBALANCE_MS, SESSION_MS, ClassicWorld, durable, subscription


def test_members_of_a_stable_group_go_on() -> None:
    world = ClassicWorld()
    leader, follower, static = world.stable(None, None, "s", names=("range", "sticky"))
    world.reload()
    assert world.state == "Stable"
    for one in (leader, follower, static):
        assert world.heartbeat(one, 1, instance=world.instance_of(one)) is ErrorCode.NONE
    for one in (leader, follower, static):
        assert world.synced(world.sync(one, 1, instance=world.instance_of(one))).assignment == one.encode()
    assert world.group.leader_id == leader
    assert world.group.is_subscribed_to("orders")
    assert world.code(world.join(static, instance="s", names=("range",))) is ErrorCode.NONE


def test_sessions_count_from_the_load() -> None:
    world = ClassicWorld()
    leader, silent = world.stable(None, None)
    world.now_ms += 3_600_000  # The broker was down for an hour.
    world.reload()
    world.pass_time(SESSION_MS - 1)
    assert world.heartbeat(leader) is ErrorCode.NONE
    world.pass_time(1)
    assert silent not in world.group.members
    assert leader in world.group.members


def test_a_rebalance_that_was_under_way_is_forgotten() -> None:
    """The members are of the generation before; who got a new one is told to join again."""
    world = ClassicWorld()
    leader, follower = world.stable(None, None)
    world.join(leader)
    world.join(follower)
    assert world.group.generation_id == 2
    world.reload()
    assert world.state == "Stable"
    assert world.heartbeat(leader, 2) is ErrorCode.ILLEGAL_GENERATION
    assert world.code(world.sync(leader, 2)) is ErrorCode.ILLEGAL_GENERATION
    world.join(leader)
    ticket = world.join(follower)
    assert world.joined(ticket).generation_id == 2


def test_an_empty_group_is_empty_again() -> None:
    world = ClassicWorld()
    world.leave(*world.stable(None))
    since = world.group.state_timestamp_ms
    world.pass_time(1_000)
    world.reload()
    assert world.state == "Empty"
    assert world.group.generation_id == 2
    assert world.group.state_timestamp_ms == since
    assert world.group.protocol_type == "consumer"


def test_a_group_that_was_only_made_is_there_again() -> None:
    world = ClassicWorld()
    expected = world.member_id()
    world.reload()
    assert world.state == "Empty"
    assert world.group.is_empty
    assert world.code(world.join(expected)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.next_deadline_ms() is None


def test_a_group_over_its_limit_begins_to_shrink() -> None:
    world = ClassicWorld()
    members = world.stable(None, None, None)
    world.settings = GroupSettings(group_max_size=3)
    world.reload()
    assert world.state == "Stable"
    world.settings = GroupSettings(group_max_size=2)
    world.reload()
    assert world.heartbeat(members[0]) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_tombstone_ends_a_group_and_its_clocks() -> None:
    world = ClassicWorld()
    world.leave(*world.stable(None, None))
    world.member_id()
    group = world.group
    [tombstone] = group.tombstones()
    world.write(tombstone)
    assert world.coordinator.group(GROUP) is None
    assert group.state is ClassicGroupState.DEAD
    assert world.coordinator.next_deadline_ms() is None
    world.reload()
    assert world.state == "none"
    assert durable(world) == {}


def test_rows_are_kafkas() -> None:
    """A group's rows are written in version 3, the oldest that Kafka 4.3.1 writes."""
    world = ClassicWorld()
    leader, static = world.stable(None, "s")
    row = durable(world)[GROUP]
    assert (row.protocol_type, row.protocol, row.generation, row.leader) == ("consumer", "range", 1, leader)
    assert row.current_state_timestamp == world.now_ms
    assert [
        (one.member_id, one.group_instance_id, one.client_id, one.client_host, one.assignment)
        for one in row.members
    ] == [
        (leader, None, "client", "/127.0.0.1", leader.encode()),
        (static, "s", "client", "/127.0.0.1", static.encode()),
    ]
    assert {(one.session_timeout, one.rebalance_timeout) for one in row.members} == {
        (SESSION_MS, REBALANCE_MS)
    }
    assert {one.subscription for one in row.members} == {subscription("orders")}
    assert world.log[-1].value is not None
    assert world.log[-1].value[:2] == b"\x00\x03"


def test_the_oldest_rows_are_understood() -> None:
    """Without rebalance timeout and time stamp, and with a leader that is not in the list."""
    world = ClassicWorld()
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=7,
        protocol="range",
        leader="nobody",
        members=[
            MemberMetadata(member_id="m", session_timeout=9_000, subscription=b"\x00\x07", assignment=b"part")
        ],
    )
    world.write(LogRow(GroupMetadataKey(group=GROUP), value, 0))
    world.reload()
    assert world.group.state_timestamp_ms is None
    assert world.group.members["m"].rebalance_timeout_ms == 9_000
    assert world.group.leader_id == "m"
    assert world.group.subscribed_topics is None
    assert world.group.is_subscribed_to("anything"), "nobody can know what it reads"
    assert world.heartbeat("m", 7) is ErrorCode.NONE
