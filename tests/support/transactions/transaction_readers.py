"""Readers of one partition behind one face: where it ends for them, as the client itself says, and every record before.

A driver adds nothing: which records are left out is the client's own doing.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import aiokafka
import confluent_kafka
import kafka

import semel
from support.transactions.transaction_clients import DEADLINE_SECONDS

_WAIT_MS: Final = 100


class Seen(NamedTuple):
    """What one kind of reader has of a partition."""

    end_offset: int
    values: list[bytes]


Read = Callable[[str, str, int, bool], Seen]
"""Bootstrap, topic, partition, and whether only committed records are to be seen."""


def _isolation(committed: bool) -> str:
    return "read_committed" if committed else "read_uncommitted"


def with_confluent_kafka(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
    consumer = confluent_kafka.Consumer(
        {
            "log_level": 0,
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": _isolation(committed),
        }
    )
    values: list[bytes] = []
    try:
        place = confluent_kafka.TopicPartition(topic, partition, 0)
        _first, end = consumer.get_watermark_offsets(place, timeout=DEADLINE_SECONDS)
        consumer.assign([place])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (position := consumer.position([place])[0].offset) < end:
            assert time.monotonic() < deadline, f"stands at {position} of {end}"
            message = consumer.poll(_WAIT_MS / 1000)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value() or b"")
    finally:
        consumer.close()
    return Seen(end, values)


def with_kafka_python(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, isolation_level=_isolation(committed))
    values: list[bytes] = []
    try:
        place = kafka.TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, 0)
        end = int(consumer.end_offsets([place])[place])
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (position := consumer.position(place)) < end:
            assert time.monotonic() < deadline, f"stands at {position} of {end}"
            for records in consumer.poll(timeout_ms=_WAIT_MS).values():
                values += [record.value for record in records]
    finally:
        consumer.close()
    return Seen(end, values)


def with_aiokafka(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
    async def main() -> Seen:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap, isolation_level=_isolation(committed)
        )
        values: list[bytes] = []
        await consumer.start()
        try:
            place = aiokafka.TopicPartition(topic, partition)
            consumer.assign([place])
            consumer.seek(place, 0)
            end = int((await consumer.end_offsets([place]))[place])
            deadline = time.monotonic() + DEADLINE_SECONDS
            while (position := await consumer.position(place)) < end:
                assert time.monotonic() < deadline, f"stands at {position} of {end}"
                for records in (await consumer.getmany(place, timeout_ms=_WAIT_MS)).values():
                    values += [record.value for record in records]
        finally:
            await consumer.stop()
        return Seen(end, values)

    return asyncio.run(main())


def with_semel(bootstrap: str, topic: str, partition: int, committed: bool) -> Seen:
    values: list[bytes] = []
    with semel.Consumer(bootstrap_servers=bootstrap, isolation_level=_isolation(committed)) as consumer:
        place = semel.TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, 0)
        end = consumer.end_offsets([place])[place]
        deadline = time.monotonic() + DEADLINE_SECONDS
        while (position := consumer.position(place)) < end:
            assert time.monotonic() < deadline, f"stands at {position} of {end}"
            values += [record.value or b"" for record in consumer.poll(timeout_ms=_WAIT_MS)]
    return Seen(end, values)


READERS: Final[dict[str, Read]] = {
    "confluent-kafka": with_confluent_kafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "semel": with_semel,
}
