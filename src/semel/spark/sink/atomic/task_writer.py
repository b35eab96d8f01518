"""A task of the sink: all rows of its partitions into the batch's transaction, and what became of them as a row each.

Role.   `write_rows` runs in a Python worker: Arrow batches in, one row per partition out, or one row that says why not.
Flow.   Spark's barrier stage -> `write_rows` -> `Producer.join_transaction` -> `send_arrow` -> flush -> `Report` rows -> the driver.
Rules.  * Each partition has one task, so its sequences begin at 0 under the epoch the driver took. The producer's own retries are
          idempotent, and its memory is bounded by `buffer.memory`.
        * The task never ends the transaction.
        * A failure here is reported as a row, not raised. Spark repeats the stage of a task that raises, in ways that differ
          from stage to stage, and the driver would read a stack trace instead of a code.
        * Rows are sorted and encoded by kernels; none is looked at by itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa

from semel.client.producer.arrow import pieces
from semel.client.producer.future import ArrowFuture
from semel.client.sync.producer import Producer
from semel.errors import ErrorCode, SemelError
from semel.exceptions import (
    InvalidTopicException,
    KafkaException,
    TimeoutException,
    as_exception,
)
from semel.spark.sink.atomic.rows import RULES
from semel.spark.sink.common.errors import SinkRefusedError
from semel.spark.sink.common.rows import by_topic
from semel.types import TopicPartition

REPORT_SCHEMA: Final = "topic string, partition int, records long, error_code int, is_retriable boolean, error string, way_out string"
_REPORT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("records", pa.int64()),
        ("error_code", pa.int32()),
        ("is_retriable", pa.bool_()),
        ("error", pa.string()),
        ("way_out", pa.string()),
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
"""Answers that end the use of an epoch, and not that of its transactional id."""
_FUTURES_MAX: Final = 64
"""So many calls of `send_arrow` are under way before the oldest is waited for."""


class Assignment(NamedTuple):
    """A task's settings; goes to the workers as it is."""

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
    for piece in pieces(batches):  # Pieces that are worth encoding.
        for topic, rows in by_topic(piece, assignment.topic, RULES):
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


def _find(producer: Producer, topic: str) -> None:
    """Raise if there is no such topic: waiting longer will not make it."""
    try:
        producer.partitions_for(topic)
    except TimeoutException as error:
        raise InvalidTopicException(str(error)) from error


def _report(counts: Mapping[TopicPartition, int], failure: KafkaException | None) -> pa.RecordBatch:
    rows: list[tuple[Any, ...]] = [
        (topic, partition, records, 0, None, None, None)
        for (topic, partition), records in sorted(counts.items())
    ]
    if isinstance(failure, SinkRefusedError):
        rows.append((None, None, None, int(failure.code), False, failure.reason, failure.way_out))
    elif failure is not None:
        error = f"{type(failure).__name__}: {failure}"
        rows.append((None, None, None, int(failure.code), _is_worth_repeating(failure), error, None))
    columns = list(zip(*rows, strict=True)) or [()] * len(_REPORT)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _REPORT, strict=True)], schema=_REPORT
    )


def _is_worth_repeating(failure: KafkaException) -> bool:
    """Whether the same rows may be stored under another epoch."""
    return failure.retriable or failure.code.retriable or failure.code in _EPOCH_IS_OVER
