"""CreatePartitions (37), versions 0-3: topics get more partitions, never fewer.

    2+  flexible
    3+  a client over its quota of changes is told so (there are no such quotas here)

A topic named twice is refused and stays as it is; the answer has it once. All that grows, grows in one change of the
metadata.
"""

from collections import Counter
from dataclasses import replace
from typing import Final

from semel.broker import topics
from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.replica_assignments import (
    PARTITIONS_PER_REQUEST_MAX,
    TOO_MANY_PARTITIONS,
    assignment_flaw,
    placed,
    spread,
)
from semel.core.metadata.partition_state import new_state
from semel.core.metadata.rows import TopicRow
from semel.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from semel.errors import ErrorCode, LogError, Refuse

_UNKNOWN: Final = Refuse(
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."
)
_TWICE: Final = Refuse(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")


async def handle(
    broker: Administration, request: CreatePartitionsRequest, context: RequestContext
) -> CreatePartitionsResponse:
    """Decide every topic, then grow those that may, together."""
    named = Counter(topic.name for topic in request.topics)
    results = [_result(name, _TWICE) for name, count in named.items() if count > 1]
    grown: dict[str, tuple[TopicRow, CreatePartitionsTopicResult]] = {}
    for topic in request.topics:
        if named[topic.name] > 1:
            continue
        decided = _decide(broker, topic)
        if isinstance(decided, Refuse):
            results.append(_result(topic.name, decided))
        else:
            grown[topic.name] = decided, _result(topic.name, None)
    if grown and not request.validate_only:
        try:
            rows = [row for row, _result in grown.values()]
            failed = await topics.create_all(broker, rows, timeout_ms=request.timeout_ms)
        except LogError as error:
            failed = dict.fromkeys(grown, Refuse(ErrorCode.KAFKA_STORAGE_ERROR, str(error)))
        for name, refused in failed.items():
            result = grown[name][1]
            result.error_code, result.error_message = refused.code, refused.reason
    return CreatePartitionsResponse(results=results + [result for _row, result in grown.values()])


def _decide(broker: Administration, topic: CreatePartitionsTopic) -> TopicRow | Refuse:
    image = broker.store.image
    row = image.topic(topic.name)
    if row is None:
        return _UNKNOWN
    replicas = len(row.states[0].replicas)
    if topic.count == row.partitions:
        return Refuse(ErrorCode.INVALID_PARTITIONS, f"Topic already has {row.partitions} partition(s).")
    if topic.count < row.partitions:
        return Refuse(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {topic.name} currently has {row.partitions} partition(s); {topic.count} would not be an increase.",
        )
    additional = topic.count - row.partitions
    if additional > PARTITIONS_PER_REQUEST_MAX:
        return TOO_MANY_PARTITIONS
    if topic.assignments is not None:
        if len(topic.assignments) != additional:
            return Refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {additional} additional partition(s), "
                f"but only {len(topic.assignments)} assignment(s) were specified.",
            )
        for assignment in topic.assignments:
            flaw = assignment_flaw(assignment.broker_ids, image, replication_factor=replicas)
            if flaw is not None:
                return flaw
        added = tuple(new_state(tuple(assignment.broker_ids)) for assignment in topic.assignments)
    elif (draw := broker.store.draw) is not None:
        more = placed(image, additional, replicas=replicas, draw=draw, behind=row.states)
        if isinstance(more, Refuse):
            return more
        added = more
    else:
        added = spread(image, additional, replicas=replicas, first=row.partitions)
    return replace(row, states=row.states + added)


def _result(name: str, refused: Refuse | None) -> CreatePartitionsTopicResult:
    if refused is None:
        return CreatePartitionsTopicResult(name=name)
    return CreatePartitionsTopicResult(name=name, error_code=refused.code, error_message=refused.reason)
