"""The model of Kafka's controller keeps a cluster as Kafka's own does: elections, exchanges of replicas, deletions, wishes, fences.

Method: members without logs register at ZooKeeper's stand-in, obey and remember orders; two model controllers stand for election on
simulated hosts. Each story does one thing to the cluster and waits for what ZooKeeper's nodes and the members' orders must show. The
pure decisions are tried on their own, over all small partitions.
"""

import asyncio
import itertools
import uuid
from collections.abc import Awaitable, Callable

import pytest

from semel.cluster.zookeeper.client import Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import StateNode, TopicNode
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionTopic,
    BrokerState,
)
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest
from semel.core.wire.messages.stop_replica import StopReplicaRequest
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest
from semel.core.zookeeper.machine import Machine
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.cluster_admin import ClusterAdmin
from semel.verify.simulation.actors.controller import Controller, Temper
from semel.verify.simulation.controller import decisions
from semel.verify.simulation.controller.cluster import NO_LEADER, Partition
from semel.verify.simulation.world import Actor, World, watched
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT
from support.verify.scripted_member import ScriptedMember

ORDERS = TopicPlan("orders", 2)
PLACE = TopicPartition("orders", 0)
_SECONDS_MAX = 60.0
_TEMPER = Temper(session_timeout_ms=1500, request_timeout_ms=3000, whim_seconds=None, linger_seconds=0.0)


class Cluster:
    """Three scripted members, two controllers, a ZooKeeper and an administrator."""

    def __init__(self, temper: Temper = _TEMPER) -> None:
        self.world = World(11, {}, zookeeper=Machine(tick_ms=100))
        self.members = {number: ScriptedMember(number) for number in (1, 2, 3)}
        self.controllers = [Controller(self.world, number, temper) for number in range(2)]
        self.admin = ClusterAdmin(self.world, [], factor=3)

    def play(self, story: Callable[["Cluster"], Awaitable[None]]) -> None:
        with watched(self.world):
            self.world.simulation.run(self._main(story))
        assert self.world.history.flaws == []

    async def _main(self, story: Callable[["Cluster"], Awaitable[None]]) -> None:
        world = self.world
        assert world.zookeeper is not None
        keeper = asyncio.create_task(world.zookeeper.keep())
        actors: list[Actor] = [*self.controllers, *self.members.values(), self.admin]
        for actor in actors:
            world.add(actor)
            world.start(actor)
        settings = Settings(Servers(((ZOOKEEPER, ZOOKEEPER_PORT),)))
        self.tool = ZooKeeperClient(world.host("tool").boot(), settings, on_event=lambda _event: None)
        await self.tool.open()
        await self.until(lambda: all(len(one.controllers) == 4 for one in self.members.values()))
        await story(self)
        world.is_over = True
        keeper.cancel()

    async def until(self, holds: Callable[[], object]) -> None:
        deadline = self.world.now() + _SECONDS_MAX
        while not holds():
            assert self.world.now() < deadline, self.world.history.story()
            await asyncio.sleep(0.02)

    async def make(self, replicas: tuple[int, ...] = (1, 2, 3)) -> uuid.UUID:
        """The topic, as a tool makes it."""
        topic_id = uuid.UUID(int=77)
        data = documents.encode_topic(TopicNode({0: replicas, 1: replicas}, topic_id))
        await self.tool.create(paths.topic("orders"), data)
        await self.until(lambda: all(PLACE in self.members[one].roles for one in replicas))
        return topic_id

    @property
    def machine(self) -> Machine:
        assert self.world.zookeeper is not None
        return self.world.zookeeper.machine

    def exists(self, path: str) -> bool:
        return self.machine.tree.get(path) is not None

    def state(self) -> StateNode:
        return documents.decode_state(*PLACE, self.machine.tree.node(paths.state(*PLACE)).data)

    def in_charge(self) -> Controller:
        (one,) = [one for one in self.controllers if one.channels is not None]
        return one


# A topic's life


def test_a_topic_gets_a_leader_and_every_member_learns_its_role() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make()
        assert cluster.state() == StateNode(1, 0, (1, 2, 3), 1)
        for member in cluster.members.values():
            role = member.roles[PLACE]
            assert (role.leader, role.leader_epoch, role.isr, role.is_new) == (1, 0, [1, 2, 3], True)
            ordered = [one for one in member.orders if isinstance(one, LeaderAndIsrRequest)]
            assert ordered[-1].topic_states[0].topic_id == topic_id.bytes
            assert ordered[-1].broker_epoch == member.epoch
            assert member.controllers[cluster.in_charge().controller_id] == cluster.in_charge().name

    Cluster().play(story)


def test_a_deleted_topic_goes_when_every_replica_has_said_so_and_a_dead_member_holds_that_up() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        cluster.members[3].answers.clear()
        cluster.world.host("member3").kill()
        await cluster.until(lambda: cluster.state().isr == (1, 2))
        await cluster.tool.create(paths.deletion("orders"), None)
        await asyncio.sleep(5)
        assert cluster.exists(paths.topic("orders"))
        cluster.members[3].answers.set()
        cluster.world.start(cluster.members[3])
        await cluster.until(lambda: not cluster.exists(paths.deletion("orders")))
        assert not cluster.exists(paths.topic("orders"))
        for member in cluster.members.values():
            stops = [
                state
                for one in member.orders
                if isinstance(one, StopReplicaRequest)
                for topic in one.topic_states
                for state in topic.partition_states
            ]
            assert {(one.leader_epoch, one.delete_partition) for one in stops} == {(-2, False), (-2, True)}
            gone = [
                state.leader
                for one in member.orders
                if isinstance(one, UpdateMetadataRequest)
                for topic in one.topic_states
                for state in topic.partition_states
            ]
            assert gone[-1] == -2 or member.number == 3  # It learns of nothing that went while it was away.

    Cluster().play(story)


# Deaths and births


def test_a_dead_leader_is_followed_by_a_member_of_the_isr_and_comes_back_as_a_follower() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        cluster.world.host("member1").kill()
        await cluster.until(lambda: cluster.state().leader == 2)
        assert cluster.state() == StateNode(2, 1, (2, 3), 1)
        await cluster.until(lambda: cluster.members[3].roles[PLACE].leader == 2)
        cluster.members[1].roles.clear()
        cluster.world.start(cluster.members[1])
        await cluster.until(lambda: PLACE in cluster.members[1].roles)
        assert cluster.members[1].roles[PLACE].leader == 2

    Cluster().play(story)


def test_the_last_of_an_isr_stays_in_it_and_leads_again() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        for number in (1, 2, 3):
            cluster.world.host(f"member{number}").kill()
            await asyncio.sleep(3)
        assert (cluster.state().leader, cluster.state().isr) == (-1, (3,))
        cluster.world.start(cluster.members[1])
        await asyncio.sleep(3)
        assert (cluster.state().leader, cluster.state().isr) == (-1, (3,))
        cluster.world.start(cluster.members[3])
        await cluster.until(lambda: cluster.state().leader == 3)

    Cluster().play(story)


def test_a_member_that_was_away_for_a_moment_has_died_and_was_born() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        before = cluster.members[1].epoch
        cluster.members[1].roles.clear()
        assert cluster.world.zookeeper is not None
        owner = cluster.machine.tree.node(paths.broker(1)).ephemeral_owner
        cluster.world.zookeeper.expire(owner)
        await cluster.until(lambda: PLACE in cluster.members[1].roles)
        assert cluster.members[1].epoch > before
        state = cluster.state()
        assert (state.leader, state.isr) == (2, (2, 3))
        assert state.leader_epoch == 1

    Cluster().play(story)


# Wishes


def _wish(
    member: ScriptedMember, topic_id: uuid.UUID, isr: tuple[int, ...], leader_epoch: int, partition_epoch: int
) -> AlterPartitionRequest:
    data = AlterPartitionData(
        partition_index=0,
        leader_epoch=leader_epoch,
        new_isr_with_epochs=[BrokerState(broker_id=one) for one in isr],
        partition_epoch=partition_epoch,
    )
    return AlterPartitionRequest(
        broker_id=member.number,
        broker_epoch=member.epoch,
        topics=[AlterPartitionTopic(topic_id=topic_id.bytes, partitions=[data])],
    )


async def _row(member: ScriptedMember, request: AlterPartitionRequest) -> AlteredPartition:
    answer = await member.wish(request, 3)
    assert isinstance(answer, AlterPartitionResponse)
    assert not answer.error_code
    return answer.topics[0].partitions[0]


def test_a_leader_shrinks_and_widens_its_isr() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make()
        leader = cluster.members[1]
        shrunk = await _row(leader, _wish(leader, topic_id, (1, 2), 0, 0))
        assert (shrunk.error_code, shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == (
            0,
            [1, 2],
            0,
            1,
        )
        assert cluster.state() == StateNode(1, 0, (1, 2), 1)
        again = await _row(leader, _wish(leader, topic_id, (1, 2), 0, 0))
        assert (again.error_code, again.partition_epoch) == (0, 1)  # A repeat.
        late = await _row(leader, _wish(leader, topic_id, (1, 3), 0, 0))
        assert late.error_code == ErrorCode.INVALID_UPDATE_VERSION
        newer = await _row(leader, _wish(leader, topic_id, (1, 3), 1, 1))
        assert newer.error_code == ErrorCode.NOT_CONTROLLER
        cluster.world.host("member3").kill()
        await cluster.until(lambda: not cluster.exists(paths.broker(3)))
        await asyncio.sleep(1)
        dead = await _row(leader, _wish(leader, topic_id, (1, 2, 3), 0, 1))
        assert dead.error_code == ErrorCode.INELIGIBLE_REPLICA
        other = await _row(leader, _wish(leader, uuid.UUID(int=5), (1, 2, 3), 0, 1))
        assert other.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    Cluster().play(story)


def test_a_wish_of_an_earlier_life_and_a_wish_to_no_controller_are_refused() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make()
        leader = cluster.members[1]
        earlier = _wish(leader, topic_id, (1, 2), 0, 0)
        earlier.broker_epoch -= 1
        answer = await leader.wish(earlier, 3)
        assert isinstance(answer, AlterPartitionResponse)
        assert answer.error_code == ErrorCode.STALE_BROKER_EPOCH
        (idle,) = [one for one in cluster.controllers if one.channels is None]
        answer = await leader.wish(_wish(leader, topic_id, (1, 2), 0, 0), 3, to=idle.name)
        assert isinstance(answer, AlterPartitionResponse)
        assert answer.error_code == ErrorCode.NOT_CONTROLLER

    Cluster().play(story)


def test_blocks_of_producer_ids_are_given_once() -> None:
    async def story(cluster: Cluster) -> None:
        firsts = []
        assert cluster.world.zookeeper is not None
        for number in (1, 2, 3):
            cluster.world.zookeeper.lose_answers(number - 1)
            member = cluster.members[number]
            request = AllocateProducerIdsRequest(broker_id=number, broker_epoch=member.epoch)
            answer = await member.wish(request, 0)
            assert isinstance(answer, AllocateProducerIdsResponse)
            assert (answer.error_code, answer.producer_id_len) == (0, 1000)
            firsts.append(answer.producer_id_start)
        assert len(set(firsts)) == 3
        assert all(one % 1000 == 0 for one in firsts)

    Cluster().play(story)


def test_a_member_that_stops_hands_its_leaderships_over_and_leaves_the_isr() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make()
        member = cluster.members[1]
        answer = await member.wish(ControlledShutdownRequest(broker_id=1, broker_epoch=member.epoch), 3)
        assert isinstance(answer, ControlledShutdownResponse)
        assert (answer.error_code, answer.remaining_partitions) == (0, [])
        assert cluster.state() == StateNode(2, 1, (2, 3), 1)
        leader = cluster.members[2]
        back = await _row(leader, _wish(leader, topic_id, (1, 2, 3), 1, 1))
        assert back.error_code == ErrorCode.INELIGIBLE_REPLICA
        follower = cluster.members[3]
        await follower.wish(ControlledShutdownRequest(broker_id=3, broker_epoch=follower.epoch), 3)
        assert cluster.state().isr == (2,)
        await cluster.until(lambda: PLACE not in follower.roles)
        stop = next(one for one in follower.orders if isinstance(one, StopReplicaRequest))
        state = stop.topic_states[0].partition_states[0]
        assert (state.leader_epoch, state.delete_partition) == (2, False)

    Cluster().play(story)


# Replicas and leaders that are to be others


def test_replicas_are_exchanged_when_the_new_ones_are_in_sync() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make((1, 2))
        data = documents.encode_reassignments({PLACE: (3, 2)})
        await cluster.tool.create(paths.REASSIGN_PARTITIONS, data)
        await cluster.until(lambda: PLACE in cluster.members[3].roles)
        union = cluster.members[3].roles[PLACE]
        assert (union.replicas, union.adding_replicas, union.removing_replicas) == ([3, 2, 1], [3], [1])
        assert (union.leader, union.leader_epoch, union.is_new) == (1, 1, True)
        leader = cluster.members[1]
        await cluster.until(lambda: leader.roles[PLACE].leader_epoch == 1)
        await _row(leader, _wish(leader, topic_id, (1, 2, 3), 1, 1))
        await cluster.until(lambda: not cluster.exists(paths.REASSIGN_PARTITIONS))
        await cluster.until(lambda: PLACE not in leader.roles)
        node = documents.decode_topic("orders", cluster.machine.tree.node(paths.topic("orders")).data)
        assert (node.replicas[0], dict(node.adding), dict(node.removing)) == ((3, 2), {}, {})
        assert (cluster.state().leader, set(cluster.state().isr)) == (3, {2, 3})
        await cluster.until(lambda: sum(isinstance(one, StopReplicaRequest) for one in leader.orders) == 2)
        stops = [one for one in leader.orders if isinstance(one, StopReplicaRequest)]
        assert [one.topic_states[0].partition_states[0].delete_partition for one in stops] == [False, True]

    Cluster().play(story)


def test_an_exchange_goes_on_under_another_controller() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make((1, 2))
        await cluster.tool.create(paths.REASSIGN_PARTITIONS, documents.encode_reassignments({PLACE: (3, 2)}))
        await cluster.until(lambda: PLACE in cluster.members[3].roles)
        cluster.world.restart(cluster.in_charge())
        await cluster.until(lambda: cluster.state().controller_epoch == 2)
        leader = cluster.members[1]
        await cluster.until(lambda: leader.roles[PLACE].leader_epoch == cluster.state().leader_epoch)
        stat = cluster.machine.tree.node(paths.state(*PLACE))
        await _row(leader, _wish(leader, topic_id, (1, 2, 3), cluster.state().leader_epoch, stat.version))
        await cluster.until(lambda: PLACE not in leader.roles)
        assert set(cluster.state().isr) == {2, 3}

    Cluster().play(story)


def test_the_preferred_replica_leads_again() -> None:
    async def story(cluster: Cluster) -> None:
        topic_id = await cluster.make()
        cluster.world.host("member1").kill()
        await cluster.until(lambda: cluster.state().leader == 2)
        cluster.world.start(cluster.members[1])
        leader = cluster.members[2]
        await cluster.until(lambda: cluster.members[1].roles[PLACE].leader == 2)
        await _row(leader, _wish(leader, topic_id, (1, 2, 3), 1, 1))
        await cluster.tool.create(paths.PREFERRED_REPLICA_ELECTION, documents.encode_partitions([PLACE]))
        await cluster.until(lambda: cluster.state().leader == 1)
        assert cluster.state().leader_epoch == 2

    Cluster().play(story)


# Two controllers


def test_a_deposed_controllers_orders_come_late_and_its_writes_never() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        old = cluster.in_charge()
        cluster.members[3].answers.clear()  # What is sent to it waits in the old controller's queue.
        cluster.world.host("member1").kill()
        await cluster.until(lambda: cluster.members[2].roles[PLACE].leader == 2)
        cluster.world.simulation.network.partition(old.name, ZOOKEEPER)
        late = cluster.members[3]
        await cluster.until(
            lambda: any(
                isinstance(one, UpdateMetadataRequest) and one.controller_epoch == 2 for one in late.orders
            )
        )
        cluster.members[3].answers.set()
        await asyncio.sleep(2)
        cluster.world.simulation.network.heal(old.name, ZOOKEEPER)
        await asyncio.sleep(10)
        epochs = [
            one.controller_epoch
            for one in cluster.members[3].orders
            if isinstance(one, UpdateMetadataRequest)
        ]
        assert 1 in epochs[epochs.index(2) :]
        assert cluster.in_charge() is not old
        assert cluster.state().controller_epoch == 1

    Cluster().play(story)


def test_a_lively_controller_moves_leaders_until_it_is_told_to_be_calm() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.make()
        await cluster.until(lambda: cluster.state().leader_epoch > 8)
        for one in cluster.controllers:
            one.finish()
        await asyncio.sleep(1)
        before = cluster.state()
        await asyncio.sleep(10)
        assert cluster.state() == before

    Cluster(Temper(1500, 3000, 0.3, 0.0)).play(story)


# Decisions


def _partitions() -> list[Partition]:
    """Every state of three replicas in which somebody leads, or nobody does."""
    found = []
    for size in (1, 2, 3):
        for isr in itertools.permutations((1, 2, 3), size):
            found += [Partition((1, 2, 3), leader, 5, isr, 7) for leader in (*isr, NO_LEADER)]
    return found


def test_after_deaths_the_leader_is_a_live_member_of_the_isr_and_the_last_one_stays() -> None:
    brokers = (1, 2, 3)
    for partition in _partitions():
        for bits in itertools.product((False, True), repeat=6):
            up = {one for one, bit in zip(brokers, bits[:3], strict=True) if bit}
            live = {one for one, bit in zip(brokers, bits[3:], strict=True) if bit and one in up}
            after = decisions.after_deaths(partition, up=up, live=live)
            now = after or partition
            assert set(now.isr) <= set(partition.isr)
            assert now.isr
            assert now.leader in (NO_LEADER, *now.isr)
            assert now.leader == NO_LEADER or now.leader in up
            if after is not None:
                assert after.leader_epoch == 6
                assert after.leader in live or after.leader in (NO_LEADER, partition.leader)
            if set(partition.isr) & live:
                assert now.leader != NO_LEADER
            assert decisions.after_deaths(now, up=up, live=live) is None


def test_an_exchange_ends_with_the_target_from_wherever_it_began() -> None:
    for before, target in itertools.product([(1, 2), (1, 2, 3), (3,)], [(2, 3), (3, 2, 1), (1,)]):
        partition = Partition(before, before[0], 0, before, 0)
        union = decisions.reassigned(partition, target)
        assert union.target == target
        assert set(union.origin) == set(before)
        in_sync = Partition(union.replicas, union.leader, 0, union.replicas, 0, union.adding, union.removing)
        done = decisions.led_by_target(in_sync, {1, 2, 3})
        assert done is not None
        assert (done.replicas, done.adding, done.removing) == (target, (), ())
        assert done.leader in target
        for gone in union.removing:
            done = decisions.in_sync_without(done, gone) or done
        assert set(done.isr) == set(target)
        back = decisions.reassigned(union, before)
        assert (back.replicas, back.adding, back.removing) == (before, (), ())


@pytest.mark.parametrize(
    ("isr", "leader_epoch", "partition_epoch", "code"),
    [
        ((1, 2), 4, 7, ErrorCode.FENCED_LEADER_EPOCH),
        ((1, 2), 6, 7, ErrorCode.NOT_CONTROLLER),
        ((1, 2), 5, 8, ErrorCode.NOT_CONTROLLER),
        ((1, 2), 5, 6, ErrorCode.INVALID_UPDATE_VERSION),
        ((3, 2, 1), 5, 6, ErrorCode.NONE),
        ((1, 4), 5, 7, ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_a_wish_is_judged_in_kafkas_order(
    isr: tuple[int, ...], leader_epoch: int, partition_epoch: int, code: ErrorCode
) -> None:
    partition = Partition((1, 2, 3), 1, 5, (1, 2, 3), 7)
    judged = decisions.judge_wish(
        partition,
        isr,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        recovery_state=0,
        live={1, 2, 3},
    )
    assert judged == code
