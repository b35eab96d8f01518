"""One member of a group as a process of its own, with a client written elsewhere or ours: reads, commits, and keeps a diary.

Run as a program: `group_process.py CLIENT BOOTSTRAP GROUP TOPIC ASSIGNOR DIARY SESSION_MS`. It ends in order at SIGTERM. The diary
is lines of JSON: what the client said in its rebalance callbacks (`owned`, `revoked`, `lost`), which offsets were
processed, and `closed`; each with the time of the clock all processes share. tests/java/GroupMember.java writes the same.

Everything polled is processed at once, written down, and committed before the next poll. A process imports the client it
is, and no other: many of them start at once.
"""

import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[2]))  # As a program it finds its neighbours by itself.

POLL_SECONDS: Final = 0.1
_RECORDS_MAX: Final = 50
_HEARTBEATS_PER_SESSION: Final = 6
_REBALANCE_MS: Final = 15_000


class Arguments(NamedTuple):
    """What the member runs with."""

    bootstrap: str
    group: str
    topic: str
    assignor: str
    session_ms: int

    @property
    def heartbeat_ms(self) -> int:
        return self.session_ms // _HEARTBEATS_PER_SESSION


class Diary:
    """Written line by line, so that a death loses nothing."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._owned: set[int] = set()

    def write(self, kind: str, **more: object) -> None:
        self._file.write(json.dumps({"at": time.monotonic_ns(), "kind": kind, **more}) + "\n")

    def owned(self, member_id: str, generation: int, added: Iterable[int]) -> None:
        self._owned |= set(added)
        self.write("owned", member=member_id, generation=generation, partitions=sorted(self._owned))

    def owns(self, partition: int) -> bool:
        return partition in self._owned

    def gone(self, kind: str, partitions: Iterable[int]) -> None:
        partitions = sorted(partitions)
        self._owned -= set(partitions)
        self.write(kind, partitions=partitions)

    def processed(self, records: Iterable[tuple[int, int]]) -> None:
        """Partitions and offsets, as they came."""
        by_partition: dict[int, list[int]] = {}
        for partition, offset in records:
            by_partition.setdefault(partition, []).append(offset)
        for partition, offsets in by_partition.items():
            self.write("processed", partition=partition, offsets=offsets)


class Stopping:
    """Whether SIGTERM came."""

    def __init__(self) -> None:
        self.asked = False
        signal.signal(signal.SIGTERM, self._ask)

    def _ask(self, *_: object) -> None:
        self.asked = True


def with_confluent(arguments: Arguments, diary: Diary, stopping: Stopping) -> None:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": arguments.group,
            "partition.assignment.strategy": arguments.assignor,
            "session.timeout.ms": arguments.session_ms,
            "heartbeat.interval.ms": arguments.heartbeat_ms,
            "max.poll.interval.ms": _REBALANCE_MS,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
    )

    def assigned(_consumer: Any, partitions: list[Any]) -> None:
        generation, member_id = identity(consumer.consumer_group_metadata())
        diary.owned(member_id, generation, [one.partition for one in partitions])

    def revoked(_consumer: Any, partitions: list[Any]) -> None:
        diary.gone("revoked", [one.partition for one in partitions])

    def lost(_consumer: Any, partitions: list[Any]) -> None:
        diary.gone("lost", [one.partition for one in partitions])

    consumer.subscribe([arguments.topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
    while not stopping.asked:
        messages = [one for one in consumer.consume(_RECORDS_MAX, POLL_SECONDS) if one.error() is None]
        if messages:
            diary.processed((one.partition(), one.offset()) for one in messages)
            try:
                consumer.commit(asynchronous=False)
            except confluent_kafka.KafkaException as error:
                diary.write("commit failed", why=str(error))
    consumer.close()


def identity(metadata: bytes) -> tuple[int, str]:
    """The generation and the member's id, out of what librdkafka calls opaque."""
    prefix = b"CGMDv2:"
    generation = int.from_bytes(metadata[len(prefix) : len(prefix) + 4], sys.byteorder, signed=True)
    _group, member_id, *_ = metadata[len(prefix) + 4 :].split(b"\0")
    return generation, member_id.decode()


def with_kafka_python(arguments: Arguments, diary: Diary, stopping: Stopping) -> None:
    import kafka
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    from support.compat import kafka_python_kit

    assignors = {
        "range": RangePartitionAssignor,
        "roundrobin": RoundRobinPartitionAssignor,
        "cooperative-sticky": CooperativeStickyAssignor,
    }
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        partition_assignment_strategy=[assignors[arguments.assignor]],
        session_timeout_ms=arguments.session_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        max_poll_interval_ms=_REBALANCE_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        reconnect_backoff_max_ms=500,
    )

    class Listener(kafka.ConsumerRebalanceListener):  # type: ignore[misc]  # It has no types.
        def on_partitions_assigned(self, assigned: Any) -> None:
            metadata = consumer.group_metadata()
            diary.owned(metadata.member_id, metadata.generation_id, [one.partition for one in assigned])

        def on_partitions_revoked(self, revoked: Any) -> None:
            diary.gone("revoked", [one.partition for one in revoked])

        def on_partitions_lost(self, lost: Any) -> None:
            diary.gone("lost", [one.partition for one in lost])

    kafka_python_kit.subscribe(consumer, arguments.topic, listener=Listener())
    while not stopping.asked:
        try:
            polled = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=_RECORDS_MAX)
        except (
            kafka.errors.KafkaError
        ) as error:  # It raises when it cannot reach the broker; then it goes on.
            diary.write("poll failed", why=repr(error))
            continue
        records = [(one.partition, one.offset) for batch in polled.values() for one in batch]
        if records:
            diary.processed(records)
            try:
                consumer.commit()
            except kafka.errors.KafkaError as error:
                diary.write("commit failed", why=repr(error))
    consumer.close(autocommit=False)


def with_aiokafka(arguments: Arguments, diary: Diary, stopping: Stopping) -> None:
    asyncio.run(_with_aiokafka(arguments, diary, stopping))


async def _with_aiokafka(arguments: Arguments, diary: Diary, stopping: Stopping) -> None:
    import aiokafka
    import aiokafka.abc
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        partition_assignment_strategy=(assignors[arguments.assignor],),
        session_timeout_ms=arguments.session_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        max_poll_interval_ms=_REBALANCE_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        retry_backoff_ms=50,
    )
    processing = asyncio.Lock()  # As its manual asks: what is under way is committed before it is revoked.

    class Listener(aiokafka.abc.ConsumerRebalanceListener):  # type: ignore[misc]  # It has no types.
        async def on_partitions_assigned(self, assigned: Any) -> None:
            coordinator = consumer._coordinator
            diary.owned(coordinator.member_id, coordinator.generation, [one.partition for one in assigned])

        async def on_partitions_revoked(self, revoked: Any) -> None:
            async with processing:
                diary.gone("revoked", [one.partition for one in revoked])

    consumer.subscribe([arguments.topic], listener=Listener())
    await consumer.start()
    while not stopping.asked:
        polled = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000), max_records=_RECORDS_MAX)
        async with processing:
            records = [
                (one.partition, one.offset)
                for batch in polled.values()
                for one in batch
                if diary.owns(one.partition)  # Else it was revoked while this task waited for its turn.
            ]
            if records:
                diary.processed(records)
                try:
                    await consumer.commit()
                except aiokafka.errors.KafkaError as error:
                    diary.write("commit failed", why=repr(error))
    await consumer.stop()


def with_semel(arguments: Arguments, diary: Diary, stopping: Stopping) -> None:
    from semel import Consumer
    from semel.exceptions import KafkaException

    assignors = {
        "range": "RangeAssignor",
        "roundrobin": "RoundRobinAssignor",
        "sticky": "StickyAssignor",
        "cooperative-sticky": "CooperativeStickyAssignor",
    }
    with Consumer(
        bootstrap_servers=arguments.bootstrap,
        group_id=arguments.group,
        partition_assignment_strategy=assignors[arguments.assignor],
        session_timeout_ms=arguments.session_ms,
        heartbeat_interval_ms=arguments.heartbeat_ms,
        max_poll_interval_ms=_REBALANCE_MS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:

        def assigned(partitions: Any) -> None:
            metadata = consumer.group_metadata()
            diary.owned(metadata.member_id, metadata.generation_id, [one.partition for one in partitions])

        consumer.subscribe(
            [arguments.topic],
            on_assign=assigned,
            on_revoke=lambda partitions: diary.gone("revoked", [one.partition for one in partitions]),
            on_lost=lambda partitions: diary.gone("lost", [one.partition for one in partitions]),
        )
        while not stopping.asked:
            records = consumer.poll(timeout_ms=int(POLL_SECONDS * 1000), max_records=_RECORDS_MAX)
            if records:
                diary.processed((one.partition, one.offset) for one in records)
                try:
                    consumer.commit()
                except KafkaException as error:
                    diary.write("commit failed", why=repr(error))


CLIENTS: Final[dict[str, Callable[[Arguments, Diary, Stopping], None]]] = {
    "confluent-kafka": with_confluent,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "semel": with_semel,
}


def main() -> None:
    client, bootstrap, group, topic, assignor, diary_path, session_ms = sys.argv[1:]
    stopping = Stopping()
    diary = Diary(Path(diary_path))
    CLIENTS[client](Arguments(bootstrap, group, topic, assignor, int(session_ms)), diary, stopping)
    diary.write("closed")


if __name__ == "__main__":
    main()
