"""A slow disk keeps nobody from being served: what must be synced is synced on threads.

Method: a broker on a simulated disk whose every sync takes a second. A sync on the loop lets virtual time pass while nothing else
happens; somebody who looks at the clock all the time would notice.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.topics import create_missing, delete_all
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.files import read_whole
from semel.runtime.simulation import SimulatedHost, Simulation
from support.log.log_kit import batch_of

SYNC_SECONDS: Final = 1.0
LOOK_SECONDS: Final = 0.01
CONFIG: Final = BrokerConfig.of(
    {
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "log.dirs": "/data",
        "num.partitions": 3,
        "log.segment.bytes": 1024 * 1024,
        "log.retention.bytes": 1024 * 1024,
        "log.retention.check.interval.ms": 10**9,
    }
)


def run(story: Callable[[Broker, SimulatedHost], Awaitable[None]]) -> None:
    simulation = Simulation(1)
    host = simulation.host("127.0.0.1")

    async def program(runtime: Runtime) -> None:
        broker = Broker(CONFIG, runtime)
        await broker.start()
        await create_missing(broker.parts.administration, ["orders"])
        await story(broker, host)

    async def main() -> None:
        await host.start(program)

    simulation.run(main())


async def longest_stop(work: Awaitable[object]) -> tuple[float, float]:
    """How long the loop stood still at the most while this was done, and how long it took."""
    loop = asyncio.get_running_loop()
    gaps: list[float] = []

    async def look() -> None:
        while True:
            before = loop.time()
            await asyncio.sleep(LOOK_SECONDS)
            gaps.append(loop.time() - before)

    looking = asyncio.ensure_future(look())
    await asyncio.sleep(0)
    began = loop.time()
    await work
    looking.cancel()
    return max(gaps), loop.time() - began


def test_a_partitions_first_append_waits_for_no_sync() -> None:
    async def story(broker: Broker, host: SimulatedHost) -> None:
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        loop = asyncio.get_running_loop()
        before = loop.time()
        for partition in broker.parts.partitions.of_topic("orders"):
            assert isinstance(partition.append(batch_of(b"x")), Appended)
        assert loop.time() == before

    run(story)


def test_retention_lets_others_go_on_while_it_waits_for_the_disk() -> None:
    async def story(broker: Broker, host: SimulatedHost) -> None:
        partitions = broker.parts.partitions.of_topic("orders")
        for partition in partitions:
            for _ in range(40):
                assert isinstance(partition.append(batch_of(b"x" * 100_000)), Appended)
            assert len(partition.log.segments) > 3
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        stood_still, took = await longest_stop(broker._retain())
        assert took > 3 * len(partitions) * SYNC_SECONDS
        assert stood_still < SYNC_SECONDS / 2
        for partition in partitions:
            assert partition.log.log_start_offset == partition.log.segments[0].base_offset > 0

    run(story)


def test_deleting_records_and_topics_lets_others_go_on_while_it_waits_for_the_disk() -> None:
    async def story(broker: Broker, host: SimulatedHost) -> None:
        parts = broker.parts
        partition = parts.partitions.of_topic("orders")[0]
        for _ in range(5):
            assert isinstance(partition.append(batch_of(b"x")), Appended)
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)

        async def delete_records() -> None:
            await partition.commits.durable(3)
            assert await parts.partitions.delete_records(partition.log, 3)

        for work in (
            delete_records(),
            parts.partitions.checkpoint(),
            delete_all(parts.administration, ["orders"]),
        ):
            stood_still, took = await longest_stop(work)
            assert took > 3 * SYNC_SECONDS
            assert stood_still < SYNC_SECONDS / 2
        assert partition.log.log_start_offset == 3
        assert parts.partitions.get("orders", 0) is None

    run(story)


def test_a_start_that_is_being_written_down_is_in_every_checkpoint_until_it_is_true() -> None:
    """A checkpoint of a moment before must not take it back: the records would be there again after a crash."""

    async def story(broker: Broker, host: SimulatedHost) -> None:
        partitions = broker.parts.partitions
        partition = partitions.of_topic("orders")[0]
        for _ in range(9):
            assert isinstance(partition.append(batch_of(b"x")), Appended)
        await partition.commits.durable(9)
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        tasks: list[asyncio.Future[bool] | asyncio.Future[None]] = [
            asyncio.ensure_future(partitions.delete_records(partition.log, offset)) for offset in (5, 7)
        ]
        for _ in range(20):
            await asyncio.sleep(SYNC_SECONDS)
            tasks.append(asyncio.ensure_future(partitions.checkpoint()))
        await asyncio.gather(*tasks)
        assert partition.log.log_start_offset == 7
        text = read_whole(host.disk, "/data/log-start-offset-checkpoint").decode()
        assert "orders 0 7\n" in text

    run(story)


def test_a_topic_that_is_made_again_while_the_old_one_goes_inherits_nothing() -> None:
    async def story(broker: Broker, host: SimulatedHost) -> None:
        parts = broker.parts
        partition = parts.partitions.of_topic("orders")[0]
        for _ in range(9):
            assert isinstance(partition.append(batch_of(b"x")), Appended)
        await partition.commits.durable(9)
        assert await parts.partitions.delete_records(partition.log, 5)
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        late = asyncio.ensure_future(parts.partitions.delete_records(partition.log, 7))
        deleting = asyncio.ensure_future(delete_all(parts.administration, ["orders"]))
        while parts.store.image.topic("orders") is not None:
            await asyncio.sleep(LOOK_SECONDS)
        await create_missing(parts.administration, ["orders"])
        new = parts.partitions.of_topic("orders")[0]
        assert new is not partition
        assert isinstance(new.append(batch_of(b"new")), Appended)
        text = read_whole(host.disk, "/data/log-start-offset-checkpoint").decode()
        assert "orders 0 " not in text
        assert not await late
        await deleting
        assert (new.log.log_start_offset, new.log.log_end_offset) == (0, 1)

    run(story)


def test_a_topic_that_is_made_again_while_retention_waits_keeps_its_files() -> None:
    """The thread that syncs for the old one finds the directory of the new one under the same name."""

    async def story(broker: Broker, host: SimulatedHost) -> None:
        partitions = broker.parts.partitions
        for _ in range(40):
            assert isinstance(partitions.of_topic("orders")[0].append(batch_of(b"x" * 100_000)), Appended)
        host.disk.sync_delay_seconds = (SYNC_SECONDS, SYNC_SECONDS)
        retaining = asyncio.ensure_future(broker._retain())
        await asyncio.sleep(SYNC_SECONDS / 2)
        host.disk.sync_delay_seconds = (0.0, 0.0)
        row = broker.parts.store.image.topic("orders")
        assert row is not None
        await partitions.remove(partitions.take_out([row]), broker.parts.cleaner.paused)
        assert await partitions.make([row]) == {}
        await retaining
        assert host.disk.list_directory("/data/orders-0") == [
            "00000000000000000000.index",
            "00000000000000000000.log",
            "00000000000000000000.timeindex",
            "partition.metadata",
        ]

    run(story)
