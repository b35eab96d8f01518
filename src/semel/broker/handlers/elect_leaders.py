"""ElectLeaders (43), versions 0-2: let the preferred replica lead, or any that is left.

    1+  the kind of election; before it is that of the preferred replica

On a single broker the one replica leads, or it is offline and nobody can: every election is unneeded or impossible. Asked
for all partitions (null), those are left out for which it was unneeded, as in Kafka.
"""

from typing import Final

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from semel.errors import ErrorCode

_PREFERRED: Final = 0


def handle(
    broker: Administration, request: ElectLeadersRequest, context: RequestContext
) -> ElectLeadersResponse:
    """Say of every partition why nothing changes."""
    asked: dict[str, list[int]]
    if request.topic_partitions is None:
        asked = {row.name: list(range(row.partitions)) for row in broker.store.image}
    else:
        asked = {topic.topic: list(topic.partitions) for topic in request.topic_partitions}
    results = []
    for topic, indexes in asked.items():
        found = [_result(broker, topic, index, request.election_type) for index in indexes]
        if request.topic_partitions is None:
            found = [one for one in found if one.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(ReplicaElectionResult(topic=topic, partition_result=found))
    return ElectLeadersResponse(replica_election_results=results)


def _result(broker: Administration, topic: str, index: int, election_type: int) -> PartitionResult:
    row = broker.store.image.topic(topic)
    if row is None:
        code, reason = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    elif not 0 <= index < row.partitions:
        code, reason = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
    elif broker.partitions.get(topic, index) is not None:
        code, reason = ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
    elif election_type == _PREFERRED:
        code, reason = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The only replica is offline."
    else:
        code, reason = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "The only replica is offline."
    return PartitionResult(partition_id=index, error_code=code, error_message=reason)
