"""Metadata (3), versions 0-13: brokers, topics, partitions and their leaders.

0      no topics named: all of them; 1+ null means all, empty none
4+     the client says whether a missing topic may be created
10+    topics carry ids; 12+ may be asked for by id
"""

from collections.abc import Awaitable
from typing import Final

from semel.broker.context import RequestContext
from semel.broker.partition_views import views
from semel.broker.parts import Administration
from semel.broker.topics import create_missing
from semel.broker.turns import Steps, Turn, in_turns
from semel.core.metadata import topic_names
from semel.core.metadata.rows import TopicRow
from semel.core.security.operations import CLUSTER_OPERATIONS, TOPIC_OPERATIONS, UNASKED
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.primitives import ZERO_UUID
from semel.errors import ErrorCode
from semel.net.reply import Exclusive

_ALL_BY_EMPTY: Final = 0
_LISTENER_NOT_FOUND_SINCE: Final = 6


def handle(
    broker: Administration, request: MetadataRequest, context: RequestContext
) -> MetadataResponse | Awaitable[MetadataResponse] | Exclusive[MetadataResponse]:
    """Answer for what is there; make what may be made first."""
    if request.topics is None or (context.version == _ALL_BY_EMPTY and not request.topics):
        return in_turns(_all(broker, request, context), broker.runtime, context.connection.peer)
    asked = list({(topic.topic_id, topic.name): topic for topic in request.topics}.values())
    missing = [
        topic.name
        for topic in asked
        if topic.name and topic.topic_id == ZERO_UUID and broker.store.image.topic(topic.name) is None
    ]
    may_create = request.allow_auto_topic_creation and broker.config.auto_create_topics_enable
    creatable = [name for name in missing if topic_names.flaw(name) is None]
    if may_create and creatable:
        return _create_then_answer(broker, request, context, creatable, asked)
    return _response(broker, request, context, [_find(broker, topic, context) for topic in asked])


def _all(
    broker: Administration, request: MetadataRequest, context: RequestContext
) -> Steps[MetadataResponse]:
    turn = Turn(broker.runtime.clock)
    topics: list[MetadataResponseTopic] = []
    for row in list(broker.store.image):
        if turn.is_over:
            yield None
            turn.begin()
            if broker.store.image.topic_by_id(row.topic_id.bytes) is None:
                continue  # It was deleted in the pause.
        topics.append(_described(broker, row, context))
    return _response(broker, request, context, topics)


async def _create_then_answer(
    broker: Administration,
    request: MetadataRequest,
    context: RequestContext,
    names: list[str],
    topics: list[MetadataRequestTopic],
) -> MetadataResponse:
    await create_missing(broker, names)
    return _response(broker, request, context, [_find(broker, topic, context) for topic in topics])


def _response(
    broker: Administration,
    request: MetadataRequest,
    context: RequestContext,
    topics: list[MetadataResponseTopic],
) -> MetadataResponse:
    image = broker.store.image
    if request.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = TOPIC_OPERATIONS
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=one.broker_id, host=endpoint.host, port=endpoint.port, rack=one.rack
            )
            for one in image.brokers.values()
            if (endpoint := one.on(context.listener.name)) is not None
        ],
        cluster_id=broker.cluster_id,
        controller_id=image.controller_id,
        topics=topics,
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else UNASKED
        ),
    )


def _find(
    broker: Administration, asked: MetadataRequestTopic, context: RequestContext
) -> MetadataResponseTopic:
    image = broker.store.image
    if asked.topic_id != ZERO_UUID:
        row = image.topic_by_id(asked.topic_id)
        if row is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
            )
        return _described(broker, row, context)
    name = asked.name or ""
    row = image.topic(name)
    if row is not None:
        return _described(broker, row, context)
    unknown = (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic_names.flaw(name) is None
        else ErrorCode.INVALID_TOPIC_EXCEPTION
    )
    return MetadataResponseTopic(error_code=unknown, name=name, is_internal=name in topic_names.INTERNAL)


def _described(broker: Administration, row: TopicRow, context: RequestContext) -> MetadataResponseTopic:
    # A topic is in the metadata a moment before its logs are: the client asks again.
    ready = broker.partitions.count(row.name) == row.partitions
    return MetadataResponseTopic(
        error_code=ErrorCode.NONE if ready else ErrorCode.LEADER_NOT_AVAILABLE,
        name=row.name,
        topic_id=row.topic_id.bytes,
        is_internal=row.name in topic_names.INTERNAL,
        partitions=[
            MetadataResponsePartition(
                error_code=_at_version(view.error_code, context.version),
                partition_index=view.partition,
                leader_id=view.leader,
                leader_epoch=view.leader_epoch,
                replica_nodes=view.replicas,
                isr_nodes=view.isr,
                offline_replicas=view.offline,
            )
            for view in views(broker, row, context.listener.name)
        ],
    )


def _at_version(code: ErrorCode, version: int) -> ErrorCode:
    is_new = code is ErrorCode.LISTENER_NOT_FOUND and version < _LISTENER_NOT_FOUND_SINCE
    return ErrorCode.LEADER_NOT_AVAILABLE if is_new else code
