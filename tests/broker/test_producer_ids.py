"""A producer id is given once: to 10,000 who ask at the same time, and across clean stops, kills and power cuts.

Method: the real store on a simulated disk; ids are collected over many lives of the broker's part that gives them.
"""

import asyncio

import pytest

from semel.broker.producer_ids import BLOCK_SIZE, ProducerIds
from semel.cluster.standalone import METADATA_CONFIG, StandaloneStore
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.errors import LogError
from semel.log.directory import LogDirectory
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition

MANY = 10_000


def started(runtime: Runtime) -> ProducerIds:
    directory = LogDirectory.open(runtime.files, "/data", node_id=1, cluster_id="c", directory_id="d")
    log = directory.load(TopicPartition(METADATA_TOPIC, 0), METADATA_CONFIG, runtime.clock.now_ms())
    directory.load_all(lambda _: METADATA_CONFIG, runtime.clock.now_ms())
    log.advance_high_watermark(log.log_end_offset)
    return ProducerIds(StandaloneStore(log, runtime.tasks, runtime.clock, broker_id=1))


def test_ten_thousand_at_once_get_different_ids() -> None:
    simulation = Simulation(1)
    host = simulation.host("broker")

    async def program(runtime: Runtime) -> list[int]:
        ids = started(runtime)
        return await asyncio.gather(*(ids.next() for _ in range(MANY)))

    async def story() -> list[int]:
        return await host.start(program)

    given = simulation.run(story())
    assert sorted(given) == list(range(MANY)), "none twice, and none left out within a life"


@pytest.mark.parametrize("seed", range(20))
def test_no_id_comes_back_after_any_end(seed: int) -> None:
    simulation = Simulation(seed)
    host = simulation.host("broker")
    host.disk.sync_delay_seconds = (0.0, 0.01)
    given: list[int] = []

    async def program(runtime: Runtime) -> None:
        ids = started(runtime)
        while True:
            given.extend(await asyncio.gather(*(ids.next() for _ in range(runtime.dice.randint(1, 400)))))
            await runtime.tasks.sleep(runtime.dice.uniform(0, 0.02))

    async def story() -> None:
        dice = simulation.network.dice
        for _ in range(24):
            host.start(program)
            await asyncio.sleep(dice.uniform(0.001, 0.1))
            if dice.random() < 0.5:
                host.kill()
            else:
                host.cut_power()

    simulation.run(story())
    assert len(given) > BLOCK_SIZE
    assert len(given) == len(set(given))


def test_no_id_is_given_that_is_not_set_aside_durably() -> None:
    simulation = Simulation(1)
    host = simulation.host("broker")

    async def program(runtime: Runtime) -> None:
        ids = started(runtime)
        host.disk.fail("sync", path_part=".log")
        with pytest.raises(LogError, match="offline"):
            await ids.next()
        with pytest.raises(LogError):
            await ids.next()

    async def story() -> None:
        await host.start(program)

    simulation.run(story())
