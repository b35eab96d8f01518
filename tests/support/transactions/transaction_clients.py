"""Transactional producers behind one face: the same stories are told with each of them, those written elsewhere and ours.

A driver adds nothing: retries, epochs and state are the client's own.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, ClassVar, Final

import aiokafka
import confluent_kafka
import kafka

import semel
from semel.errors import SemelError

DEADLINE_SECONDS: Final = 60
TIMEOUT_MS: Final = 60_000
"""How long a transaction may stay open."""
_SILENT: Final = {"log_level": 0}


class FencedOutError(Exception):
    """The client says that it is no longer the owner, in its own words."""


class TransactionalProducer(ABC):
    """What every client can do. Every call ends when the client says it is done."""

    name: ClassVar[str]

    @abstractmethod
    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        """Connect and introduce itself."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None:
        """Give a record to the client, which sends it when it likes."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything sent is acknowledged."""

    @abstractmethod
    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None: ...

    @abstractmethod
    def commit(self) -> None:
        """Raises `FencedOutError` if another one is the owner."""

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class ConfluentKafka(TransactionalProducer):
    """librdkafka, through confluent-kafka."""

    name = "confluent-kafka"

    def __init__(
        self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS, **settings: str
    ) -> None:
        self._producer = confluent_kafka.Producer(
            {
                **_SILENT,
                "bootstrap.servers": bootstrap,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 0,
                **{name.replace("_", "."): value for name, value in settings.items()},
            }
        )
        self._producer.init_transactions(DEADLINE_SECONDS)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value=value, partition=partition)

    def flush(self) -> None:
        assert self._producer.flush(DEADLINE_SECONDS) == 0

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = confluent_kafka.Consumer(
            {**_SILENT, "bootstrap.servers": "127.0.0.1:1", "group.id": group}
        )
        try:
            self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, partition, offset)],
                consumer.consumer_group_metadata(),
                DEADLINE_SECONDS,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(DEADLINE_SECONDS)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() == confluent_kafka.KafkaError._FENCED:
                raise FencedOutError(str(error)) from error
            raise

    def abort(self) -> None:
        self._producer.abort_transaction(DEADLINE_SECONDS)

    def close(self) -> None:
        """It closes when it is forgotten."""


class KafkaPython(TransactionalProducer):
    """kafka-python."""

    name = "kafka-python"

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()
        self._sent: list[Any] = []

    def begin(self) -> None:
        self._sent.clear()
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sent.append(self._producer.send(topic, value, partition=partition))

    def flush(self) -> None:
        self._producer.flush(DEADLINE_SECONDS)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        position = kafka.structs.OffsetAndMetadata(offset, "", -1)
        self._producer.send_offsets_to_transaction({kafka.TopicPartition(topic, partition): position}, group)

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except (kafka.errors.ProducerFencedError, kafka.errors.InvalidProducerEpochError) as error:
            raise FencedOutError(str(error)) from error
        for future in self._sent:  # Its commit may succeed although the broker has refused a record.
            if future.failed():
                raise FencedOutError(str(future.exception))

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AioKafka(TransactionalProducer):
    """aiokafka, on a loop of its own."""

    name = "aiokafka"

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._loop = asyncio.new_event_loop()
        # One that was fenced leaves a future behind that nobody asks.
        self._loop.set_exception_handler(lambda _loop, _context: None)
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()
        self._sent: list[Any] = []

        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._producer = self._run(start())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_SECONDS)

    def begin(self) -> None:
        try:
            self._run(self._producer.begin_transaction())
        except AssertionError as error:  # So it says that it is done for.
            raise FencedOutError(str(error)) from error

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._sent.append(self._run(self._producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        self._run(self._producer.flush())

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        offsets: Mapping[Any, int] = {aiokafka.TopicPartition(topic, partition): offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, group))

    def commit(self) -> None:
        try:
            self._run(self._producer.commit_transaction())
        except (aiokafka.errors.ProducerFenced, aiokafka.errors.InvalidProducerEpoch) as error:
            raise FencedOutError(str(error)) from error

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        async def stop() -> None:
            # One that was fenced raises again when it is closed, which says nothing new.
            await asyncio.gather(self._producer.stop(), return_exceptions=True)

        self._run(stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_SECONDS)
        self._loop.close()


class Ours(TransactionalProducer):
    """semel.Producer."""

    name = "semel"

    def __init__(self, bootstrap: str, transactional_id: str, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._producer = semel.Producer(
            bootstrap_servers=bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            linger_ms=0,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._ask(self._producer.begin_transaction)

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._ask(self._producer.send, topic, value=value, partition=partition)

    def flush(self) -> None:
        self._ask(self._producer.flush)

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask(self._producer.send_offsets_to_transaction, {(topic, partition): offset}, group)

    def commit(self) -> None:
        self._ask(self._producer.commit_transaction)

    def abort(self) -> None:
        self._ask(self._producer.abort_transaction)

    def close(self) -> None:
        self._producer.close(1)

    def _ask(self, call: Callable[..., object], *arguments: Any, **named: Any) -> None:
        try:
            call(*arguments, **named)
        except (semel.ProducerFencedException, semel.InvalidProducerEpochException) as error:
            raise FencedOutError(str(error)) from error


PRODUCERS: Final[tuple[type[TransactionalProducer], ...]] = (ConfluentKafka, KafkaPython, AioKafka)
"""Written elsewhere."""
ALL_PRODUCERS: Final[tuple[type[TransactionalProducer], ...]] = (*PRODUCERS, Ours)
REFUSALS: Final = (
    FencedOutError,
    confluent_kafka.KafkaException,
    kafka.errors.KafkaError,
    aiokafka.errors.KafkaError,
    SemelError,
)
"""Whatever a client says who is not let on."""


def read(bootstrap: str, topic: str, partition: int, *, committed: bool) -> list[bytes]:
    """Everything a reader of this isolation sees now."""
    consumer = confluent_kafka.Consumer(
        {
            **_SILENT,
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    found: list[bytes] = []
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(DEADLINE_SECONDS)
            assert message is not None, "the end of the partition never came"
            error = message.error()
            if error is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return found
            found.append(message.value() or b"")
    finally:
        consumer.close()


def end_offset(bootstrap: str, topic: str, partition: int, *, committed: bool) -> int:
    """Where the partition ends for a reader of this isolation."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=bootstrap,
        isolation_level="read_committed" if committed else "read_uncommitted",
    )
    try:
        place = kafka.TopicPartition(topic, partition)
        return int(consumer.end_offsets([place])[place])
    finally:
        consumer.close()


def committed_offset(bootstrap: str, group: str, topic: str, partition: int) -> int:
    """The group's position, once no transaction has a say in it."""
    consumer = confluent_kafka.Consumer(
        {
            **_SILENT,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
        }
    )
    try:
        (place,) = consumer.committed(
            [confluent_kafka.TopicPartition(topic, partition)], timeout=DEADLINE_SECONDS
        )
        return int(place.offset)
    finally:
        consumer.close()
