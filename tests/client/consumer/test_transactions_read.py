"""Readers of committed records see exactly what was committed, in the order of the log, and hold nothing back in memory.

Method: the real broker and the real consumer in a simulation; transactions are written straight into the log, thousands of them and
many at a time; the reference is the list of what was committed.
"""

import random
from typing import Any

import pytest

from semel.types import TopicPartition
from support.client.reading_kit import ReadingWorld, take, told, values

T0 = TopicPartition("t", 0)


@pytest.mark.mission("READ-02")
def test_ten_thousand_mixed_transactions_are_read_as_the_model_says() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        dice = random.Random(7)
        log: list[tuple[bytes, int | None]] = []  # Value, and the transaction it belongs to.
        fates: dict[int, bool] = {}
        open_ones: dict[int, tuple[int, int]] = {}  # Producer: its transaction, and its next sequence.
        sequences: dict[int, int] = {}
        begun = 0
        while len(fates) < 10_000:
            step = dice.random()
            producer = dice.randint(100, 140)
            if step < 0.08:
                value = b"plain-%d" % len(log)
                world.write("t", [value])
                log.append((value, None))
            elif producer not in open_ones or step < 0.4:
                if producer not in open_ones:
                    open_ones[producer] = (begun, 0)
                    begun += 1
                transaction, _ = open_ones[producer]
                value = b"%d-%d" % (transaction, len(log))
                sequence = sequences.get(producer, 0)
                world.write(
                    "t",
                    [value],
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequence,
                    transactional=True,
                )
                sequences[producer] = sequence + 1
                log.append((value, transaction))
            else:
                transaction, _ = open_ones.pop(producer)
                fates[transaction] = dice.random() < 0.6
                world.end("t", producer, commit=fates[transaction])
        for producer, (transaction, _) in sorted(open_ones.items()):
            fates[transaction] = True
            world.end("t", producer, commit=True)
        model = [value for value, transaction in log if transaction is None or fates[transaction]]
        everything = [value for value, _ in log]

        async def columns(**settings: Any) -> list[Any]:
            async with world.consumer(**settings) as consumer:
                consumer.assign([T0])
                end = (await consumer.end_offsets([T0]))[T0]
                found: list[Any] = []
                while await consumer.position(T0) < end:
                    found += (await consumer.poll_arrow(1_000)).column("value").to_pylist()
                return found

        assert await columns() == model
        assert await columns(max_partition_fetch_bytes=5_000) == model, "in small pieces too"
        assert await columns(isolation_level="read_uncommitted") == everything

    told(story)


@pytest.mark.mission("READ-04", "READ-15", "READ-14")
def test_an_open_transaction_holds_back_what_follows_and_costs_the_client_nothing() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")

        def write(producer: int, value: bytes, sequence: int) -> None:
            world.write(
                "t",
                [value],
                producer_id=producer,
                producer_epoch=0,
                base_sequence=sequence,
                transactional=True,
            )

        async with world.consumer() as committed, world.consumer(isolation_level="read_uncommitted") as dirty:
            for consumer in (committed, dirty):
                consumer.assign([T0])
            write(1, b"T1-M1", 0)
            assert values(await take(dirty, 1)) == [b"T1-M1"], "seen before anybody knows how it ends"
            write(2, b"T2-M1", 0)
            write(1, b"T1-M2", 1)
            world.write("t", [b"M1"])
            world.end("t", 2, commit=True)
            for _ in range(600):  # Ten minutes.
                world.write("t", [b"x" * 10_000])
                assert not await committed.poll(1_000)
                assert committed._engine._buffer.size_bytes == 0
                assert await committed.position(T0) == 0
            assert values(await take(dirty, 3))[:3] == [b"T2-M1", b"T1-M2", b"M1"]
            world.end("t", 1, commit=True)
            assert values(await take(committed, 4))[:4] == [b"T1-M1", b"T2-M1", b"T1-M2", b"M1"]

    told(story)
