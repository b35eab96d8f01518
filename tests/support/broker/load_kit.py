"""What the tests of load and abuse share: a broker process, and somebody who goes on using it while others misbehave.

`Bystander` produces one record after the other on a thread and reads each back. What it is told must be right whatever happens around
it, and how long it waits is compared with how long it waited before: generously, for the machine is shared by all of it.
"""

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Self

from semel.bench.abuse import forget_peak, peak_bytes
from semel.bench.broker_load import FETCH_VERSION, ProduceFrame, Wire, fetch_request, produced, records_of
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.registry import ApiKey
from semel.peers.processes import SemelProcess, pid_of, resident_bytes

PATIENCE_SECONDS = 200.0
TIMES_SLOWER_MAX = 30
"""How much longer the middle answer may take, next to everything that was done to the broker."""
SECONDS_ON_TOP_MAX = 0.1
LONGEST_SECONDS_MAX = 10.0
QUIET_ROUNDS = 200


@contextmanager
def loaded_broker(directory: Path, **settings: str) -> Iterator[SemelProcess]:
    """A broker that has taken its first batch and loaded what it needs for the next ones."""
    raise_file_limit()
    broker = SemelProcess(directory, {key.replace("_", "."): value for key, value in settings.items()})
    broker.start()
    try:
        with Wire(broker.bootstrap) as wire:
            wire.create_topic("first")
            frame = ProduceFrame.of("first", records_of(100, count=1))
            frame.identify(-1)
            wire.socket.sendall(frame.data)
            assert produced(wire.receive()).error_code == 0
        _await_kernels(directory / "stderr.log")
        yield broker
    finally:
        broker.kill()


def _await_kernels(errors: Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while b"compiled kernels are in use" not in errors.read_bytes():
        assert time.monotonic() < deadline, errors.read_text(errors="replace")
        time.sleep(0.02)


def raise_file_limit() -> None:
    """Let this process open as many sockets as the system allows it."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections(broker: SemelProcess, count: int) -> list[Wire]:
    """So many connections. Now and then one is answered, so that those before it have been accepted: none is turned away by a
    full backlog, to come again a second later."""
    made: list[Wire] = []
    for number in range(count):
        made.append(Wire(broker.bootstrap))
        if number % 40 == 39:
            answered(made[-1])
    return made


def answered(wire: Wire) -> None:
    """What was sent to the broker before, by anybody, has been read when this returns."""
    for _ in range(2):
        assert wire.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(), 2).error_code == 0


def open_files(broker: SemelProcess) -> int:
    return len(list(Path(f"/proc/{pid_of(broker)}/fd").iterdir()))


@dataclass
class Memory:
    """What a broker holds more than when this was made."""

    broker: SemelProcess
    before_bytes: int = 0

    def __post_init__(self) -> None:
        self.before_bytes = resident_bytes(pid_of(self.broker))

    @property
    def grown_bytes(self) -> int:
        return resident_bytes(pid_of(self.broker)) - self.before_bytes


@dataclass
class Peak:
    """The most memory a broker takes from now on, above what it has."""

    broker: SemelProcess
    before_bytes: int = 0

    def __post_init__(self) -> None:
        self.before_bytes = resident_bytes(pid_of(self.broker))
        forget_peak(pid_of(self.broker))

    @property
    def grown_bytes(self) -> int:
        return peak_bytes(pid_of(self.broker)) - self.before_bytes


@dataclass
class Bystander:
    """A client that minds its own business: `with` it, the broker is disturbed; afterwards it must have been served."""

    bootstrap: str
    topic: str
    quiet: list[float] = field(default_factory=list)
    disturbed: list[float] = field(default_factory=list)
    _next_offset: int = 0
    _error: BaseException | None = None
    _done: threading.Event = field(default_factory=threading.Event)
    _begun: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._wire = Wire(self.bootstrap)
        self._wire.create_topic(self.topic)
        self._frame = ProduceFrame.of(self.topic, records_of(100, count=1))
        self._frame.identify(-1)
        self.quiet = [self._round() for _ in range(QUIET_ROUNDS)]
        self._thread = threading.Thread(target=self._go_on, daemon=True)
        self._thread.start()
        self._begun.wait(PATIENCE_SECONDS)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self._done.set()
        self._thread.join(PATIENCE_SECONDS)
        self._wire.socket.close()
        if kind is None:
            self._judge()

    def _go_on(self) -> None:
        try:
            while not self._done.is_set():
                self.disturbed.append(self._round())
                self._begun.set()
            self.disturbed.append(self._round())
        except BaseException as error:
            self._error = error
        finally:
            self._begun.set()

    def _round(self) -> float:
        """One record written and read back; seconds."""
        began = time.monotonic()
        self._wire.socket.sendall(self._frame.data)
        answer = produced(self._wire.receive())
        assert (answer.error_code, answer.base_offset) == (0, self._next_offset)
        read = self._wire.ask(
            ApiKey.FETCH, fetch_request(self.topic, 1 << 20, self._next_offset), FETCH_VERSION
        )
        partition = read.responses[0].partitions[0]
        assert partition.error_code == 0
        assert partition.records is not None
        assert int.from_bytes(partition.records[:8], "big") == self._next_offset
        self._next_offset += 1
        return time.monotonic() - began

    def _judge(self) -> None:
        assert self._error is None, f"the bystander was not served: {self._error!r}"
        assert not self._thread.is_alive(), "the bystander still waits for an answer"
        usual, now = median(self.quiet), median(self.disturbed)
        assert now <= TIMES_SLOWER_MAX * usual + SECONDS_ON_TOP_MAX, (usual, now)
        longest = TIMES_SLOWER_MAX * max(self.quiet) + LONGEST_SECONDS_MAX
        assert max(self.disturbed) <= longest, (max(self.quiet), max(self.disturbed))
