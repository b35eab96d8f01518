"""Writing with Spark: the atomic sink beside Spark's own Kafka sink, which is at least once.

Role.   The part of `python -m semel.bench spark` that measures `TopicSink`.
Rules.  * One run is one micro-batch of a query that is started for it: planning, the checkpoint and the sink's own bookkeeping count.
        * Rows are made in the JVM by Spark's own source of numbers, so that what is compared is the writing.
        * Spark's sink is measured as it comes, and with settings that suit it. What was written is counted at the end of all rounds.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TARGET: Final = Target(1.0, at_least=True)
_PARTITIONS: Final = 4
_VALUE_BYTES: Final = 100
_TUNED: Final = {"linger.ms": "50", "batch.size": "1048576", "buffer.memory": "134217728"}
_TIMEOUT_SECONDS: Final = 600
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    records: int = 2_000_000
    few_records: int = 1_000


QUICK: Final = Scale(records=200_000)


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """All figures of the sink, workload by workload."""
    scale = QUICK if bench.is_quick else Scale()
    for name, broker in bench.brokers.items():
        for keyed in (True, False):
            yield _rates(bench, name, broker.bootstrap, scale.records, keyed=keyed, settings={})
        yield _rates(bench, name, broker.bootstrap, scale.records, keyed=True, settings=_TUNED)
        yield _overhead(bench, name, broker.bootstrap, scale.few_records)


def _rates(
    bench: Bench, broker: str, bootstrap: str, records: int, *, keyed: bool, settings: Mapping[str, str]
) -> list[Figure]:
    work = f"A micro-batch of {records:,} rows of {_VALUE_BYTES} B, {'with' if keyed else 'without'} keys"
    if settings:
        work += f"; Spark's sink with {', '.join(f'{key}={value}' for key, value in settings.items())}"
    seconds = _rounds(bench, bootstrap, records, keyed=keyed, settings=settings)
    ours, theirs = ([records / one for one in seconds[name]] for name in ("semel", "kafka"))
    targets = () if settings else (_TARGET,)
    return [figure(f"Writing to {broker}", work, "rows/s", ours, theirs, targets=targets)]


def _overhead(bench: Bench, broker: str, bootstrap: str, records: int) -> list[Figure]:
    seconds = _rounds(bench, bootstrap, records, keyed=True, settings={})
    ours, theirs = ([1000 * one for one in seconds[name]] for name in ("semel", "kafka"))
    work = f"A micro-batch of {records:,} rows, its query started for it"
    return [figure(f"Writing to {broker}", work, "ms", ours, theirs)]


def _rounds(
    bench: Bench, bootstrap: str, records: int, *, keyed: bool, settings: Mapping[str, str]
) -> dict[str, list[float]]:
    """Seconds of every micro-batch of each sink."""
    topics = {name: f"{name}-sink-{next(_numbers)}" for name in ("semel", "kafka")}
    _make(bootstrap, topics.values())
    subjects: dict[str, Callable[[DataFrame], DataStreamWriter]] = {
        "semel": _atomic(topics["semel"], bootstrap),
        "kafka": _kafka(topics["kafka"], bootstrap, settings),
    }
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for index in range(bench.pairs + 1):  # The first warms up.
        for name in subjects if index % 2 else reversed(subjects):
            checkpoint = bench.root / topics[name]
            writer = subjects[name](_rows(bench, records, keyed=keyed))
            began = time.perf_counter()
            query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
            if not query.awaitTermination(_TIMEOUT_SECONDS):
                query.stop()
                raise BenchError(f"a micro-batch of {records} rows did not end within {_TIMEOUT_SECONDS} s")
            if index:
                found[name].append(time.perf_counter() - began)
    for topic in topics.values():
        _check(bench, bootstrap, topic, records * (bench.pairs + 1))
    return found


def _atomic(topic: str, bootstrap: str) -> "Callable[[DataFrame], DataStreamWriter]":
    from semel.spark.sink.topic_sink import TopicSink

    sink = TopicSink(topic, bootstrap=bootstrap)
    return lambda frame: frame.writeStream.foreachBatch(sink)


def _kafka(
    topic: str, bootstrap: str, settings: Mapping[str, str]
) -> "Callable[[DataFrame], DataStreamWriter]":
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    options |= {f"kafka.{key}": value for key, value in settings.items()}
    return lambda frame: frame.writeStream.format("kafka").options(**options)


def _rows(bench: Bench, records: int, *, keyed: bool) -> "DataFrame":
    source = bench.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", records)
    value = f"rpad(cast(value as string), {_VALUE_BYTES}, 'x') value"
    return source.load().selectExpr(*(["cast(value as string) key"] if keyed else []), value)


def _make(bootstrap: str, topics: Iterable[str]) -> None:
    from semel import Admin, NewTopic

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=_PARTITIONS) for name in topics])


def _check(bench: Bench, bootstrap: str, topic: str, records: int) -> None:
    """Everything that was written is there, once."""
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    rows = bench.spark.read.format("semel").options(**options).load().count()
    if rows != records:
        raise BenchError(f"{topic} has {rows} rows of {records}")
