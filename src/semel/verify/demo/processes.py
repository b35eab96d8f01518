"""The processes of a demonstration: started, listened to, killed for real, and never left behind.

Role.   `BrokerProcess` is a broker on a directory that outlives it. `Child` is any other program of ours that reports by
        lines on standard output and takes orders on standard input.
Rules.  * Every process has a session of its own: a kill takes its children with it. Ctrl-C in a terminal reaches only us,
          and we end them. A `Child` is to end when its standard input does, so that it does not outlive us.
        * The standard error of a process is kept in a file, and its end is shown when something fails.
"""

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from semel.errors import SemelError

_START_SECONDS: Final = 120.0
"""Much: a machine that has other things to do starts a process late."""
_STOP_SECONDS: Final = 20.0
_LAST_LINES_SECONDS: Final = 0.5
_READY: Final = "ready on "
_LOG_CHARACTERS_MAX: Final = 3000


class DemoFailedError(SemelError):
    """The demonstration could not be carried out; the text says why."""


class Child:
    """A program in a process of its own; `lines` are what it says."""

    def __init__(self, name: str, command: Sequence[str], log: Path, *, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        self.lines: queue.Queue[str] = queue.Queue()
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
                env=os.environ | environment,
            )
        self._listener = threading.Thread(target=self._listen, name=f"{name}-lines", daemon=True)
        self._listener.start()

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str) -> None:
        """An order; a process that is gone hears nothing."""
        stdin = _pipe(self._process.stdin)
        with contextlib.suppress(BrokenPipeError):
            stdin.write(line + "\n")
            stdin.flush()

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send the signal to the process and what it started, and wait until it is gone; at last it is killed."""
        self.signal(number)
        self.signal(signal.SIGCONT)  # A process that stands still hears nothing but SIGKILL.
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()
        self._listener.join(
            _LAST_LINES_SECONDS
        )  # Its children may hold the pipe a little longer than it lives.

    def signal(self, number: signal.Signals) -> None:
        """To the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def wait(self, seconds: float) -> int | None:
        """How it ended, or None if it still runs after this time."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def first_line(self, seconds: float) -> str:
        """Its first line; nothing if it ends before it says anything, or takes longer."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            is_gone = self.code is not None
            try:
                return self.lines.get(timeout=_LAST_LINES_SECONDS)
            except queue.Empty:
                if is_gone:
                    break
        return ""

    def last_words(self) -> str:
        """The end of what it wrote to standard error."""
        return self.log.read_text(errors="replace")[-_LOG_CHARACTERS_MAX:].strip()

    def _listen(self) -> None:
        with _pipe(self._process.stdout) as stdout:
            for line in stdout:
                self.lines.put(line.rstrip("\n"))


class BrokerProcess:
    """A broker in a process of its own, on a directory that outlives it."""

    def __init__(self, data_dir: Path, settings: dict[str, str] | None = None) -> None:
        self._data_dir = data_dir
        self._settings = dict(settings or {})
        self._child: Child | None = None
        self.bootstrap = ""

    @property
    def address(self) -> tuple[str, int]:
        host, _colon, port = self.bootstrap.rpartition(":")
        return host, int(port)

    @property
    def code(self) -> int | None:
        """How it ended; None while it runs, and while it is not meant to."""
        return None if self._child is None else self._child.code

    @property
    def pid(self) -> int | None:
        """The process that runs now."""
        return None if self._child is None else self._child.pid

    def last_words(self) -> str:
        return "" if self._child is None else self._child.last_words()

    def start(self) -> None:
        """Start and wait until it serves, on a free port."""
        options = [word for key, value in self._settings.items() for word in ("-X", f"{key}={value}")]
        command = [sys.executable, *self._program(), "--listen", "127.0.0.1:0", "--data-dir"]
        self._data_dir.parent.mkdir(parents=True, exist_ok=True)
        child = Child(
            "broker",
            [*command, str(self._data_dir), *options],
            self._data_dir.parent / "broker.log",
            environment={},
        )
        self._child = child
        line = child.first_line(_START_SECONDS)
        if _READY not in line:
            raise DemoFailedError(
                f"the broker did not start within {_START_SECONDS:.0f} s: {line} {child.last_words()}"
            )
        self.bootstrap = line.rpartition(_READY)[2].strip()

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: it is there, and does nothing."""
        if self._child is not None:
            self._child.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT: it goes on, and knows nothing of the pause."""
        if self._child is not None:
            self._child.signal(signal.SIGCONT)

    def _program(self) -> list[str]:
        """Arguments for Python: the module to run; its options follow."""
        return ["-m", "semel", "broker"]

    def _end(self, number: signal.Signals) -> None:
        if self._child is not None:
            self._child.end(number)
            self._child = None


def _pipe(stream: IO[str] | None) -> IO[str]:
    if stream is None:
        raise DemoFailedError("a process was started without its pipes")
    return stream
