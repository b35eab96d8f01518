"""A topic into others, continuously: every row once, and the same bytes whenever it is computed.

Method: one pipeline (map, filter, flatMap, branch) runs twice over the same topic. The first run is continuous: rows are written
while it works, and it is stopped and started again in between. The second takes everything at once. What each has written is
compared with the other, byte by byte, and with what plain Python makes of the rows.
"""

import json
import random
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from semel import Producer
from semel.spark import TopicSink, branch, stream, to_records
from support.spark.spark_kit import drained, eventually, new_topic, read_all

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "id STRING, cents ARRAY<BIGINT>"
Order = dict[str, Any]


def orders(count: int, dice: random.Random) -> list[Order]:
    return [
        {
            "id": f"k{dice.randrange(15)}",
            "cents": [dice.randrange(-20, 1000) for _ in range(dice.randrange(4))],
        }
        for _ in range(count)
    ]


def write(server: str, topic: str, rows: list[Order], at_ms: int) -> None:
    with Producer(bootstrap_servers=server) as producer:
        for number, row in enumerate(rows):
            producer.send(topic, json.dumps(row), key=row["id"], timestamp=at_ms + number)


def pipeline(spark: "SparkSession", server: str, source: str, dear: str, cheap: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    rows = stream(spark, source, bootstrap=server, schema=SCHEMA)
    lines = rows.withColumn("line", F.explode("cents")).where("line > 0")
    taxed = lines.select("id", (F.col("line") * 119).alias("taxed"), "_record")
    routed = branch(taxed, {dear: "taxed >= 50000", cheap: "taxed < 50000"})
    return to_records(routed, key="id", timestamp="_record.timestamp")


def model(rows: list[Order], *, dear: bool) -> list[str]:
    taxed = [(row["id"], cents * 119) for row in rows for cents in row["cents"] if cents > 0]
    return sorted(f'{{"id":"{key}","taxed":{n}}}' for key, n in taxed if (n >= 50000) == dear)


def written(server: str, topic: str) -> dict[tuple[int, bytes], list[tuple[bytes, int]]]:
    """The bytes of every key, in the order of its partition."""
    found: dict[tuple[int, bytes], list[tuple[bytes, int]]] = {}
    rows = read_all(server, topic).select(["partition", "key", "value", "timestamp"]).to_pydict()
    for partition, key, value, timestamp in zip(*rows.values(), strict=True):
        found.setdefault((partition, key), []).append((value, timestamp))
    return found


def count_of(server: str, *topics: str) -> int:
    return sum(read_all(server, topic).num_rows for topic in topics)


@pytest.mark.mission("STR-01", "STR-04")
def test_the_same_input_gives_the_same_bytes_continuously_or_at_once(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    dice, server = random.Random(23), spark_bootstrap
    source = new_topic(server, "source", partitions=2)
    outputs = [(new_topic(server, "dear"), new_topic(server, "cheap", partitions=1)) for _ in range(2)]
    rows: list[Order] = []

    def starts() -> Any:
        records = pipeline(spark, server, source, *outputs[0])
        sink = TopicSink(bootstrap=server, name=outputs[0][0])
        writer = records.writeStream.foreachBatch(sink).option(
            "checkpointLocation", str(tmp_path / "continuous")
        )
        return writer.trigger(processingTime="0 seconds").start()

    def has_written(query: Any, expected: int) -> bool:
        return query.exception() is not None or count_of(server, *outputs[0]) >= expected

    now_ms = int(time.time() * 1000)
    for _ in range(2):  # Two lives of the query.
        query = starts()
        try:
            for _ in range(2):
                more = orders(40, dice)
                write(server, source, more, now_ms + len(rows))
                rows += more
                expected = len(model(rows, dear=True)) + len(model(rows, dear=False))
                eventually(partial(has_written, query, expected), f"{expected} records are written")
                assert query.exception() is None
        finally:
            query.stop()

    records = pipeline(spark, server, source, *outputs[1])
    writer = records.writeStream.foreachBatch(TopicSink(bootstrap=server, name=outputs[1][0]))
    drained(writer.option("checkpointLocation", str(tmp_path / "once")).trigger(availableNow=True).start())
    for first, second, dear in zip(*outputs, (True, False), strict=True):
        values = sorted(value.decode() for value in read_all(server, first)["value"].to_pylist())
        assert values == model(rows, dear=dear), "each once"
        assert written(server, first) == written(server, second), "byte by byte"
