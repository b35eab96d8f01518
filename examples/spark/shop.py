"""What these examples have in common: a broker, a small Spark, and a shop's data that one can look at.

`python examples/spark/….py` starts a broker of its own; with an address (`localhost:9092`) it uses that one.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from semel import Admin, Broker, Consumer, NewTopic, Producer, TopicPartition
from semel.spark import session

_POLL_MS = 300
DAY_MS = 24 * 3600 * 1000


def yesterday_ms() -> int:
    """When yesterday began, UTC: recent enough to be kept, and the same every time one looks."""
    return (int(time.time() * 1000) // DAY_MS - 1) * DAY_MS


@dataclass
class Shop:
    """Where an example runs. Names end with `suffix`, so that two runs do not meet on one broker."""

    spark: SparkSession
    servers: str
    directory: Path
    suffix: str = ""
    made: list[str] = field(default_factory=list)

    def topic(self, name: str, *, partitions: int = 1, **configs: str) -> str:
        """A new topic; settings with underscores for dots."""
        full = f"{name}{self.suffix}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        with Admin(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(full, num_partitions=partitions, configs=settings)])
        self.made.append(full)
        return full

    def send(self, topic: str, key: str, rows: Sequence[dict[str, Any] | str]) -> None:
        """Rows as JSON, with the column `key` as key and `minute` as their time; text goes as it is, `key` is its key."""
        with Producer(bootstrap_servers=self.servers) as producer:
            for row in rows:
                if isinstance(row, str):
                    producer.send(topic, row, key=key)
                    continue
                fields = dict(row)
                minute = fields.pop("minute", None)
                when = None if minute is None else yesterday_ms() + int(minute * 60_000)
                producer.send(topic, json.dumps(fields), key=str(row[key]), timestamp=when)

    def delete(self, topic: str, key: str) -> None:
        """A record without a value: the key is gone."""
        with Producer(bootstrap_servers=self.servers) as producer:
            producer.send(topic, None, key=key)

    def run(self, rows: DataFrame, sink: Any, checkpoint: str, *, mode: str = "append") -> None:
        """A query over everything that is there now; it goes on where the checkpoint says."""
        writer = rows.writeStream.foreachBatch(sink).outputMode(mode)
        query = (
            writer.option("checkpointLocation", str(self.directory / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def records(self, topic: str) -> list[tuple[str, str]]:
        """What a reader of the topic sees: keys and values, sorted."""
        with Consumer(bootstrap_servers=self.servers) as consumer:
            places = [TopicPartition(topic, one.partition) for one in consumer.partitions_for(topic)]
            consumer.assign(places)
            consumer.seek_to_beginning()
            ends = consumer.end_offsets(places)
            seen: list[tuple[str, str]] = []
            while any(consumer.position(place) < end for place, end in ends.items()):
                seen += [(_text(one.key), _text(one.value)) for one in consumer.poll(_POLL_MS)]
        return sorted(seen)

    def show(self, topic: str) -> None:
        print(f"{topic.removesuffix(self.suffix)}:")
        for key, value in self.records(topic):
            print(f"  {key}  {value}")


def show_rows(title: str, rows: DataFrame) -> None:
    print(f"{title}:")
    for row in sorted(rows.collect(), key=str):
        print("  " + "  ".join(str(value) for value in row))


@contextmanager
def open_shop() -> Iterator[Shop]:
    with ExitStack() as stack:
        if len(sys.argv) > 1:
            servers = sys.argv[1]
        else:
            servers = stack.enter_context(Broker(group_initial_rebalance_delay_ms=0)).bootstrap
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.sql.shuffle.partitions": "2"}
        spark = session("shop", config=quiet)
        stack.callback(spark.stop)
        yield Shop(spark, servers, directory)


def _text(value: Any) -> str:
    return "-" if value is None else bytes(value).decode()
