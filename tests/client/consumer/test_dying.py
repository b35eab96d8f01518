"""A consumer dies between what it did and what it stored: the next owner repeats exactly that; inside a transaction it shows once.

Method: the real broker, consumer and producer in a simulation; a worker's host is killed after an exact record.
"""

import asyncio
from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.producer import AsyncProducer
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.client.reading_kit import ADDRESS, ReadingWorld, take, told, values

COUNT, COMMITTED, DONE = 20, 5, 12
SESSION_MS = 6_000


def consumer(runtime: Runtime, name: str) -> AsyncConsumer:
    settings: dict[str, Any] = {
        "bootstrap_servers": ADDRESS,
        "client_id": name,
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "max_poll_records": 1,
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 500,
    }
    return AsyncConsumer(settings, runtime=runtime)


@pytest.mark.parametrize("transactional", [False, True], ids=["plain", "transactional"])
@pytest.mark.mission("OFF-18")
def test_the_next_owner_repeats_what_was_done_and_not_stored(transactional: bool) -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("in")
        await world.topic("out")
        world.write("in", [b"%d" % n for n in range(COUNT)])
        done: dict[str, list[int]] = {"first": [], "second": []}
        reached = asyncio.Event()

        async def work(runtime: Runtime, name: str) -> None:
            reader = consumer(runtime, name)
            reader.subscribe(["in"])
            settings: dict[str, Any] = {"bootstrap_servers": ADDRESS, "client_id": f"{name}-p"}
            if transactional:
                settings["transactional_id"] = "worker"
            producer = AsyncProducer(settings, runtime=runtime)
            if transactional:
                await producer.init_transactions()
            handled: list[int] = []
            while True:
                for record in await reader.poll(500):
                    if transactional and not handled:
                        await producer.begin_transaction()
                    await (await producer.send("out", value=record.value))
                    handled.append(record.offset)
                    done[name].append(record.offset)
                    end = len(done[name]) if name == "first" else record.offset + 1
                    if name == "first" and end == DONE:
                        reached.set()
                        await asyncio.get_running_loop().create_future()  # It dies here.
                    if end in (COMMITTED, COUNT):
                        stored: dict[Any, int] = {TopicPartition("in", 0): record.offset + 1}
                        if transactional:
                            await producer.send_offsets_to_transaction(stored, reader.group_metadata())
                            await producer.commit_transaction()
                        else:
                            await reader.commit(stored)
                        handled.clear()

        first = world.simulation.host("first")
        first.start(lambda runtime: work(runtime, "first"))
        await reached.wait()
        first.kill()
        world.simulation.host("second").start(lambda runtime: work(runtime, "second"))
        while not done["second"] or done["second"][-1] != COUNT - 1:
            await world.runtime.tasks.sleep(0.5)
        await world.runtime.tasks.sleep(5)
        assert done["first"] == list(range(DONE))
        assert done["second"] == list(range(COMMITTED, COUNT)), "from what was stored: o1 to o2 again"
        repeated = [b"%d" % n for n in range(COMMITTED, DONE)]
        async with world.consumer() as looking:
            looking.assign([("out", 0)])
            everything = [b"%d" % n for n in range(COUNT)]
            if transactional:
                assert values(await take(looking, COUNT)) == everything, "each once"
            else:
                shown = values(await take(looking, COUNT + len(repeated)))
                assert shown == everything[:DONE] + repeated + everything[DONE:], "the overlap twice"
            assert not await looking.poll(2_000)
        world.simulation.host("second").kill()

    told(story)
