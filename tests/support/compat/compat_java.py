"""Apache Kafka's Java client and tools, driven through one JVM: see tests/java/CompatShell.java."""

import base64
from collections.abc import Sequence
from typing import NamedTuple

from support.compat.compat_clients import DEADLINE_SECONDS, Client, ClientError, Sending
from support.compat.compat_kit import Got, Sent
from support.peers.java_shell import JvmShell


class ToolRun(NamedTuple):
    """How a tool ended and everything it printed."""

    status: int
    output: str


class JavaShell(JvmShell):
    """Clients and tools, each command by itself."""

    program = "CompatShell.java"
    error = ClientError

    def tool(self, name: str, *arguments: str) -> ToolRun:
        """Run one of Kafka's tools by the name of its class."""
        *lines, status = self.ask("tool", name, *arguments)
        return ToolRun(int(status), "\n".join(line[1:] for line in lines))


class JavaClient(Client):
    """org.apache.kafka.clients."""

    name = "java"

    def __init__(self, shell: JavaShell) -> None:
        self._shell = shell

    def _send(self, bootstrap: str, topic: str, records: Sequence[Sent], sending: Sending) -> list[int]:
        settings = {
            "enable.idempotence": str(sending.idempotent).lower(),
            "acks": "all",
            "compression.type": sending.codec,
            "linger.ms": "1",
            "batch.size": str(sending.batch_bytes),
            "max.request.size": "2000000",
            "max.in.flight.requests.per.connection": "5",
            "delivery.timeout.ms": str(DEADLINE_SECONDS * 1000),
        }
        if sending.lossy:
            settings |= {
                "reconnect.backoff.ms": "1",
                "reconnect.backoff.max.ms": "20",
                "retry.backoff.ms": "1",
                "retry.backoff.max.ms": "20",
                "request.timeout.ms": "1000",
            }
        lines = [
            "\t".join(
                [
                    str(record.partition),
                    _text(record.key),
                    _text(record.value),
                    "-" if record.timestamp_ms is None else str(record.timestamp_ms),
                    *(part for name, value in record.headers for part in (name, _text(value))),
                ]
            )
            for record in records
        ]
        pairs = [f"{name}={value}" for name, value in settings.items()]
        answer = self._shell.ask("produce", bootstrap, topic, len(records), *pairs, data=lines)
        return [int(line) for line in answer]

    def read(self, bootstrap: str, topic: str, partition: int, first_offset: int, count: int) -> list[Got]:
        return [
            _got(line) for line in self._shell.ask("read", bootstrap, topic, partition, first_offset, count)
        ]

    def offsets(self, bootstrap: str, topic: str, partition: int) -> tuple[int, int]:
        first, end = self._shell.ask("offsets", bootstrap, topic, partition)
        return int(first), int(end)

    def offset_at(self, bootstrap: str, topic: str, partition: int, timestamp_ms: int) -> int | None:
        [found] = self._shell.ask("at", bootstrap, topic, partition, timestamp_ms)
        return None if found == "-" else int(found)


def _got(line: str) -> Got:
    partition, offset, key, value, timestamp, log_append, *headers = line.split("\t")
    return Got(
        int(partition),
        int(offset),
        _bytes(key),
        _bytes(value),
        tuple((name, _bytes(content)) for name, content in zip(headers[::2], headers[1::2], strict=True)),
        int(timestamp),
        log_append == "true",
    )


def _text(data: bytes | None) -> str:
    return "-" if data is None else base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text)
