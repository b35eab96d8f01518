"""Producers that write numbers while brokers die, and the judge of what became of them.

Role.   `Load` is librdkafka with acks=all and idempotence on a thread of its own; `VerifiableLoad` and `VerifiableReader` are Kafka's
        own VerifiableProducer and VerifiableConsumer in their JVMs. `judge` compares what they were told with what the replicas hold.
Rules.  * Every value is written once by the program. Whatever a client repeats by itself must not be there twice.
        * Values of a partition count up, and idempotent producers keep their order.
        * A value nobody acknowledged may be there, once, or not.
"""

import itertools
import json
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from semel.core.records.build import Record
from semel.peers.kafka import KafkaHome

_FLUSH_SECONDS: Final = 180.0
_READ_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 0.02
_SHOWN: Final = 8
_DELIVERY_MS: Final = 240_000
QUIET: Final = {"log_level": 0}
"""librdkafka reports every lost connection, and here they are lost on purpose."""
IDEMPOTENT: Final[Mapping[str, Any]] = {
    "acks": "all",
    "enable.idempotence": True,
    "linger.ms": 1,
    "message.timeout.ms": _DELIVERY_MS,
    "topic.metadata.refresh.interval.ms": 1000,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 200,
    **QUIET,
}


class Ack(NamedTuple):
    """What a producer was told of a record."""

    partition: int
    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of the acknowledged values. All lists are empty if all is well."""

    acked: int
    lost: list[Ack] = field(default_factory=list)
    duplicated: list[tuple[int, int]] = field(default_factory=list)
    """Partition and value."""
    misplaced: list[Ack] = field(default_factory=list)
    """At another offset than was answered."""
    disordered: list[tuple[int, int]] = field(default_factory=list)
    """Partition, and the value that stands behind a larger one."""

    def without(self, renewed: Collection[int]) -> "Verdict":
        """The same but for numbers that a client repeated by itself, under a new epoch: no broker can know them for the same."""
        return replace(
            self,
            duplicated=[one for one in self.duplicated if one[1] not in renewed],
            misplaced=[one for one in self.misplaced if one.value not in renewed],
        )

    @property
    def is_right(self) -> bool:
        return not (self.lost or self.duplicated or self.misplaced or self.disordered)

    def __str__(self) -> str:
        return (
            f"{self.acked} acknowledged; lost {len(self.lost)} {self.lost[:_SHOWN]}, "
            f"duplicated {len(self.duplicated)} {self.duplicated[:_SHOWN]}, "
            f"misplaced {len(self.misplaced)} {self.misplaced[:_SHOWN]}, "
            f"disordered {len(self.disordered)} {self.disordered[:_SHOWN]}"
        )


def judge(
    acks: Iterable[Ack], stored: Mapping[int, Sequence[tuple[int, int]]], *, deleted_before: int = 0
) -> Verdict:
    """`stored`: for each partition its offsets and values, in their order. Offsets below `deleted_before` may be gone."""
    told = [ack for ack in acks if ack.offset >= deleted_before]
    offsets: dict[tuple[int, int], int] = {}
    duplicated, disordered = [], []
    for partition, rows in stored.items():
        before = -1
        for offset, value in rows:
            if (partition, value) in offsets:
                duplicated.append((partition, value))
            elif value < before:
                disordered.append((partition, value))
            offsets.setdefault((partition, value), offset)
            before = max(before, value)
    lost = [ack for ack in told if (ack.partition, ack.value) not in offsets]
    misplaced = [
        ack for ack in told if offsets.get((ack.partition, ack.value), ack.offset) not in (ack.offset, -1)
    ]
    return Verdict(len(told), lost, duplicated, misplaced, disordered)


def as_stored(records: Iterable[Record]) -> list[tuple[int, int]]:
    """Of a replica's file, for `judge`."""
    return [(one.offset, int(one.value or b"-1")) for one in records]


def consumed(bootstrap: str, topic: str, ends: Mapping[int, int]) -> dict[int, list[tuple[int, int]]]:
    """What librdkafka's consumer is given up to these ends, for `judge`: from whoever leads."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 50,
            **QUIET,
        }
    )
    found: dict[int, list[tuple[int, int]]] = {partition: [] for partition in ends}
    left = {partition for partition, end in ends.items() if end}
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        deadline = time.monotonic() + _READ_SECONDS
        while left:
            assert time.monotonic() < deadline, f"partitions {left} of {topic} are not read to their ends"
            for message in consumer.consume(5000, timeout=0.2):
                partition, offset = message.partition(), message.offset()
                if message.error() is not None:
                    assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                    if offset >= ends[partition]:
                        left.discard(partition)
                    continue
                found[partition].append((offset, int(message.value())))
    finally:
        consumer.close()
    return found


class Load:
    """A producer that goes on until it is told to stop."""

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        settings: Mapping[str, Any] | None = None,
        pause_seconds: float = _PAUSE_SECONDS,
        first: int = 0,
    ) -> None:
        self.topic = topic
        self.partitions = partitions
        self.acks: list[Ack] = []
        self.errors: list[str] = []
        self.sent = first
        """The next value; all from `first` up to it have been sent."""
        self._times: dict[int, list[float]] = defaultdict(list)
        self._pause_seconds = pause_seconds
        self._config = {"bootstrap.servers": bootstrap, **IDEMPOTENT, **(settings or {})}
        self._ends = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"load on {topic}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ends.set()
        self._thread.join(_FLUSH_SECONDS + 30)
        if exc[0] is None:
            self.finish()

    def finish(self) -> None:
        """Stop, and wait until everything is answered. Raises what went wrong on its thread."""
        self._ends.set()
        self._thread.join(_FLUSH_SECONDS + 30)
        assert not self._thread.is_alive(), f"the load on {self.topic} does not end"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            producer = Producer(self._config)
            while not self._ends.is_set():
                for partition in range(self.partitions):
                    self._send(producer, partition, self.sent)
                    self.sent += 1
                producer.poll(self._pause_seconds)
            left = producer.flush(_FLUSH_SECONDS)
            assert not left, f"{left} records were never answered"
        except BaseException as failure:  # Shown by the thread that waits for it.
            self._failure = failure

    def _send(self, producer: Producer, partition: int, value: int) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.errors.append(f"{value} for {partition}: {error}")
                return
            self.acks.append(Ack(partition, message.offset(), value))
            self._times[partition].append(time.monotonic())

        while True:
            try:
                producer.produce(self.topic, b"%d" % value, partition=partition, on_delivery=told)
            except BufferError:
                producer.poll(0.1)
                if self._ends.is_set():
                    return
            else:
                return

    def wait_acks(self, more: int = 1, *, seconds: float = 120.0) -> None:
        """Until every partition has so many acknowledgements more than now."""
        wanted = {partition: len(self._times[partition]) + more for partition in range(self.partitions)}
        deadline = time.monotonic() + seconds
        while any(len(self._times[partition]) < count for partition, count in wanted.items()):
            if self._failure is not None:
                raise self._failure
            counts = {partition: len(self._times[partition]) for partition in wanted}
            assert time.monotonic() < deadline, (
                f"acknowledged {counts}, wanted {wanted}; errors {self.errors[:5]}"
            )
            time.sleep(0.02)

    def longest_gap(self, since: float) -> float:
        """The longest time any partition went without an acknowledgement, from a time of `time.monotonic` on."""
        longest = 0.0
        for times in self._times.values():
            marks = [since, *(one for one in list(times) if one > since), time.monotonic()]
            longest = max(longest, *(late - early for early, late in itertools.pairwise(marks)))
        return longest


class VerifiableLoad:
    """org.apache.kafka.tools.VerifiableProducer, the program of Kafka's own system tests: idempotent, acks=all."""

    def __init__(
        self,
        home: KafkaHome,
        bootstrap: str,
        topic: str,
        log: Path,
        *,
        partitions: int = 1,
        per_second: int = 200,
    ) -> None:
        self.topic = topic
        self._partitions = partitions
        self.acks: list[Ack] = []
        self.errors: list[str] = []
        config = log.with_name(f"{log.name}.properties")
        config.write_text(
            f"enable.idempotence=true\nretries=2147483647\ndelivery.timeout.ms={_DELIVERY_MS}\nreconnect.backoff.max.ms=200\n"
            "retry.backoff.ms=50\nmetadata.max.age.ms=2000\nlinger.ms=1\nrequest.timeout.ms=20000\n",
            encoding="utf-8",
        )
        command = home.java(
            *("org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", bootstrap),
            *("--topic", topic, "--acks", "-1", "--throughput", str(per_second)),
            *("--producer.config", str(config)),
            heap="96M",
        )
        self._program = _Program(command, log, self._hear)

    def __enter__(self) -> Self:
        self._program.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._program.end(kill=exc[0] is not None)

    def finish(self) -> None:
        """It sends no more, and waits for what is under way."""
        self._program.end()

    def _hear(self, said: dict[str, Any]) -> None:
        match said.get("name"):
            case "producer_send_success":
                self.acks.append(Ack(said["partition"], said["offset"], int(said["value"])))
            case "producer_send_error":
                self.errors.append(str(said))

    def wait_acks(self, more: int = 1, *, seconds: float = 120.0) -> None:
        """Until there are so many acknowledgements more than now, and every partition has had one.

        A partition that loses the first batch of a producer with its leader knows the producer by the second one. Kafka takes that one
        as the first, and refuses the first for ever.
        """
        wanted, deadline = len(self.acks) + more, time.monotonic() + seconds
        while len(self.acks) < wanted or len({ack.partition for ack in list(self.acks)}) < self._partitions:
            self._program.check()
            assert time.monotonic() < deadline, f"{len(self.acks)} of {wanted}; errors {self.errors[:5]}"
            time.sleep(0.02)


class VerifiableReader:
    """org.apache.kafka.tools.VerifiableConsumer, which tells of every record it is given, in a group of its own."""

    def __init__(self, home: KafkaHome, bootstrap: str, topic: str, log: Path) -> None:
        self.seen: list[Ack] = []
        config = log.with_name(f"{log.name}.properties")
        config.write_text(
            "metadata.max.age.ms=2000\nreconnect.backoff.max.ms=200\nretry.backoff.ms=50\n"
            "default.api.timeout.ms=120000\nrequest.timeout.ms=20000\n",
            encoding="utf-8",
        )
        command = home.java(
            *("org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", bootstrap),
            *("--topic", topic, "--group-id", f"reads-{topic}", "--reset-policy", "earliest", "--verbose"),
            *("--consumer.config", str(config)),
            heap="96M",
        )
        self._program = _Program(command, log, self._hear)

    def __enter__(self) -> Self:
        self._program.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._program.end(kill=exc[0] is not None)

    def _hear(self, said: dict[str, Any]) -> None:
        if said.get("name") == "record_data":
            self.seen.append(Ack(said["partition"], said["offset"], int(said["value"])))

    def wait_seen(self, values: Collection[int], *, seconds: float = _READ_SECONDS) -> None:
        """Until it has been given all of these."""
        deadline = time.monotonic() + seconds
        while missing := set(values) - {one.value for one in list(self.seen)}:
            self._program.check()
            assert time.monotonic() < deadline, f"VerifiableConsumer was not given {sorted(missing)[:_SHOWN]}"
            time.sleep(0.1)


class _Program:
    """One of Kafka's verifiable programs: it says a JSON document a line, and ends when it is asked to."""

    def __init__(self, command: list[str], log: Path, hear: Callable[[dict[str, Any]], None]) -> None:
        self._command = command
        self._hear = hear
        self._log_path = log
        self._process: subprocess.Popen[str] | None = None
        self._thread = threading.Thread(target=self._read, name=log.name, daemon=True)

    def start(self) -> None:
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        self._thread.start()

    def check(self) -> None:
        """It should be running."""
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, (
            f"{self._log_path.name} ended with {ended}: {self._log_path.read_text()[-2000:]}"
        )

    def end(self, *, kill: bool = False) -> None:
        """SIGTERM, and wait until it has done what is under way."""
        assert self._process is not None
        if self._process.poll() is None:
            (self._process.kill if kill else self._process.terminate)()
        try:
            self._process.wait(_FLUSH_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError(f"{self._log_path.name} does not end") from None
        finally:
            self._thread.join(30)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._hear(json.loads(line))
        self._process.stdout.close()
