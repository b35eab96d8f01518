"""Logs that go offline lose their roles at once, and the controller hears of them sooner or later.

Method: a member in a simulated world whose ZooKeeper is away when its disk fails.
"""

import asyncio
import uuid

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.membership.orders import Sender, TopicOrders
from semel.core.cluster import paths
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import TopicStatesRow
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.cluster.member_kit import World, until

TOPIC_ID = uuid.UUID(int=7)
LED = PartitionState((1,), (1,), 1, leader_epoch=0, partition_epoch=0)
CONFIG = BrokerConfig.of(
    {
        "broker.id": 1,
        "listeners": "PLAINTEXT://broker1:9092",
        "log.dirs": "/data",
        "zookeeper.connect": "zookeeper:2181",
        "zookeeper.session.timeout.ms": 600_000,
    }
)


def test_a_controller_hears_of_a_failed_log_once_zookeeper_is_back() -> None:
    async def story(world: World) -> None:
        broker = await started(world)
        parts = broker.parts
        assert parts.membership is not None
        orders = parts.membership.orders
        sender = Sender(controller_id=9, controller_epoch=1, broker_epoch=orders._broker_epoch())
        await parts.store.tell([TopicStatesRow("orders", TOPIC_ID, {0: LED, 1: LED})])  # type: ignore[attr-defined]
        codes = await orders.change_roles(sender, [TopicOrders("orders", TOPIC_ID, {0: LED, 1: LED})])
        assert codes == {TopicPartition("orders", index): ErrorCode.NONE for index in (0, 1)}

        world.ensemble.kill(pause=120)
        failed = parts.partitions.replica("orders", 0)
        assert failed is not None
        failed.log.offline = "its disk failed"
        await asyncio.sleep(60)
        assert failed.leader is None
        assert parts.partitions.get("orders", 1) is not None
        await until(lambda: events(world) >= 1)
        told = events(world)
        await asyncio.sleep(300)
        assert events(world) == told, "it is not told for ever"

    World().run(story)


def events(world: World) -> int:
    """How often the controller was told."""
    return len(world.ensemble.machine.tree.node(paths.LOG_DIR_EVENTS).children)


async def started(world: World) -> Broker:
    ready: asyncio.Future[Broker] = asyncio.get_running_loop().create_future()

    async def run(runtime: Runtime) -> None:
        broker = Broker(CONFIG, runtime)
        await broker.start()
        ready.set_result(broker)
        await asyncio.Event().wait()

    world.simulation.host("broker1").start(run)
    return await ready
