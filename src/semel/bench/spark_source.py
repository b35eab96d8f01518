"""Reading with Spark: rows per second of batch and stream, processor time, memory of the Python workers.

Role.   The part of `python -m semel.bench spark` that measures the source.
Rules.  * Every row of a topic is read in every run, and counted by Spark: a run that reads less is an error, not a result.
        * Memory is the largest resident size a Python worker of the session has had by the end of a round.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench
from semel.bench.spark_rounds import FORMATS, filled, interleaved, read_options, run_to_end, unique

if TYPE_CHECKING:
    import pyarrow as pa

_TARGET: Final = Target(1.5, at_least=True)
_MEMORY_TARGET: Final = Target(512, absolute=True)
_WATCH_SECONDS: Final = 0.2
_MB: Final = 1 << 20
_PYTHON: Final = b"\0-m\0pyspark."
"""In the command lines of Spark's Python processes, and not in the JVM's."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    records: int = 4_000_000
    large_records: int = 300_000


QUICK: Final = Scale(records=300_000, large_records=50_000)
Run = Callable[[Bench, str, str, str], int]


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """All figures of the source, workload by workload."""
    scale = QUICK if bench.is_quick else Scale()
    for name, broker in bench.brokers.items():
        topic = filled(broker.bootstrap, scale.records, random_values(100))
        runs: dict[str, Run] = {"Batch": _batch, "Stream, available now": _stream}
        for kind, run in runs.items():
            yield _rates(bench, f"{kind}, 100 B rows", name, topic, scale.records, run)
    name = next(iter(bench.brokers))
    topic = filled(bench.brokers[name].bootstrap, scale.large_records, random_values(1000))
    yield _rates(bench, "Batch, 1000 B rows", name, topic, scale.large_records, _batch)


def random_values(size: int) -> "Callable[[int, int], dict[str, pa.Array]]":
    """Columns of values of so many bytes that do not compress."""
    import numpy as np
    import pyarrow as pa

    def rows_of(first: int, count: int) -> "dict[str, pa.Array]":
        whole = pa.py_buffer(np.random.default_rng(first).bytes(count * size))
        ends = pa.py_buffer(np.arange(0, (count + 1) * size, size, dtype=np.int32))
        return {"value": pa.Array.from_buffers(pa.binary(), count, [None, ends, whole])}

    return rows_of


def _batch(bench: Bench, name: str, bootstrap: str, topic: str) -> int:
    """Read a topic once; how many rows."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation()
    frame = bench.spark.read.format(name).options(**read_options(bootstrap, topic)).load()
    frame.observe(seen, count(lit(1)).alias("rows")).write.format("noop").mode("overwrite").save()
    return int(seen.get["rows"])


def _stream(bench: Bench, name: str, bootstrap: str, topic: str) -> int:
    frame = bench.spark.readStream.format(name).options(**read_options(bootstrap, topic)).load()
    query = run_to_end(frame.writeStream.format("noop"), bench.root / unique("checkpoint"))
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def _rates(bench: Bench, work: str, broker: str, topic: str, records: int, run: Run) -> list[Figure]:
    bootstrap = bench.brokers[broker].bootstrap

    with _worker_memory() as memory:

        def measured(name: str) -> Callable[[], tuple[float, int]]:
            def once() -> tuple[float, int]:
                used = _cpu_seconds()
                rows = run(bench, name, bootstrap, topic)
                if rows != records:
                    raise BenchError(f"{work}, format {name}: {rows} rows read of {records}")
                return _cpu_seconds() - used, memory.largest_bytes

            return once

        rounds = interleaved(bench.pairs, {name: measured(name) for name in FORMATS})
    rates = {name: [records / seconds for seconds, _ in rounds[name]] for name in FORMATS}
    cpu = {name: [spent * 1e6 / records for _, (spent, _) in rounds[name]] for name in FORMATS}
    largest = [peak / _MB for _, (_, peak) in rounds["semel"]]
    group = f"Reading from {broker}"
    return [
        figure(group, work, "rows/s", rates["semel"], rates["kafka"], targets=(_TARGET,)),
        figure(group, work, "Spark's CPU µs per row", cpu["semel"], cpu["kafka"]),
        figure(group, work, "largest Python worker, MB", largest, targets=(_MEMORY_TARGET,)),
    ]


@dataclass(slots=True)
class _Memory:
    largest_bytes: int = 0


@contextlib.contextmanager
def _worker_memory() -> Iterator[_Memory]:
    """Watch the Python workers of this session while something runs."""
    found, over = _Memory(), threading.Event()

    def watch() -> None:
        while not over.wait(_WATCH_SECONDS):
            for one in _spark_processes():
                with contextlib.suppress(OSError):
                    if _PYTHON in (one / "cmdline").read_bytes():
                        found.largest_bytes = max(found.largest_bytes, _peak_bytes(one))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield found
    finally:
        over.set()
        watching.join()


def _peak_bytes(process: Path) -> int:
    lines = (process / "status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def _cpu_seconds() -> float:
    """CPU time of Spark's JVM and its Python processes, ended ones included."""
    ticks = 0
    for one in _spark_processes():
        with contextlib.suppress(OSError):
            ticks += sum(map(int, _stat(one)[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _spark_processes() -> list[Path]:
    """The JVM this process has started, and everything below it."""
    parents: dict[int, list[Path]] = {}
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents.setdefault(int(_stat(one)[1]), []).append(one)
    found: list[Path] = []
    for one in parents.get(os.getpid(), ()):
        with contextlib.suppress(OSError):
            if b"org.apache.spark" in (one / "cmdline").read_bytes():
                found.append(one)
    for one in found:  # Grows while it is gone through.
        found += parents.get(int(one.name), ())
    return found


def _stat(process: Path) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    return (process / "stat").read_text().rpartition(")")[2].split()
