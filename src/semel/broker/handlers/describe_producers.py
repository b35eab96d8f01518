"""DescribeProducers (61), version 0: the producers a partition remembers, and where their open transactions begin.

It is how a transaction that never ended is found: its producer has a start offset here and no coordinator that knows it.
"""

from semel.broker.context import BrokerContext, RequestContext
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


def handle(
    broker: BrokerContext, request: DescribeProducersRequest, context: RequestContext
) -> DescribeProducersResponse:
    """Every partition that was named, with everyone it knows."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: BrokerContext, topic: str, index: int) -> PartitionResponse:
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
    known = partition.log.producers.producers
    return PartitionResponse(
        partition_index=index,
        active_producers=[_state(producer_id, window) for producer_id, window in sorted(known.items())],
    )


def _state(producer_id: int, window: ProducerWindow) -> ProducerState:
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=window.producer_epoch,
        last_sequence=window.last_sequence,
        last_timestamp=window.last_timestamp_ms,
        coordinator_epoch=window.coordinator_epoch,
        current_txn_start_offset=window.current_txn_first_offset,
    )
