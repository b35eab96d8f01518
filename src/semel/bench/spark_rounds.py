"""Shared by the parts of the Spark bench: filled topics, queries run to their end, interleaved rounds.

Role.   `filled` makes a topic of rows; `run_to_end` starts a query over what is there and waits for it; `interleaved` gives both subjects
        the same rounds; `rows_in` counts what a topic holds.
Rules.  * The first round warms up and does not count. Every second round begins with the other subject.
        * A query that does not end, or reads or writes another number of rows than there are, is an error and not a figure.
"""

import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from semel.bench.measure import BenchError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

T = TypeVar("T")

FORMATS: Final = ("semel", "kafka")
"""Ours, and Spark's own connector."""
PARTITIONS: Final = 4
_PER_SEND: Final = 100_000
_QUERY_SECONDS_MAX: Final = 300
_numbers = itertools.count()


def unique(word: str) -> str:
    """A name no other topic or folder has."""
    return f"{word}-{next(_numbers)}"


def new_topics(bootstrap: str, names: Iterable[str], partitions: int = PARTITIONS) -> None:
    from semel import Admin, NewTopic

    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, num_partitions=partitions) for name in names])


def filled(bootstrap: str, count: int, rows_of: "Callable[[int, int], dict[str, pa.Array]]") -> str:
    """A topic with so many records; `rows_of(first, count)` gives their columns key and value, or value alone."""
    import numpy as np
    import pyarrow as pa

    from semel import Producer

    topic = unique("rows")
    new_topics(bootstrap, [topic])
    settings: dict[str, str | int] = {
        "bootstrap.servers": bootstrap,
        "batch.size": 1 << 20,
        "max.request.size": 1 << 21,
        "linger.ms": 50,
    }
    with Producer(settings) as producer:
        for start in range(0, count, _PER_SEND):
            rows = min(_PER_SEND, count - start)
            partitions = pa.array(np.arange(rows, dtype=np.int32) % PARTITIONS)
            producer.send_arrow(topic, pa.table({**rows_of(start, rows), "partition": partitions})).result()
    return topic


def read_options(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    """Options both formats understand."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        **more,
    }


def run_to_end(writer: "DataStreamWriter", checkpoint: Path) -> "StreamingQuery":
    """A query over what is available, from its start to its end."""
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    if not query.awaitTermination(_QUERY_SECONDS_MAX):
        query.stop()
        raise BenchError(f"a query over what is available did not end within {_QUERY_SECONDS_MAX} s")
    return query


def seconds_to_end(writer: "DataStreamWriter", checkpoint: Path) -> float:
    """How long such a query took, its start and its end included."""
    began = time.perf_counter()
    run_to_end(writer, checkpoint)
    return time.perf_counter() - began


def to_topic(name: str, rows: "DataStreamWriter", bootstrap: str, topic: str) -> "DataStreamWriter":
    """The rows to a topic: by the atomic sink, or by Spark's own, which is at least once."""
    if name == "kafka":
        return rows.format(name).options(**{"kafka.bootstrap.servers": bootstrap, "topic": topic})
    from semel.spark import TopicSink

    return rows.foreachBatch(TopicSink(topic, bootstrap=bootstrap))


def interleaved(pairs: int, subjects: Mapping[str, Callable[[], T]]) -> dict[str, list[tuple[float, T]]]:
    """Seconds and result of every round of each subject."""
    found: dict[str, list[tuple[float, T]]] = {name: [] for name in subjects}
    for index in range(pairs + 1):
        for name in subjects if index % 2 else reversed(list(subjects)):
            began = time.perf_counter()
            result = subjects[name]()
            if index:
                found[name].append((time.perf_counter() - began, result))
    return found


def rows_in(spark: "SparkSession", bootstrap: str, topic: str) -> int:
    """How many committed records a topic has."""
    return spark.read.format("semel").options(**read_options(bootstrap, topic)).load().count()
