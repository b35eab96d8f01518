"""Apache Kafka's Java client and tools, driven through one JVM: see tests/java/CompatShell.java."""

import base64
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, NamedTuple, Self

from compat_clients import DEADLINE_SECONDS, Client, ClientError
from compat_kit import Got, Sent
from semel.bench.kafka_peer import KafkaHome

_SHELL: Final = Path(__file__).parent / "java" / "CompatShell.java"
_CALL_SECONDS: Final = 120


class ToolRun(NamedTuple):
    """How a tool ended and everything it printed."""

    status: int
    output: str


class JavaShell:
    """The JVM: a command goes in, lines come out."""

    def __init__(self, home: KafkaHome, log: IO[bytes]) -> None:
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

    def ask(self, *fields: object, data: Sequence[str] = ()) -> list[str]:
        """Run one command; raises `ClientError` with the reason if it failed."""
        assert self._process.stdin is not None
        lines = ["\t".join(map(str, fields)), *data]
        self._process.stdin.write("".join(line + "\n" for line in lines))
        self._process.stdin.flush()
        return self._answer()

    def tool(self, name: str, *arguments: str) -> ToolRun:
        """Run one of Kafka's tools by the name of its class."""
        *lines, status = self.ask("tool", name, *arguments)
        return ToolRun(int(status), "\n".join(line[1:] for line in lines))

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
            raise ClientError(line.removeprefix(". error ").strip())
        return lines


class JavaClient(Client):
    """org.apache.kafka.clients."""

    name = "java"

    def __init__(self, shell: JavaShell) -> None:
        self._shell = shell

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
        settings = {
            "enable.idempotence": str(idempotent).lower(),
            "acks": "all",
            "compression.type": codec,
            "linger.ms": "1",
            "batch.size": str(batch_bytes),
            "max.request.size": "2000000",
            "max.in.flight.requests.per.connection": "5",
            "delivery.timeout.ms": str(DEADLINE_SECONDS * 1000),
        }
        if lossy:
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
