"""A consumer and a producer in a chain: positions go with the transaction, and whatever works against that is said.

Method: the real broker, consumer and producer in a simulation; warnings are read from the log.
"""

import logging
import pickle
from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.producer import AsyncProducer
from semel.client.values.consuming import ConsumerGroupMetadata
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told, values

IN = TopicPartition("in", 0)
OUT = TopicPartition("out", 0)


async def begun(world: ReadingWorld, **settings: Any) -> tuple[AsyncConsumer, AsyncProducer]:
    """A consumer that has read four records, and a producer; both topics are there."""
    await world.topic("in")
    await world.topic("out")
    world.write("in", [b"%d" % number for number in range(4)])
    producer = AsyncProducer(bootstrap_servers=ADDRESS, transactional_id="chain", runtime=world.runtime)
    await producer.init_transactions()
    consumer = world.consumer(group_id="g", **{"enable_auto_commit": False, **settings})
    consumer.assign([IN])
    assert len(await take(consumer, 4)) == 4
    return consumer, producer


async def fails_on_the_way(producer: AsyncProducer, consumer: AsyncConsumer) -> None:
    async with producer.transaction(consumer):
        await producer.send("out", b"lost", partition=0)
        raise RuntimeError("on the way")


async def passed_on(world: ReadingWorld, count: int) -> list[Any]:
    async with world.consumer() as reader:
        reader.assign([OUT])
        return values(await take(reader, count))


@pytest.mark.mission("TXN-12")
def test_a_transaction_with_a_consumer_takes_its_positions_along_and_goes_back_after_an_abort(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world, isolation_level="read_uncommitted")
        with pytest.raises(RuntimeError, match="on the way"):
            await fails_on_the_way(producer, consumer)
        assert consumer.config["isolation.level"] == "read_committed", "the block has set it"
        again = await take(consumer, 4)
        assert values(again) == [b"0", b"1", b"2", b"3"], "nothing of it was committed"
        async with producer.transaction(consumer):
            for record in again:
                await producer.send("out", record.value, partition=0)
        assert (await consumer.committed([IN]))[IN] == (4, "", 0)
        assert await passed_on(world, 4) == [b"0", b"1", b"2", b"3"]

        world.transact("in", 77, [b"aborted"], commit=False)
        world.write("in", [b"5"])
        assert values(await take(consumer, 1)) == [b"5"], "what was aborted is not read"
        await consumer.close()
        await producer.close()

    with caplog.at_level(logging.WARNING, "semel.client.chain"):
        told(story)
    assert not caplog.records


@pytest.mark.mission("TXN-12", "R-22")
def test_a_chain_that_reads_what_is_not_committed_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world, isolation_level="read_uncommitted")
        for _ in range(2):
            async with producer.transaction():
                await producer.send_offsets_to_transaction({IN: 4}, consumer.group_metadata())
        await consumer.close()
        await producer.close()

    with caplog.at_level(logging.WARNING, "semel.client.chain"):
        told(story)
    (warning,) = (one.getMessage() for one in caplog.records)
    assert warning.startswith("group g is part of transactions, and its consumer reads what is not committed")
    assert warning.endswith("set isolation.level=read_committed")


@pytest.mark.mission("TXN-10")
@pytest.mark.parametrize("way", ["automatically", "sync", "async"])
def test_a_consumer_that_commits_beside_the_transaction_is_warned_about(
    caplog: pytest.LogCaptureFixture, way: str
) -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world, enable_auto_commit=way == "automatically")
        await consumer.commit({IN: 1})  # Before there is a transaction it is its own business.
        async with producer.transaction():
            await producer.send_offsets_to_transaction({IN: 2}, consumer.group_metadata())
        assert way == "automatically" or not caplog.records
        if way != "automatically":
            await consumer.commit({IN: 2})  # And between transactions.
            assert not caplog.records
        for _ in range(2):
            await producer.begin_transaction()
            if way == "sync":
                await consumer.commit({IN: 3})
            elif way == "async":
                consumer.commit_async({IN: 3})
            await producer.send_offsets_to_transaction({IN: 4}, consumer.group_metadata())
            await producer.commit_transaction()
        await consumer.close()
        await producer.close()

    with caplog.at_level(logging.WARNING, "semel.client.chain"):
        told(story)
    (warning,) = (one.getMessage() for one in caplog.records)
    how = "commits automatically too" if way == "automatically" else "commits by hand within a transaction"
    assert warning.startswith(f"group g is part of transactions, and its consumer {how}")


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_positions_that_are_still_to_be_checked_go_along(isolation: str) -> None:
    """The leader is new, or the block has set another isolation: what was read is to be found in the log again first."""

    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world, isolation_level=isolation)
        async with producer.transaction(consumer):
            consumer._engine.subscription.led_under(IN, 1)
            assert consumer._engine.subscription.unchecked()
        assert (await consumer.committed([IN]))[IN] == (4, "", 0)
        await consumer.close()
        await producer.close()

    told(story)


def test_who_a_consumer_is_travels_as_a_plain_value() -> None:
    async def story(world: ReadingWorld) -> None:
        consumer, producer = await begun(world)
        copy = pickle.loads(pickle.dumps(consumer.group_metadata()))
        assert type(copy) is ConsumerGroupMetadata
        assert copy == consumer.group_metadata()
        await consumer.close()
        await producer.close()

    told(story)
