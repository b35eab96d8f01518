"""DescribeTopicPartitions (75), version 0: topics and their partitions, a page at a time.

No topics named: all of them, by name. A page holds as many partitions as the client asks for, at most
`max.request.partition.size.limit`, and where there is more its cursor says from where.
"""

from bisect import bisect_left

from semel.broker.context import RequestContext
from semel.broker.partition_views import views
from semel.broker.parts import Administration
from semel.core.metadata import topic_names
from semel.core.metadata.rows import TopicRow
from semel.core.security.operations import TOPIC_OPERATIONS
from semel.core.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from semel.errors import ErrorCode


def handle(
    broker: Administration, request: DescribeTopicPartitionsRequest, context: RequestContext
) -> DescribeTopicPartitionsResponse:
    """Describe from the cursor on until the page is full."""
    cursor = request.cursor
    names = sorted({topic.name for topic in request.topics} or broker.store.image.topics)
    if cursor is not None:
        if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
            return _refused(request)
        names = names[bisect_left(names, cursor.topic_name) :]
    limit = max(1, min(request.response_partition_limit, broker.config.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if limit == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        row = broker.store.image.topic(name)
        topic = (
            _unknown(name) if row is None else _described(broker, row, context.listener.name, start, limit)
        )
        response.topics.append(topic)
        limit -= len(topic.partitions)
        if row is not None and topic.partitions and start + len(topic.partitions) < row.partitions:
            response.next_cursor = Cursor(topic_name=name, partition_index=start + len(topic.partitions))
            break
    return response


def _refused(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=topic.name)
            for topic in request.topics
        ]
    )


def _unknown(name: str) -> DescribeTopicPartitionsResponseTopic:
    possible = topic_names.flaw(name) is None
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if possible else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in topic_names.INTERNAL,
        topic_authorized_operations=TOPIC_OPERATIONS,
    )


def _described(
    broker: Administration, row: TopicRow, listener: str, start: int, limit: int
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=row.name,
        topic_id=row.topic_id.bytes,
        is_internal=row.name in topic_names.INTERNAL,
        partitions=[
            DescribeTopicPartitionsResponsePartition(
                error_code=view.error_code,
                partition_index=view.partition,
                leader_id=view.leader,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.isr,
                eligible_leader_replicas=[],
                last_known_elr=[],
                offline_replicas=view.offline,
            )
            for view in views(broker, row, listener, start, limit)
        ],
        topic_authorized_operations=TOPIC_OPERATIONS,
    )
