"""Consumers that read together: each partition with one of them, through joins, leaves, silence and the loss of the coordinator.

Method: the real broker and the real consumers in a simulation, with every assignor of the classic protocol and with KIP-848; what
the coordinator believes is looked up in the broker.
"""

import asyncio
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.values.consuming import ConsumerRebalanceListener, ConsumerRecord, SubscriptionPattern
from semel.exceptions import FencedInstanceIdException, IllegalStateException
from semel.types import TopicPartition
from support.client.reading_kit import ReadingWorld, take, told, values

PROTOCOLS: list[dict[str, Any]] = [
    {"partition_assignment_strategy": "RangeAssignor"},
    {"partition_assignment_strategy": "org.apache.kafka.clients.consumer.RoundRobinAssignor"},
    {"partition_assignment_strategy": "StickyAssignor"},
    {"partition_assignment_strategy": "CooperativeStickyAssignor"},
    {"group_protocol": "consumer"},
]
EACH_PROTOCOL = pytest.mark.parametrize(
    "protocol", PROTOCOLS, ids=["range", "roundrobin", "sticky", "cooperative-sticky", "kip-848"]
)
BOTH_KINDS = pytest.mark.parametrize("protocol", [PROTOCOLS[0], PROTOCOLS[4]], ids=["classic", "kip-848"])


def partitions(topic: str, *indexes: int) -> set[TopicPartition]:
    return {TopicPartition(topic, index) for index in indexes}


class Worker:
    """A consumer in a task of its own; keeps what it was handed."""

    def __init__(self, world: ReadingWorld, consumer: AsyncConsumer) -> None:
        self.consumer = consumer
        self.records: list[ConsumerRecord] = []
        self._stopped = False
        self._task = world.runtime.tasks.spawn(self._work(), name="worker")

    async def _work(self) -> None:
        while not self._stopped:
            self.records += await self.consumer.poll(200)
        await self.consumer.close()

    async def stop(self) -> None:
        self._stopped = True
        await self._task


async def until(world: ReadingWorld, condition: Any, what: str, seconds: float = 120) -> None:
    deadline = world.runtime.clock.monotonic() + seconds
    while not condition():
        assert world.runtime.clock.monotonic() < deadline, f"never: {what}"
        await world.runtime.tasks.sleep(0.05)


@EACH_PROTOCOL
@pytest.mark.mission("CONS-16")
def test_partitions_are_divided_and_every_record_is_read_once(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 6)
        workers = []
        for count in (1, 2, 3):
            consumer = world.consumer(group_id="g", **protocol)
            consumer.subscribe(["t"])
            workers.append(Worker(world, consumer))

            def is_divided(count: int = count) -> bool:
                owned = [one.consumer.assignment() for one in workers]
                total = Counter(where for each in owned for where in each)
                return total == Counter(partitions("t", *range(6))) and all(
                    len(each) == 6 // count for each in owned
                )

            await until(world, is_divided, f"six partitions among {count}")
            await world.runtime.tasks.sleep(10)
            assert is_divided(), "it stays so"
            for index in range(6):
                world.write("t", [b"%d-%d-%d" % (count, index, n) for n in range(10)], index)
            wanted = 60 * count
            await until(
                world, lambda wanted=wanted: sum(len(one.records) for one in workers) >= wanted, "all records"
            )
        read = Counter(record.value for one in workers for record in one.records)
        assert len(read) == 180
        assert set(read.values()) == {1}
        first, *others = workers
        await first.stop()
        await until(
            world,
            lambda: all(len(one.consumer.assignment()) == 3 for one in others),
            "two share what one left",
            5,
        )
        for one in others:
            await one.stop()

    told(story)


@BOTH_KINDS
def test_nobody_joins_before_the_first_poll_and_close_leaves_at_once(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        await world.topic("other")
        consumer = world.consumer(group_id="g", **protocol)
        consumer.subscribe(["t"])
        await world.runtime.tasks.sleep(10)
        assert consumer.group_metadata().generation_id == -1
        assert not await world.members("g")
        while not consumer.assignment():
            await consumer.poll(100)
        assert len(await world.members("g")) == 1
        assert consumer.subscription() == {"t"}
        with pytest.raises(IllegalStateException, match="cannot have partitions at the same time"):
            consumer.assign([("t", 0)])
        await consumer.unsubscribe()
        assert not await world.members("g")
        assert consumer.assignment() == set()
        consumer.subscribe(["other"])
        while consumer.assignment() != partitions("other", 0):
            await consumer.poll(100)
        await consumer.close()
        assert not await world.members("g")

    told(story)


@BOTH_KINDS
@pytest.mark.mission("CFG-24")
def test_a_member_that_is_silent_is_removed_after_its_session(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        settings = dict(protocol)
        if "group_protocol" not in protocol:
            settings |= {"session_timeout_ms": 30_000}
        silent, other = (world.consumer(group_id="g", **settings) for _ in range(2))
        for one in (silent, other):
            one.subscribe(["t"])
        workers = [Worker(world, one) for one in (silent, other)]
        await until(world, lambda: all(len(one.assignment()) == 1 for one in (silent, other)), "both own one")
        await world.runtime.tasks.sleep(5)
        since = world.runtime.clock.monotonic()
        cut_off(silent)
        await until(world, lambda: len(other.assignment()) == 2, "the other owns both", 60)
        took = world.runtime.clock.monotonic() - since
        session = 30 if "session_timeout_ms" in settings else 45
        assert session - 4 < took < session + 5, f"after {took} s"
        await workers[1].stop()

    told(story)


def cut_off(consumer: AsyncConsumer) -> None:
    """As if its process had died: nothing of it is heard any more."""
    engine = consumer._engine

    async def silence(*_args: Any, **_kwargs: Any) -> Any:
        await asyncio.get_running_loop().create_future()

    membership = engine._membership
    assert membership is not None
    for cluster in (engine._cluster, engine._fetching, membership._cluster):
        cluster.send = silence  # type: ignore[method-assign]  # that is the point


@BOTH_KINDS
@pytest.mark.mission("CONS-14", "R-16")
def test_heartbeats_go_on_while_the_user_works_until_max_poll_interval(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        heard: list[str] = []
        slow = world.consumer(group_id="g", max_poll_interval_ms=120_000, **protocol)
        slow.subscribe(["t"], on_lost=lambda gone: heard.append(f"lost {len(gone)}"))
        while len(slow.assignment()) < 2:
            await slow.poll(100)
        generation = slow.group_metadata().generation_id
        await world.runtime.tasks.sleep(115)  # More than two sessions.
        assert len(await world.members("g")) == 1, "heartbeats are sent beside the user's work"
        await slow.poll(100)
        assert (slow.group_metadata().generation_id, heard) == (generation, [])
        await world.runtime.tasks.sleep(125)
        assert not await world.members("g"), "it left, as it was not polled"
        while len(slow.assignment()) < 2:
            await slow.poll(100)
        assert heard == ["lost 2"]
        await slow.close()

    told(story)


@EACH_PROTOCOL
def test_the_group_goes_on_when_the_broker_was_away(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 4)
        consumers = [world.consumer(group_id="g", **protocol) for _ in range(2)]
        for one in consumers:
            one.subscribe(["t"])
        workers = [Worker(world, one) for one in consumers]
        for index in range(4):
            world.write("t", [b"%d-%d" % (index, n) for n in range(50)], index)
        await until(world, lambda: sum(len(one.records) for one in workers) >= 200, "the first records")
        await world.runtime.tasks.sleep(6)  # What was read is committed.
        await world.broker.stop()
        await world.runtime.tasks.sleep(3)
        await world.start()
        for index in range(4):
            world.write("t", [b"%d-%d" % (index, n) for n in range(50, 100)], index)
        await until(world, lambda: len({r.value for w in workers for r in w.records}) == 400, "all records")
        assert sum(len(one.records) for one in workers) == 400, "and none twice"
        for worker in workers:
            await worker.stop()

    told(story)


@pytest.mark.mission("CONS-04")
def test_an_eager_group_pauses_for_a_rebalance_and_a_cooperative_one_does_not() -> None:
    pauses: dict[str, float] = {}

    async def story(world: ReadingWorld, assignor: str) -> None:
        await world.topic("t", 4)
        clock = world.runtime.clock
        first = world.consumer(
            group_id="g",
            partition_assignment_strategy=assignor,
            fetch_max_wait_ms=50,
            heartbeat_interval_ms=500,
        )
        first.subscribe(["t"])
        times: dict[TopicPartition, list[float]] = {}

        async def read() -> None:
            while True:
                for record in await first.poll(20):
                    times.setdefault(record.topic_partition, []).append(clock.monotonic())

        async def write() -> None:
            while True:
                for index in range(4):
                    world.write("t", [b"x"], index)
                await world.runtime.tasks.sleep(0.02)

        tasks = [world.runtime.tasks.spawn(one, name="endless") for one in (read(), write())]
        settings: dict[str, Any] = {"group_id": "g", "partition_assignment_strategy": assignor}
        slow, third = (world.consumer(heartbeat_interval_ms=500, **settings) for _ in range(2))
        slow.subscribe(["t"])
        while len(slow.assignment()) < 2 or len(first.assignment()) > 2:
            await slow.poll(50)
        times.clear()
        await world.runtime.tasks.sleep(1)
        # The rebalance must wait for one that works on its records: eager members have let everything go by then.
        third.subscribe(["t"])
        last = Worker(world, third)
        await world.runtime.tasks.sleep(5)
        while len(third.assignment()) < 1:
            await slow.poll(50)
        await world.runtime.tasks.sleep(2)
        kept = first.assignment()
        longest = [
            max(later - before for before, later in pairwise(of))
            for where, of in times.items()
            if where in kept
        ]
        pauses[assignor] = max(longest)
        for task in tasks:
            task.cancel()
        await last.stop()
        for one in (first, slow):
            await one.close()

    for assignor in ("RangeAssignor", "CooperativeStickyAssignor"):
        told(lambda world, assignor=assignor: story(world, assignor), group_initial_rebalance_delay_ms="0")  # type: ignore[misc]
    print(f"longest pause of a partition that stayed: {pauses}")
    assert pauses["CooperativeStickyAssignor"] < 0.2, "it flows on"
    assert pauses["RangeAssignor"] > 1, "it stops until everybody has let go"


@pytest.mark.mission("CONS-01")
def test_a_pattern_means_the_topics_there_are_and_those_to_come() -> None:
    async def story(world: ReadingWorld) -> None:
        for name in ("orders-eu", "orders-us", "not-orders-eu", "orders"):
            await world.topic(name)
        async with world.consumer(group_id="g", metadata_max_age_ms=2_000) as consumer:
            consumer.subscribe(pattern=r"orders-..")
            while len(consumer.assignment()) < 2:
                await consumer.poll(100)
            assert consumer.subscription() == {"orders-eu", "orders-us"}, "whole names, as in Kafka"
            await world.topic("orders-jp", 2)
            while len(consumer.assignment()) < 4:
                await consumer.poll(100)
            world.write("orders-jp", [b"hai"], 1)
            assert values(await take(consumer, 1)) == [b"hai"]
            await world.delete("orders-us")
            while consumer.subscription() != {"orders-eu", "orders-jp"}:
                await consumer.poll(100)
        async with world.consumer(group_id="named") as consumer:
            consumer.subscribe(["orders", "orders-eu"])
            while len(consumer.assignment()) < 2:
                await consumer.poll(100)

    told(story, auto_create_topics_enable="false")


def test_the_broker_matches_a_pattern_in_a_kip848_group() -> None:
    async def story(world: ReadingWorld) -> None:
        for name in ("orders-eu", "orders-us", "else"):
            await world.topic(name)
        async with world.consumer(group_id="g", group_protocol="consumer") as consumer:
            consumer.subscribe(SubscriptionPattern("orders-.*"))
            while len(consumer.assignment()) < 2:
                await consumer.poll(100)
            assert consumer.assignment() == {TopicPartition("orders-eu", 0), TopicPartition("orders-us", 0)}
        async with world.consumer(group_id="h") as classic:
            with pytest.raises(IllegalStateException, match=r"set group\.protocol=consumer"):
                classic.subscribe(SubscriptionPattern("x"))

    told(story)


@BOTH_KINDS
def test_new_partitions_of_a_topic_are_divided_too(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 1)
        async with world.consumer(group_id="g", metadata_max_age_ms=2_000, **protocol) as consumer:
            consumer.subscribe(["t"])
            while len(consumer.assignment()) < 1:
                await consumer.poll(100)
            await world.grow("t", 3)
            while len(consumer.assignment()) < 3:
                await consumer.poll(100)

    told(story)


@BOTH_KINDS
def test_a_static_member_comes_back_to_its_partitions_and_fences_its_double(protocol: dict[str, Any]) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 4)
        heard: list[str] = []

        class Listener(ConsumerRebalanceListener):
            def on_partitions_assigned(self, partitions: Any) -> None:
                heard.append(f"assigned {len(partitions)}")

            def on_partitions_revoked(self, partitions: Any) -> None:
                heard.append(f"revoked {len(partitions)}")

        def static(name: str) -> AsyncConsumer:
            consumer = world.consumer(group_id="g", group_instance_id=name, **protocol)
            consumer.subscribe(["t"], listener=Listener() if name == "other" else None)
            return consumer

        first, other = Worker(world, static("first")), Worker(world, static("other"))
        await until(
            world, lambda: all(len(one.consumer.assignment()) == 2 for one in (first, other)), "both own two"
        )
        await world.runtime.tasks.sleep(5)
        owned = first.consumer.assignment()
        heard.clear()
        await first.stop()
        again = Worker(world, static("first"))
        await until(world, lambda: again.consumer.assignment() == owned, "its own partitions again")
        assert heard == [], "the other one was not disturbed"
        if "group_protocol" in protocol:
            await again.stop()
            await other.stop()
            return
        double = Worker(world, static("first"))
        with pytest.raises(FencedInstanceIdException):
            await again._task
        await until(world, lambda: double.consumer.assignment() == owned, "the newest has them")
        for worker in (double, other):
            await worker.stop()

    told(story)


def test_a_listener_seeks_before_the_first_record() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])
        async with world.consumer(group_id="g", auto_offset_reset="none") as consumer:

            def assigned(given: Any) -> None:
                for one in given:
                    consumer.seek(one, 6)

            consumer.subscribe(["t"], on_assign=assigned)
            assert values(await take(consumer, 4)) == [b"6", b"7", b"8", b"9"]

    told(story)


def test_enforcing_a_rebalance_begins_a_new_generation() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        async with world.consumer(group_id="g") as consumer:
            consumer.subscribe(re.compile("t"))
            while not consumer.assignment():
                await consumer.poll(100)
            generation = consumer.group_metadata().generation_id
            consumer.enforce_rebalance("to see it")
            await until_generation(consumer, generation + 1)

    told(story)


async def until_generation(consumer: AsyncConsumer, wanted: int) -> None:
    for _ in range(1_000):
        await consumer.poll(50)
        if consumer.group_metadata().generation_id == wanted:
            return
    raise AssertionError(f"it is still {consumer.group_metadata()}")
