"""What is given in a transaction belongs to it, also if it has to wait: it does not slip into the next one, nor get lost on the way.

Method: the real broker and producer in a simulation; what a call waits for is held until the story goes on.
"""

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from semel.client.producer.producer import AsyncProducer
from semel.exceptions import IllegalStateException, TimeoutException
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told, values

OUT = TopicPartition("out", 0)


async def begun(world: ReadingWorld, **settings: Any) -> AsyncProducer:
    await world.topic("out")
    producer = AsyncProducer(
        bootstrap_servers=ADDRESS, transactional_id="belonging", runtime=world.runtime, **settings
    )
    await producer.init_transactions()
    await producer.begin_transaction()
    return producer


def ready(producer: AsyncProducer) -> bool:
    return producer.is_ready


@pytest.mark.parametrize("kind", ["record", "arrow"])
def test_what_waited_for_its_topic_does_not_slip_into_the_next_transaction(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: ReadingWorld) -> None:
        producer = await begun(world)
        is_waiting, may_go_on = asyncio.Event(), asyncio.Event()
        fetch = producer._engine.topics.fetch

        async def held(*given: Any) -> Any:
            is_waiting.set()
            await may_go_on.wait()
            return await fetch(*given)

        with monkeypatch.context() as patched:
            patched.setattr(producer._engine.topics, "fetch", held)
            sent = asyncio.ensure_future(
                producer.send("out", b"of the first", partition=0)
                if kind == "record"
                else producer.send_arrow("out", pa.table({"value": [b"of the first"]}))
            )
            await is_waiting.wait()
            await producer.commit_transaction()
            await producer.begin_transaction()
            may_go_on.set()
            with pytest.raises(IllegalStateException, match="ended while the record waited"):
                await sent
        if kind == "arrow":
            await producer.abort_transaction()
            await producer.begin_transaction()
        await producer.send("out", b"of the second", partition=0)
        await producer.commit_transaction()
        await producer.close()
        async with world.consumer() as reader:
            reader.assign([OUT])
            assert values(await take(reader, 1)) == [b"of the second"]

    told(story)


def test_other_offsets_than_those_on_their_way_are_stored_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call waited in vain, and the application has read on before it makes the next."""

    async def story(world: ReadingWorld) -> None:
        producer = await begun(world, max_block_ms=1_000)
        assert producer._engine.transactions is not None
        may_go_on = asyncio.Event()
        coordinator = producer._engine.transactions._coordinators.of

        async def held(*given: Any) -> Any:
            await may_go_on.wait()
            return await coordinator(*given)

        monkeypatch.setattr(producer._engine.transactions._coordinators, "of", held)
        for _ in range(2):
            with pytest.raises(TimeoutException, match="while awaiting send_offsets_to_transaction"):
                await producer.send_offsets_to_transaction({OUT: 1}, "g")
        may_go_on.set()
        await producer.send_offsets_to_transaction({OUT: 2}, "g")
        await producer.commit_transaction()
        assert producer.is_ready
        await producer.close()
        async with world.consumer(group_id="g") as reader:
            found = (await reader.committed([OUT]))[OUT]
            assert found is not None
            assert found.offset == 2

    told(story)


def test_a_producer_whose_commit_was_given_up_on_is_not_ready() -> None:
    """It is committed by now, but nobody has heard: who begins another would be told to make that call again."""

    async def story(world: ReadingWorld) -> None:
        producer = await begun(world)
        await producer.send("out", b"stored", partition=0)
        commit = asyncio.ensure_future(producer.commit_transaction())
        await asyncio.sleep(0)
        commit.cancel()
        await world.runtime.tasks.sleep(5)
        assert not ready(producer)
        await producer.commit_transaction()
        assert ready(producer)
        await producer.close()

    told(story)
