"""A Kafka 3.9.2 controller takes what goes over the channel, and answers as the tables say.

Method: one Kafka broker with ZooKeeper, and brokers that are registered beside it, obey its orders and have no records. They ask
through the channel; the znodes show what the controller has done.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack

import pytest

from semel.broker.member_producer_ids import MemberProducerIds
from semel.cluster.controlled_shutdown import ShutdownSettings, shut_down
from semel.cluster.controller_channel import ControllerChannel
from semel.cluster.isr_changes import IsrChanges
from semel.cluster.producer_id_blocks import ProducerIdBlocks
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.replication.leading import Granted, Proposal
from semel.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome
from semel.runtime.bundle import real_runtime
from semel.types import Address, TopicPartition
from support.cluster.pretend_broker import PretendBroker, kafka_controller, pretend_broker
from support.cluster.scripted_controller import LinkSettings

pytestmark = pytest.mark.java
Answer = Granted | ErrorCode
PATIENCE_SECONDS = 90
LINK = LinkSettings(request_timeout_ms=60_000, socket_connection_setup_timeout_ms=30_000)
KAFKA = 1


@pytest.fixture(scope="module")
def zookeeper(old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with kafka_controller(old_kafka_home, tmp_path_factory.mktemp("controller")) as port:
        yield port


class Asking:
    """A broker and its ways to the controller."""

    def __init__(self, broker: PretendBroker) -> None:
        self.broker = broker
        self.runtime = broker.runtime
        self.channels: list[ControllerChannel] = []
        self.channel = self._channel()
        self.shutdown_channel = self._channel(BETWEEN_BROKERS)
        self.epochs: list[int] = []
        """Broker epochs to name before the right one."""
        self.changes = IsrChanges(
            self.runtime, self.channel, node_id=broker.node_id, broker_epoch=self._epoch
        )
        self.blocks = ProducerIdBlocks(
            self.runtime, self._channel(), node_id=broker.node_id, broker_epoch=self._epoch
        )

    def _channel(self, served: Mapping[int, tuple[int, int]] | None = None) -> ControllerChannel:
        channel = ControllerChannel(
            self.runtime,
            link=LINK,
            controller=lambda: self.broker.controller,
            node_id=self.broker.node_id,
            served=served,
        )
        self.channels.append(channel)
        return channel

    async def close(self) -> None:
        for channel in self.channels:
            await channel.close()

    def _epoch(self) -> int:
        return self.epochs.pop(0) if self.epochs else self.broker.epoch

    async def wish(
        self, topic: str, index: int, *isr: int, partition_epoch: int, leader_epoch: int = 0, joins: int = -1
    ) -> Answer:
        """The controller's answer; `joins` is the broker epoch that is given for all members."""
        proposal = Proposal(isr, (joins,) * len(isr), None, leader_epoch, partition_epoch)
        heard: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.changes.propose(
            TopicPartition(topic, index), self.broker.topic_ids[topic], proposal, heard.set_result
        )
        return await heard


def told(zookeeper: int, story: Callable[..., Awaitable[None]], *node_ids: int) -> None:
    """A story of brokers with these ids, which no other story has."""

    async def run() -> None:
        runtime = real_runtime()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS), AsyncExitStack() as stack:
                brokers = [
                    await stack.enter_async_context(pretend_broker(runtime, node_id, zookeeper))
                    for node_id in node_ids
                ]
                asking = [Asking(broker) for broker in brokers]
                for one in asking:
                    stack.push_async_callback(one.close)
                await story(*asking)
        finally:
            await runtime.tasks.close()

    asyncio.run(run())


def test_brokers_get_blocks_of_producer_ids_that_nobody_else_has(zookeeper: int) -> None:
    async def story(one: Asking, other: Asking) -> None:
        one.epochs = [one.broker.epoch - 1]
        blocks = await asyncio.gather(*(who.blocks.next_block() for who in (one, other, one, other)))
        assert [len(block) for block in blocks] == [1000] * 4
        assert len({start for block in blocks for start in block}) == 4000
        ids = MemberProducerIds(other.blocks, other.runtime.tasks)
        assert ids.take() is None
        await other.broker.until(lambda: ids.is_at_hand)
        assert ids.take() == max(block.stop for block in blocks)

        def asked(node_id: int, epoch: int) -> AllocateProducerIdsRequest:
            return AllocateProducerIdsRequest(broker_id=node_id, broker_epoch=epoch)

        stale = await one.channel.ask(asked(31, one.broker.epoch - 1), timeout_ms=60_000)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
        unknown = await one.channel.ask(asked(39, one.broker.epoch), timeout_ms=60_000)
        assert unknown.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED

    told(zookeeper, story, 31, 32)


def test_the_controller_writes_a_wish_or_says_why_not(zookeeper: int) -> None:
    async def story(leader: Asking) -> None:
        me = leader.broker.node_id
        both = (me, KAFKA)
        await leader.broker.create_topic("wishes", *[both] * 12)
        leader.epochs = [leader.broker.epoch - 1]
        alone = await leader.wish("wishes", 0, me, partition_epoch=0)
        assert alone == Granted((me,), 0, 1), "after a first try with the epoch of a former life"
        state, version = await leader.broker.state("wishes", 0)
        assert (state.isr, state.leader_epoch, version) == ((me,), 0, 1)
        assert await leader.wish("wishes", 0, me, partition_epoch=0) == Granted((me,), 0, 1), (
            "a repeat of what is so already, though its partition epoch is old"
        )
        leader.broker.topic_ids["no topic"] = uuid.UUID(int=7)
        wish = leader.wish
        answers = await asyncio.gather(
            wish("wishes", 0, *both, partition_epoch=0),
            wish("wishes", 1, me, partition_epoch=7),
            wish("wishes", 2, me, partition_epoch=0, leader_epoch=5),
            wish("wishes", 3, me, partition_epoch=0, leader_epoch=-1),
            wish("wishes", 4, me, 99, partition_epoch=0),
            wish("wishes", 77, me, partition_epoch=0),
            wish("no topic", 0, me, partition_epoch=0),
            wish("wishes", 5, me, partition_epoch=0),
        )
        assert answers == [
            ErrorCode.INVALID_UPDATE_VERSION,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.INELIGIBLE_REPLICA,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_ID,
            Granted((me,), 0, 1),
        ]
        back = await leader.wish("wishes", 0, *both, partition_epoch=1, joins=12345)
        assert back == Granted(both, 0, 2), "epochs of members are not looked at"
        state, version = await leader.broker.state("wishes", 0)
        assert (state.isr, version) == (both, 2)

    told(zookeeper, story, 33)


def test_a_broker_that_stops_hands_over_what_another_can_lead(
    zookeeper: int, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ShutdownSettings(max_retries=2, retry_backoff_ms=100, timeout_ms=60_000)

    def said(beginning: str) -> int:
        return sum(line.startswith(beginning) for line in caplog.messages)

    async def story(leader: Asking, idle: Asking) -> None:
        me = leader.broker.node_id
        await leader.broker.create_topic("moves", (me, KAFKA), (me, KAFKA), (me,))
        assert await leader.wish("moves", 1, me, partition_epoch=0) == Granted((me,), 0, 1)

        async def stopped(who: Asking, epoch: int) -> bool:
            return await shut_down(
                who.runtime,
                who.shutdown_channel,
                settings,
                node_id=who.broker.node_id,
                broker_epoch=lambda: epoch,
            )

        assert not await stopped(leader, leader.broker.epoch - 1)
        assert caplog.messages[-2].startswith(
            "controlled shutdown: the controller refuses (STALE_BROKER_EPOCH"
        )
        assert not await stopped(leader, leader.broker.epoch)
        state, _version = await leader.broker.state("moves", 0)
        assert (state.leader, state.isr, state.leader_epoch) == (KAFKA, (KAFKA,), 1)
        await leader.broker.until(lambda: TopicPartition("moves", 0) not in leader.broker.leads)
        state, _version = await leader.broker.state("moves", 1)
        assert (state.leader, state.isr) == (me, (me,)), "nobody else is in sync"
        refused = await leader.wish("moves", 1, me, KAFKA, partition_epoch=1)
        assert refused is ErrorCode.INELIGIBLE_REPLICA, "no wish of a broker that stops is written"
        assert await stopped(idle, idle.broker.epoch)

    with caplog.at_level("INFO", "semel.cluster"):
        told(zookeeper, story, 34, 35)
    assert said("controlled shutdown: 1 partitions still need another leader: moves-1") == 2


def test_the_next_controller_is_found_by_what_the_metadata_says(zookeeper: int) -> None:
    """The controller's address is wrong at first, as after a move that this broker has not heard of."""

    async def story(one: Asking) -> None:
        right = one.broker.controller
        one.broker.controller = Address("127.0.0.1", 1)
        asking = asyncio.ensure_future(one.blocks.next_block())
        await one.runtime.tasks.sleep(0.5)
        assert not asking.done()
        one.broker.controller = right
        assert len(await asking) == 1000

    told(zookeeper, story, 36)
