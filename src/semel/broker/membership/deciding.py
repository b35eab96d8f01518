"""Requests that only the controller of a cluster decides: carried out while this broker is it, refused otherwise.

Role.   `dispatch` has one `Deciding` for each version of such an API.
Rules.  * A broker that does not stand for election refuses with NOT_CONTROLLER, as does one that is not elected now.
        * CreateTopics, DeleteTopics, CreatePartitions and AlterUserScramCredentials have the handlers of a broker alone: the store
          makes the difference.
        * Elections and reassignments are events of the controller's machine. ElectLeaders is answered once this broker's own metadata
          shows the new leaders.
        * Brokers of a cluster under ZooKeeper have no features to finalize, as Kafka's have none.
"""

from collections.abc import Awaitable, Mapping
from typing import Final

from semel.broker.apis import Row
from semel.broker.context import RequestContext
from semel.broker.membership import elsewhere
from semel.broker.parts import Administration, Membership
from semel.cluster.controller.loop import NotActiveError
from semel.core.cluster.controller import events
from semel.core.cluster.controller.context import Assignment
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
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
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from semel.core.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition

_BY_STORE: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
)
_UNCLEAN: Final = 1
_LATE: Final = Refuse(ErrorCode.REQUEST_TIMED_OUT, "The request timed out.")
_NO_FEATURE: Final = "Could not apply finalized feature update because the provided feature is not supported."


class Deciding:
    """The handler of one API."""

    def __init__(self, membership: Membership, row: Row) -> None:
        self._membership = membership
        self._by_store = row.handler() if row.key in _BY_STORE else None

    def handle(
        self, broker: Administration, request: Request[Response], context: RequestContext
    ) -> Response | Awaitable[Response]:
        """Decide, or say who does."""
        if not broker.store.is_controller:
            return elsewhere.handle(broker, request, context)
        if self._by_store is not None:
            answer: Response | Awaitable[Response] = self._by_store(broker, request, context)
            return answer
        return self._decide(broker, request, context)

    async def _decide(
        self, broker: Administration, request: Request[Response], context: RequestContext
    ) -> Response:
        try:
            match request:
                case ElectLeadersRequest():
                    return await self._elect(request)
                case AlterPartitionReassignmentsRequest():
                    return await self._reassign(request)
                case ListPartitionReassignmentsRequest():
                    return await self._list_reassignments(request)
                case UpdateFeaturesRequest():
                    return _features(request)
                case _:
                    return elsewhere.handle(broker, request, context)
        except NotActiveError:
            return elsewhere.handle(broker, request, context)

    # Elections

    async def _elect(self, request: ElectLeadersRequest) -> ElectLeadersResponse:
        store = self._membership.store
        clock = store.member.runtime.clock
        deadline = clock.monotonic() + request.timeout_ms / 1000
        named = request.topic_partitions
        asked = None
        if named is not None:
            rows = [TopicPartition(topic.topic, index) for topic in named for index in topic.partitions]
            asked = tuple(dict.fromkeys(rows))
        event = events.ReplicaLeaderElection(asked, request.election_type == _UNCLEAN)
        outcomes: dict[TopicPartition, Refuse | int] = await self._membership.ask_controller(event)
        leaders = {one: leader for one, leader in outcomes.items() if isinstance(leader, int)}

        def is_shown(one: TopicPartition) -> bool:
            state = store.image.partition(one)
            return state is not None and state.leader == leaders[one]

        await store.until(lambda: all(is_shown(one) for one in leaders), deadline)
        outcomes |= {one: _LATE for one in leaders if not is_shown(one)}
        if asked is None:
            outcomes = {
                one: outcome
                for one, outcome in outcomes.items()
                if isinstance(outcome, int) or outcome.code is not ErrorCode.ELECTION_NOT_NEEDED
            }
        topics: dict[str, ReplicaElectionResult] = {}
        for one, outcome in outcomes.items():
            topic = topics.setdefault(one.topic, ReplicaElectionResult(topic=one.topic))
            topic.partition_result.append(
                PartitionResult(partition_id=one.partition, error_message=None)
                if isinstance(outcome, int)
                else PartitionResult(
                    partition_id=one.partition, error_code=outcome.code, error_message=outcome.reason
                )
            )
        return ElectLeadersResponse(replica_election_results=list(topics.values()))

    # Reassignments

    async def _reassign(
        self, request: AlterPartitionReassignmentsRequest
    ) -> AlterPartitionReassignmentsResponse:
        targets = {
            TopicPartition(topic.name, one.partition_index): None
            if one.replicas is None
            else tuple(one.replicas)
            for topic in request.topics
            for one in topic.partitions
        }
        event = events.ApiPartitionReassignment(targets)
        refusals: Mapping[TopicPartition, Refuse | None] = await self._membership.ask_controller(event)
        topics: dict[str, ReassignableTopicResponse] = {}
        for one in targets:
            topic = topics.setdefault(one.topic, ReassignableTopicResponse(name=one.topic))
            refused = refusals[one]
            topic.partitions.append(
                ReassignablePartitionResponse(partition_index=one.partition, error_message=None)
                if refused is None
                else ReassignablePartitionResponse(
                    partition_index=one.partition, error_code=refused.code, error_message=refused.reason
                )
            )
        return AlterPartitionReassignmentsResponse(error_message=None, responses=list(topics.values()))

    async def _list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        asked = None
        if request.topics is not None:
            asked = tuple(
                TopicPartition(topic.name, index)
                for topic in request.topics
                for index in topic.partition_indexes
            )
        event = events.ListPartitionReassignments(asked)
        found: Mapping[TopicPartition, Assignment] = await self._membership.ask_controller(event)
        topics: dict[str, OngoingTopicReassignment] = {}
        for one, assignment in found.items():
            topic = topics.setdefault(one.topic, OngoingTopicReassignment(name=one.topic))
            topic.partitions.append(
                OngoingPartitionReassignment(
                    partition_index=one.partition,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding),
                    removing_replicas=list(assignment.removing),
                )
            )
        return ListPartitionReassignmentsResponse(error_message=None, topics=list(topics.values()))


def _features(request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    if not request.feature_updates:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="Can not provide empty FeatureUpdates in the request.",
        )
    return UpdateFeaturesResponse(
        error_message=None,
        results=[
            UpdatableFeatureResult(
                feature=one.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=_NO_FEATURE
            )
            for one in request.feature_updates
        ],
    )
