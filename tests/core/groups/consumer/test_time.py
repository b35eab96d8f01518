"""Timers of a KIP-848 group: sessions end, revocations time out, members that join together share a target.

Method: single stories on a shard whose clock the test turns; see `consumer_kit`.
"""

from typing import Any

import pytest

from semel.core.coordination.outcome import Ticket
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.consumer.assignor_names import NAMES, assignor_names
from semel.core.groups.consumer.assignors import ASSIGNORS
from semel.core.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from semel.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from semel.core.wire.messages.sync_group import SyncGroupRequest
from semel.errors import ConfigError, ErrorCode
from support.groups.consumer_kit import CALLER, GROUP, REBALANCE_MS, SESSION_MS, World

CLASSIC = CALLER._replace(version=9)


@pytest.fixture
def world() -> World:
    made = World(group_consumer_assignment_interval_ms=0)
    made.topics.create("t", 4)
    return made


def _join(world: World, member_id: str, **more: Any) -> ConsumerGroupHeartbeatResponse:
    return world.beat(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["t"],
            topic_partitions=[],
            **more,
        )
    )


def _beat(
    world: World, member_id: str, epoch: int, owned: list[int] | None = None
) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=epoch)
    if owned is not None:
        topic_id = world.topics.topics["t"].topic_id.bytes
        request.topic_partitions = [TopicPartitions(topic_id=topic_id, partitions=owned)] if owned else []
    return world.beat(request)


def _partitions(answer: ConsumerGroupHeartbeatResponse) -> list[int]:
    assert answer.assignment is not None
    return [partition for one in answer.assignment.topic_partitions for partition in one.partitions]


def test_who_is_not_heard_loses_its_place(world: World) -> None:
    _join(world, "a")
    _join(world, "b")
    world.pass_time(SESSION_MS - 1)
    _beat(world, "b", 3, [])
    assert world.group is not None
    assert sorted(world.group.members) == ["a", "b"]
    world.pass_time(1)
    assert sorted(world.group.members) == ["b"]
    assert _beat(world, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert _partitions(_beat(world, "b", 3, [])) == [0, 1, 2, 3]


def test_who_does_not_let_go_in_its_time_is_put_out(world: World) -> None:
    _join(world, "a")
    _join(world, "b")
    assert len(_partitions(_beat(world, "a", 2, [0, 1, 2, 3]))) == 2
    for _ in range(4):
        world.pass_time(REBALANCE_MS // 4 - 1)
        assert _beat(world, "a", 2, [0, 1, 2, 3]).member_epoch == 2  # Alive, but it holds on.
        _beat(world, "b", 3, [])
    world.pass_time(4)
    assert _beat(world, "a", 2, [0, 1, 2, 3]).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert _partitions(_beat(world, "b", 3, [])) == [0, 1, 2, 3]


def test_a_killed_broker_counts_sessions_anew(world: World) -> None:
    _join(world, "a")
    world.pass_time(SESSION_MS - 1)
    world.restart()
    world.pass_time(SESSION_MS - 1)
    assert _beat(world, "a", 2, [0, 1, 2, 3]).error_code == ErrorCode.NONE
    world.pass_time(SESSION_MS)
    assert _beat(world, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_come_together_are_assigned_together() -> None:
    world = World(group_consumer_assignment_interval_ms=1000)
    world.topics.create("t", 4)
    assert _partitions(_join(world, "a")) == [0, 1, 2, 3]
    assert _partitions(_join(world, "b")) == []
    assert _partitions(_join(world, "c")) == []
    assert world.group is not None
    assert (world.group.epoch, world.group.assignment_epoch) == (4, 2)
    assert _beat(world, "a", 2, [0, 1, 2, 3]).assignment is None
    world.pass_time(1000)
    assert len(_partitions(_beat(world, "a", 2, [0, 1, 2, 3]))) == 2
    assert (world.group.epoch, world.group.assignment_epoch) == (4, 4)


def test_a_target_of_the_future_holds_nobody_up() -> None:
    """The wall clock was set back, and the broker killed: what it wrote before lies ahead of the time there is now."""
    world = World(group_consumer_assignment_interval_ms=1000)
    world.topics.create("t", 4)
    assert _partitions(_join(world, "a")) == [0, 1, 2, 3]
    world.now_ms -= 500_000
    world.restart()
    assert _partitions(_join(world, "b")) == []  # In the hands of the other, but meant for this one.
    assert len(_partitions(_beat(world, "a", 2, [0, 1, 2, 3]))) == 2
    assert _partitions(_join(world, "c")) == []
    assert world.group is not None
    assert (world.group.epoch, world.group.assignment_epoch) == (
        4,
        3,
    )  # From here on the interval counts again.


def test_expressions_resolved_in_the_future_are_resolved_again() -> None:
    world = World(group_consumer_assignment_interval_ms=0)
    world.topics.create("t", 4)
    world.beat(
        ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id="a",
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_regex="t.*",
            topic_partitions=[],
        )
    )
    world.pass_time(0)
    assert world.group is not None
    assert list(world.group.regexes["t.*"].topics) == ["t"]
    world.now_ms -= 500_000
    world.restart()
    world.topics.create("t2", 1)
    epoch = world.group.members["a"].member_epoch
    assert _beat(world, "a", epoch).error_code == ErrorCode.NONE
    world.pass_time(0)
    assert list(world.group.regexes["t.*"].topics) == ["t", "t2"]


def test_a_group_may_have_timeouts_of_its_own(world: World) -> None:
    own = {"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "7000"}
    world.shard.shared.own_settings = {GROUP: own}
    assert _join(world, "a").heartbeat_interval_ms == 7000
    world.pass_time(59_999)
    assert _beat(world, "a", 2, [0, 1, 2, 3]).error_code == ErrorCode.NONE
    world.pass_time(60_000)
    assert _beat(world, "a", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_new_topic_moves_the_epoch_once(world: World) -> None:
    _join(world, "a")
    assert _beat(world, "a", 2, [0, 1, 2, 3]).member_epoch == 2
    world.topics.create("t", 5)
    answer = _beat(world, "a", 2, [0, 1, 2, 3])
    assert (answer.member_epoch, _partitions(answer)) == (3, [0, 1, 2, 3, 4])
    assert _beat(world, "a", 3, [0, 1, 2, 3, 4]).member_epoch == 3


def test_the_last_of_kip_848_dies_and_the_classic_member_carries_on(world: World) -> None:
    _join(world, "new")
    joined = _classic_join(world, "", "i-1")
    assert joined.error_code == ErrorCode.NONE
    world.pass_time(SESSION_MS - 10_000)
    _classic_beat(world, joined)
    world.pass_time(10_000)  # The session of the new kind ends; that of the classic member does not.
    group = world.shard.classic.group(GROUP)
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == [joined.member_id]
    world.pass_time(0)
    assert _classic_beat(world, joined, group.generation_id).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    again = _classic_join(world, joined.member_id, "i-1")
    assert again.leader == joined.member_id
    sync = SyncGroupRequest(
        group_id=GROUP,
        generation_id=again.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    world.take(world.shard.sync(sync, Ticket(object()), CLASSIC._replace(version=5), world.now_ms))
    assert _classic_beat(world, joined, again.generation_id).error_code == ErrorCode.NONE
    assert world.reader.classic.group(GROUP) is not None
    assert world.reader.consumer.group(GROUP) is None


def _classic_join(world: World, member_id: str, instance_id: str) -> JoinGroupResponse:
    subscription = b"\x00\x01" + ConsumerProtocolSubscription(topics=["t"]).encode(1)
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
    )
    (answer,) = world.take(
        world.shard.join(request, Ticket(object()), CLASSIC, world.now_ms, unique="made-by-the-broker")
    )
    assert isinstance(answer, JoinGroupResponse)
    return answer


def _classic_beat(
    world: World, joined: JoinGroupResponse, generation_id: int | None = None
) -> HeartbeatResponse:
    request = HeartbeatRequest(
        group_id=GROUP,
        generation_id=joined.generation_id if generation_id is None else generation_id,
        member_id=joined.member_id,
    )
    (answer,) = world.take(world.shard.heartbeat(request, Ticket(object()), world.now_ms))
    assert isinstance(answer, HeartbeatResponse)
    return answer


def test_assignors_go_by_name_or_by_kafkas_class() -> None:
    prefix = "org.apache.kafka.coordinator.group.assignor."
    assert set(NAMES) == set(ASSIGNORS)
    assert assignor_names([f"{prefix}RangeAssignor", "uniform"]) == ("range", "uniform")
    with pytest.raises(ConfigError, match="sticky is not an assignor of this broker; it has uniform, range"):
        assignor_names(["uniform", "sticky"])
