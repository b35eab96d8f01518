"""Requests to brokers, gathered while states change, and sent together in Kafka's order.

Role.   Kafka's ControllerBrokerRequestBatch: LeaderAndIsr, UpdateMetadata and StopReplica by broker.
Flow.   moves of partitions and replicas add to a `RequestBatch` -> `send` turns it into effects.
Rules.  * All LeaderAndIsr first, then UpdateMetadata, then StopReplica: a broker makes its replicas before it tells clients of them.
        * Every change of a leader or an ISR is told to all brokers with UpdateMetadata, which is one request for all.
        * Live brokers in UpdateMetadata are always complete. A topic that is to be deleted is told with leader -2.
        * Only brokers that are registered are sent to; each request names the life of the broker that it is for.
"""

from collections.abc import Iterable
from typing import Final

from semel.core.cluster.controller.context import Assignment, Context, Leadership, LiveBroker
from semel.core.cluster.controller.effects import (
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from semel.core.cluster.controller.term import Term
from semel.core.wire.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from semel.core.wire.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from semel.core.wire.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from semel.types import TopicPartition

LEADER_DURING_DELETION: Final = -2
EPOCH_DURING_DELETION: Final = -2
NO_EPOCH: Final = -1
_PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBatch:
    """The requests of one round of changes."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._roles: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self._stops: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self._told: dict[int, None] = {}
        self._partitions: dict[TopicPartition, None] = {}

    @property
    def _context(self) -> Context:
        return self._term.context

    def lead_and_follow(
        self,
        broker_ids: Iterable[int],
        partition: TopicPartition,
        state: Leadership,
        assignment: Assignment,
        *,
        is_new: bool,
    ) -> None:
        """LeaderAndIsr for a partition to these brokers, and UpdateMetadata to all."""
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            roles = self._roles.setdefault(broker_id, {})
            before = roles.get(partition)
            roles[partition] = LeaderAndIsrPartitionState(
                partition_index=partition.partition,
                controller_epoch=state.controller_epoch,
                leader=state.leader,
                leader_epoch=state.leader_epoch,
                isr=list(state.isr),
                partition_epoch=state.partition_epoch,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
                is_new=is_new or (before is not None and before.is_new),
                leader_recovery_state=state.leader_recovery_state,
            )
        self.tell(self._context.brokers, [partition])

    def tell(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        """UpdateMetadata to these brokers: who is alive, and how these partitions are."""
        self._told.update(dict.fromkeys(sorted(broker_ids)))
        self._partitions.update(dict.fromkeys(partitions))

    def stop(self, broker_ids: Iterable[int], partition: TopicPartition, *, delete: bool) -> None:
        """StopReplica for a partition to these brokers."""
        context = self._context
        epoch = EPOCH_DURING_DELETION
        if not context.is_being_deleted(partition.topic):
            state = context.leaderships.get(partition)
            epoch = NO_EPOCH if state is None else state.leader_epoch
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            stops = self._stops.setdefault(broker_id, {})
            before = stops.get(partition)
            stops[partition] = StopReplicaPartitionState(
                partition_index=partition.partition,
                leader_epoch=epoch,
                delete_partition=delete or (before is not None and before.delete_partition),
            )

    def send(self) -> None:
        """Have everything sent that was added."""
        outbox = self._term.outbox
        context = self._context
        for broker_id, roles in sorted(self._roles.items()):
            if broker_id in context.brokers and roles:
                outbox.append(SendLeaderAndIsr(broker_id, self._leader_and_isr(broker_id, roles)))
        epochs = tuple(
            (one, context.brokers[one].epoch) for one in sorted(self._told) if one in context.brokers
        )
        if epochs:
            outbox.append(SendUpdateMetadata(epochs, self._update_metadata()))
        for broker_id, stops in sorted(self._stops.items()):
            if broker_id in context.brokers and stops:
                outbox.append(SendStopReplica(broker_id, self._stop_replica(broker_id, stops)))
        for gathered in (self._roles, self._stops, self._told, self._partitions):
            gathered.clear()

    def _leader_and_isr(
        self, broker_id: int, roles: dict[TopicPartition, LeaderAndIsrPartitionState]
    ) -> LeaderAndIsrRequest:
        context, listener = self._context, self._term.settings.listener
        topics: dict[str, LeaderAndIsrTopicState] = {}
        for partition, state in roles.items():
            topic = topics.get(partition.topic)
            if topic is None:
                known = context.topics[partition.topic]
                topic = topics[partition.topic] = LeaderAndIsrTopicState(
                    topic_name=partition.topic, topic_id=known.topic_id.bytes
                )
            topic.partition_states.append(state)
        leaders = []
        for leader in sorted({state.leader for state in roles.values()}):
            broker = context.brokers.get(leader)
            endpoint = None if broker is None else broker.node.endpoints.get(listener)
            if endpoint is not None:
                leaders.append(
                    LeaderAndIsrLiveLeader(broker_id=leader, host_name=endpoint.host, port=endpoint.port)
                )
        return LeaderAndIsrRequest(
            controller_id=self._term.settings.node_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
            live_leaders=leaders,
        )

    def _update_metadata(self) -> UpdateMetadataRequest:
        context = self._context
        topics: dict[str, UpdateMetadataTopicState] = {}
        for partition in self._partitions:
            state = context.leaderships.get(partition)
            known = context.topics.get(partition.topic)
            if state is None or known is None:
                continue  # No leader yet: there is nothing to tell.
            topic = topics.get(partition.topic)
            if topic is None:
                topic = topics[partition.topic] = UpdateMetadataTopicState(
                    topic_name=partition.topic, topic_id=known.topic_id.bytes
                )
            topic.partition_states.append(self._state(partition, state))
        return UpdateMetadataRequest(
            controller_id=self._term.settings.node_id,
            controller_epoch=context.epoch,
            broker_epoch=NO_EPOCH,
            topic_states=list(topics.values()),
            live_brokers=[_told(context.brokers[one]) for one in sorted(context.brokers)],
        )

    def _state(self, partition: TopicPartition, state: Leadership) -> UpdateMetadataPartitionState:
        context = self._context
        replicas = context.assignment(partition).replicas
        is_going = context.is_being_deleted(partition.topic)
        return UpdateMetadataPartitionState(
            partition_index=partition.partition,
            controller_epoch=state.controller_epoch,
            leader=LEADER_DURING_DELETION if is_going else state.leader,
            leader_epoch=0 if is_going else state.leader_epoch,
            isr=list(state.isr),
            zk_version=0 if is_going else state.partition_epoch,
            replicas=list(replicas),
            offline_replicas=[one for one in replicas if not context.is_online(one, partition)],
        )

    def _stop_replica(
        self, broker_id: int, stops: dict[TopicPartition, StopReplicaPartitionState]
    ) -> StopReplicaRequest:
        topics: dict[str, StopReplicaTopicState] = {}
        for partition, state in stops.items():
            topic = topics.setdefault(partition.topic, StopReplicaTopicState(topic_name=partition.topic))
            topic.partition_states.append(state)
        return StopReplicaRequest(
            controller_id=self._term.settings.node_id,
            controller_epoch=self._context.epoch,
            broker_epoch=self._context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
        )


def _told(broker: LiveBroker) -> UpdateMetadataBroker:
    node = broker.node
    return UpdateMetadataBroker(
        id=broker.broker_id,
        endpoints=[
            UpdateMetadataEndpoint(
                port=endpoint.port,
                host=endpoint.host,
                listener=name,
                security_protocol=_PROTOCOLS.get(node.protocols.get(name, name), 0),
            )
            for name, endpoint in node.endpoints.items()
        ],
        rack=node.rack,
    )
