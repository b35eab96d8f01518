"""Where the broker's time goes, request by request: the profile behind the figures of `broker`.

Role.   `python -m semel.bench profile` loads a broker of its own with some of `broker`'s workloads, first as it is, for
        what a request costs, then under a profiler, for what it does.
Flow.   a server that only takes bytes, writes them down and answers is measured with the same loader: what a request
        costs before anything is done for it -> the broker -> the broker under cProfile -> a page.
Rules.  * Costs are of the broker that is not profiled. A profiler makes calls dear: its shares say what is called, and
          roughly what it weighs, never how long it takes.
        * Transactions have no floor of their own: each is two (v2) or three (v1) requests, whose floor is that of tiny ones.
        * Time in C belongs to the Python function that called it. The profiler misses the event loop itself and the
          kernel's part of its reads; they are computed as the difference.
"""

import argparse
import os
import pstats
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from semel.bench.broker_load import (
    Load,
    ProduceFrame,
    Wire,
    exchange,
    fetch,
    produce_large,
    produce_small,
    records_of,
    small_requests,
)
from semel.bench.measure import BenchError
from semel.bench.transaction_load import V1, V2, await_transactions, transact
from semel.peers.processes import SemelProcess, pid_of
from semel.runtime.environment import environment

_Function: TypeAlias = tuple[str, int, str]
_BUILTIN: Final = "~"
_ROUNDS: Final = 3
_SCALE: Final = 100
_QUICK_SCALE: Final = 2
_SHARE_SHOWN_MIN: Final = 0.01
_FUNCTIONS_SHOWN: Final = 14
_DUMP_SECONDS_MAX: Final = 60.0
_TICK_SECONDS: Final = 1 / os.sysconf("SC_CLK_TCK")
_LAYERS: Final = (
    ("net/", "sockets"),
    ("core/wire/", "frames and the codec"),
    ("core/records/", "the batch: header, checksum, records"),
    ("core/idempotence/", "idempotence: judge and record"),
    ("core/transactions/", "transactions: decide and apply"),
    ("core/coordination/", "transactions: decide and apply"),
    ("broker/coordinators/", "the coordinator's host: append, apply, answer"),
    ("log/", "the log"),
    ("runtime/", "files and the clock"),
    ("broker/", "dispatch and handlers"),
)
_OTHER_LAYER: Final = "the rest"
_HEADER: Final = """\
# Where the broker's time goes

Written by `python -m semel.bench profile --write docs/benchmarks-profile.md`; do not edit. One broker, the loader of
[the comparison with Kafka](benchmarks-broker.md), no Kafka beside it. *User* and *system* are the CPU of the broker that
is not profiled, best of {rounds} rounds. *Floor* is a server on the same event loop that takes the bytes of a request,
writes them to a file and answers with as many bytes as the broker does: what Python, the loop and the kernel cost before
anything is decided. Shares are of cProfile and lean to what makes many small calls.
"""
_ANSWER_BYTES: Final = 60


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds of CPU of the broker, and of the wall, per request or per GB."""

    user: float
    system: float
    wall: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The cost and the profile of one workload."""

    name: str
    unit: str
    cost: Cost
    floor: Cost | None
    calls: float
    layers: Sequence[tuple[str, float]]
    """Shares of what the profiler saw."""
    functions: Sequence[tuple[str, float, float]]
    """Name, calls per unit, share."""


@dataclass(frozen=True, slots=True)
class _Work:
    name: str
    unit: str
    run: Callable[[Wire, str], Load]
    in_flight: int = 0
    """Of small requests, which have a floor."""
    count: int = 0

    def units(self, load: Load) -> float:
        return load.bytes / 1e9 if self.unit == "GB" else load.units


def _works(scale: int, bootstrap: str) -> list[_Work]:
    tiny = records_of(100, count=1)
    count = 200 * scale

    def small(in_flight: int) -> Callable[[Wire, str], Load]:
        def run(wire: Wire, topic: str) -> Load:
            wire.create_topic(topic)
            requests = small_requests(ProduceFrame.of(topic, tiny), count, wire.producer_id())
            return produce_small(wire, requests, in_flight=in_flight)

        return run

    def large(value_bytes: int) -> Callable[[Wire, str], Load]:
        records = records_of(value_bytes, batch_bytes=1_000_000)

        def run(wire: Wire, topic: str) -> Load:
            wire.create_topic(topic)
            return produce_large(wire, ProduceFrame.of(topic, records), 8 * scale, in_flight=5)

        return run

    def fetched(wire: Wire, topic: str) -> Load:
        wire.create_topic(topic)
        batch = ProduceFrame.of(topic, records_of(1024, batch_bytes=1_000_000))
        produce_large(wire, batch, 16, in_flight=5)
        loads = [fetch(wire, topic, batches=16, batch=batch, batches_per_fetch=8) for _ in range(scale)]
        return Load(
            sum(one.seconds for one in loads),
            sum(one.client_cpu for one in loads),
            sum(one.units for one in loads),
            sum(one.bytes for one in loads),
        )

    def transactional(producers: int, protocol: int) -> Callable[[Wire, str], Load]:
        def run(wire: Wire, topic: str) -> Load:
            wire.create_topic(topic, producers)
            names = [f"{topic}-{number}" for number in range(producers)]
            return transact(bootstrap, topic, names, count=max(1, 20 * scale // producers), protocol=protocol)

        return run

    return [
        *(
            _Work(
                f"tiny produce requests, {in_flight} in flight", "request", small(in_flight), in_flight, count
            )
            for in_flight in (1, 5, 50)
        ),
        _Work("produce 1 MB batches of 100 B", "GB", large(100)),
        _Work("produce 1 MB batches of 1 KiB", "GB", large(1024)),
        _Work("fetch 8 MB per request", "GB", fetched),
        *(
            _Work(
                f"transactions v{protocol} of one record, {producers} producer{'s' * (producers > 1)}",
                "transaction",
                transactional(producers, protocol),
            )
            for producers in (1, 10)
            for protocol in (V1, V2)
        ),
    ]


def profiles(scale: int, root: Path, show: Callable[[str], object]) -> list[Profile]:
    """Measure every workload; `scale` says how much of each."""
    dump = root / "profile"
    broker = SemelProcess(
        root / "broker", command=(sys.executable, "-m", "semel.bench.profiled_broker", str(dump))
    )
    broker.start()
    try:
        with Wire(broker.bootstrap) as wire:
            await_transactions(wire, "first")
            found = []
            for number, work in enumerate(_works(scale, broker.bootstrap)):
                found.append(_profile(work, wire, pid_of(broker), dump, f"w{number}", root))
                show(text_of(found[-1]))
            return found
    finally:
        broker.kill()


def _profile(work: _Work, wire: Wire, pid: int, dump: Path, topic: str, root: Path) -> Profile:
    work.run(wire, f"{topic}-warm")  # Kernels are loaded, the requests are known.
    fresh = (f"{topic}-{number}" for number in range(_ROUNDS))
    cost = _best([_cost(work, pid, lambda: work.run(wire, next(fresh))) for _ in range(_ROUNDS)])
    floor = _floor_cost(work, root) if work.in_flight else None
    os.kill(pid, signal.SIGUSR1)
    load = work.run(wire, f"{topic}-profiled")
    os.kill(pid, signal.SIGUSR2)
    stats = _dumped(dump)
    units = work.units(load)
    own = _own_seconds(stats)
    total = sum(seconds for seconds, _calls in own.values()) or 1.0
    layers: dict[str, float] = {}
    for (path, _line, _name), (seconds, _calls) in own.items():
        layers[_layer(path)] = layers.get(_layer(path), 0.0) + seconds / total
    ranked = sorted(own.items(), key=lambda one: -one[1][0])
    return Profile(
        name=work.name,
        unit=work.unit,
        cost=cost,
        floor=floor,
        calls=sum(calls for _seconds, calls in own.values()) / units,
        layers=sorted(layers.items(), key=lambda one: -one[1]),
        functions=[
            (f"{_short(path)}: {name}", calls / units, seconds / total)
            for (path, _line, name), (seconds, calls) in ranked[:_FUNCTIONS_SHOWN]
        ],
    )


def _cost(work: _Work, pid: int, run: Callable[[], Load]) -> Cost:
    before = _cpu(pid)
    load = run()
    after = _cpu(pid)
    units = work.units(load)
    return Cost((after[0] - before[0]) / units, (after[1] - before[1]) / units, load.seconds / units)


def _cpu(pid: int) -> tuple[float, float]:
    """User and system seconds of a process, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) * _TICK_SECONDS, int(fields[12]) * _TICK_SECONDS


def _floor_cost(work: _Work, root: Path) -> Cost:
    """The same exchange with a server that decides nothing."""
    requests = small_requests(ProduceFrame.of("floor", records_of(100, count=1)), work.count, 1)
    sizes = (str(requests.frame_bytes), str(_ANSWER_BYTES))
    process = subprocess.Popen(
        [sys.executable, "-m", "semel.bench.floor", *sizes, str(root / "floor.dat")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        with Wire(process.stdout.readline().strip().rpartition(" ")[2]) as wire:
            return _best(
                _cost(work, process.pid, lambda: exchange(wire, requests, in_flight=work.in_flight)[0])
                for _ in range(_ROUNDS)
            )
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _best(rounds: Iterable[Cost]) -> Cost:
    return min(rounds, key=lambda cost: cost.user + cost.system)


# The profile


def _dumped(path: Path) -> "pstats.Stats":
    deadline = time.monotonic() + _DUMP_SECONDS_MAX
    while not path.exists():
        if time.monotonic() > deadline:
            raise BenchError(f"the broker wrote no profile within {_DUMP_SECONDS_MAX:.0f} s")
        time.sleep(0.05)
    stats = pstats.Stats(str(path))
    path.unlink()
    return stats


def _own_seconds(stats: "pstats.Stats") -> dict[_Function, tuple[float, int]]:
    """Seconds and calls of every Python function; C functions count for who called them."""
    own: dict[_Function, tuple[float, int]] = {}

    def add(function: _Function, seconds: float, calls: int) -> None:
        before = own.get(function, (0.0, 0))
        own[function] = (before[0] + seconds, before[1] + calls)

    rows: dict[_Function, Any] = stats.stats  # type: ignore[attr-defined]  # Its documented content, without a type.
    for function, (_primitive, calls, seconds, _cumulative, callers) in rows.items():
        if function[0] != _BUILTIN:
            add(function, seconds, calls)
            continue
        for caller, (caller_calls, _, caller_seconds, _) in callers.items():
            add(caller, caller_seconds, caller_calls)
    return own


def _short(path: str) -> str:
    return path.rpartition("/semel/")[2]


def _layer(path: str) -> str:
    short = _short(path)
    return next((name for start, name in _LAYERS if short.startswith(start)), _OTHER_LAYER)


# The page


def text_of(profile: Profile) -> str:
    """One workload, as a part of the page."""
    scale, unit = (1.0, "s") if profile.unit == "GB" else (1e6, "µs")
    costs = [("the broker", profile.cost), *([("floor", profile.floor)] if profile.floor else [])]
    lines = [
        f"## {profile.name}",
        "",
        f"| {unit} per {profile.unit} | user | system | wall |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {cost.user * scale:.3g} | {cost.system * scale:.3g} | {cost.wall * scale:.3g} |"
            for name, cost in costs
        ),
        "",
        f"{profile.calls:.0f} calls per {profile.unit}. Of what the profiler sees:",
        "",
        "| | share |",
        "|---|---:|",
        *(f"| {name} | {share:.0%} |" for name, share in profile.layers if share >= _SHARE_SHOWN_MIN),
        "",
        f"| function, with the C it calls | calls per {profile.unit} | share |",
        "|---|---:|---:|",
        *(f"| `{name}` | {calls:.3g} | {share:.1%} |" for name, calls, share in profile.functions),
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench profile`."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.bench profile",
        description="Show where the broker's time goes, workload by workload.",
        epilog="Example: python -m semel.bench profile --write benchmarks-profile.md",
    )
    parser.add_argument("--quick", action="store_true", help="little work: a first look, not to be published")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help="write this page")
    options = parser.parse_args(arguments)
    if options.quick and options.write is not None:
        parser.error("--quick figures are not for a page; leave out --quick or --write")
    root = Path(tempfile.mkdtemp(prefix="semel-profile-"))
    try:
        found = profiles(_QUICK_SCALE if options.quick else _SCALE, root, print)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if options.write is not None:
        where = environment("python -m semel.bench profile")
        parts = [f"{_HEADER.format(rounds=_ROUNDS)}\n{where.text}", *map(text_of, found)]
        options.write.write_text("\n".join(parts), encoding="utf-8")
        print(f"written to {options.write}", file=sys.stderr)
    return 0
