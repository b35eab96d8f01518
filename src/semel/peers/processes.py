"""Broker processes to measure: start, stop and kill them; what CPU and memory they have used.

Role.   `SemelProcess` and `kafka.KafkaBroker` look the same to a benchmark (`BrokerProcess`): a broker of its own
        process, on a directory of its own, at stock settings. `RemoteBroker` is one that runs already.
Rules.  * CPU seconds are those of the whole process, all threads, in nanoseconds, from the process's own CPU clock:
          the ticks of /proc/PID/stat are 10 ms, as long as some runs.
        * Memory is VmRSS: what is resident, shared libraries included, mapped files of logs as well.
        * A directory that many runs begin from is cloned: logs, which no start changes, are linked and all else copied.
"""

import math
import os
import selectors
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final, Protocol

from semel.peers import children
from semel.peers.kafka import PeerFailedError

_START_TIMEOUT_SECONDS: Final = 300.0
_READY: Final = " ready on "
_CPU_CLOCK_OF_PROCESS: Final = (
    2  # Linux: the low bits of a clock id that say "scheduled time of a whole process".
)


class BrokerProcess(Protocol):
    """A broker that runs in its own process."""

    @property
    def process(self) -> subprocess.Popen[bytes] | None: ...

    @property
    def bootstrap(self) -> str:
        """host:port."""

    def start(self) -> None:
        """Return once it serves."""

    def stop(self) -> None: ...

    def kill(self) -> None:
        """kill -9."""


@dataclass(slots=True)
class SemelProcess:
    """`semel broker` on a directory."""

    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    command: Sequence[str] = (sys.executable, "-m", "semel", "broker")
    process: subprocess.Popen[bytes] | None = None
    bootstrap: str = ""
    _errors: IO[bytes] | None = None

    def start(self) -> None:
        """Return once it has said that it serves."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._errors = (self.directory / "stderr.log").open("wb")
        keys = [part for key, value in self.settings.items() for part in ("-X", f"{key}={value}")]
        self.process = subprocess.Popen(
            [*self.command, "--listen", "127.0.0.1:0", "--data-dir", str(self.directory / "data"), *keys],
            stdout=subprocess.PIPE,
            stderr=self._errors,
            stdin=subprocess.DEVNULL,
        )
        self.bootstrap = self._ready_line().rpartition(_READY)[2]

    def _ready_line(self) -> str:
        assert self.process is not None
        assert self.process.stdout is not None
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            deadline = time.monotonic() + _START_TIMEOUT_SECONDS
            while not line.endswith(b"\n"):
                piece = (
                    os.read(self.process.stdout.fileno(), 4096)
                    if selector.select(deadline - time.monotonic())
                    else b""
                )
                if not piece:
                    self.kill()
                    said = (self.directory / "stderr.log").read_text(errors="replace")
                    raise PeerFailedError(f"the broker did not start: {line!r}\n{said[-4000:]}")
                line += piece
        text = line.decode().strip()
        if _READY not in text:
            self.kill()
            raise PeerFailedError(f"the broker said {text!r}, not that it is ready")
        return text

    def stop(self) -> None:
        """SIGTERM; killed if it takes too long."""
        children.end(self.process)
        self._forget()

    def kill(self) -> None:
        """kill -9."""
        children.kill(self.process)
        self._forget()

    def _forget(self) -> None:
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None
        if self._errors is not None:
            self._errors.close()
            self._errors = None


@dataclass(slots=True)
class RemoteBroker:
    """A broker that runs already: it looks like one of our processes, but is not ours to start, end or look into."""

    bootstrap: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


def pid_of(broker: BrokerProcess) -> int:
    """Its process id; raises if it does not run."""
    if broker.process is None or broker.process.poll() is not None:
        raise PeerFailedError(f"the broker at {broker.bootstrap or 'no address'} does not run")
    return broker.process.pid


def cpu_seconds(pid: int) -> float:
    """CPU seconds a running process has used, user and system, all threads, those that have ended included."""
    return time.clock_gettime((~pid << 3) | _CPU_CLOCK_OF_PROCESS)


def cpu_of(broker: BrokerProcess) -> float:
    """CPU seconds a broker has used; not a number where it is not ours to look into."""
    return math.nan if isinstance(broker, RemoteBroker) else cpu_seconds(pid_of(broker))


def resident_bytes(pid: int) -> int:
    """VmRSS of a running process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise PeerFailedError(f"process {pid} has no memory: it has ended")


def clone(source: Path, target: Path) -> None:
    """A directory to start from again: records are shared, everything a start may change is a copy."""
    for folder, _folders, names in os.walk(source):
        copied = target / Path(folder).relative_to(source)
        copied.mkdir(parents=True)
        for name in names:
            original = Path(folder) / name
            if original.suffix == ".log" and original.parent != source:
                os.link(original, copied / name)
            else:
                shutil.copy2(original, copied / name)
