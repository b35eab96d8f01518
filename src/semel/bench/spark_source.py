"""Reading with Spark: rows per second of batch and stream, memory of the Python workers, latency of a stream.

Role.   The part of `python -m semel.bench spark` that measures the source.
Rules.  * Every row of a topic is read in every run, and counted by Spark: a run that reads less is an error, not a result.
        * Memory is the largest resident size a Python worker of the session had in the rounds.
"""

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from typing import TYPE_CHECKING, Final

from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FORMATS: Final = ("semel", "kafka")
_TARGET: Final = Target(1.5, at_least=True)
_PARTITIONS: Final = 4
_PER_SEND: Final = 100_000
_LATENCY_RATE: Final = 1_000
_TICK_SECONDS: Final = 0.01
_WATCH_SECONDS: Final = 0.1
_START_SECONDS: Final = 120.0
_MB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    records: int = 3_000_000
    large_records: int = 300_000
    latency_seconds: float = 20.0


QUICK: Final = Scale(records=300_000, large_records=50_000, latency_seconds=4.0)
_numbers = itertools.count()


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """All figures of the source, workload by workload."""
    scale = QUICK if bench.is_quick else Scale()
    for name, broker in bench.brokers.items():
        topic = _filled(broker.bootstrap, scale.records, 100)
        for kind, run in (("Batch", _batch), ("Stream, available now", _stream)):
            yield _rates(bench, f"{kind}, 100 B rows", name, broker.bootstrap, topic, scale.records, run)
        topic = _filled(broker.bootstrap, scale.large_records, 1000)
        yield _rates(bench, "Batch, 1000 B rows", name, broker.bootstrap, topic, scale.large_records, _batch)
        yield _latencies(bench, name, broker.bootstrap, scale.latency_seconds)


def _filled(bootstrap: str, count: int, size: int) -> str:
    import numpy as np
    import pyarrow as pa

    from semel import Admin, NewTopic, Producer

    topic = f"rows-{next(_numbers)}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=_PARTITIONS)])
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "batch.size": 1 << 20,
        "max.request.size": 1 << 21,
        "linger.ms": 50,
    }
    with Producer(settings) as producer:
        for start in range(0, count, _PER_SEND):
            rows = min(_PER_SEND, count - start)
            whole = pa.py_buffer(np.random.default_rng(start).bytes(rows * size))
            ends = pa.py_buffer(np.arange(0, (rows + 1) * size, size, dtype=np.int32))
            table = pa.table(
                {
                    "value": pa.Array.from_buffers(pa.binary(), rows, [None, ends, whole]),
                    "partition": pa.array(np.arange(rows, dtype=np.int32) % _PARTITIONS),
                }
            )
            producer.send_arrow(topic, table).result()
    return topic


# Rows per second


def _options(bootstrap: str, topic: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
    }


def _batch(bench: Bench, name: str, bootstrap: str, topic: str) -> int:
    """Read a topic once; how many rows."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    seen = Observation()
    frame = bench.spark.read.format(name).options(**_options(bootstrap, topic)).load()
    _to_nowhere(frame.observe(seen, count(lit(1)).alias("rows")))
    return int(seen.get["rows"])


def _to_nowhere(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def _stream(bench: Bench, name: str, bootstrap: str, topic: str) -> int:
    frame = bench.spark.readStream.format(name).options(**_options(bootstrap, topic)).load()
    checkpoint = bench.root / f"checkpoint-{next(_numbers)}"
    query = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def _rates(
    bench: Bench,
    work: str,
    broker: str,
    bootstrap: str,
    topic: str,
    records: int,
    run: Callable[[Bench, str, str, str], int],
) -> list[Figure]:
    rates: dict[str, list[float]] = {name: [] for name in FORMATS}
    cpu: dict[str, list[float]] = {name: [] for name in FORMATS}
    with _worker_memory() as memory:
        for index in range(bench.pairs + 1):  # The first warms up.
            for name in FORMATS if index % 2 else reversed(FORMATS):
                began, used = time.perf_counter(), _cpu_seconds()
                rows = run(bench, name, bootstrap, topic)
                seconds, spent = time.perf_counter() - began, _cpu_seconds() - used
                if rows != records:
                    raise BenchError(f"{work}, format {name}: {rows} rows read of {records}")
                if index:
                    rates[name].append(records / seconds)
                    cpu[name].append(spent * 1e6 / records)
    group = f"Reading from {broker}"
    return [
        figure(group, work, "rows/s", rates["semel"], rates["kafka"], targets=(_TARGET,)),
        figure(group, work, "Spark's CPU µs per row", cpu["semel"], cpu["kafka"]),
        figure(group, work, "largest Python worker, MB", [memory.largest_bytes / _MB]),
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
                    if b"pyspark" in (one / "cmdline").read_bytes():
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
    """What Spark's JVM and its Python processes have used, those that have ended included."""
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
    found = [
        one for one in parents.get(os.getpid(), ()) if b"org.apache.spark" in (one / "cmdline").read_bytes()
    ]
    for one in found:  # Grows while it is gone through.
        found += parents.get(int(one.name), ())
    return found


def _stat(process: Path) -> list[str]:
    """The fields of /proc/PID/stat behind the name, which may hold anything."""
    return (process / "stat").read_text().rpartition(")")[2].split()


# Latency


def _latencies(bench: Bench, broker: str, bootstrap: str, seconds: float) -> list[Figure]:
    rounds: dict[str, list[tuple[float, float, float]]] = {name: [] for name in FORMATS}
    for index in range(max(1, bench.pairs // 2)):
        for name in FORMATS if index % 2 else reversed(FORMATS):
            rounds[name].append(_latency(bench, name, bootstrap, seconds))
    group, work = f"Reading from {broker}", f"Stream, {_LATENCY_RATE} records/s"
    words = ("end to end p50, ms", "end to end p99, ms", "a trigger, p50, ms")
    return [
        figure(group, work, quantity, *([one[at] for one in rounds[name]] for name in FORMATS))
        for at, quantity in enumerate(words)
    ]


def _latency(bench: Bench, name: str, bootstrap: str, seconds: float) -> tuple[float, float, float]:
    """p50 and p99 from a record's time to the end of its batch, and the p50 of a trigger, in ms."""
    import numpy as np

    from semel import Admin, NewTopic

    topic = f"rows-{next(_numbers)}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(topic, num_partitions=2)])
    waits: list[float] = []
    started = threading.Event()

    def collect(batch: "DataFrame", _batch_id: int) -> None:
        started.set()
        stamps = batch.select("timestamp").toArrow().column(0).to_numpy()
        now_ms = time.time() * 1000
        waits.extend(now_ms - stamps.astype("datetime64[us]").astype(np.int64) / 1000)

    frame = (
        bench.spark.readStream.format(name)
        .options(**{**_options(bootstrap, topic), "startingOffsets": "latest"})
        .load()
    )
    checkpoint = bench.root / f"checkpoint-{next(_numbers)}"
    query = frame.writeStream.foreachBatch(collect).option("checkpointLocation", str(checkpoint)).start()
    try:
        if not started.wait(_START_SECONDS):
            raise BenchError(f"format {name}: no first batch within {_START_SECONDS} s")
        _produce_steadily(bootstrap, topic, seconds)
        query.processAllAvailable()
    finally:
        query.stop()
    triggers = [
        float(one["durationMs"]["triggerExecution"]) for one in query.recentProgress if one["numInputRows"]
    ]
    settled = waits[len(waits) // 4 :]  # The first batches start Python and warm the JIT up.
    cuts = quantiles(settled, n=100)
    return cuts[49], cuts[98], quantiles(triggers, n=2)[0]


def _produce_steadily(bootstrap: str, topic: str, seconds: float) -> None:
    from semel import Producer

    began = time.perf_counter()
    sent = 0
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        while (passed := time.perf_counter() - began) < seconds:
            for _ in range(int(passed * _LATENCY_RATE) - sent):
                producer.send(topic, b"x" * 100)
                sent += 1
            time.sleep(_TICK_SECONDS)
