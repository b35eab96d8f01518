"""Any broker may create a topic: once, whole, and not where another is.

Method: members in a simulated world; ZooKeeper loses the answer to each write in turn, and two create one topic at once.
"""

import asyncio
import random
import uuid

import pytest

from semel.cluster.store import NotControllerError
from semel.core.cluster import documents
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import BrokersRow, TopicStatesRow
from semel.errors import ErrorCode, Refuse
from support.cluster.member_kit import World, broker

THREE = BrokersRow(tuple(broker(number, rack=f"r{number}") for number in (1, 2, 3)))


@pytest.mark.parametrize("lost", [-1, 0])
def test_a_topic_is_made_once_whichever_answer_is_lost(lost: int) -> None:
    async def story(world: World) -> None:
        await world.elect()
        store = await world.started()
        await store.tell([THREE])
        world.ensemble.machine.to_answer = lost
        topic_id = uuid.UUID(int=7)
        refused = await store.create_topic(
            "orders", topic_id=topic_id, partitions=4, replication_factor=2, configs={"retention.ms": "1"}
        )
        assert refused is None
        node = documents.decode_topic("orders", world.data("/brokers/topics/orders"))
        assert node.topic_id == topic_id
        assert len(node.replicas) == 4
        assert all(len(set(replicas)) == 2 for replicas in node.replicas.values())
        assert documents.decode_configs("", world.data("/config/topics/orders")) == {"retention.ms": "1"}

    World().run(story)


@pytest.mark.parametrize("seed", range(10))
def test_of_two_that_create_one_topic_one_does(seed: int) -> None:
    async def story(world: World) -> None:
        await world.elect()
        stores = [await world.started(number) for number in (1, 2)]
        for store in stores:
            await store.tell([THREE])
        if random.Random(seed).random() < 0.5:
            world.ensemble.machine.to_answer = seed % 2
        made = await asyncio.gather(
            *(
                store.create_topic(
                    "orders",
                    topic_id=uuid.UUID(int=number),
                    partitions=number,
                    replication_factor=1,
                    configs={"retention.ms": str(number)},
                )
                for number, store in enumerate(stores, start=1)
            )
        )
        (winner,) = [number for number, one in enumerate(made, start=1) if one is None]
        (refused,) = [one for one in made if isinstance(one, Refuse)]
        assert refused.code is ErrorCode.TOPIC_ALREADY_EXISTS
        assert len(documents.decode_topic("orders", world.data("/brokers/topics/orders")).replicas) == winner
        configs = documents.decode_configs("", world.data("/config/topics/orders"))
        assert configs == {"retention.ms": str(winner)}

    World(seed).run(story)


def test_names_that_are_taken() -> None:
    async def story(world: World) -> None:
        await world.elect()
        store = await world.started()
        await store.tell([THREE, TopicStatesRow("known", uuid.UUID(int=1), dict(enumerate(alone(1, 1))))])
        await world.kafka.create("/brokers/topics/made.elsewhere", b"{}")
        await world.kafka.create("/admin/delete_topics/going", None)
        for name, code in (
            ("known", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("made.elsewhere", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("made_elsewhere", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("going", ErrorCode.TOPIC_ALREADY_EXISTS),
        ):
            refused = await store.create_topic(
                name, topic_id=uuid.UUID(int=7), partitions=1, replication_factor=1, configs={}
            )
            assert isinstance(refused, Refuse)
            assert (name, refused.code) == (name, code)
        refused = await store.create_topic(
            "wide", topic_id=uuid.UUID(int=7), partitions=1, replication_factor=4, configs={}
        )
        assert isinstance(refused, Refuse)
        assert refused.code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert not world.has("/config/topics/wide")

    World().run(story)


def test_settings_of_an_earlier_topic_do_not_stay() -> None:
    async def story(world: World) -> None:
        await world.elect()
        store = await world.started()
        await store.tell([THREE])
        await world.put("topics/orders", {"retention.ms": "1"}, told=False)
        await store.create_topic(
            "orders", topic_id=uuid.UUID(int=7), partitions=1, replication_factor=1, configs={}
        )
        assert documents.decode_configs("", world.data("/config/topics/orders")) == {}

    World().run(story)


def test_without_a_controller_nothing_is_made() -> None:
    async def story(world: World) -> None:
        store = await world.started()
        await store.tell([THREE])
        with pytest.raises(NotControllerError, match="no controller"):
            await store.create_topic(
                "orders", topic_id=uuid.UUID(int=7), partitions=1, replication_factor=1, configs={}
            )
        assert not world.has("/brokers/topics/orders")

    World().run(story)
