"""A transaction is not committed without the positions of what was read for it.

Method: a consumer whose partitions go between the reading and the commit: lost in the background, or revoked inside a poll. The
real broker, consumer and producer in a simulation; which partitions count, by the chain alone.
"""

import pytest

from semel.client.chain import Chain
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.producer import AsyncProducer
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.exceptions import CommitFailedException
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told, values

IN = (TopicPartition("in", 0), TopicPartition("in", 1))
OUT = TopicPartition("out", 0)
_LEAVING = -1


async def begun(world: ReadingWorld) -> tuple[AsyncConsumer, AsyncProducer]:
    """A member that was handed two records of each partition, and a producer."""
    await world.topic("in", partitions=2)
    await world.topic("out")
    for index in range(2):
        world.write("in", [b"%d of %d" % (number, index) for number in range(2)], index)
    producer = AsyncProducer(bootstrap_servers=ADDRESS, transactional_id="chain", runtime=world.runtime)
    await producer.init_transactions()
    return member(world), producer


def member(world: ReadingWorld) -> AsyncConsumer:
    consumer = world.consumer(group_id="g", group_protocol="consumer", enable_auto_commit=False)
    consumer.subscribe(["in"])
    return consumer


async def thrown_out(world: ReadingWorld, consumer: AsyncConsumer) -> None:
    who = consumer.group_metadata()
    goodbye = ConsumerGroupHeartbeatRequest(group_id="g", member_id=who.member_id, member_epoch=_LEAVING)
    async with Cluster(world.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
        await cluster.send(goodbye)
    while consumer.assignment():
        await world.runtime.tasks.sleep(0.1)


async def passed_on(world: ReadingWorld) -> list[object]:
    """What those see who read what is committed."""
    async with world.consumer(isolation_level="read_committed") as reader:
        reader.assign([OUT])
        return sorted(values(await take(reader, 4))) + values(await reader.poll(1_000))


def test_what_was_read_of_lost_partitions_is_passed_on_once() -> None:
    """Nobody told the user: what the consumer has is nothing, and nothing is what there would be to store."""

    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world)
        is_first = True
        while not await world_has_all(consumer):
            records = await consumer.poll(1_000)
            try:
                async with producer.transaction(consumer):
                    for record in records:
                        await producer.send("out", record.value, partition=0)
                    if is_first and records:
                        await thrown_out(world, consumer)
            except CommitFailedException:
                assert is_first
                is_first = False
        assert not is_first, "it was refused once"
        assert await passed_on(world) == [b"0 of 0", b"0 of 1", b"1 of 0", b"1 of 1"]
        await consumer.close()
        await producer.close()

    told(story)


async def world_has_all(consumer: AsyncConsumer) -> bool:
    found = await consumer.committed(IN)
    return all(at is not None and at.offset == 2 for at in found.values())


def test_what_was_read_of_a_revoked_partition_is_passed_on_once() -> None:
    """It went inside of the block, in a poll for more."""

    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world)
        other = member(world)

        async def polls_for_more() -> None:
            async with producer.transaction(consumer):
                for record in await take(consumer, 4):
                    await producer.send("out", record.value, partition=0)
                while len(consumer.assignment()) == 2:
                    await other.poll(100)
                    await consumer.poll(100)

        with pytest.raises(CommitFailedException, match="somebody else's"):
            await polls_for_more()
        for one in (consumer, other):
            async with producer.transaction(one):
                for record in await take(one, 2):
                    await producer.send("out", record.value, partition=0)
        assert await passed_on(world) == [b"0 of 0", b"0 of 1", b"1 of 0", b"1 of 1"]
        for one in (consumer, other):
            await one.close()
        await producer.close()

    told(story)


def torn(chain: Chain) -> bool:
    return chain.is_torn


def test_only_what_was_handed_out_since_the_last_transaction_tears_a_chain() -> None:
    chain = Chain("g", auto_commits=False, reads_committed=True)
    chain.gone(IN)
    assert not torn(chain), "nothing was read of them"
    chain.handed_out(IN)
    chain.ended()
    chain.gone(IN[:1])
    assert not torn(chain), "that was stored, or aborted"
    chain.handed_out(IN)
    chain.gone(IN[1:])
    assert torn(chain)
    chain.rewound()
    assert not torn(chain), "it comes again"
