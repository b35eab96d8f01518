"""Writing with Spark: the atomic sink beside Spark's own Kafka sink, which is at least once.

Role.   The part of `python -m semel.bench spark` that measures `TopicSink`.
Rules.  * One run is one micro-batch of a query that is started for it: planning, the checkpoint and the sink's own bookkeeping count.
        * Rows are made in the JVM by Spark's own source of numbers, so that what is compared is the writing.
        * Spark's sink is measured as it comes, and with settings that suit it. The written records are counted after
          all rounds.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from semel.bench.broker_figures import Figure, Target, figure
from semel.bench.measure import BenchError
from semel.bench.spark import Bench
from semel.bench.spark_rounds import interleaved, new_topics, rows_in, run_to_end, unique

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_TARGET: Final = Target(1.0, at_least=True)
_VALUE_BYTES: Final = 100
_TUNED: Final = {"linger.ms": "50", "batch.size": "1048576", "buffer.memory": "134217728"}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one run is."""

    records: int = 2_000_000
    few_records: int = 1_000


QUICK: Final = Scale(records=200_000)


def measure(bench: Bench) -> Iterator[list[Figure]]:
    """All figures of the sink, workload by workload; more of them with the first broker."""
    scale = QUICK if bench.is_quick else Scale()
    for index, broker in enumerate(bench.brokers):
        yield _rates(bench, broker, scale.records, keyed=True, settings={})
        if not index:
            yield _rates(bench, broker, scale.records, keyed=False, settings={})
            yield _rates(bench, broker, scale.records, keyed=True, settings=_TUNED)
            yield _overhead(bench, broker, scale.few_records)


def _rates(
    bench: Bench, broker: str, records: int, *, keyed: bool, settings: Mapping[str, str]
) -> list[Figure]:
    work = f"A micro-batch of {records:,} rows of {_VALUE_BYTES} B, {'with' if keyed else 'without'} keys"
    if settings:
        work += f"; Spark's sink with {', '.join(f'{key}={value}' for key, value in settings.items())}"
    seconds = _rounds(bench, broker, records, keyed=keyed, settings=settings)
    ours, theirs = ([records / one for one in seconds[name]] for name in ("semel", "kafka"))
    targets = () if settings else (_TARGET,)
    return [figure(f"Writing to {broker}", work, "rows/s", ours, theirs, targets=targets)]


def _overhead(bench: Bench, broker: str, records: int) -> list[Figure]:
    seconds = _rounds(bench, broker, records, keyed=True, settings={})
    ours, theirs = ([1000 * one for one in seconds[name]] for name in ("semel", "kafka"))
    work = f"A micro-batch of {records:,} rows, its query started for it"
    return [figure(f"Writing to {broker}", work, "ms", ours, theirs)]


def _rounds(
    bench: Bench, broker: str, records: int, *, keyed: bool, settings: Mapping[str, str]
) -> dict[str, list[float]]:
    """Seconds of every micro-batch of each sink."""
    bootstrap = bench.brokers[broker].bootstrap
    topics = {name: unique(f"{name}-sink") for name in ("semel", "kafka")}
    new_topics(bootstrap, topics.values())
    writers = {
        "semel": _atomic(topics["semel"], bootstrap),
        "kafka": _kafka(topics["kafka"], bootstrap, settings),
    }

    def run_of(name: str) -> Callable[[], object]:
        checkpoint = bench.root / topics[name]
        return lambda: run_to_end(writers[name](_rows(bench, records, keyed=keyed)), checkpoint)

    rounds = interleaved(bench.pairs, {name: run_of(name) for name in topics})
    for topic in topics.values():
        rows = rows_in(bench.spark, bootstrap, topic)
        if rows != records * (bench.pairs + 1):
            raise BenchError(f"{topic} has {rows} rows of {records * (bench.pairs + 1)}")
    return {name: [seconds for seconds, _ in rounds[name]] for name in topics}


def _atomic(topic: str, bootstrap: str) -> "Callable[[DataFrame], DataStreamWriter]":
    from semel.spark.sink.atomic.topic_sink import TopicSink

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
