"""What a consumer stores of its positions: when, which, in which order, and what becomes of a commit that fails.

Method: the real broker and the real consumer in a simulation, so that an interval of five seconds takes no time and a broker can
be stopped between two requests.
"""

import asyncio
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from semel.client.consumer.committing import Committing
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.settings import ConsumerConfig
from semel.client.values.consuming import OffsetAndMetadata
from semel.exceptions import (
    CommitFailedException,
    ConfigException,
    IllegalArgumentException,
    KafkaException,
    RetriableCommitFailedException,
    TimeoutException,
)
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told

T0 = TopicPartition("t", 0)


async def stored(world: ReadingWorld, group: str = "g") -> int | None:
    async with world.consumer(group_id=group, enable_auto_commit=False) as looking:
        found = (await looking.committed([T0]))[T0]
        return None if found is None else found.offset


async def joined(consumer: AsyncConsumer) -> None:
    while not consumer.assignment():
        await consumer.poll(100)


@pytest.mark.mission("CFG-22", "CFG-23", "OFF-08")
def test_positions_are_committed_at_the_interval_while_polling() -> None:
    assert ConsumerConfig.of(bootstrap_servers=ADDRESS, group_id="g").enable_auto_commit
    assert ConsumerConfig.of(bootstrap_servers=ADDRESS).auto_commit_interval_ms == 5_000
    for wrong in ("auto.commit", "auto.commit.commit"):
        with pytest.raises(ConfigException, match=r"did you mean enable\.auto\.commit\?"):
            ConsumerConfig.of({"bootstrap.servers": ADDRESS, wrong: "true"})

    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        clock = world.runtime.clock
        consumer = world.consumer(group_id="g")
        consumer.subscribe(["t"])
        await joined(consumer)
        began = clock.monotonic()
        times: dict[int, float] = {}
        for n in range(120):  # A record about every 100 ms, for more than 12 s.
            world.write("t", [b"%d" % n])
            assert len(await take(consumer, 1)) == 1
            await world.runtime.tasks.sleep(0.1)
            at = await stored(world)
            if at is not None:
                times.setdefault(at, clock.monotonic() - began)
        moments = list(times.values())
        gaps = [later - before for before, later in pairwise(moments)]
        assert len(gaps) == 2, times
        assert all(4.9 < gap < 5.3 for gap in gaps), f"every five seconds, not {times}"
        handed = list(times)
        assert all(40 < later - before < 55 for before, later in pairwise(handed))
        await consumer.close()
        assert await stored(world) == 120, "the rest is committed when the consumer is closed"

    told(story)


@pytest.mark.parametrize("mode", ["assign", "subscribe"])
def test_without_automatic_commits_only_the_user_s_are_stored(mode: str) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])
        async with world.consumer(group_id="g", enable_auto_commit=False) as consumer:
            if mode == "assign":
                consumer.assign([T0])
            else:
                consumer.subscribe(["t"])
            await take(consumer, 10)
            await world.runtime.tasks.sleep(20)
            await consumer.poll(100)
            assert (await consumer.committed([T0]))[T0] is None
            await consumer.commit({T0: OffsetAndMetadata(3, "half way", 0)})
            assert (await consumer.committed([T0]))[T0] == (3, "half way", 0)
            await consumer.commit({("t", 0): 4})
            assert await stored(world) == 4
            with pytest.raises(IllegalArgumentException, match="-1 is not an offset"):
                await consumer.commit({T0: -1})
        assert await stored(world) == 4

    told(story)


@pytest.mark.mission("OFF-11", "OFF-12", "R-18")
def test_an_asynchronous_commit_returns_at_once_and_is_told_once() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])
        heard: list[tuple[dict[TopicPartition, OffsetAndMetadata], Any]] = []
        async with world.consumer(group_id="g", enable_auto_commit=False, max_poll_records=2) as consumer:
            consumer.assign([T0])
            clock = world.runtime.clock
            for _ in range(5):
                await take(consumer, 2)
                before = clock.monotonic()
                consumer.commit_async(callback=lambda offsets, error: heard.append((offsets, error)))
                assert clock.monotonic() == before
            await consumer.commit({T0: 10})  # Waits for those before it; their callbacks are made inside.
            assert [offsets[T0].offset for offsets, _ in heard] == [2, 4, 6, 8, 10]
            assert all(error is None for _, error in heard)
            await consumer.poll(100)
            assert len(heard) == 5
            heard.clear()
            await world.broker.stop()
            consumer.commit_async({T0: 1}, lambda offsets, error: heard.append((offsets, error)))
            while not heard:
                await consumer.poll(100)
            ((offsets, error),) = heard
            assert offsets == {T0: OffsetAndMetadata(1)}
            assert isinstance(error, RetriableCommitFailedException), "no second attempt was made"
            await world.start()
        assert await stored(world) == 10
        assert len(heard) == 1

    told(story)


@pytest.mark.mission("OFF-10", "R-18")
def test_a_commit_that_is_waited_for_is_tried_until_it_succeeds_or_time_is_over() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        async with world.consumer(group_id="g", default_api_timeout_ms=20_000) as consumer:
            consumer.assign([T0])
            await consumer.commit({T0: 1})
            await world.broker.stop()
            clock = world.runtime.clock
            since = clock.monotonic()
            with pytest.raises(TimeoutException, match=r"Timeout of 20000ms expired before .* \{t-0: 2\}"):
                await consumer.commit({T0: 2})
            assert 18 < clock.monotonic() - since <= 20.1
            world.runtime.tasks.spawn(starting_after(world, 5), name="start again")
            await consumer.commit({T0: 3})
            assert await stored(world) == 3

    told(story)


async def starting_after(world: ReadingWorld, seconds: float) -> None:
    await world.runtime.tasks.sleep(seconds)
    await world.start()


@pytest.mark.mission("R-18")
def test_who_was_thrown_out_cannot_commit_and_hears_that_its_partitions_are_lost() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])
        events: list[str] = []
        consumer = world.consumer(group_id="g", enable_auto_commit=False, max_poll_interval_ms=10_000)
        consumer.subscribe(
            ["t"],
            on_assign=lambda partitions: events.append(f"assigned {len(partitions)}"),
            on_revoke=lambda partitions: events.append(f"revoked {len(partitions)}"),
            on_lost=lambda partitions: events.append(f"lost {len(partitions)}"),
        )
        await take(consumer, 10)
        await world.runtime.tasks.sleep(11)  # Longer than it may be silent.
        with pytest.raises(CommitFailedException, match="not a member of group g"):
            await consumer.commit()
        assert await stored(world) is None
        assert len(await take(consumer, 10)) == 10, "from what is committed: nothing"
        assert events == ["assigned 1", "lost 1", "assigned 1"]
        await consumer.commit()
        await consumer.close()
        assert events[3:] == ["revoked 1"]
        assert await stored(world) == 10

    told(story)


@pytest.mark.mission("OFF-13")
def test_async_in_the_loop_and_sync_at_the_end_leaves_nothing_to_read_again() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        total = 500
        seen: list[int] = []
        for run in range(5):
            consumer = world.consumer(group_id="g", enable_auto_commit=False, max_poll_records=7)
            consumer.subscribe(["t"])
            world.write("t", [b"x" for _ in range(total // 5)])
            try:
                while len(seen) < (run + 1) * total // 5:
                    seen += [record.offset for record in await consumer.poll(1_000)]
                    consumer.commit_async()
            finally:
                try:
                    await consumer.commit_sync()
                finally:
                    await consumer.close()
        assert seen == list(range(total))

    told(story)


def test_an_error_in_the_loop_leaves_the_record_uncommitted() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])

        async def work() -> None:
            async with world.consumer(group_id="g") as consumer:
                consumer.subscribe(["t"])
                async for record in consumer:
                    if record.offset == 4:
                        raise RuntimeError("it was not worked on")

        with pytest.raises(RuntimeError, match="not worked on"):
            await work()
        assert await stored(world) == 4

    told(story)


def test_a_listener_commits_while_its_partitions_go_and_its_error_is_heard() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        world.write("t", [b"%d" % n for n in range(10)])
        consumer = world.consumer(group_id="g", enable_auto_commit=False)

        async def revoked(partitions: Any) -> None:
            await consumer.commit({T0: 7})
            raise ValueError("on purpose")

        consumer.subscribe(["t"], on_revoke=revoked)
        await take(consumer, 10)
        with pytest.raises(KafkaException, match="User rebalance callback throws an error") as caught:
            await consumer.close()
        assert isinstance(caught.value.__cause__, ValueError)
        assert await stored(world) == 7

    told(story)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_poll_that_is_given_up_while_partitions_go_is_made_up_for_by_the_next(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Positions are stored before partitions go: whoever is cancelled then must still let them go."""
    held = False
    store = Committing.before_they_go

    async def held_once(self: Committing, partitions: Sequence[TopicPartition]) -> None:
        nonlocal held
        if not held:
            held = True
            await asyncio.Event().wait()
        await store(self, partitions)

    async def story(world: ReadingWorld) -> None:
        await world.topic("t", 2)
        settings = {"group_id": "g", "group_protocol": protocol}
        if protocol == "classic":
            settings["partition_assignment_strategy"] = "cooperative-sticky"
        first, second = world.consumer(**settings), world.consumer(**settings)
        first.subscribe(["t"])
        await joined(first)
        second.subscribe(["t"])
        monkeypatch.setattr(Committing, "before_they_go", held_once)
        given_up = 0
        since = world.runtime.clock.monotonic()
        while len(first.assignment()) != 1 or len(second.assignment()) != 1:
            try:
                async with asyncio.timeout(1):
                    await first.poll(100)
            except TimeoutError:
                given_up += 1
            await second.poll(100)
            assert world.runtime.clock.monotonic() - since < 60, (
                "the group waits for partitions nobody lets go"
            )
        assert given_up == 1
        await first.close()
        await second.close()

    told(story)
