"""AlterPartitionReassignments (45), versions 0-1: move partitions to other brokers, or stop moving them.

    1+  the client may forbid a change of the number of replicas

A single broker is where every partition is: to move it there is done at once, anywhere else is refused, and there is never
anything under way to be stopped.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.broker.replica_assignments import assignment_flaw
from semel.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition


def handle(
    broker: Administration, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    """Judge every partition by itself."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _result(one, _flaw(broker, topic.name, one, request.allow_replication_factor_change))
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _flaw(
    broker: Administration, topic: str, asked: ReassignablePartition, may_change_factor: bool
) -> Refuse | None:
    image = broker.store.image
    state = image.partition(TopicPartition(topic, asked.partition_index))
    if state is None:
        return Refuse(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Unable to find partition {asked.partition_index} of a topic named {topic}.",
        )
    if asked.replicas is None:
        return Refuse(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    flaw = assignment_flaw(asked.replicas, image, replication_factor=None)
    if flaw is None and not may_change_factor and len(asked.replicas) != len(state.replicas):
        flaw = Refuse(ErrorCode.INVALID_REPLICATION_FACTOR, "The replication factor may not be changed.")
    return flaw


def _result(asked: ReassignablePartition, flaw: Refuse | None) -> ReassignablePartitionResponse:
    if flaw is None:
        return ReassignablePartitionResponse(partition_index=asked.partition_index, error_message=None)
    return ReassignablePartitionResponse(
        partition_index=asked.partition_index, error_code=flaw.code, error_message=flaw.reason
    )
