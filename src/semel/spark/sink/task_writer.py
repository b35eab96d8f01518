"""A task of the sink: all rows of its partitions into the batch's transaction, and what became of them as a row each.

Role.   `write_rows` is what runs in a Python worker: Arrow batches in, one row per partition out, or one row that says why not.
Flow.   Spark's barrier stage -> `write_rows` -> `Producer.join_transaction` -> `send_arrow` -> flush -> `Report` rows -> the driver.
Rules.  * Each partition has one task, so its sequences begin at 0 under the epoch the driver took; the producer's own retries are
          idempotent, and its memory is bounded by `buffer.memory`.
        * The task never ends the transaction.
        * What goes wrong here is told as a row, not raised: a task that raises has its stage repeated by Spark in ways that
          differ from stage to stage, and the driver would read a stack trace instead of a code.
        * Rows are sorted and encoded by kernels; none is looked at by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semel.client.producer.arrow import pieces
from semel.client.producer.future import ArrowFuture
from semel.client.sync.producer import Producer
from semel.errors import ErrorCode, SemelError
from semel.exceptions import (
    IllegalArgumentException,
    InvalidTopicException,
    KafkaException,
    TimeoutException,
    as_exception,
)
from semel.types import TopicPartition

REPORT_SCHEMA: Final = (
    "topic string, partition int, records long, error_code int, is_retriable boolean, error string"
)
_REPORT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("error_code", pa.int32()),
        ("is_retriable", pa.bool_()),
        ("error", pa.string()),
    ]
)
_EPOCH_IS_OVER: Final = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
        ErrorCode.INVALID_TXN_STATE,
    }
)
"""What ends the use of an epoch, and not that of its transactional id."""
_FUTURES_MAX: Final = 64
"""So many calls of `send_arrow` are under way before the oldest is waited for."""


class Assignment(NamedTuple):
    """What a task needs to know; goes to the workers as it is."""

    settings: Mapping[str, Any]
    """Of a producer, the transactional id among them."""
    producer_id: int
    producer_epoch: int
    topic: str | None
    """Where all rows go; None: each row says it."""


def write_rows(assignment: Assignment, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write rows into the transaction; yields the report."""
    counts: dict[TopicPartition, int] = {}
    failure: KafkaException | None = None
    producer = Producer(dict(assignment.settings))
    try:
        producer.join_transaction(assignment.producer_id, assignment.producer_epoch)
        counts = _written(producer, assignment, batches)
    except SemelError as error:
        failure = as_exception(error)
    finally:
        producer.close(timeout=0)  # Everything is stored, or nothing of it matters any more.
    yield _report(counts, failure)


def _written(
    producer: Producer, assignment: Assignment, batches: Iterable[pa.RecordBatch]
) -> dict[TopicPartition, int]:
    """How many records each partition got, once all of them are stored."""
    counts: dict[TopicPartition, int] = {}
    under_way: list[ArrowFuture] = []
    known: set[str] = set()
    for topic, rows in _by_topic(assignment.topic, batches):
        if topic not in known:
            _find(producer, topic)
            known.add(topic)
        under_way.append(producer.send_arrow(topic, rows))
        if len(under_way) >= _FUTURES_MAX:
            _settle(under_way.pop(0), counts)
    producer.flush()
    for future in under_way:
        _settle(future, counts)
    return counts


def _settle(future: ArrowFuture, counts: dict[TopicPartition, int]) -> None:
    for batch in future.result():
        where = TopicPartition(batch.topic, batch.partition)
        counts[where] = counts.get(where, 0) + batch.records


def _by_topic(fixed: str | None, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Rows of one topic at a time, in pieces that are worth encoding."""
    for rows in pieces(batches):
        if fixed is not None:
            yield fixed, rows
            continue
        topics = rows.column("topic")
        if topics.null_count:
            raise IllegalArgumentException(
                "null topic present in the data: set the topic of every row, or one for all of them with TopicSink('name', ...)"
            )
        distinct = topics.unique()
        for topic in distinct:
            only = rows if len(distinct) == 1 else rows.filter(pc.equal(topics, topic))
            yield topic.as_py(), only.drop_columns(["topic"])


def _find(producer: Producer, topic: str) -> None:
    """Raise if there is no such topic: waiting longer will not make it."""
    try:
        producer.partitions_for(topic)
    except TimeoutException as error:
        raise InvalidTopicException(str(error)) from error


def _report(counts: Mapping[TopicPartition, int], failure: KafkaException | None) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {name: [] for name in _REPORT.names}
    for (topic, partition), records in sorted(counts.items()):
        for name, value in zip(_REPORT.names, (topic, partition, records, 0, None, None), strict=True):
            columns[name].append(value)
    if failure is not None:
        code = failure.code
        values = (
            None,
            None,
            None,
            int(code),
            _is_worth_repeating(failure),
            f"{type(failure).__name__}: {failure}",
        )
        for name, value in zip(_REPORT.names, values, strict=True):
            columns[name].append(value)
    return pa.RecordBatch.from_pydict(columns, schema=_REPORT)


def _is_worth_repeating(failure: KafkaException) -> bool:
    """Whether the same rows may be stored under another epoch."""
    return failure.retriable or failure.code.retriable or failure.code in _EPOCH_IS_OVER
