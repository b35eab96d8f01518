"""Clients stopped (SIGSTOP) past their transaction timeout and let go on: fenced, nothing torn, readers not held back.

Method: each client runs in a process of its own, which is stopped whole, as a virtual machine or a debugger stops one. In the
first story it stops with everything of a transaction stored; in the second anywhere in a run of transactions, again and
again, and what it was told is compared with what readers of committed records see.
"""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import ThreadBroker, eventually
from support.transactions.client_process import ClientFailedError, ProcessProducer
from support.transactions.transaction_clients import (
    ALL_PRODUCERS,
    FencedOutError,
    TransactionalProducer,
    end_offset,
    read,
)
from support.transactions.transaction_java import JavaError, JavaProducer, TransactionShell

TIMEOUT_MS = 1000
PAUSES = 3
PARTITIONS = (0, 1)
REFUSALS = (FencedOutError, ClientFailedError, JavaError)
_NAMES = [one.name for one in ALL_PRODUCERS]
_JAVA = [pytest.param(name, marks=pytest.mark.java) for name in ("jvm_4_3", "jvm_3_9")]


class Pausable(Protocol):
    """A process that can be stopped."""

    def signal(self, number: signal.Signals) -> None: ...


Make = Callable[[str], tuple[TransactionalProducer, Pausable]]
"""A producer with this transactional id, and its process."""


@pytest.fixture(scope="module")
def jvm_4_3(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TransactionShell]:
    yield from jvm(kafka_home, tmp_path_factory)


@pytest.fixture(scope="module")
def jvm_3_9(
    old_kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[TransactionShell]:
    yield from jvm(old_kafka_home, tmp_path_factory)


def jvm(home: KafkaHome, directories: pytest.TempPathFactory) -> Iterator[TransactionShell]:
    """One for these tests alone: while it is stopped it serves nobody."""
    with (directories.mktemp("jvm") / "jvm.log").open("wb") as log, TransactionShell(home, log) as shell:
        yield shell


@pytest.fixture(params=[*_NAMES, "franz-go", *_JAVA])
def make(request: pytest.FixtureRequest, broker: ThreadBroker) -> Iterator[Make]:
    processes: list[ProcessProducer] = []

    def in_process(transactional_id: str) -> tuple[TransactionalProducer, Pausable]:
        one = ProcessProducer(request.param, broker.bootstrap, transactional_id, TIMEOUT_MS)
        processes.append(one)
        return one, one

    def in_go(transactional_id: str) -> tuple[TransactionalProducer, Pausable]:
        program: Path = request.getfixturevalue("franz_program")
        one = ProcessProducer(
            request.param, broker.bootstrap, transactional_id, TIMEOUT_MS, program=(str(program), "serve")
        )
        processes.append(one)
        return one, one

    def in_jvm(transactional_id: str) -> tuple[TransactionalProducer, Pausable]:
        shell: TransactionShell = request.getfixturevalue(request.param)
        return JavaProducer(broker.bootstrap, transactional_id, shell=shell, timeout_ms=TIMEOUT_MS), shell

    yield {"franz-go": in_go, "jvm_4_3": in_jvm, "jvm_3_9": in_jvm}.get(request.param, in_process)
    for one in processes:
        one.close()


def is_settled(broker: ThreadBroker, topic: str) -> bool:
    """Whether readers of committed records get to the end."""
    return all(
        end_offset(broker.bootstrap, topic, one, committed=True)
        == end_offset(broker.bootstrap, topic, one, committed=False)
        for one in PARTITIONS
    )


@pytest.mark.parametrize("sends_more", [False, True])
def test_who_slept_through_its_timeout_is_fenced(
    make: Make, broker: ThreadBroker, topic: str, sends_more: bool
) -> None:
    """A commit is told so in every client's words. Of a record that comes late each client says what it likes, kafka-python now
    and then nothing at all; what counts is that nobody ever reads any of it."""
    producer, process = make(f"of {topic}")
    producer.begin()
    for partition in PARTITIONS:
        producer.send(topic, partition, b"before")
    producer.flush()
    assert not is_settled(broker, topic)
    process.signal(signal.SIGSTOP)
    eventually(lambda: is_settled(broker, topic), "the coordinator ends what nobody ends")
    process.signal(signal.SIGCONT)
    with contextlib.suppress(*REFUSALS) if sends_more else pytest.raises(FencedOutError):
        finish(producer, topic, sends_more=sends_more)
    for partition in PARTITIONS:
        assert read(broker.bootstrap, topic, partition, committed=True) == []
    next_one, _process = make(f"of {topic}")
    next_one.begin()
    for partition in PARTITIONS:
        next_one.send(topic, partition, b"after")
    next_one.commit()
    eventually(lambda: is_settled(broker, topic), "nothing is left open")
    for partition in PARTITIONS:
        assert read(broker.bootstrap, topic, partition, committed=True) == [b"after"]


def finish(producer: TransactionalProducer, topic: str, *, sends_more: bool) -> None:
    if sends_more:
        producer.send(topic, 0, b"too late")
    producer.commit()


class Writer:
    """Writes a number to both partitions in each transaction until it is told to stop; who is refused gets a successor."""

    def __init__(self, make: Make, topic: str) -> None:
        self._make, self._topic = make, topic
        self._is_over = threading.Event()
        self.is_inside = threading.Event()
        self.process: Pausable | None = None
        self.committed: list[bytes] = []
        self.unsure: list[bytes] = []

    def run(self) -> None:
        number = 0
        producer, self.process = self._make(f"of {self._topic}")
        while not self._is_over.is_set():
            number += 1
            try:
                self._transaction(producer, b"%d" % number)
            except REFUSALS:
                self.unsure.append(b"%d" % number)
                producer, self.process = self._make(f"of {self._topic}")
            else:
                self.committed.append(b"%d" % number)

    def _transaction(self, producer: TransactionalProducer, value: bytes) -> None:
        producer.begin()
        for partition in PARTITIONS:
            producer.send(self._topic, partition, value)
        self.is_inside.set()
        producer.commit()

    def stop(self) -> None:
        self._is_over.set()


def test_a_client_paused_anywhere_tears_nothing(make: Make, broker: ThreadBroker, topic: str) -> None:
    writer = Writer(make, topic)
    thread = threading.Thread(target=writer.run, name="writer")
    thread.start()
    try:
        for _ in range(PAUSES):
            writer.is_inside.clear()
            assert writer.is_inside.wait(60)
            paused = writer.process
            assert paused is not None
            paused.signal(signal.SIGSTOP)
            eventually(lambda: is_settled(broker, topic), "the last stable offset moves on")
            paused.signal(signal.SIGCONT)
        writer.is_inside.clear()
        assert writer.is_inside.wait(60)
    finally:
        writer.stop()
        thread.join(120)
    assert not thread.is_alive()
    eventually(lambda: is_settled(broker, topic), "nothing is left open")
    first, second = (read(broker.bootstrap, topic, one, committed=True) for one in PARTITIONS)
    assert first == second, "a transaction is torn"
    assert len(first) == len(set(first)), "a record is there twice"
    assert [value for value in first if value not in writer.unsure] == writer.committed
