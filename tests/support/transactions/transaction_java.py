"""Apache Kafka's Java client as a transactional producer and as a worker: see tests/java/TransactionShell.java.

One JVM per version is shared by all tests. Version 4.3 speaks transactions v2 (KIP-890), 3.9 speaks v1.
"""

import base64
import itertools
from typing import Final, NamedTuple

from support.peers.java_shell import JvmShell
from support.transactions.transaction_clients import TIMEOUT_MS, FencedOutError, TransactionalProducer

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


class TransactionShell(JvmShell):
    """Producers that stay open between commands, and workers."""

    program = "TransactionShell.java"
    error = JavaError

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

    def read(self, bootstrap: str, topic: str, partition: int, *, committed: bool) -> tuple[int, list[bytes]]:
        """Where the partition ends for a reader of this isolation, and everything before."""
        isolation = "read_committed" if committed else "read_uncommitted"
        end, *lines = self.ask("read", bootstrap, topic, partition, isolation)
        return int(end), [base64.b64decode(line) for line in lines]


class JavaProducer(TransactionalProducer):
    """org.apache.kafka.clients.producer.KafkaProducer."""

    name = "java"

    def __init__(
        self,
        bootstrap: str,
        transactional_id: str,
        *,
        shell: TransactionShell,
        timeout_ms: int = TIMEOUT_MS,
        **settings: str,
    ) -> None:
        self._shell = shell
        self._name = f"producer {next(_numbers)}"
        settings.setdefault("transaction_timeout_ms", str(timeout_ms))
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
