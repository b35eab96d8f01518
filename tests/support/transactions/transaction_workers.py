"""The seeds' second and third program with each client: consume, transform and produce, or only consume, in transactions.

A worker reads as a member of a group and commits where it got to inside its transactions; one that aborts goes back to where the
group is. A driver adds nothing: what is committed with what is the client's own doing.
"""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Final

import aiokafka
import confluent_kafka
import kafka

import semel
from support.compat import kafka_python_kit
from support.transactions.transaction_clients import DEADLINE_SECONDS

_AT_ONCE: Final = 50
_WAIT_MS: Final = 100


class Worker(ABC):
    """One of those that share a group."""

    name: ClassVar[str]
    workers: ClassVar[int] = 2
    """How many may share a group: clients that cannot say who they speak for (KIP-447) work alone."""

    @abstractmethod
    def __init__(self, bootstrap: str, source: str, group: str, number: int) -> None: ...

    @abstractmethod
    def poll(self) -> Sequence[tuple[int, bytes]]:
        """Up to 50 records, waiting a moment for them: partition and value."""

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, topic: str, partition: int, value: bytes) -> None: ...

    @abstractmethod
    def commit(self) -> bool:
        """Send the positions and commit; False if the partitions went to another member, and it must abort."""

    @abstractmethod
    def abort(self) -> None:
        """Send the positions if there are any, abort, and go back to where the group is."""

    @abstractmethod
    def close(self) -> None: ...

    def work(self, target: str | None, *, commit: bool) -> int:
        """One transaction; how many records it committed."""
        records = self.poll()
        if not records:
            return 0
        self.begin()
        for partition, value in records:
            if target is not None:
                self.send(target, partition, value)
        if commit and self.commit():
            return len(records)
        self.abort()
        return 0


class Librdkafka(Worker):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str, source: str, group: str, number: int) -> None:
        settings = {"log_level": 0, "bootstrap.servers": bootstrap}
        self._producer = confluent_kafka.Producer({**settings, "transactional.id": f"{group}-{number}"})
        self._producer.init_transactions(DEADLINE_SECONDS)
        self._consumer = confluent_kafka.Consumer(
            {
                **settings,
                "group.id": group,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 300,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([source])

    def poll(self) -> Sequence[tuple[int, bytes]]:
        messages = self._consumer.consume(_AT_ONCE, timeout=_WAIT_MS / 1000)
        return [(one.partition(), one.value()) for one in messages if one.error() is None]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.produce(topic, value=value, partition=partition)

    def commit(self) -> bool:
        try:
            self._send_positions()
            self._producer.commit_transaction(DEADLINE_SECONDS)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            return False
        return True

    def _send_positions(self) -> None:
        self._producer.send_offsets_to_transaction(
            self._consumer.position(self._consumer.assignment()),
            self._consumer.consumer_group_metadata(),
            DEADLINE_SECONDS,
        )

    def abort(self) -> None:
        self._producer.flush(DEADLINE_SECONDS)
        self._producer.abort_transaction(DEADLINE_SECONDS)
        for place in self._consumer.committed(self._consumer.assignment(), timeout=DEADLINE_SECONDS):
            place.offset = max(place.offset, 0)
            self._consumer.seek(place)

    def close(self) -> None:
        self._consumer.close()


class KafkaPython(Worker):
    name = "kafka-python"
    workers = 1

    def __init__(self, bootstrap: str, source: str, group: str, number: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=bootstrap, transactional_id=f"{group}-{number}"
        )
        self._producer.init_transactions()
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        kafka_python_kit.subscribe(self._consumer, source)

    def poll(self) -> Sequence[tuple[int, bytes]]:
        polled = self._consumer.poll(timeout_ms=_WAIT_MS, max_records=_AT_ONCE)
        return [(one.partition, one.value) for records in polled.values() for one in records]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value, partition=partition)

    def commit(self) -> bool:
        positions = {
            place: kafka.OffsetAndMetadata(self._consumer.position(place), "", -1)
            for place in self._consumer.assignment()
        }
        self._producer.send_offsets_to_transaction(positions, self._consumer.group_metadata())
        self._producer.commit_transaction()
        return True

    def abort(self) -> None:
        self._producer.flush(DEADLINE_SECONDS)
        self._producer.abort_transaction()
        for place in self._consumer.assignment():
            self._consumer.seek(place, self._consumer.committed(place) or 0)

    def close(self) -> None:
        self._consumer.close()
        self._producer.close(timeout=DEADLINE_SECONDS)


class AioKafka(Worker):
    """On a loop of its own, which goes on while nobody asks: its members must be heard of."""

    name = "aiokafka"
    workers = 1

    def __init__(self, bootstrap: str, source: str, group: str, number: int) -> None:
        self._group = group
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()

        async def start() -> tuple[Any, Any]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, transactional_id=f"{group}-{number}"
            )
            await producer.start()
            consumer = aiokafka.AIOKafkaConsumer(
                source,
                bootstrap_servers=bootstrap,
                group_id=group,
                isolation_level="read_committed",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
            )
            await consumer.start()
            return producer, consumer

        self._producer, self._consumer = self._run(start())

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(DEADLINE_SECONDS)

    def poll(self) -> Sequence[tuple[int, bytes]]:
        polled: Mapping[Any, Any] = self._run(
            self._consumer.getmany(timeout_ms=_WAIT_MS, max_records=_AT_ONCE)
        )
        return [(one.partition, one.value) for records in polled.values() for one in records]

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._run(self._producer.send(topic, value, partition=partition))

    def commit(self) -> bool:
        async def send_and_commit() -> None:
            positions = {place: await self._consumer.position(place) for place in self._consumer.assignment()}
            await self._producer.send_offsets_to_transaction(positions, self._group)
            await self._producer.commit_transaction()

        self._run(send_and_commit())
        return True

    def abort(self) -> None:
        async def abort_and_return() -> None:
            await self._producer.flush()
            await self._producer.abort_transaction()
            for place in self._consumer.assignment():
                self._consumer.seek(place, await self._consumer.committed(place) or 0)

        self._run(abort_and_return())

    def close(self) -> None:
        self._run(self._consumer.stop())
        self._run(self._producer.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_SECONDS)
        self._loop.close()


class Ours(Worker):
    name = "semel"

    def __init__(self, bootstrap: str, source: str, group: str, number: int) -> None:
        self._producer = semel.Producer(bootstrap_servers=bootstrap, transactional_id=f"{group}-{number}")
        self._producer.init_transactions()
        self._consumer = semel.Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=_AT_ONCE,
            heartbeat_interval_ms=300,
        )
        self._consumer.subscribe([source])

    def poll(self) -> Sequence[tuple[int, bytes]]:
        return [(one.partition, one.value or b"") for one in self._consumer.poll(timeout_ms=_WAIT_MS)]

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._producer.send(topic, value=value, partition=partition)

    def commit(self) -> bool:
        positions = {place: self._consumer.position(place) for place in self._consumer.assignment()}
        try:
            self._producer.send_offsets_to_transaction(positions, self._consumer.group_metadata())
            self._producer.commit_transaction()
        except semel.CommitFailedException:
            return False
        return True

    def abort(self) -> None:
        self._producer.flush()
        self._producer.abort_transaction()
        assigned = list(self._consumer.assignment())
        found = self._consumer.committed(assigned)
        for place in assigned:
            position = found.get(place)
            self._consumer.seek(place, position.offset if position is not None else 0)

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()


WORKERS: Final[tuple[type[Worker], ...]] = (Librdkafka, KafkaPython, AioKafka, Ours)
