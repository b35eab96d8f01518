"""The cost of one client's requests for another: its longest wait during bombs, requests of many rows and searches,
beside Apache Kafka.

Role.   `python -m semel.bench abuse` sends each of `abuse_requests` to both brokers while another client repeats a
        small request; `--write` makes the page with its table.
Flow.   a broker per abuse and round -> prepare -> another client begins to ask -> the requests -> their answers -> its longest wait.
Rules.  * Each abuse gets a new broker, so that its memory is not another's.
        * Memory is the peak of resident bytes above what the broker had, as the system counts it.
        * A request that is not answered, but ends its connection, is an answer too, and shown as one. An answer is waited for
          a minute.
"""

import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from semel.bench.abuse_requests import ABUSES, Abuse
from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, Target, figure, table
from semel.bench.broker_load import LoadError, ProduceFrame, Wire, produced, records_of
from semel.bench.broker_workloads import KAFKA, SEMEL
from semel.bench.peer import Maker, own_makers, peer_of, peer_words
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.registry import ApiKey
from semel.peers.processes import BrokerProcess, pid_of, resident_bytes

_PAIRS_DEFAULT: Final = 3
_QUICK_PAIRS: Final = 1
_PAUSE_SECONDS: Final = 0.001
_SETTLE_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 600.0
_ANSWER_SECONDS: Final = 60.0
_WARM_SECONDS: Final = 3.0
_API_VERSIONS: Final = 2
_AT_MOST: Final = Target(100, absolute=True)
_HEADER: Final = """\
# What one client's requests cost another, beside Apache Kafka

Written by `python -m semel.bench abuse --write docs/benchmarks-abuse.md`; do not edit. One client sends what is named on the left, while
another asks for ApiVersions again and again, a millisecond after each answer. *ms another client waited* is the longest of its waits.
*MB at most* is the peak of resident memory above what the broker had before. Every broker is fresh; Apache Kafka {version} runs at the
settings it ships with and its heap of 1 GB, with many threads: a wait there means that all of them were busy, or its collector.

![Semel beside Apache Kafka]({plot})

"""
_NOTES: Final = (
    "Semel closes the connection of a request with more than 50,000 rows (10,000 where they are decided together) and logs it.",
    "A refusal of Semel names at most ten records; Kafka's answer to a million records out of time names them all.",
    "Records of one batch may decompress to 128 MiB. Kafka has no such limit, and looks at records as they stream by.",
)


@dataclass(frozen=True, slots=True)
class Seen:
    """One abuse of one broker."""

    longest_ms: float
    seconds: float
    peak_bytes: float
    answer: str


class Bystander:
    """Another client, on a thread: how long it waited at most."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.longest_seconds = 0.0
        self.error: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        self._begun.wait(_PATIENCE_SECONDS)
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop.set()
        self._thread.join(_PATIENCE_SECONDS)
        if self.error is not None:
            raise LoadError(f"the other client was not served: {self.error}") from self.error

    def _ask(self) -> None:
        try:
            with Wire(self._bootstrap) as wire:
                wire.socket.settimeout(_PATIENCE_SECONDS)
                while not self._stop.is_set():
                    began = time.perf_counter()
                    wire.ask(ApiKey.API_VERSIONS, ApiVersionsRequest(), _API_VERSIONS)
                    if self._begun.is_set():  # The first answers pay for imports.
                        self.longest_seconds = max(self.longest_seconds, time.perf_counter() - began)
                    self._begun.set()
                    self._stop.wait(_PAUSE_SECONDS)
        except BaseException as error:
            self.error = error
        finally:
            self._begun.set()


def abused(broker: BrokerProcess, abuse: Abuse) -> Seen:
    """Send it to a broker that runs."""
    with Wire(broker.bootstrap) as wire:
        wire.socket.settimeout(_ANSWER_SECONDS)
        topic = abuse.prepare(wire)
        frames = abuse.frames(topic)
        pid = pid_of(broker)
        before = resident_bytes(pid)
        forget_peak(pid)
        with Bystander(broker.bootstrap) as beside:
            began = time.perf_counter()
            answer = _answer(wire, frames)
            seconds = time.perf_counter() - began
        return Seen(beside.longest_seconds * 1000, seconds, peak_bytes(pid) - before, answer)


def _answer(wire: Wire, frames: Sequence[bytes]) -> str:
    """The broker's answer as text: its size, or the end of the connection."""
    received = 0
    try:
        for one in frames:
            wire.socket.sendall(one)
            received += len(wire.receive())
    except (LoadError, ConnectionError):
        return "connection closed"
    except TimeoutError:
        return f"none within {_ANSWER_SECONDS:.0f} s"
    return f"{received:,} bytes"


def forget_peak(pid: int) -> None:
    """Let the system count the peak of resident memory anew."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def peak_bytes(pid: int) -> int:
    """The most memory a process had since then."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise LoadError(f"process {pid} has no memory: it has ended")


def _warmed(broker: BrokerProcess) -> None:
    """A broker that has taken batches for a while: what it loads with the first ones is loaded."""
    until = time.monotonic() + _WARM_SECONDS
    with Wire(broker.bootstrap) as wire:
        wire.create_topic("first")
        frame = ProduceFrame.of("first", records_of(100, count=1))
        frame.identify(-1)
        while time.monotonic() < until:
            wire.socket.sendall(frame.data)
            if produced(wire.receive()).error_code:
                raise LoadError("the first record was refused")
            time.sleep(_PAUSE_SECONDS)
    time.sleep(_SETTLE_SECONDS)


def measured(
    makers: Mapping[str, Maker],
    abuses: Sequence[Abuse],
    rounds: int,
    root: Path,
    show: Callable[[str], object],
) -> tuple[list[Figure], dict[tuple[str, str], str]]:
    """The figures, and what each broker answered to each abuse."""
    made: list[Figure] = []
    answers: dict[tuple[str, str], str] = {}
    for abuse in abuses:
        seen: dict[str, list[Seen]] = {name: [] for name in makers}
        for number in range(rounds):
            for name in makers if number % 2 == 0 else reversed(list(makers)):
                broker = makers[name](root / "run")
                try:
                    broker.start()
                    _warmed(broker)
                    seen[name].append(abused(broker, abuse))
                finally:
                    broker.kill()
                    shutil.rmtree(root / "run", ignore_errors=True)
        made += (fresh := _figures(abuse, seen))
        answers |= {(name, abuse.name): values[-1].answer for name, values in seen.items()}
        show(table(fresh))
    return made, answers


def _figures(abuse: Abuse, seen: Mapping[str, list[Seen]]) -> list[Figure]:
    def both(quantity: str, value: Callable[[Seen], float], *targets: Target) -> Figure:
        semel, kafka = ([value(one) for one in seen.get(name, ())] for name in (SEMEL, KAFKA))
        return figure("Abuse", abuse.name, quantity, semel, kafka, targets=targets)

    return [
        both("ms another client waited", lambda one: one.longest_ms, _AT_MOST),
        both("MB at most", lambda one: max(one.peak_bytes / 1e6, 0.1)),
        both("s until the answer", lambda one: one.seconds),
    ]


def answers_table(answers: Mapping[tuple[str, str], str]) -> str:
    """The brokers' answers as a table."""
    lines = ["## Answers", "", "| | Semel | Kafka |", "|---|---|---|"]
    lines += [
        f"| {abuse.name} | {answers.get((SEMEL, abuse.name), '')} | {answers.get((KAFKA, abuse.name), '')} |"
        for abuse in ABUSES
    ]
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench abuse`."""
    parser = parser_of("abuse", "what one client's requests cost another")
    options = options_of(parser, arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else _PAIRS_DEFAULT)
    answers: dict[tuple[str, str], str] = {}

    def measure(root: Path) -> list[Figure]:
        figures, said = measured(own_makers(peer_of(options), {}), ABUSES, pairs, root, show)
        answers.update(said)
        return figures

    return carry_out(
        options,
        measure,
        f"python -m semel.bench abuse --pairs {pairs}{peer_words(options)}",
        _NOTES,
        header=_HEADER,
        suite="abuse",
        also=lambda _figures: answers_table(answers),
    )
