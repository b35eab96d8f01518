"""A member of a KIP-848 group that is thrown out and back in before its user polls: what it was handed is somebody else's by then.

Method: the real broker and the real consumer in a simulation; somebody says goodbye in the member's name, which is what the
coordinator does itself when a session is over. The member is in again with its next heartbeat, under a new epoch that the
coordinator would take commits from.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.consumer.coordinator import GroupOffsets
from semel.client.producer.producer import AsyncProducer
from semel.client.values.consuming import ConsumerGroupMetadata
from semel.core.groups.member_words import Identity
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.exceptions import CommitFailedException, KafkaException
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told

T0 = TopicPartition("t", 0)
_LEAVING = -1


async def reading(world: ReadingWorld) -> tuple[AsyncConsumer, list[str]]:
    """A member that was handed ten records and stored nothing, and what its user hears."""
    await world.topic("t")
    world.write("t", [b"%d" % n for n in range(10)])
    heard: list[str] = []
    consumer = world.consumer(group_id="g", group_protocol="consumer", enable_auto_commit=False)
    consumer.subscribe(
        ["t"],
        on_assign=lambda partitions: heard.append(f"assigned {len(partitions)}"),
        on_lost=lambda partitions: heard.append(f"lost {len(partitions)}"),
    )
    await take(consumer, 10)
    return consumer, heard


async def thrown_out(world: ReadingWorld, consumer: AsyncConsumer) -> None:
    who = consumer.group_metadata()
    goodbye = ConsumerGroupHeartbeatRequest(group_id="g", member_id=who.member_id, member_epoch=_LEAVING)
    async with Cluster(world.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
        answer = await cluster.send(goodbye)
    assert answer.error_code == 0


async def in_again(world: ReadingWorld, consumer: AsyncConsumer) -> None:
    while consumer.assignment():
        await world.runtime.tasks.sleep(0.1)
    while not await world.members("g"):
        await world.runtime.tasks.sleep(0.1)
    await world.runtime.tasks.sleep(1)  # The answer to its join arrives.


async def stored_by_transaction(world: ReadingWorld, who: ConsumerGroupMetadata) -> type[Exception] | None:
    """What comes of a transaction that stores the position behind what was handed out."""
    async with AsyncProducer(
        {"bootstrap.servers": ADDRESS, "transactional.id": "copies"}, runtime=world.runtime
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        try:
            await producer.send_offsets_to_transaction({T0: 10}, who)
        except KafkaException as refused:
            await producer.abort_transaction()
            return type(refused)
        await producer.commit_transaction()
        return None


async def goes_on(consumer: AsyncConsumer, heard: list[str]) -> None:
    """The user hears of it, gets everything again, and stores it."""
    assert heard == ["assigned 1"]
    assert len(await take(consumer, 10)) == 10, "from what is committed: nothing"
    assert heard == ["assigned 1", "lost 1", "assigned 1"]
    assert consumer.group_metadata().generation_id > 0
    await consumer.commit()
    assert await consumer.committed([T0]) != {T0: None}
    await consumer.close()


def test_nothing_is_stored_in_its_name_until_the_user_has_heard() -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, heard = await reading(world)
        await thrown_out(world, consumer)
        await in_again(world, consumer)
        stale = consumer.group_metadata()
        assert await stored_by_transaction(world, stale) is CommitFailedException
        with pytest.raises(CommitFailedException, match="somebody else's"):
            await consumer.commit({T0: 10})
        assert await consumer.committed([T0]) == {T0: None}
        await goes_on(consumer, heard)
        assert not await world.members("g")
        assert await stored_by_transaction(world, stale) is CommitFailedException, (
            "an empty group refuses it, too"
        )

    told(story)


def test_what_the_listener_stores_is_refused_while_it_hears_of_the_loss() -> None:
    """Without `on_lost` a loss is told to `on_revoke`, and that is where users store positions."""

    async def story(world: ReadingWorld) -> None:
        consumer, _ = await reading(world)
        failures: list[KafkaException] = []

        async def revoked(_partitions: object) -> None:
            with pytest.raises(CommitFailedException, match="somebody else's") as refused:
                await consumer.commit({T0: 10})
            failures.append(refused.value)

        consumer.subscribe(["t"], on_revoke=revoked)
        await thrown_out(world, consumer)
        await in_again(world, consumer)
        while not failures:
            await consumer.poll(100)
        assert await consumer.committed([T0]) == {T0: None}
        consumer.subscribe(["t"])  # It closes without a word.
        await consumer.close()

    told(story)


def test_a_commit_that_had_to_wait_is_not_made_under_the_new_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was asked for before the loss; by its turn the user has heard of it, and has the partition again."""
    first_may_end = asyncio.Event()
    send = GroupOffsets.commit

    async def held(self: GroupOffsets, offsets: Mapping[TopicPartition, Any], identity: Identity) -> None:
        if not first_may_end.is_set():
            await first_may_end.wait()
        await send(self, offsets, identity)

    async def story(world: ReadingWorld) -> None:
        consumer, heard = await reading(world)
        monkeypatch.setattr(GroupOffsets, "commit", held)
        failures: list[object] = []
        for offset in (5, 10):
            consumer.commit_async({T0: offset}, lambda _offsets, failed: failures.append(failed))
        await thrown_out(world, consumer)
        await in_again(world, consumer)
        while len(heard) < 3:
            await consumer.poll(100)
        first_may_end.set()
        while len(failures) < 2:
            await consumer.poll(100)
        assert [type(one) for one in failures] == [CommitFailedException] * 2
        assert await consumer.committed([T0]) == {T0: None}
        await consumer.close()

    told(story)


def test_a_commit_under_way_is_not_tried_again_under_the_new_epoch() -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, heard = await reading(world)
        await thrown_out(world, consumer)
        await world.broker.stop()
        commit = asyncio.ensure_future(consumer.commit({T0: 10}))
        await world.runtime.tasks.sleep(10)
        await world.start()
        with pytest.raises(CommitFailedException, match="somebody else's"):
            await commit
        assert await consumer.committed([T0]) == {T0: None}
        await in_again(world, consumer)
        await goes_on(consumer, heard)

    told(story)
