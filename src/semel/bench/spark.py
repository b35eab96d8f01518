"""Spark with Semel beside Spark with its own Kafka connector: the same brokers, the same session, the same rows.

Role.   `python -m semel.bench spark` starts both brokers and one Spark session that has both formats, and prints what each took;
        `--write` makes the page, its figures as JSON and its plot.
Flow.   brokers and session up -> each part (`PARTS`) fills its topics and measures in rounds -> page.
Rules.  * One session, one JVM: what the JIT has learned serves both. Both have warmed up on a workload before its first round counts.
        * Rounds are interleaved, every second one in the opposite order; ratios are taken inside a round.
        * The connector runs at its stock settings, but for read_committed, which is our default and costs it nothing here.
"""

import contextlib
import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semel.bench.beside_kafka import carry_out, options_of, parser_of, show
from semel.bench.broker_figures import Figure, table
from semel.peers import kafka as kafka_peer
from semel.peers import spark as spark_peer
from semel.peers.processes import BrokerProcess, SemelProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS: Final = ("source", "latency", "sink", "state")
"""Each the module `spark_…` of this package, with `measure(bench) -> Iterator[list[Figure]]`."""
_PAIRS: Final = 5
_QUICK_PAIRS: Final = 2
_MASTER: Final = "local[2]"
_SETTINGS: Final = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
}
_HEADER: Final = """\
# Spark beside Spark's own Kafka connector

Written by `python -m semel.bench spark --write docs/benchmarks-spark.md`; do not edit. One Spark session with two cores runs
`format("semel")` and `format("kafka")` in turn, every second round in the opposite order, on the same topics of the same broker
(Semel, and Apache Kafka {version}). In the tables *Semel* is our format and *Kafka* is Spark's own connector. A figure is the median
of the rounds, the brackets hold the true median with the probability below; the ratio is taken inside each round.

![Semel beside Spark's own connector]({plot})

"""
_NOTES: Final = (
    "Rows that are read go to Spark's `noop` sink: what is measured is fetching, decoding, and handing rows to Spark.",
    """Spark starts Python processes to plan a batch query of a source written in Python, and one per query for a stream; that time is
  in the figures, and is why small reads are slower than with the connector.""",
    """End-to-end latency is from the moment a record was sent to the moment a read_committed consumer has it from the topic the query
  writes to, with triggers one after the other and 1,000 records a second. A record waits for the trigger under way to end, and then for
  its own: one and a half triggers at the median, two at the worst.""",
    """A trigger of ours is longer by what makes it exact: the rows go to the tasks that own their partitions (a shuffle), all of which
  write at the same time (a barrier stage), then one transaction is committed, and a reader sees none of them earlier. Spark's own sink
  shows every record as it is written, and shows it again when a batch is repeated. Planning asks a Python process for the offsets.""",
    """The running count is a topic to topic query with Spark's state in RocksDB and four micro-batches; the table is the latest row of
  every key, parsed from JSON, its changes written to a compacted topic. Both are checked: the counts add up to the records.""",
)


@dataclass(frozen=True, slots=True)
class Bench:
    """The shared setup of all parts."""

    spark: "SparkSession"
    brokers: dict[str, BrokerProcess]
    root: Path
    pairs: int
    is_quick: bool


def run_all(
    bench_root: Path, pairs: int, parts: Sequence[str], *, quick: bool, show: Callable[[str], object]
) -> list[Figure]:
    """These parts, one after the other."""
    from semel.spark import session

    brokers: dict[str, BrokerProcess] = {
        "Semel": SemelProcess(bench_root / "semel"),
        "Apache Kafka": kafka_peer.KafkaBroker(kafka_peer.find(), bench_root / "kafka"),
    }
    made: list[Figure] = []
    with contextlib.ExitStack() as stack:
        for broker in brokers.values():
            stack.callback(broker.kill)
            broker.start()
        config = {
            **_SETTINGS,
            "spark.driver.extraClassPath": spark_peer.connector_classpath(),
            "spark.local.dir": str(bench_root / "local"),
        }
        spark = session("semel-bench", master=_MASTER, config=config)
        stack.callback(spark.stop)
        bench = Bench(spark, brokers, bench_root, pairs, quick)
        for part in parts:
            for fresh in importlib.import_module(f"semel.bench.spark_{part}").measure(bench):
                show(table(fresh))
                made += fresh
    return made


def main(arguments: Sequence[str]) -> int:
    """`python -m semel.bench spark`."""
    parser = parser_of("spark", "Spark's source and sinks")
    parser.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    options = options_of(parser, arguments)
    pairs = options.pairs or (_QUICK_PAIRS if options.quick else _PAIRS)
    parts = [part for part in PARTS if options.only is None or part in options.only]
    command = f"python -m semel.bench spark --pairs {pairs}"
    if options.only:
        command += f" --only {' '.join(parts)}"
    return carry_out(
        options,
        lambda root: run_all(root, pairs, parts, quick=options.quick, show=show),
        command,
        _NOTES,
        header=_HEADER,
        suite="spark",
    )
