"""The sink's protocol without Spark: a driver, tasks that write into its transaction, and their successors.

Method: `SharedTransactions` plays the driver, threads with `write_rows` play the tasks, on Semel and on Apache Kafka. What is
visible is asked of a consumer that reads what is committed. A driver dies by being left alone.
"""

import itertools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from semel import Producer
from semel.client.settings import ProducerConfig
from semel.core.idempotence.delivery import Identity
from semel.errors import ErrorCode
from semel.exceptions import IllegalStateException, KafkaException
from semel.spark.sink.atomic.shared_transaction import FENCED, SharedTransactions, Step
from semel.spark.sink.atomic.task_writer import Assignment, write_rows
from semel.spark.sink.common.batch_ledger import Entry
from semel.spark.sink.common.names import ATOMIC_LEDGER_TOPIC
from support.spark.spark_kit import eventually, new_topic, unique, values

PARTITIONS = 4


class Sink:
    """A sink's name on a broker, with drivers one after the other."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = new_topic(bootstrap, "shared", partitions=PARTITIONS)
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "transactional.id": unique("sink"),
            "max.block.ms": 20_000,
        }
        self._drivers: list[SharedTransactions] = []

    def driver(self) -> SharedTransactions:
        made = SharedTransactions(
            ProducerConfig.of(self.settings),
            transactional_id=str(self.settings["transactional.id"]),
            ledger_topic=ATOMIC_LEDGER_TOPIC,
        )
        made.make_ledger()
        self._drivers.append(made)
        return made

    def close(self) -> None:
        for one in self._drivers:
            one.close()

    def task(self, identity: Identity, partition_rows: dict[int, list[str]]) -> list[dict[str, Any]]:
        """A task that owns these partitions; its report."""
        batches = [
            pa.RecordBatch.from_pydict(
                {
                    "value": pa.array([row.encode() for row in rows]),
                    "partition": pa.array([partition] * len(rows), pa.int32()),
                }
            )
            for partition, rows in partition_rows.items()
        ]
        (report,) = write_rows(Assignment(self.settings, *identity, self.topic), batches)
        found: list[dict[str, Any]] = report.to_pylist()
        return found

    def stage(self, identity: Identity, batch_id: int) -> None:
        """Two tasks at once, two partitions each."""
        work = [
            {partition: [f"{batch_id}-{partition}-{n}" for n in range(3)] for partition in partitions}
            for partitions in ((0, 1), (2, 3))
        ]
        with ThreadPoolExecutor(2) as threads:
            reports = list(itertools.chain(*threads.map(lambda rows: self.task(identity, rows), work)))
        assert sorted((one["partition"], one["records"]) for one in reports) == [
            (n, 3) for n in range(PARTITIONS)
        ]

    def visible(self) -> list[str]:
        return values(self.bootstrap, self.topic)

    def shows(self, rows: list[str]) -> None:
        """A commit is answered when it is decided; its markers reach the partitions a moment later."""
        eventually(lambda: self.visible() == rows, f"{len(rows)} rows", seconds=20)


def rows_of(*batch_ids: int) -> list[str]:
    return sorted(
        f"{batch_id}-{partition}-{n}"
        for batch_id in batch_ids
        for partition in range(PARTITIONS)
        for n in range(3)
    )


@pytest.fixture
def sink(either_bootstrap: str) -> Iterator[Sink]:
    made = Sink(either_bootstrap)
    yield made
    made.close()


def nothing(_step: Step) -> None:
    pass


def test_rows_of_all_tasks_and_the_batch_number_are_seen_together(sink: Sink) -> None:
    driver = sink.driver()
    assert driver.ledger(settled=True) is None
    epochs = []
    for batch_id in range(3):
        identity = driver.identify()
        epochs.append(identity.producer_epoch)
        sink.stage(identity, batch_id)
        assert sink.visible() == rows_of(*range(batch_id)), "nothing of it is seen before the commit"
        steps = list[Step]()
        driver.commit(Entry("query", batch_id), steps.append)
        assert steps == [Step.GROUP_ADDED, Step.BATCH_STORED, Step.COMMITTED]
        assert driver.ledger(settled=True) == Entry("query", batch_id)
        sink.shows(rows_of(*range(batch_id + 1)))
    assert len(set(epochs)) == 3, "every batch has an epoch of its own"


def test_an_empty_batch_moves_the_ledger_alone(sink: Sink) -> None:
    driver = sink.driver()
    assert sink.task(driver.identify(), {}) == []
    driver.commit(Entry("query", 0), nothing)
    assert (driver.ledger(settled=True), sink.visible()) == (Entry("query", 0), [])


def test_a_task_that_comes_late_writes_nothing(sink: Sink) -> None:
    driver = sink.driver()
    old = driver.identify()
    sink.task(old, {0: ["never"]})
    driver.abort()
    new = driver.identify()
    for partition in (0, 3):  # One that was part of the transaction, one that was not.
        (report,) = sink.task(old, {partition: ["too late"]})
        assert ErrorCode(report["error_code"]) in FENCED, report
        assert not report["is_retriable"]
    sink.stage(new, 0)
    driver.commit(Entry("query", 0), nothing)
    sink.shows(rows_of(0))


def test_an_abort_with_nothing_begun_is_harmless(sink: Sink) -> None:
    driver = sink.driver()
    driver.abort()
    driver.identify()
    driver.abort()
    sink.stage(driver.identify(), 0)
    driver.commit(Entry("query", 0), nothing)
    sink.shows(rows_of(0))


@pytest.mark.parametrize(
    "last", [Step.IDENTIFIED, Step.WRITTEN, Step.GROUP_ADDED, Step.BATCH_STORED, Step.COMMITTED]
)
def test_a_successor_finds_the_batch_whole_or_not_at_all(sink: Sink, last: Step) -> None:
    class LeftAlone(Exception):  # noqa: N818 - not an error.
        pass

    def die(step: Step) -> None:
        if step is last:
            raise LeftAlone

    dead = sink.driver()
    identity = dead.identify()
    if last is not Step.IDENTIFIED:
        sink.stage(identity, 0)
        if last is not Step.WRITTEN:
            with pytest.raises(LeftAlone):
                dead.commit(Entry("query", 0), die)
    successor = sink.driver()
    identity = successor.identify()
    stored = successor.ledger(settled=True)
    assert stored == (Entry("query", 0) if last is Step.COMMITTED else None)
    sink.shows(rows_of(*([0] if stored else [])))
    if stored is None:
        sink.stage(identity, 0)
        successor.commit(Entry("query", 0), nothing)
    sink.shows(rows_of(0))


def test_a_driver_that_was_replaced_is_stopped_and_stops_nobody(sink: Sink) -> None:
    old, new = sink.driver(), sink.driver()
    sink.stage(old.identify(), 0)
    identity = new.identify()
    with pytest.raises(KafkaException) as fenced:
        old.commit(Entry("query", 0), nothing)
    assert fenced.value.code in FENCED
    with pytest.raises(KafkaException) as fenced:
        old.identify()
    assert fenced.value.code in FENCED, "it asks in the name of its last epoch, so that it fences nobody"
    assert old.is_taken_over()
    sink.stage(identity, 0)
    new.commit(Entry("query", 0), nothing)
    sink.shows(rows_of(0))


def test_a_guest_ends_nothing(sink: Sink) -> None:
    driver = sink.driver()
    with Producer(sink.settings) as guest:
        guest.join_transaction(*driver.identify())
        guest.send(sink.topic, b"mine", partition=0)
        guest.flush()
        for end in (guest.commit_transaction, guest.abort_transaction):
            with pytest.raises(IllegalStateException, match="only who began it"):
                end()
    driver.commit(Entry("query", 0), nothing)
    sink.shows(["mine"])


def test_a_transaction_that_takes_too_long_is_told_from_a_takeover(sink: Sink) -> None:
    sink.settings["transaction.timeout.ms"] = 1000
    driver = sink.driver()
    identity = driver.identify()
    sink.task(identity, {0: ["too slow"]})
    said = list[dict[str, Any]]()

    def is_over() -> bool:
        said[:] = sink.task(identity, {1: ["still slow"]})
        return said[0]["error"] is not None

    eventually(
        is_over, "the broker's end of a transaction that is late"
    )  # Kafka looks for them every ten seconds.
    assert ErrorCode(said[0]["error_code"]) in FENCED, said
    assert not driver.is_taken_over()
    assert sink.visible() == []


@pytest.mark.parametrize("reach", ["partition", "size"])
def test_rows_that_cannot_be_written_are_told_and_not_tried_again(sink: Sink, reach: str) -> None:
    driver = sink.driver()
    identity = driver.identify()
    if reach == "partition":
        (report,) = sink.task(identity, {99: ["nowhere"]})
    else:
        (report,) = sink.task(identity, {0: ["x" * (2 << 20)]})
    assert not report["is_retriable"]
    text = str(report["error"])
    assert ("has 4 partitions" if reach == "partition" else "max.request.size") in text, text
    driver.abort()
    assert sink.visible() == []
