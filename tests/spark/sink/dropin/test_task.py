"""A task of the drop-in sink leaves its rows in a transaction of its own, whoever else runs under its number, and none when it is late.

Method: `write_rows` as a worker calls it, without Spark, on Semel and on Apache Kafka. Two tries of a stage give their tasks the same
numbers; the second begins while the first one's transaction is open. Attempts that Spark has given up are at one of three places when
the driver ends the batch: before their epoch, before their first row, in the middle of their rows.
"""

import contextlib
from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel import Producer
from semel.exceptions import KafkaException
from semel.spark.sink.dropin.batch_ledger import LedgerRow, Place, Standing, TaskTransaction
from semel.spark.sink.dropin.committing import committer
from semel.spark.sink.dropin.settling import BrokerTransactions
from semel.spark.sink.dropin.sink_options import SinkOptions
from semel.spark.sink.dropin.task import Attempt, LateAttemptError, write_rows
from support.spark.spark_kit import eventually, left_open, new_topic, unique, values

PLACE = Place("query", "run", 0)


def options_of(bootstrap: str) -> SinkOptions:
    topic = new_topic(bootstrap, "task", partitions=2)
    return SinkOptions.of({"kafka.bootstrap.servers": bootstrap, "topic": topic})


@pytest.fixture
def options(either_bootstrap: str) -> SinkOptions:
    return options_of(either_bootstrap)


@pytest.fixture
def transactions(options: SinkOptions) -> Iterator[BrokerTransactions]:
    with BrokerTransactions(options.producer_config("any")) as made:
        yield made


def rows(text: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"value": pa.array([text.encode()])})


def written(options: SinkOptions, attempt: Attempt, text: str) -> TaskTransaction:
    left = write_rows(options, attempt, iter([rows(text)]), may_be_two_phase=False)
    assert left is not None
    return left


def test_a_stage_that_is_repeated_does_not_end_what_its_first_try_wrote(
    options: SinkOptions, transactions: BrokerTransactions, either_bootstrap: str
) -> None:
    name, topic = unique("sink"), str(options.topic)
    first = written(options, Attempt(name, PLACE, 0, 0, serial=7), "of the first try")
    second = written(options, Attempt(name, PLACE, 0, 0, serial=8), "of the second")
    assert first.transactional_id != second.transactional_id
    assert transactions.commit([first]) == {0: Standing.COMMITTED}
    assert transactions.sweep(name, "run", [first]) == 1, "what does not count is found by the sink's name"
    assert values(either_bootstrap, topic) == ["of the first try"]
    assert not left_open(either_bootstrap, topic)


def test_the_next_batch_uses_the_ids_of_the_last(
    options: SinkOptions, transactions: BrokerTransactions
) -> None:
    name = unique("sink")
    ids = set[str]()
    for serial in range(3):
        left = written(options, Attempt(name, PLACE._replace(batch_id=serial), 0, 0, serial), f"{serial}")
        ids.add(left.transactional_id)
        assert transactions.commit([left]) == {0: Standing.COMMITTED}
    assert len(ids) == 1, "brokers remember every id for days"


def end_batch(options: SinkOptions, name: str, place: Place, how: str) -> list[str]:
    """What a driver does when all tasks are done, or when one has failed; the rows that are seen from then on."""
    counted = written(options, Attempt(name, place, 0, 0, serial=1), "counts")
    with committer(options, name, is_write=how == "job") as driver:
        if how == "given up":
            driver.abort_batch((counted,), place.run_id)
            return []
        driver.commit_batch(LedgerRow(place.query_id, place.batch_id, (counted,), place.run_id))
        return ["counts"]


@pytest.mark.parametrize("how", ["stream", "job", "given up"])
@pytest.mark.parametrize("has_begun", ["", "to take an epoch", "to write"])
def test_an_attempt_that_is_late_leaves_nothing_open(any_bootstrap: str, how: str, has_begun: str) -> None:
    """Whatever it has done before its batch ended, readers do not wait for it afterwards."""
    options, name = options_of(any_bootstrap), unique("sink")
    late, topic = Attempt(name, PLACE, 0, 1, serial=2), str(options.topic)
    seen = list[str]()

    def two_batches() -> Iterator[pa.RecordBatch]:
        yield rows("too late")
        seen.extend(end_batch(options, name, PLACE, how))
        yield rows("much too late")

    if has_begun == "to write":
        # Until the abort's marker is there, the partition may take more of what it is about to abort: then nothing fails.
        with contextlib.suppress(KafkaException):
            write_rows(options, late, two_batches(), may_be_two_phase=False)
    elif has_begun == "to take an epoch":
        with Producer(options.producer_settings(late.usual_id)) as producer:
            producer.init_transactions()
            seen.extend(end_batch(options, name, PLACE, how))
            producer.begin_transaction()
            with pytest.raises(KafkaException, match=r"(?i)fenced|epoch"):  # noqa: PT012 - either may tell
                producer.send(topic, value="too late").result(30)
                producer.flush()
    else:
        seen.extend(end_batch(options, name, PLACE, how))
        with pytest.raises(LateAttemptError, match=r"batch 0 of query query is over; attempt 1 of task 0"):
            write_rows(options, late, iter([rows("too late")]), may_be_two_phase=False)
    eventually(lambda: not left_open(any_bootstrap, topic), "every marker is written")
    assert values(any_bootstrap, topic) == seen


def test_what_is_fenced_is_not_fenced_again_with_every_batch(any_bootstrap: str) -> None:
    options, name = options_of(any_bootstrap), unique("sink")
    late = Attempt(name, PLACE, 0, 1, serial=2).usual_id
    with (
        Producer(options.producer_settings(late)) as producer,
        BrokerTransactions(options.producer_config("any")) as transactions,
    ):
        producer.init_transactions()
        epochs = list[int]()
        for _batch in range(3):
            transactions.sweep(name, PLACE.run_id, [])
            asked = TaskTransaction(-1, late, -1, -1, 0, "")
            epochs.append(transactions.describe([asked])[late].producer_epoch)
    assert epochs[0] == epochs[1] == epochs[2] > 0


def test_who_is_late_leaves_what_counts_recognizable(
    options: SinkOptions, transactions: BrokerTransactions
) -> None:
    """A stage that was repeated has an attempt of the same number: it takes no epoch of the id that has just been committed."""
    name = unique("sink")
    counted = written(options, Attempt(name, PLACE, 0, 0, serial=1), "counts")
    with committer(options, name, is_write=False) as driver:
        driver.commit_batch(LedgerRow(PLACE.query_id, 0, (counted,), PLACE.run_id))
    before = transactions.describe([counted])[counted.transactional_id]
    with pytest.raises(LateAttemptError):
        written(options, Attempt(name, PLACE, 0, 0, serial=2), "too late")
    assert transactions.describe([counted])[counted.transactional_id] == before
    assert transactions.commit([counted]) == {0: Standing.COMMITTED}


def test_what_is_over_for_one_is_not_for_the_next(options: SinkOptions, either_bootstrap: str) -> None:
    """The next batch of the run, and the same batch in the next run, which may have to replace what was lost."""
    name = unique("sink")
    end_batch(options, name, PLACE, "stream")
    for place in (PLACE._replace(batch_id=1), PLACE._replace(run_id="next")):
        written(options, Attempt(name, place, 1, 0, serial=3), "again")
    with committer(options, name, is_write=False) as driver:
        again = written(options, Attempt(name, PLACE._replace(run_id="next"), 2, 0, serial=4), "again")
        driver.commit_batch(LedgerRow(PLACE.query_id, 0, (again,), "next"))
    with pytest.raises(LateAttemptError):
        written(options, Attempt(name, PLACE._replace(run_id="next"), 2, 1, serial=5), "too late")
    assert values(either_bootstrap, str(options.topic)) == ["counts"], "the batch was there already"
    assert not left_open(either_bootstrap, str(options.topic))
