"""Commits that nobody waits for, and partitions that go meanwhile: they are stored before, in order, or not at all.

Method: the real broker and real consumers in a simulation; a commit is held on its way, so that those behind it wait for their
turn while the group moves a partition to another member.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from semel.client.consumer import engine
from semel.client.consumer.consumer import AsyncConsumer
from semel.core.groups.member_words import Identity
from semel.exceptions import CommitFailedException
from semel.types import TopicPartition
from support.client.reading_kit import ReadingWorld, take, told

PARTITIONS = T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


def member(world: ReadingWorld, protocol: str) -> AsyncConsumer:
    how = {"partition_assignment_strategy": "cooperative-sticky"} if protocol == "classic" else {}
    return world.consumer(group_id="g", group_protocol=protocol, enable_auto_commit=False, **how)


async def reading(world: ReadingWorld, protocol: str) -> AsyncConsumer:
    """The only member of its group, that was handed ten records of each partition."""
    await world.topic("t", partitions=2)
    for index in range(2):
        world.write("t", [b"%d" % n for n in range(10)], index)
    consumer = member(world, protocol)
    consumer.subscribe(["t"])
    await take(consumer, 20)
    return consumer


class Held:
    """Commits of one consumer wait on their way until they may go on."""

    def __init__(self, consumer: AsyncConsumer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.may_go_on = asyncio.Event()
        offsets = consumer._engine.committing.group_offsets
        send = offsets.commit

        async def held(stored: Mapping[TopicPartition, Any], identity: Identity) -> None:
            await self.may_go_on.wait()
            await send(stored, identity)

        monkeypatch.setattr(offsets, "commit", held)


async def stored(consumer: AsyncConsumer, where: TopicPartition) -> int | None:
    found = (await consumer.committed([where]))[where]
    return None if found is None else found.offset


async def takes_over(old: AsyncConsumer, new: AsyncConsumer) -> TopicPartition:
    """Another member joins and is handed records; which partition it has."""
    new.subscribe(["t"])
    handed_out = 0
    while not handed_out:
        await old.poll(100)
        handed_out = len(await new.poll(100))
    return next(iter(new.assignment()))


@PROTOCOLS
def test_what_was_asked_for_is_stored_before_the_partition_goes(protocol: str) -> None:
    async def story(world: ReadingWorld) -> None:
        old, new = await reading(world, protocol), member(world, protocol)
        asked = dict.fromkeys(PARTITIONS, 10)

        def revoked(_partitions: object) -> None:
            old.commit_async(asked)

        old.subscribe(["t"], on_revoke=revoked)
        new.subscribe(["t"])
        while not new.assignment():
            assert not await new.poll(100), "all of it was read and stored"
            await old.poll(100)
        assert {at.offset for at in (await new.committed(PARTITIONS)).values() if at} == {10}
        await old.close()
        await new.close()

    told(story)


@PROTOCOLS
def test_what_was_not_stored_in_time_does_not_follow(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "LAST_MS", 1_000)

    async def story(world: ReadingWorld) -> None:
        old, new = await reading(world, protocol), member(world, protocol)
        held, failures = Held(old, monkeypatch), list[object]()
        for _ in range(2):
            old.commit_async(dict.fromkeys(PARTITIONS, 5), lambda _offsets, failed: failures.append(failed))
        moved = await takes_over(old, new)
        await new.commit({moved: 10})
        held.may_go_on.set()
        while len(failures) < 2:
            await old.poll(100)
        assert isinstance(failures[1], CommitFailedException), "it was not sent before the partition went"
        assert await stored(new, moved) == 10, "its new owner's position stands"
        await old.close()
        await new.close()

    told(story)


@PROTOCOLS
def test_closing_waits_for_what_was_just_asked_for(protocol: str) -> None:
    async def story(world: ReadingWorld) -> None:
        consumer = await reading(world, protocol)
        consumer.commit_async({T0: 10})
        await consumer.close()
        other = world.consumer(group_id="g")
        assert await stored(other, T0) == 10
        await other.close()

    told(story)


def test_a_later_commit_does_not_overtake_an_earlier_one() -> None:
    """The first has not even begun to run when the second is asked for."""

    async def story(world: ReadingWorld) -> None:
        consumer = await reading(world, "consumer")
        consumer.commit_async({T0: 5})
        await consumer._engine.committing.commits.store({T0: consumer.consumed()[T0]}, timeout_ms=10_000)
        await consumer._engine.committing.commits.until_idle()
        assert await stored(consumer, T0) == 10
        await consumer.close()

    told(story)
