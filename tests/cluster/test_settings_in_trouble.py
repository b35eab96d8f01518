"""Whatever ZooKeeper goes through, no acknowledged change of settings is lost, and every member ends with what ZooKeeper has.

Method: three members change settings of the same few topics at once, each under a key of its own, in a simulated world whose
ZooKeeper loses answers, breaks connections, dies, freezes and ends sessions, all from a seed. A value that was acknowledged may only
be followed by a later one of the same writer. In the end all images are the nodes.
"""

import asyncio
import contextlib
import random
import uuid

import pytest

from semel.cluster.store import ChangeRefusedError
from semel.cluster.zookeeper_store import ZooKeeperStore
from semel.core.cluster import documents
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import TopicConfigRow, TopicStatesRow
from support.cluster.member_kit import World, broker, until

SEEDS = 30
TOPICS = ("a", "b")
KEYS = {1: "retention.ms", 2: "segment.ms", 3: "flush.ms"}
WRITES = 15


async def _write(
    world: World, store: ZooKeeperStore, number: int, told: dict[tuple[str, int], list[int]]
) -> None:
    """Values that grow; of each topic those that were acknowledged."""
    dice = random.Random(f"{world.seed} {number}")
    for value in range(1, WRITES + 1):
        topic = dice.choice(TOPICS)
        configs = {**store.image.topic_configs(topic), KEYS[number]: str(value)}
        with contextlib.suppress(ChangeRefusedError):
            await store.commit([TopicConfigRow(topic, configs)])
            told.setdefault((topic, number), []).append(value)
        await asyncio.sleep(dice.uniform(0, 1))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_members_agree_with_zookeeper_in_the_end(seed: int) -> None:
    async def story(world: World) -> None:
        await world.elect()
        stores = {number: await world.started(number) for number in KEYS}
        for number, store in stores.items():
            await store.tell(
                [TopicStatesRow(name, uuid.UUID(int=1), dict(enumerate(alone(1, 1)))) for name in TOPICS[:1]]
            )
            await store.register(broker(number))
        troubling = asyncio.ensure_future(world.ensemble.trouble(random.Random(f"trouble {seed}")))
        told: dict[tuple[str, int], list[int]] = {}
        await asyncio.gather(*(_write(world, store, number, told) for number, store in stores.items()))
        troubling.cancel()

        def kept(topic: str) -> dict[str, str]:
            path = f"/config/topics/{topic}"
            return documents.decode_configs(path, world.data(path)) if world.has(path) else {}

        await until(
            lambda: all(
                store.image.topic_configs(name) == kept(name) for store in stores.values() for name in TOPICS
            )
        )
        await asyncio.sleep(60)
        for name in TOPICS:
            for store in stores.values():
                assert store.image.topic_configs(name) == kept(name)
        for (topic, number), values in told.items():
            assert int(kept(topic)[KEYS[number]]) >= values[-1]
        assert sum(map(len, told.values())) >= WRITES  # Else this shows little.
        assert world.fatal == []
        for number, store in stores.items():
            assert (
                store.broker_epoch == world.ensemble.machine.tree.node(f"/brokers/ids/{number}").stat().czxid
            )

    World(seed).run(story)
