"""A program of tests/java that is asked line by line, as long as its JVM lives.

A command is one line of fields, perhaps with lines of data after it; its answer is any number of lines and one that begins
with a dot: done, or what Java threw.
"""

import signal
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, ClassVar, Final, Self

from semel.peers.kafka import KafkaHome

_PROGRAMS: Final = Path(__file__).parents[2] / "java"
_CALL_SECONDS: Final = 120


class JvmShell:
    """The JVM: a command goes in, lines come out."""

    program: ClassVar[str]
    error: ClassVar[type[Exception]]
    """What is raised with what Java threw."""

    def __init__(self, home: KafkaHome, log: IO[bytes]) -> None:
        self.version = home.version
        self._log = Path(log.name)
        self._process = subprocess.Popen(
            home.java(str(_PROGRAMS / self.program)),
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

    def signal(self, number: signal.Signals) -> None:
        """Stop the whole JVM, or let it go on."""
        self._process.send_signal(number)

    def ask(self, *fields: object, data: Sequence[str] = ()) -> list[str]:
        """Run one command; raises `error` if it failed."""
        assert self._process.stdin is not None
        lines = ["\t".join(map(str, fields)), *data]
        self._process.stdin.write("".join(line + "\n" for line in lines))
        self._process.stdin.flush()
        return self._answer()

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
            raise self.error(line.removeprefix(". error ").strip())
        return lines
