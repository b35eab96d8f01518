"""Apache Kafka's Java client as a transactional producer and as a worker: see tests/java/TransactionShell.java.

One JVM per version is shared by all tests. Version 4.3 speaks transactions v2 (KIP-890), 3.9 speaks v1.
"""

import base64
import itertools
import subprocess
import threading
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

from semel.bench.kafka_peer import KafkaHome
from transaction_clients import FencedOutError, TransactionalProducer

_SHELL: Final = Path(__file__).parent / "java" / "TransactionShell.java"
_CALL_SECONDS: Final = 120
_FENCED: Final = "org.apache.kafka.common.errors.ProducerFencedException"
_numbers = itertools.count()


class JavaError(Exception):
    """What Java threw; `kind` is the name of its class without the package."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.kind = text.partition(":")[0].rpartition(".")[2]


class Worked(NamedTuple):
    """How many records the workers committed and how many they aborted."""

    committed: int
    aborted: int


class TransactionShell:
    """The JVM: a command goes in, lines come out."""

    def __init__(self, home: KafkaHome, log: IO[bytes]) -> None:
        self.version = home.version
        self._log = Path(log.name)
        self._process = subprocess.Popen(
            home.java(str(_SHELL)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        )

    def __enter__(self) -> Self:
        self._answer()
        return self

    def __exit__(self, *exc: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, *fields: object) -> list[str]:
        """Run one command; raises `JavaError` with what it threw."""
        assert self._process.stdin is not None
        self._process.stdin.write("\t".join(map(str, fields)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def work(
        self,
        bootstrap: str,
        *,
        workers: int,
        source: str,
        target: str,
        group: str,
        count: int,
        protocol: str = "classic",
    ) -> Worked:
        """Consume, transform, produce in one group until `count` records are committed; no target: only consume."""
        committed, aborted = self.ask("work", bootstrap, workers, source, target, group, protocol, count)
        return Worked(int(committed), int(aborted))

    def consume(
        self, bootstrap: str, topic: str, group: str, count: int, *, protocol: str = "classic"
    ) -> list[bytes]:
        """What a member of a group reads, who commits by hand."""
        lines = self.ask("consume", bootstrap, topic, group, protocol, count)
        return [base64.b64decode(line) for line in lines]

    def _answer(self) -> list[str]:
        assert self._process.stdout is not None
        overdue = threading.Timer(_CALL_SECONDS, self._process.kill)
        overdue.start()
        try:
            lines: list[str] = []
            while not (line := self._process.stdout.readline()).startswith(". "):
                if not line:
                    said = self._log.read_text(errors="replace")[-4000:]
                    raise AssertionError(f"Kafka's JVM ended: {lines[-5:]}\n{said}")
                lines.append(line.rstrip("\n"))
        finally:
            overdue.cancel()
        if line.startswith(". error "):
            raise JavaError(line.removeprefix(". error ").strip())
        return lines


class JavaProducer(TransactionalProducer):
    """org.apache.kafka.clients.producer.KafkaProducer."""

    name = "java"

    def __init__(
        self, bootstrap: str, transactional_id: str, *, shell: TransactionShell, **settings: str
    ) -> None:
        self._shell = shell
        self._name = f"producer {next(_numbers)}"
        pairs = [f"{name.replace('_', '.')}={value}" for name, value in settings.items()]
        shell.ask("open", self._name, bootstrap, transactional_id, *pairs)

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, partition: int, value: bytes) -> None:
        self._ask("send", topic, partition, base64.b64encode(value).decode())

    def flush(self) -> None:
        self._ask("flush")

    def send_offset(self, group: str, topic: str, partition: int, offset: int) -> None:
        self._ask("offset", group, topic, partition, offset)

    def send_offset_as(self, member: str, topic: str, partition: int, offset: int) -> None:
        """With what this member knew of its group when it had joined."""
        self._ask("offset_as", member, topic, partition, offset)

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def close(self) -> None:
        self._ask("close")

    def _ask(self, command: str, *fields: object) -> None:
        try:
            self._shell.ask(command, self._name, *fields)
        except JavaError as error:
            if str(error).startswith(_FENCED):
                raise FencedOutError(str(error)) from error
            raise
