"""A reader shows what is committed, once, in order, and says so when there is nothing where it was sent.

Method: the real broker in a simulation. Transactions are written straight into its log, because markers come from a
coordinator and not from a client.
"""

import asyncio

import pytest

from net_worlds import in_simulation
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client import admin, reader
from semel.client.cluster import Cluster, TopicView
from semel.client.config import ClientConfig
from semel.client.writer import Writer
from semel.core.records.build import RecordInput, build_batch
from semel.errors import ErrorCode, RefusedError
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime


async def started(runtime: Runtime) -> Broker:
    broker = Broker(
        BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "/data"}), runtime
    )
    await broker.start()
    return broker


def connected(runtime: Runtime, isolation_level: str = "read_committed") -> Cluster:
    return Cluster(
        runtime,
        ClientConfig.of({"bootstrap.servers": "127.0.0.1:9092", "isolation.level": isolation_level}),
    )


async def made(cluster: Cluster, partitions: int = 1) -> TopicView:
    await admin.create_topic(cluster, "t", partitions=partitions)
    return await cluster.topic("t")


def write_in_transaction(broker: Broker, producer_id: int, value: bytes, commit: bool | None) -> None:
    """A batch of a transaction, and its marker unless it stays open."""
    partition = broker.context.partitions.get("t", 0)
    assert partition is not None
    partition.log.producers.verification_required = False  # No coordinator knows of these.
    data = build_batch(
        [RecordInput(None, value)],
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    assert isinstance(partition.append(data), Appended)
    if commit is None:
        return
    marked = partition.log.append_marker(
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        commit=commit,
        leader_epoch=partition.leader_epoch,
        now_ms=broker.runtime.clock.now_ms(),
    )
    assert isinstance(marked, Appended)
    partition.log.advance_high_watermark(partition.log.log_end_offset)


async def read_all(cluster: Cluster, topic: TopicView, start: int = 0) -> list[tuple[int, bytes | None]]:
    return [(one.record.offset, one.record.value) async for one in reader.read(cluster, topic, {0: start})]


def test_aborted_and_open_transactions_are_hidden_unless_asked_for() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await started(runtime)
        async with connected(runtime) as committed, connected(runtime, "read_uncommitted") as all_of_it:
            topic = await made(committed)
            write_in_transaction(broker, 100, b"committed", commit=True)
            write_in_transaction(broker, 101, b"aborted", commit=False)
            await Writer(committed, topic).send([RecordInput(None, b"plain")])
            write_in_transaction(broker, 102, b"open", commit=None)
            await Writer(committed, topic).send([RecordInput(None, b"behind")])
            assert await read_all(committed, topic) == [(0, b"committed"), (4, b"plain")]
            assert await read_all(all_of_it, topic) == [
                (0, b"committed"),
                (2, b"aborted"),
                (4, b"plain"),
                (5, b"open"),
                (6, b"behind"),
            ]
        await broker.stop()

    in_simulation(story)


def test_reading_begins_inside_a_batch() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await started(runtime)
        async with connected(runtime) as cluster:
            topic = await made(cluster)
            await Writer(cluster, topic).send([RecordInput(None, b"%d" % number) for number in range(5)])
            assert await read_all(cluster, topic, 3) == [(3, b"3"), (4, b"4")]
            assert await read_all(cluster, topic, 5) == []
        await broker.stop()

    in_simulation(story)


def test_an_offset_outside_the_log_raises() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await started(runtime)
        async with connected(runtime) as cluster:
            topic = await made(cluster)
            await Writer(cluster, topic).send([RecordInput(None, b"x")])
            for follow in (False, True):
                with pytest.raises(
                    RefusedError, match=r"t-0 at 127\.0\.0\.1:9092 has no offset 2: "
                ) as caught:
                    await anext(reader.read(cluster, topic, {0: 2}, follow=follow))
                assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
        await broker.stop()

    in_simulation(story)


def test_following_sees_what_comes_later() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await started(runtime)
        async with connected(runtime) as cluster, connected(runtime) as other:
            topic = await made(cluster)
            records = reader.read(cluster, topic, {0: 0}, follow=True)
            first = asyncio.ensure_future(anext(records))
            await runtime.tasks.sleep(3)  # Several empty fetches.
            await Writer(other, topic).send([RecordInput(None, b"one"), RecordInput(None, b"two")])
            assert (await first).record.value == b"one"
            assert (await anext(records)).record.value == b"two"
        await broker.stop()

    in_simulation(story)


def test_places_in_time() -> None:
    async def story(runtime: Runtime) -> None:
        broker = await started(runtime)
        async with connected(runtime) as cluster:
            topic = await made(cluster, partitions=2)
            now = runtime.clock.now_ms()
            stamped = [RecordInput(None, b"x", now + step) for step in (0, 10, 20)]
            await Writer(cluster, topic).send(stamped, partition=0)
            assert await reader.offsets_at(cluster, topic, [0, 1], reader.EARLIEST) == {0: 0, 1: 0}
            assert await reader.offsets_at(cluster, topic, [0, 1], reader.LATEST) == {0: 3, 1: 0}
            assert await reader.offsets_at(cluster, topic, [0, 1], now + 5) == {0: 1, 1: 0}
            assert await reader.offsets_at(cluster, topic, [0, 1], now + 50) == {0: 3, 1: 0}
        await broker.stop()

    in_simulation(story)
