"""A stop in order closes every log, many at a time, and only then says that it was one.

Method: brokers on the simulated disk. A disk that takes its time shows that logs do not wait for each other; a disk that refuses
one log, and a power cut at every single change of a stop, show what the next start may trust.
"""

import asyncio
from dataclasses import replace
from typing import Final

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.topics import create_missing
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.memory_faults import Death
from semel.runtime.simulation import Simulation
from support.log.log_kit import batch_of

CLEAN_MARK: Final = "/data/.kafka_cleanshutdown"
PARTITIONS: Final = 24
SYNC_SECONDS: Final = 0.1
THREADS: Final = 8


def config(partitions: int) -> BrokerConfig:
    return BrokerConfig.of(
        {
            "listeners": "PLAINTEXT://127.0.0.1:9092",
            "log.dirs": "/data",
            "num.partitions": partitions,
            "log.flush.interval.messages": 1,
        }
    )


async def used_broker(runtime: Runtime, partitions: int) -> Broker:
    """A broker with a record in every partition."""
    broker = Broker(config(partitions), runtime)
    await broker.start()
    await create_missing(broker.parts.administration, ["orders"])
    for partition in broker.parts.partitions.of_topic("orders"):
        assert isinstance(partition.append(batch_of(b"x")), Appended)
        await partition.settle(partition.log.log_end_offset)
    return broker


def test_logs_do_not_wait_for_each_other() -> None:
    simulation = Simulation(1)
    host = simulation.host("127.0.0.1")
    took: list[float] = []
    syncs: list[int] = []

    async def program(runtime: Runtime) -> None:
        broker = await used_broker(runtime, PARTITIONS)
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        began, before = simulation.loop.time(), replace(host.disk.counters)
        await broker.stop()
        after = host.disk.counters
        took.append(simulation.loop.time() - began)
        syncs.append(after.syncs + after.directory_syncs - before.syncs - before.directory_syncs)

    async def main() -> None:
        await host.start(program)

    simulation.run(main())
    one_by_one = syncs[0] * SYNC_SECONDS
    assert syncs[0] > 3 * PARTITIONS
    assert took[0] < 2 * one_by_one / THREADS
    assert host.disk.exists(CLEAN_MARK)


def test_a_log_that_cannot_be_closed_keeps_no_other_from_it() -> None:
    simulation = Simulation(1)
    host = simulation.host("127.0.0.1")

    async def stop(runtime: Runtime) -> None:
        broker = await used_broker(runtime, 3)
        host.disk.fail("sync", path_part="/data/orders-1/")
        await broker.stop()

    async def start(runtime: Runtime) -> None:
        assert not host.disk.exists(CLEAN_MARK)
        assert host.disk.exists("/data/orders-0/00000000000000000001.snapshot")
        assert host.disk.exists("/data/orders-2/00000000000000000001.snapshot")
        host.disk.clear_faults()
        broker = Broker(config(3), runtime)
        await broker.start()
        assert [p.log.log_end_offset for p in broker.parts.partitions.of_topic("orders")] == [1, 1, 1]

    async def main() -> None:
        await host.start(stop)
        host.kill()
        await host.start(start)

    simulation.run(main())


@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_a_death_at_any_change_of_a_stop_costs_nothing(death: Death) -> None:
    operation = 0
    while stopped_until(operation, death):
        operation += 1
    assert operation > 20


def stopped_until(operation: int, death: Death) -> bool:
    """A stop that dies at one of its changes of the disk, and the start after it; whether it came to that."""
    simulation = Simulation(operation)
    host = simulation.host("127.0.0.1")

    async def stop(runtime: Runtime) -> None:
        broker = await used_broker(runtime, 3)
        host.disk.crash_at_operation(operation, death=death)
        await broker.stop()

    async def start(runtime: Runtime) -> None:
        broker = Broker(config(3), runtime)
        await broker.start()
        for partition in broker.parts.partitions.of_topic("orders"):
            assert partition.log.log_end_offset == 1
            assert isinstance(partition.append(batch_of(b"y")), Appended)

    async def main() -> bool:
        stopping = host.start(stop)
        dying = asyncio.ensure_future(host.until_dead())
        await asyncio.wait([stopping, dying], return_when=asyncio.FIRST_COMPLETED)
        has_died = dying.done()
        if not has_died:
            dying.cancel()
            host.disk.clear_faults()
            assert host.disk.exists(CLEAN_MARK)
            host.kill()
        await host.start(start)
        return has_died

    return simulation.run(main())
