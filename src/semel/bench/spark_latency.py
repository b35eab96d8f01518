"""How late a record is: from its producer through a Spark query to a reader of what the query wrote, at 1,000 records a second.

Role.   The part of `python -m semel.bench spark` that measures latency and what a trigger costs.
Rules.  * A record carries the time it was sent; the reader behind the sink is read_committed, so that what it sees is final. Ours is
          `format("semel")` with `TopicSink`, the other `format("kafka")` to `format("kafka")`, which is at least once.
        * Triggers follow one another without an interval. Values before the query has warmed up are left out.
        * Every record must arrive; with our sink, once.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, Final, NamedTuple, Self

from semel.bench.broker_figures import Figure, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench
from semel.bench.spark_rounds import FORMATS, new_topics, read_options, to_topic, unique

_RATE: Final = 1_000
_VALUE_BYTES: Final = 100
_TICK_SECONDS: Final = 0.005
_WARM_SECONDS: Final = 4.0
_PATIENCE_SECONDS: Final = 120.0
_STAMP_DIGITS: Final = 20
_ROUNDS: Final = 2
_QUICK_ROUNDS: Final = 1
_PLANNING: Final = ("latestOffset", "getBatch", "queryPlanning", "walCommit", "commitOffsets")


class Latency(NamedTuple):
    """The results of one run, in ms: a record end to end, a trigger, and its two parts."""

    p50: float
    p99: float
    trigger: float
    planning: float
    writing: float


_WORDS: Final = (
    "end to end p50, ms",
    "end to end p99, ms",
    "a trigger p50, ms",
    "of it planning and checkpoint p50, ms",
    "of it reading and writing p50, ms",
)


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """Latencies with the first broker: the other one's are those of its own clients."""
    broker = next(iter(bench.brokers))
    seconds, rounds = (4.0, _QUICK_ROUNDS) if bench.is_quick else (12.0, _ROUNDS)
    found: dict[str, list[Latency]] = {name: [] for name in FORMATS}
    for index in range(rounds):
        for name in FORMATS if index % 2 else reversed(FORMATS):
            found[name].append(_run(bench, name, bench.brokers[broker].bootstrap, seconds))
    group, work = f"Latency with {broker}", f"Topic to topic, {_RATE} records/s"
    yield [
        figure(group, work, quantity, *([one[at] for one in found[name]] for name in FORMATS))
        for at, quantity in enumerate(_WORDS)
    ]


def _run(bench: Bench, name: str, bootstrap: str, seconds: float) -> Latency:
    source, target = unique("from"), unique("to")
    new_topics(bootstrap, [source, target], 2)
    frame = bench.spark.readStream.format(name).options(**read_options(bootstrap, source)).load()
    writer = to_topic(name, frame.select("value").writeStream, bootstrap, target)
    arrivals = _Arrivals(bootstrap, target)
    query = writer.option("checkpointLocation", str(bench.root / unique("checkpoint"))).start()
    try:
        with arrivals:
            sent = _produce(bootstrap, source, 1)
            arrivals.await_count(sent)  # The query runs.
            sent += _produce(bootstrap, source, int(_WARM_SECONDS * _RATE))
            begins = sent
            sent += _produce(bootstrap, source, int(seconds * _RATE))
            arrivals.await_count(sent)
            query.processAllAvailable()
    finally:
        query.stop()
    if name == "semel" and len(arrivals.waits) != sent:
        raise BenchError(f"{len(arrivals.waits)} records arrived of {sent}")
    settled = arrivals.waits[begins:]
    cuts = quantiles(settled, n=100)
    triggers = [one["durationMs"] for one in query.recentProgress if one["numInputRows"]]
    settled_triggers = triggers[len(triggers) // 4 :]
    return Latency(
        cuts[49],
        cuts[98],
        median(one["triggerExecution"] for one in settled_triggers),
        median(sum(one.get(part, 0) for part in _PLANNING) for one in settled_triggers),
        median(one["addBatch"] for one in settled_triggers),
    )


def _produce(bootstrap: str, topic: str, count: int) -> int:
    """Send so many records, evenly; each begins with the time it was sent."""
    from semel import Producer

    began, sent = time.perf_counter(), 0
    with Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}) as producer:
        while sent < count:
            due = min(count, 1 + int((time.perf_counter() - began) * _RATE))
            for _ in range(due - sent):
                stamp = b"%0*d" % (_STAMP_DIGITS, time.time_ns())
                producer.send(topic, stamp.ljust(_VALUE_BYTES, b"x"))
            sent = due
            time.sleep(_TICK_SECONDS)
    return sent


@dataclass(slots=True)
class _Arrivals:
    """Reads what the query wrote, on a thread of its own; `waits` has the ms of every record, in the order they came."""

    bootstrap: str
    topic: str
    waits: list[float] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _failed: list[BaseException] = field(default_factory=list)
    _thread: Any = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def await_count(self, count: int) -> None:
        """Wait until so many have come."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while len(self.waits) < count:
            if self._failed:
                raise BenchError(f"{self.topic} cannot be read: {self._failed[0]}")
            if time.monotonic() > deadline:
                raise BenchError(f"{len(self.waits)} of {count} records arrived within {_PATIENCE_SECONDS} s")
            time.sleep(_TICK_SECONDS)

    def _read(self) -> None:
        from semel import Consumer, TopicPartition

        try:
            with Consumer(bootstrap_servers=self.bootstrap, isolation_level="read_committed") as consumer:
                consumer.assign([TopicPartition(self.topic, one) for one in range(2)])
                consumer.seek_to_beginning()
                while not self._over.is_set():
                    values = consumer.poll_arrow(timeout_ms=50).column("value").to_pylist()
                    now_ns = time.time_ns()
                    self.waits += [(now_ns - int(value[:_STAMP_DIGITS])) / 1e6 for value in values]
        except Exception as error:  # Told by who waits.
            self._failed.append(error)
