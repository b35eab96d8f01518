"""A task of the drop-in sink leaves its rows in a transaction of its own, whoever else runs under its number; in bounded memory.

Method: `write_rows` as a worker calls it, without Spark, on Semel and on Apache Kafka. Two tries of a stage give their tasks the same
numbers; the second begins while the first one's transaction is open.
"""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel.spark.dropin.batch_ledger import Standing, TaskTransaction
from semel.spark.dropin.committing import prefix_of
from semel.spark.dropin.settling import BrokerTransactions
from semel.spark.dropin.sink_options import SinkOptions
from semel.spark.dropin.task import Attempt, write_rows
from spark_kit import left_open, new_topic, unique, values


@pytest.fixture
def options(either_bootstrap: str) -> SinkOptions:
    topic = new_topic(either_bootstrap, "task", partitions=2)
    return SinkOptions.of({"kafka.bootstrap.servers": either_bootstrap, "topic": topic})


@pytest.fixture
def transactions(options: SinkOptions) -> Iterator[BrokerTransactions]:
    with BrokerTransactions(options.producer_config("any")) as made:
        yield made


def written(options: SinkOptions, attempt: Attempt, text: str) -> TaskTransaction:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([text.encode()])})
    left = write_rows(options, attempt, iter([rows]), may_be_two_phase=False)
    assert left is not None
    return left


def test_a_stage_that_is_repeated_does_not_end_what_its_first_try_wrote(
    options: SinkOptions, transactions: BrokerTransactions, either_bootstrap: str
) -> None:
    name, topic = unique("sink"), str(options.topic)
    first = written(options, Attempt(name, "run", 0, 0, serial=7), "of the first try")
    second = written(options, Attempt(name, "run", 0, 0, serial=8), "of the second")
    assert first.transactional_id != second.transactional_id
    assert transactions.commit([first]) == {0: Standing.COMMITTED}
    assert transactions.sweep(prefix_of(name), [first]) == 1, (
        "what does not count is found by the sink's name"
    )
    assert values(either_bootstrap, topic) == ["of the first try"]
    assert not left_open(either_bootstrap, topic)


def test_the_next_batch_uses_the_ids_of_the_last(
    options: SinkOptions, transactions: BrokerTransactions
) -> None:
    name = unique("sink")
    ids = set[str]()
    for serial in range(3):
        left = written(options, Attempt(name, "run", 0, 0, serial), f"{serial}")
        ids.add(left.transactional_id)
        assert transactions.commit([left]) == {0: Standing.COMMITTED}
    assert len(ids) == 1, "brokers remember every id for days"
