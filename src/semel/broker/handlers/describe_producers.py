"""DescribeProducers (61), version 0: the producers a partition remembers, and where their open transactions begin.

It is how a transaction that never ended is found: its producer has a start offset here and no coordinator that knows it.
"""

from operator import itemgetter
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import ReadPath
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.idempotence.producer_window import ProducerWindow
from semel.core.metadata import topic_names
from semel.core.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from semel.errors import ErrorCode
from semel.net.reply import Exclusive

_AT_ONCE: Final = 1000


def handle(
    broker: ReadPath, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse | Exclusive[DescribeProducersResponse]:
    """Every partition that was named, with everyone it knows; a partition that is named twice, once."""
    return in_turns(_describe_all(broker, request), broker.runtime, context.connection.peer)


def _describe_all(broker: ReadPath, request: DescribeProducersRequest) -> Steps[DescribeProducersResponse]:
    turn = Turn(broker.runtime.clock)
    topics: list[TopicResponse] = []
    for topic in request.topics:
        answered = TopicResponse(name=topic.name)
        topics.append(answered)
        for index in dict.fromkeys(topic.partition_indexes):
            answered.partitions.append((yield from _describe(broker, topic.name, index, turn)))
    return DescribeProducersResponse(topics=topics)


def _describe(broker: ReadPath, topic: str, index: int, turn: Turn) -> Steps[PartitionResponse]:
    flaw = topic_names.flaw(topic)
    if flaw is not None:
        return PartitionResponse(
            partition_index=index, error_code=ErrorCode.INVALID_TOPIC_EXCEPTION, error_message=flaw
        )
    partition = broker.partitions.get(topic, index)
    if partition is None:
        code = broker.partitions.missing(topic, index)
        unknown = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return PartitionResponse(
            partition_index=index,
            error_code=code,
            error_message=(
                "This server does not host this topic-partition."
                if unknown
                else "The partition is offline: the broker's log says why."
            ),
        )
    answer = PartitionResponse(partition_index=index)
    known = sorted(partition.log.producers.producers.items(), key=itemgetter(0))
    for first in range(0, len(known), _AT_ONCE):
        if turn.is_over:
            yield None
            turn.begin()
        answer.active_producers += [
            _state(producer_id, window) for producer_id, window in known[first : first + _AT_ONCE]
        ]
    return answer


def _state(producer_id: int, window: ProducerWindow) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=window.producer_epoch,
        last_sequence=window.last_sequence,
        last_timestamp=window.last_timestamp_ms,
        coordinator_epoch=window.coordinator_epoch,
        current_txn_start_offset=window.current_txn_first_offset,
    )
