"""Answers to Produce in words: the batch each belongs to, and the exception its failure becomes.

Role.   `by_partition` sorts an answer; `failure` and `expired` make exceptions that name the partition, the reason and the
        way out.
"""

from typing import Final

from semel.client.settings import ProducerConfig
from semel.core.client.accumulator import Batch
from semel.core.idempotence.delivery import Fail
from semel.core.wire.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from semel.errors import DisconnectedError, ErrorCode, RefusedError, WireError
from semel.exceptions import (
    KafkaException,
    TimeoutException,
    TransactionAbortedException,
    exception_for,
)
from semel.types import TopicPartition

NO_ANSWER: Final = (DisconnectedError, WireError, RefusedError)
"""The error of a request without an answer; whether it was carried out is unknown."""
STALE: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
"""Answers that show that what is known about leaders is old."""
MAY_BE_STORED: Final = "may be stored"
"""Stands in the text of a failure after which nobody knows; a text without it is of records that are not stored."""
TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


def by_partition(
    request: ProduceRequest, response: ProduceResponse
) -> dict[TopicPartition, PartitionProduceResponse]:
    """The answer for each partition; older versions say a topic's name, newer ones its id."""
    names = {bytes(topic.topic_id): topic.name for topic in request.topic_data}
    return {
        TopicPartition(topic.name or names.get(bytes(topic.topic_id), ""), one.index): one
        for topic in response.responses
        for one in topic.partition_responses
    }


def failure(
    decision: Fail[TopicPartition],
    batch: Batch,
    answer: PartitionProduceResponse | None,
    config: ProducerConfig,
    last: str,
) -> KafkaException:
    """Why the records of a batch are not known to be stored; `last` as for `expired`."""
    if decision.code is ErrorCode.REQUEST_TIMED_OUT and answer is None:
        return expired(batch, config.delivery_timeout_ms, last)
    if decision.code is ErrorCode.OPERATION_NOT_ATTEMPTED and config.transactional_id is not None:
        return TransactionAbortedException(
            f"TransactionalId {config.transactional_id}: the transaction was aborted before {batch.records_count} "
            f"record(s) for {batch.partition} were sent"
        )
    said = f": {answer.error_message}" if answer is not None and answer.error_message else ""
    tries = "" if batch.attempts < 2 else f" after {batch.attempts} attempts"
    doubt = f"; they {MAY_BE_STORED}" if decision.maybe_stored else ""
    return exception_for(
        decision.code,
        f"{batch.records_count} records for {batch.partition} failed{tries} with {decision.code.name}{said}{doubt}",
    )


def said_by(code: ErrorCode, answer: PartitionProduceResponse) -> str:
    """An error a broker answered with, in its own words."""
    return code.name if not answer.error_message else f"{code.name}: {answer.error_message}"


def expired(batch: Batch, timeout_ms: int, last: str) -> TimeoutException:
    """The records waited for too long; `last` is the client's last error, for those without one of their own."""
    tries = "without having been sent" if not batch.attempts else f"after {batch.attempts} attempts"
    doubt = f"; they {MAY_BE_STORED}" if batch.attempts else ""
    return TimeoutException(
        f"Expiring {batch.records_count} record(s) for {batch.partition}: {timeout_ms} ms has passed since batch "
        f"creation, {tries}{f'; the last error: {batch.trouble}' if batch.trouble else last}{doubt}"
    )
