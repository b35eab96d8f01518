"""A consumer in a group, one partition at a time, behind one face for each client, ours and those written elsewhere.

Unlike tests/support/groups/group_process.py the test itself is the application: it polls as many records as it wants, commits what it wants
and seeks where it wants, so that it can tell what a commit means.
"""

import asyncio
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Final, Self

import aiokafka
import confluent_kafka
import kafka

import semel
from support.compat import kafka_python_kit
from support.groups.group_process import identity

_DEADLINE_SECONDS: Final = 60
SESSION_MS: Final = 10_000
"""A member that is late on a busy machine must not lose its partitions: it would go on where it committed."""
_HEARTBEAT_MS: Final = 1000


class Reader(ABC):
    """A running consumer, subscribed to one topic."""

    name: ClassVar[str]

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit_ms: int | None = None) -> None:
        self.bootstrap, self.group, self.topic = bootstrap, group, topic
        self.auto_commit_ms = auto_commit_ms

    @abstractmethod
    def poll(self) -> list[tuple[int, bytes]]:
        """At most one record, waiting a moment for it: offset and value."""

    @abstractmethod
    def commit(self, offset: int | None = None) -> None:
        """Store an offset, or where the consumer is, and wait until that is done."""

    @abstractmethod
    def commit_async(self, offset: int) -> list[object]:
        """Store it later; the list gets what the callback is told."""

    @abstractmethod
    def seek(self, offset: int) -> None: ...

    @abstractmethod
    def seek_to_beginning(self) -> None: ...

    @abstractmethod
    def seek_to_end(self) -> None: ...

    @abstractmethod
    def committed(self) -> int | None: ...

    @abstractmethod
    def close(self) -> None:
        """Leave the group; where commits are automatic, the last one happens now."""

    def read(self, count: int) -> list[tuple[int, bytes]]:
        """The next records; fails if they do not come."""
        got: list[tuple[int, bytes]] = []
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while len(got) < count:
            assert time.monotonic() < deadline, f"{self.name} got {got} and then nothing"
            got += self.poll()
        return got

    def offsets(self, count: int) -> list[int]:
        return [offset for offset, _value in self.read(count)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ConfluentReader(Reader):
    name = "confluent-kafka"

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit_ms: int | None = None) -> None:
        super().__init__(bootstrap, group, topic, auto_commit_ms=auto_commit_ms)
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": _HEARTBEAT_MS,
                "enable.auto.commit": auto_commit_ms is not None,
                "auto.commit.interval.ms": auto_commit_ms or 5000,
                "log_level": 0,
            }
        )
        self.consumer.subscribe([topic])

    def member(self) -> tuple[int, str]:
        """Its generation, and its name in it."""
        return identity(self.consumer.consumer_group_metadata())

    def poll(self) -> list[tuple[int, bytes]]:
        message = self.consumer.poll(0.1)
        if message is None:
            return []
        assert message.error() is None, message.error()
        return [(message.offset(), message.value())]

    def _at(self, offset: int) -> Any:
        return confluent_kafka.TopicPartition(self.topic, 0, offset)

    def commit(self, offset: int | None = None) -> None:
        if offset is None:
            self.consumer.commit(asynchronous=False)
        else:
            self.consumer.commit(offsets=[self._at(offset)], asynchronous=False)

    def commit_async(self, offset: int) -> list[object]:
        self.consumer.commit(offsets=[self._at(offset)], asynchronous=True)
        return []  # Its callback is one of the whole consumer.

    def seek(self, offset: int) -> None:
        self.consumer.seek(self._at(offset))

    def seek_to_beginning(self) -> None:
        self.seek(confluent_kafka.OFFSET_BEGINNING)

    def seek_to_end(self) -> None:
        self.seek(confluent_kafka.OFFSET_END)

    def committed(self) -> int | None:
        [found] = self.consumer.committed([self._at(0)], timeout=_DEADLINE_SECONDS)
        return None if found.offset < 0 else int(found.offset)

    def close(self) -> None:
        self.consumer.close()


class KafkaPythonReader(Reader):
    name = "kafka-python"

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit_ms: int | None = None) -> None:
        super().__init__(bootstrap, group, topic, auto_commit_ms=auto_commit_ms)
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            enable_auto_commit=auto_commit_ms is not None,
            auto_commit_interval_ms=auto_commit_ms or 5000,
        )
        kafka_python_kit.subscribe(self.consumer, topic)
        self.place = kafka.TopicPartition(topic, 0)
        self._kept: list[tuple[int, bytes]] = []

    def poll(self) -> list[tuple[int, bytes]]:
        kept, self._kept = self._kept, []
        return kept or self._polled()

    def _polled(self) -> list[tuple[int, bytes]]:
        polled = self.consumer.poll(timeout_ms=100, max_records=1)
        return [(one.offset, one.value) for records in polled.values() for one in records]

    def _at(self, offset: int) -> dict[Any, Any]:
        return {self.place: kafka.OffsetAndMetadata(offset, "", -1)}

    def commit(self, offset: int | None = None) -> None:
        """On a busy machine its group may be in a rebalance: the client asks for a poll then, and another try."""
        if offset is None:
            self.consumer.commit()
            return
        deadline = time.monotonic() + _DEADLINE_SECONDS
        while True:
            try:
                self.consumer.commit(self._at(offset))
                return
            except kafka.errors.RebalanceInProgressError:
                assert time.monotonic() < deadline, (
                    "kafka-python's group never came to an end of its rebalance"
                )
                self._kept += self._polled()

    def commit_async(self, offset: int) -> list[object]:
        told: list[object] = []
        self.consumer.commit_async(self._at(offset), callback=lambda _offsets, outcome: told.append(outcome))
        return told

    def seek(self, offset: int) -> None:
        self.consumer.seek(self.place, offset)

    def seek_to_beginning(self) -> None:
        self.consumer.seek_to_beginning(self.place)

    def seek_to_end(self) -> None:
        self.consumer.seek_to_end(self.place)

    def committed(self) -> int | None:
        found: int | None = self.consumer.committed(self.place)
        return found

    def close(self) -> None:
        self.consumer.close()


class AioKafkaReader(Reader):
    name = "aiokafka"

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit_ms: int | None = None) -> None:
        super().__init__(bootstrap, group, topic, auto_commit_ms=auto_commit_ms)
        self._loop = asyncio.new_event_loop()
        self.place = aiokafka.TopicPartition(topic, 0)
        self.consumer = self._run(self._started())

    async def _started(self) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            self.topic,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            enable_auto_commit=self.auto_commit_ms is not None,
            auto_commit_interval_ms=self.auto_commit_ms or 5000,
        )
        await consumer.start()
        return consumer

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def poll(self) -> list[tuple[int, bytes]]:
        polled = self._run(self.consumer.getmany(timeout_ms=100, max_records=1))
        return [(one.offset, one.value) for records in polled.values() for one in records]

    def commit(self, offset: int | None = None) -> None:
        self._run(self.consumer.commit(None if offset is None else {self.place: offset}))

    def commit_async(self, offset: int) -> list[object]:
        told: list[object] = []
        task = self._loop.create_task(self.consumer.commit({self.place: offset}))
        task.add_done_callback(lambda done: told.append(done.exception()))
        return told

    def seek(self, offset: int) -> None:
        self.consumer.seek(self.place, offset)

    def seek_to_beginning(self) -> None:
        self._run(self.consumer.seek_to_beginning(self.place))

    def seek_to_end(self) -> None:
        self._run(self.consumer.seek_to_end(self.place))

    def committed(self) -> int | None:
        found: int | None = self._run(self.consumer.committed(self.place))
        return found

    def close(self) -> None:
        self._run(self.consumer.stop())
        self._loop.close()


class SemelReader(Reader):
    name = "semel"

    def __init__(self, bootstrap: str, group: str, topic: str, *, auto_commit_ms: int | None = None) -> None:
        super().__init__(bootstrap, group, topic, auto_commit_ms=auto_commit_ms)
        self.consumer = semel.Consumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            auto_offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=_HEARTBEAT_MS,
            enable_auto_commit=auto_commit_ms is not None,
            auto_commit_interval_ms=auto_commit_ms or 5000,
            max_poll_records=1,
        )
        self.consumer.subscribe([topic])
        self.place = semel.TopicPartition(topic, 0)

    def member(self) -> tuple[int, str]:
        metadata = self.consumer.group_metadata()
        return metadata.generation_id, metadata.member_id

    def poll(self) -> list[tuple[int, bytes]]:
        return [(one.offset, one.value) for one in self.consumer.poll(100)]

    def commit(self, offset: int | None = None) -> None:
        self.consumer.commit(None if offset is None else {self.place: offset})

    def commit_async(self, offset: int) -> list[object]:
        told: list[object] = []
        self.consumer.commit_async({self.place: offset}, lambda _offsets, error: told.append(error))
        return told

    def seek(self, offset: int) -> None:
        self.consumer.seek(self.place, offset)

    def seek_to_beginning(self) -> None:
        self.consumer.seek_to_beginning([self.place])

    def seek_to_end(self) -> None:
        self.consumer.seek_to_end([self.place])

    def committed(self) -> int | None:
        found = self.consumer.committed([self.place])[self.place]
        return None if found is None else found.offset

    def close(self) -> None:
        self.consumer.close()


READERS: Final[dict[str, type[Reader]]] = {
    one.name: one for one in (ConfluentReader, KafkaPythonReader, AioKafkaReader, SemelReader)
}
