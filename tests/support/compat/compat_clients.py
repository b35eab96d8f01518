"""Clients written elsewhere, behind one face: the same stories are told with each of them.

A driver says how its client is asked for what a test wants and turns what the client gives into `Got`. It adds nothing:
retries, sequences, sessions and codecs are the client's own. `lossy` makes a client impatient, so that a test over a
broken link is short; it changes no guarantee.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import aiokafka
import confluent_kafka
import kafka
import kafka.codec

from support.compat.compat_kit import CODECS, Got, Sent

DEADLINE_SECONDS: Final = 60
_SILENT: Final = {"log_level": 0}


class ClientError(Exception):
    """The client reported a failure; the text is its own."""


class Sending(NamedTuple):
    """How records are to be sent."""

    codec: str
    idempotent: bool
    lossy: bool
    batch_bytes: int


class Client(ABC):
    """What every client can do."""

    name: ClassVar[str]
    codecs: ClassVar[Sequence[str]] = CODECS
    outwaits_silence: ClassVar[bool] = True
    """Whether it sends again what was not answered in time, instead of giving it up at the same moment."""
    all_nulls: ClassVar[bool] = True
    """Whether it sends headers without a value, and records with neither key nor value."""

    def produce(
        self,
        bootstrap: str,
        topic: str,
        records: Sequence[Sent],
        *,
        codec: str = "none",
        idempotent: bool = True,
        lossy: bool = False,
        batch_bytes: int = 16384,
    ) -> list[int]:
        """Send everything; the offsets the client was told. Raises `ClientError` if one was not delivered."""
        return self._send(bootstrap, topic, records, Sending(codec, idempotent, lossy, batch_bytes))

    @abstractmethod
    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        """As `produce`."""

    @abstractmethod
    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        """Assign, seek, and read that many."""

    @abstractmethod
    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        """Where the log begins and ends."""

    @abstractmethod
    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        """The first offset at or after a time."""


class ConfluentKafka(Client):
    """librdkafka, through confluent-kafka."""

    name = "confluent-kafka"

    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        settings: dict[str, Any] = {
            **_SILENT,
            "bootstrap.servers": bootstrap,
            "enable.idempotence": sending.idempotent,
            "compression.type": sending.codec,
            "linger.ms": 1,
            "batch.size": sending.batch_bytes,
            "message.max.bytes": 2_000_000,
        }
        if sending.lossy:
            settings |= {
                "reconnect.backoff.ms": 1,
                "reconnect.backoff.max.ms": 20,
                "retry.backoff.ms": 1,
                "retry.backoff.max.ms": 20,
                "socket.timeout.ms": 1000,
            }
        producer = confluent_kafka.Producer(settings)
        offsets = [-1] * len(records)
        failures: list[str] = []

        def delivered(index: int) -> Any:
            def done(error: Any, message: Any) -> None:
                if error is not None:
                    failures.append(str(error))
                else:
                    offsets[index] = message.offset()

            return done

        for index, record in enumerate(records):
            timed = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=record.partition,
                headers=list(record.headers),
                on_delivery=delivered(index),
                **timed,
            )
        left = producer.flush(DEADLINE_SECONDS)
        if left or failures:
            raise ClientError(f"{left} records left, {len(failures)} failed: {failures[:1]}")
        return offsets

    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        consumer = self._consumer(bootstrap)
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, first_offset)])
            got: list[Got] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(got) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(got), timeout=0.5):
                    if message.error() is not None:
                        raise ClientError(str(message.error()))
                    got.append(_from_confluent(message))
            return got
        finally:
            consumer.close()

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        consumer = self._consumer(bootstrap)
        try:
            place = confluent_kafka.TopicPartition(topic, partition)
            first, end = consumer.get_watermark_offsets(place, timeout=DEADLINE_SECONDS)
            return first, end
        finally:
            consumer.close()

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        consumer = self._consumer(bootstrap)
        try:
            asked = [confluent_kafka.TopicPartition(topic, partition, timestamp_ms)]
            [found] = consumer.offsets_for_times(asked, timeout=DEADLINE_SECONDS)
            if found.error is not None:
                raise ClientError(str(found.error))
            return None if found.offset < 0 else found.offset
        finally:
            consumer.close()

    def _consumer(self, bootstrap: str) -> Any:
        return confluent_kafka.Consumer(
            {**_SILENT, "bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        )


def _from_confluent(message: Any) -> Got:
    kind, timestamp = message.timestamp()
    return Got(
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
        timestamp,
        kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME,
    )


class KafkaPython(Client):
    """kafka-python."""

    name = "kafka-python"
    all_nulls = False
    codecs = tuple(codec for codec in CODECS if codec == "none" or getattr(kafka.codec, f"has_{codec}")())

    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        settings: dict[str, Any] = {}
        if sending.lossy:
            settings |= {
                "reconnect_backoff_ms": 1,
                "reconnect_backoff_max_ms": 20,
                "retry_backoff_ms": 1,
                "request_timeout_ms": 1000,
            }
        producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap,
            enable_idempotence=sending.idempotent,
            acks="all",
            max_in_flight_requests_per_connection=5,
            compression_type=None if sending.codec == "none" else sending.codec,
            linger_ms=1,
            batch_size=sending.batch_bytes,
            max_request_size=2_000_000,
            delivery_timeout_ms=DEADLINE_SECONDS * 1000,
            **settings,
        )
        try:
            futures = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [future.get(timeout=DEADLINE_SECONDS).offset for future in futures]
        except kafka.errors.KafkaError as error:
            raise ClientError(repr(error)) from error
        finally:
            producer.close(timeout=5)

    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        consumer, place = self._consumer(bootstrap, topic, partition)
        try:
            consumer.seek(place, first_offset)
            got: list[Got] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(got) < count and time.monotonic() < deadline:
                for records in consumer.poll(timeout_ms=500, max_records=count - len(got)).values():
                    got += [_from_python(record) for record in records]
            return got
        finally:
            consumer.close()

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        consumer, place = self._consumer(bootstrap, topic, partition)
        try:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        finally:
            consumer.close()

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        consumer, place = self._consumer(bootstrap, topic, partition)
        try:
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
            return None if found is None else found.offset
        finally:
            consumer.close()

    def _consumer(self, bootstrap: str, topic: str, partition: int) -> tuple[Any, Any]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, group_id=None)
        place = kafka.TopicPartition(topic, partition)
        consumer.assign([place])
        return consumer, place


class AioKafka(Client):
    """aiokafka."""

    name = "aiokafka"
    all_nulls = False
    outwaits_silence = False  # Its request timeout is the time a batch may live.

    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        async def send() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                enable_idempotence=sending.idempotent,
                acks="all",
                compression_type=None if sending.codec == "none" else sending.codec,
                linger_ms=1,
                max_batch_size=sending.batch_bytes,
                max_request_size=2_000_000,
                retry_backoff_ms=1 if sending.lossy else 100,
                request_timeout_ms=DEADLINE_SECONDS * 1000,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        headers=list(record.headers),
                        partition=record.partition,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                return [(await future).offset for future in futures]
            except aiokafka.errors.KafkaError as error:
                raise ClientError(repr(error)) from error
            finally:
                await producer.stop()

        return asyncio.run(send())

    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        async def fetch(consumer: Any, place: Any) -> list[Got]:
            consumer.seek(place, first_offset)
            got: list[Got] = []
            deadline = time.monotonic() + DEADLINE_SECONDS
            while len(got) < count and time.monotonic() < deadline:
                for records in (
                    await consumer.getmany(timeout_ms=500, max_records=count - len(got))
                ).values():
                    got += [_from_python(record) for record in records]
            return got

        found: list[Got] = asyncio.run(self._with_consumer(bootstrap, topic, partition, fetch))
        return found

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        async def ask(consumer: Any, place: Any) -> tuple[int, int]:
            first = await consumer.beginning_offsets([place])
            end = await consumer.end_offsets([place])
            return first[place], end[place]

        found: tuple[int, int] = asyncio.run(self._with_consumer(bootstrap, topic, partition, ask))
        return found

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        async def ask(consumer: Any, place: Any) -> int | None:
            found = (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            return None if found is None else found.offset

        found: int | None = asyncio.run(self._with_consumer(bootstrap, topic, partition, ask))
        return found

    async def _with_consumer(self, bootstrap: str, topic: str, partition: int, work: Any) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition(topic, partition)
            consumer.assign([place])
            return await work(consumer, place)
        finally:
            await consumer.stop()


def _from_python(record: Any) -> Got:
    return Got(
        record.partition,
        record.offset,
        record.key,
        record.value,
        tuple(record.headers),
        record.timestamp,
        record.timestamp_type == 1,
    )


PYTHON_CLIENTS: Final[tuple[Client, ...]] = (ConfluentKafka(), KafkaPython(), AioKafka())
