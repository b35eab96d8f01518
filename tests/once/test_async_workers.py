"""The worker pool for asyncio: what its blocking twin promises, in tasks of one loop.

Method: topics in memory and work that ends in a seeded order, fails, is cancelled or never ends; each commit is compared with what
was finished by then. One life with a real consumer on a broker.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from semel import Broker, Producer, aio
from semel.errors import ConfigError
from semel.once import RetryPolicy, WorkFailedError
from semel.once.async_workers import process
from semel.once.rules.pool import Order
from semel.types import TopicPartition
from support.once.once_doubles import ConsumerDouble, RecordDouble, TopicsDouble

P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


class AsyncDouble:
    """A consumer in memory with `await`; listeners may be coroutines."""

    def __init__(self, topics: TopicsDouble, *, records_max: int = 500) -> None:
        self.double = ConsumerDouble(topics, records_max=records_max)
        self._revoking: list[Any] = []
        self.handed_out = 0

    def subscribe(self, topics: Collection[str], *, listener: Any = None) -> None:
        outer = self

        class Listener:
            def on_partitions_assigned(self, partitions: Any) -> None:
                listener.on_partitions_assigned(partitions)

            def on_partitions_revoked(self, partitions: Any) -> None:
                outer._revoking.append(partitions)

            def on_partitions_lost(self, partitions: Any) -> None:
                listener.on_partitions_lost(partitions)

        self._listener = listener
        self.double.subscribe(topics, Listener())

    async def poll(self, timeout_ms: int = 0) -> Iterable[RecordDouble]:
        await asyncio.sleep(0)
        found = self.double.poll()
        for partitions in self._revoking:
            await self._listener.on_partitions_revoked(partitions)
        self._revoking.clear()
        self.handed_out += len(found)
        return found

    def assignment(self) -> Collection[TopicPartition]:
        return self.double.assignment()

    def pause(self, partitions: Any) -> None:
        self.double.pause(partitions)

    def resume(self, partitions: Any) -> None:
        self.double.resume(partitions)

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        await asyncio.sleep(0)
        self.double.commit(offsets)


def topics_of(records: int, keys: int = 7) -> TopicsDouble:
    topics = TopicsDouble()
    for n in range(records):
        topics.write("orders", b"%d" % n, partition=n % 2, key=b"key-%d" % (n % keys), skip=n % 2)
    return topics


@pytest.mark.parametrize("order", ["key", "partition", "none"])
def test_order_is_kept_and_a_commit_never_passes_unfinished_work(order: Order) -> None:
    topics, dice = topics_of(120), random.Random(3)
    finished: dict[object, list[int]] = defaultdict(list)
    done: dict[TopicPartition, set[int]] = {P0: set(), P1: set()}
    running: set[object] = set()
    at_once = 0

    def lane(record: RecordDouble) -> object:
        return {"key": (record.partition, record.key), "partition": record.partition, "none": record.value}[
            order
        ]

    async def work(record: RecordDouble) -> None:
        nonlocal at_once
        assert lane(record) not in running, "two of one lane at once"
        running.add(lane(record))
        at_once = max(at_once, len(running))
        for _ in range(dice.randrange(5)):
            await asyncio.sleep(0)
        running.remove(lane(record))
        finished[lane(record)].append(record.offset)
        done[TopicPartition(record.topic, record.partition)].add(record.offset)

    class Watched(AsyncDouble):
        async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
            for where, offset in offsets.items():
                assert {r.offset for r in topics.logs[where] if r.offset < offset} <= done[where]
            await super().commit(offsets)

    consumer = Watched(topics, records_max=9)
    count = asyncio.run(
        process(
            consumer,
            work,
            workers=5,
            order=order,
            topics=["orders"],
            commit_interval_ms=0,
            until=lambda: sum(map(len, done.values())) == 120,
        )
    )
    assert count == 120
    assert all(offsets == sorted(offsets) for offsets in finished.values())
    assert 1 < at_once <= (2 if order == "partition" else 5)
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == consumer.double.positions


def test_failures_are_tried_again_then_put_aside() -> None:
    topics, tried, aside = topics_of(6), defaultdict[bytes, int](int), list[bytes]()

    async def work(record: RecordDouble) -> None:
        tried[record.value or b""] += 1
        if record.value == b"2" or (record.value == b"3" and tried[b"3"] == 1):
            raise ValueError("not this one")

    async def dead_letter(record: RecordDouble, error: BaseException) -> None:
        assert isinstance(error, ValueError)
        aside.append(record.value or b"")

    options: dict[str, Any] = {"topics": ["orders"], "retries": RetryPolicy(attempts_max=2, backoff_ms=1)}
    count = asyncio.run(
        process(
            AsyncDouble(topics),
            work,
            dead_letter=dead_letter,
            until=lambda: len(tried) == 6 and bool(aside),
            **options,
        )
    )
    assert (tried[b"2"], tried[b"3"], aside) == (2, 2, [b"2"])
    assert count >= 5


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError()])
def test_without_a_dead_letter_the_pool_stops_before_the_record(error: BaseException) -> None:
    """Work that was cancelled by somebody else failed, too: it is not waited for in vain."""
    topics = topics_of(8)

    async def work(record: RecordDouble) -> None:
        if record.value == b"4":
            raise error

    with pytest.raises(WorkFailedError, match="orders-0 offset 2 failed after 1 attempt:"):
        asyncio.run(process(AsyncDouble(topics), work, order="partition", topics=["orders"]))
    assert topics.committed["group", P0].offset == 2


def test_a_partition_that_goes_is_waited_for_and_committed() -> None:
    topics = topics_of(2)

    async def story() -> None:
        consumer, may_end, begun = AsyncDouble(topics), asyncio.Event(), list[bytes]()

        async def work(record: RecordDouble) -> None:
            begun.append(record.value or b"")
            await may_end.wait()

        pool = asyncio.create_task(
            process(
                consumer,
                work,
                workers=2,
                topics=["orders"],
                until=lambda: bool(begun) and not consumer.double.positions,
            )
        )
        while len(begun) < 2:
            await asyncio.sleep(0)
        consumer.double.take(P0, P1)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not topics.committed  # It waits.
        may_end.set()
        assert await pool == 2

    asyncio.run(story())
    assert {where: topics.committed["group", where].offset for where in (P0, P1)} == {P0: 1, P1: 2}


def test_what_is_unfinished_is_bounded() -> None:
    """Work is slower than polling: partitions are paused, at the latest one poll above the bound."""
    topics, most, done = topics_of(300), 0, 0

    async def story() -> None:
        consumer = AsyncDouble(topics, records_max=5)

        async def work(record: RecordDouble) -> None:
            nonlocal most, done
            most = max(most, consumer.handed_out - done)
            for _ in range(7):
                await asyncio.sleep(0)
            done += 1

        await process(
            consumer, work, workers=2, in_flight_max=10, topics=["orders"], until=lambda: done == 300
        )

    asyncio.run(story())
    assert done == 300
    assert 10 <= most < 15


def test_a_cancelled_pool_cancels_its_work() -> None:
    topics = topics_of(4)

    async def story() -> list[str]:
        seen: list[str] = []

        async def work(record: RecordDouble) -> None:
            try:
                seen.append("begun")
                await asyncio.Event().wait()
            finally:
                seen.append("ended")

        pool = asyncio.create_task(process(AsyncDouble(topics), work, workers=2, topics=["orders"]))
        while len(seen) < 2:
            await asyncio.sleep(0)
        pool.cancel()
        with pytest.raises(asyncio.CancelledError):
            await pool
        return seen

    assert asyncio.run(story()) == ["begun", "begun", "ended", "ended"]
    assert not topics.committed


def test_a_real_consumer(semel_broker: Broker, semel_topic: str) -> None:
    """Also work that a thread does; and a consumer that commits by itself is refused."""
    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        for number in range(50):
            producer.send(semel_topic, b"%d" % number, partition=0)
    settings: dict[str, Any] = {
        "bootstrap_servers": semel_broker.bootstrap,
        "group_id": semel_topic,
        "auto_offset_reset": "earliest",
    }

    async def story() -> int | None:
        done: list[bytes] = []
        with ThreadPoolExecutor(3) as threads:
            async with aio.Consumer(settings, enable_auto_commit=False) as consumer:

                def work(record: Any) -> Any:
                    return threads.submit(done.append, record.value)

                until = lambda: len(done) == 50  # noqa: E731
                assert (
                    await consumer.process(work, workers=4, order="none", topics=[semel_topic], until=until)
                    == 50
                )
                committed = await consumer.committed([(semel_topic, 0)])
            async with aio.Consumer(settings) as consumer:
                with pytest.raises(ConfigError, match=r"enable\.auto\.commit is true"):
                    await consumer.process(work)
        stored = committed[TopicPartition(semel_topic, 0)]
        return None if stored is None else stored.offset

    assert asyncio.run(story()) == 50
