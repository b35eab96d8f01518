"""Tables that Spark keeps are exact after everything that can happen to a query, and rebuilt from their changelog.

Method: random orders and the sums of them in plain Python; the query is killed with SIGKILL while it works, made to repeat its last
batch, and robbed of its checkpoint; the table in the topic is compared with the sums. The time to rebuild is printed.
"""

import datetime as dt
import json
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from semel import Admin, ConfigResource, ConfigResourceType, Producer
from semel.errors import ConfigError
from semel.spark import create_changelog, table
from support.spark import table_story
from support.spark.spark_kit import driver_process, eventually, new_topic, read_all, unique
from support.spark.table_story import Sales, SoldTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def forget_last_commit(checkpoint: Path) -> None:
    """What a driver leaves that dies after the sink's commit and before Spark's own: Spark repeats the batch."""
    last = max(
        (int(file.name), file) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal()
    )[1]
    last.unlink()
    last.with_name(f".{last.name}.crc").unlink(missing_ok=True)


@pytest.mark.campaign  # Three lives of a driver.
@pytest.mark.mission("STR-06", "STR-08", "STR-10", "STR-11")
def test_sums_are_exact_after_kills_repeats_and_a_lost_checkpoint(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, name = new_topic(spark_bootstrap, "orders", partitions=3), unique("sold")
    checkpoint = tmp_path / "checkpoint"
    sales = Sales(spark_bootstrap, topic, seed=17)
    sold = SoldTable(spark_bootstrap, topic, name, str(checkpoint))
    sales.write(300)
    arguments = [spark_bootstrap, topic, name, str(checkpoint)]
    with driver_process(Path(table_story.__file__), arguments, directory=tmp_path) as driver:

        def has_begun() -> bool:
            assert driver.process.poll() is None, driver.text()[-4000:]
            return (checkpoint / "commits" / "1").exists()

        eventually(has_begun, "the driver commits its second batch")
        driver.kill()

    sales.write(50)
    sold.run(spark)
    assert sold.rows(spark) == sales.table(), "after a kill"
    state = spark.read.format("statestore").load(str(checkpoint))
    kept = {row["key"]["product"] for row in state.select("key").collect()}
    assert kept == set(sales.table()), "the state store has every key"

    forget_last_commit(checkpoint)
    sales.write(30)
    sold.run(spark)
    assert sold.rows(spark) == sales.table(), "after a repeated batch"

    shutil.rmtree(checkpoint)
    sales.write(20)
    began = time.perf_counter()
    sold.run(spark)
    seconds = time.perf_counter() - began
    assert sold.rows(spark) == sales.table(), "after a lost checkpoint"
    position = sold.query.position()
    assert position is not None
    assert position.batch_id == 0, "one batch: only what is new was read again"
    with capsys.disabled():
        print(f" [rebuilt from the changelog in {seconds:.1f} s]", end="")


def state_files(checkpoint: Path) -> set[str]:
    """How the files of the state end: each of Spark's stores has endings of its own."""
    return {file.suffix for file in (checkpoint / "state").rglob("*") if file.suffix not in ("", ".crc")}


@pytest.mark.mission("STR-06", "STR-10")
def test_a_table_is_kept_in_rocksdb_and_outlives_its_checkpoint(
    spark: "SparkSession", spark_bootstrap: str, tmp_path: Path
) -> None:
    """Also where the source has got a partition since, of which the table's position knows nothing."""
    topic, checkpoint = new_topic(spark_bootstrap, "orders", partitions=2), tmp_path / "checkpoint"
    sales = Sales(spark_bootstrap, topic, seed=5)
    sold = SoldTable(spark_bootstrap, topic, unique("sold"), str(checkpoint))
    sales.write(60)
    sold.run(spark)
    assert sold.rows(spark) == sales.table()
    assert ".changelog" in state_files(checkpoint), "RocksDB, by its changelog"
    assert not {".delta", ".snapshot"} & state_files(checkpoint), "the store in memory has these"

    with Admin(bootstrap_servers=spark_bootstrap) as admin:
        admin.create_partitions({topic: 3})
    shutil.rmtree(checkpoint)
    sales.write(60)
    sold.run(spark)
    assert sold.rows(spark) == sales.table(), "after a lost checkpoint"
    position = sold.query.position()
    assert position is not None
    assert position.offsets[topic][2] > 0, "the new partition has records, and was read"


@pytest.mark.mission("STR-07")
def test_a_table_is_read_as_it_is_and_as_it_was(spark: "SparkSession", both_bootstrap: str) -> None:
    name = unique("states")
    create_changelog(name, bootstrap=both_bootstrap, partitions=2)
    create_changelog(name, bootstrap=both_bootstrap)  # There already: fine.
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    with Admin(bootstrap_servers=both_bootstrap) as admin:
        config = admin.describe_configs(resource, keys=["cleanup.policy"])[resource]
    assert config["cleanup.policy"].value == "compact"
    plain = new_topic(both_bootstrap, "plain")
    with pytest.raises(
        ConfigError, match=f"topic '{plain}' has cleanup.policy=delete: a changelog is compacted"
    ):
        create_changelog(plain, bootstrap=both_bootstrap)

    changes = [("a", 1), ("b", 2), ("c", 3), ("a", 4), ("b", None), ("d", 5), ("c", 6), ("a", None), ("e", 7)]
    begin_ms = 1_700_000_000_000
    with Producer(bootstrap_servers=both_bootstrap) as producer:
        for number, (key, n) in enumerate(changes):
            value = None if n is None else json.dumps({"n": n})
            producer.send(name, value, key=key, timestamp=begin_ms + 1000 * number).result(30)

    def read(**options: object) -> dict[str, int]:
        rows = table(spark, name, bootstrap=both_bootstrap, schema="k STRING, n INT", key="k", **options)  # type: ignore[arg-type]
        return {row["k"]: row["n"] for row in rows.collect()}

    def model(upto: int) -> dict[str, int]:
        found: dict[str, int] = {}
        for key, n in changes[:upto]:
            if n is None:
                found.pop(key, None)
            else:
                found[key] = n
        return found

    assert read() == model(len(changes))
    for number in (0, 3, 6):
        at = dt.datetime.fromtimestamp((begin_ms + 1000 * number) / 1000, dt.UTC)
        assert read(as_of=at) == model(number + 1), number
        assert read(as_of=at - dt.timedelta(milliseconds=1)) == model(number), number
    seen = read_all(both_bootstrap, name)
    offsets = {0: 0, 1: 0}
    for partition, timestamp in zip(
        seen["partition"].to_pylist(), seen["timestamp"].to_pylist(), strict=True
    ):
        milliseconds = timestamp if isinstance(timestamp, int) else int(timestamp.timestamp() * 1000)
        offsets[partition] += milliseconds < begin_ms + 5000
    assert read(as_of=offsets) == model(5)
    for wrong, message in (
        (-1, "is not an offset"),
        (dt.datetime(2026, 1, 1), "has no time zone"),  # noqa: DTZ001 - the very mistake.
        (True, "is expected"),
    ):
        with pytest.raises(ConfigError, match=message):
            read(as_of=wrong)
