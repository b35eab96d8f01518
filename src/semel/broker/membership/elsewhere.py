"""The answer of a broker that is not the controller to requests that a controller decides: NOT_CONTROLLER, where Kafka has it.

Role.   The handler of such requests in a cluster. A client asks for metadata again then, and comes to the controller.
"""

from semel.broker.context import RequestContext
from semel.broker.parts import Administration
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from semel.core.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from semel.core.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from semel.core.wire.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from semel.core.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from semel.core.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from semel.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from semel.core.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from semel.errors import ErrorCode, InvariantError

_CODE = ErrorCode.NOT_CONTROLLER
_TEXT = "This is not the correct controller for this cluster."


def handle(_broker: Administration, request: Request[Response], _context: RequestContext) -> Response:
    """The same code for everything that is asked."""
    match request:
        case CreateTopicsRequest():
            return CreateTopicsResponse(
                topics=[
                    CreatableTopicResult(name=name, error_code=_CODE, error_message=_TEXT)
                    for name in dict.fromkeys(one.name for one in request.topics)
                ]
            )
        case DeleteTopicsRequest():
            named = [(name, None) for name in request.topic_names]
            named_or_ids = [*named, *((one.name, one.topic_id) for one in request.topics)]
            return DeleteTopicsResponse(responses=[_undeleted(*one) for one in named_or_ids])
        case CreatePartitionsRequest():
            return CreatePartitionsResponse(
                results=[
                    CreatePartitionsTopicResult(name=name, error_code=_CODE, error_message=_TEXT)
                    for name in dict.fromkeys(one.name for one in request.topics)
                ]
            )
        case ElectLeadersRequest():
            return _unelected(request)
        case AlterPartitionReassignmentsRequest():
            return AlterPartitionReassignmentsResponse(error_code=_CODE, error_message=_TEXT)
        case ListPartitionReassignmentsRequest():
            return ListPartitionReassignmentsResponse(error_code=_CODE, error_message=_TEXT)
        case AlterUserScramCredentialsRequest():
            users = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
            return AlterUserScramCredentialsResponse(
                results=[
                    AlterUserScramCredentialsResult(user=user, error_code=_CODE, error_message=_TEXT)
                    for user in dict.fromkeys(users)
                ]
            )
        case UpdateFeaturesRequest():
            return UpdateFeaturesResponse(error_code=_CODE, error_message=_TEXT)
        case _:
            raise InvariantError(f"{type(request).__name__} is not decided by a controller")


def _undeleted(name: str | None, topic_id: bytes | None) -> DeletableTopicResult:
    result = DeletableTopicResult(name=name, error_code=_CODE, error_message=_TEXT)
    if topic_id is not None:
        result.topic_id = topic_id
    return result


def _unelected(request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Kafka answers for each partition; where all are asked for, and none is named, for the request."""
    if request.topic_partitions is None:
        return ElectLeadersResponse(error_code=_CODE)
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=one, error_code=_CODE, error_message=_TEXT)
                    for one in topic.partitions
                ],
            )
            for topic in request.topic_partitions
        ]
    )
