"""The orders of the model controller: what is sent to which broker, in Kafka's versions and order.

Role.   A `Batch` collects what one event leads to; `requests` gives the requests of each broker.
Rules.  * A broker gets LeaderAndIsr, then UpdateMetadata, then StopReplica. Every LeaderAndIsr brings the same state to all brokers
          as metadata.
        * The list of live brokers is always whole: it has the controller's own endpoint too, so that members find it.
        * A broker gets orders for the life it has now.
        * A replica of a topic that goes is stopped with the leader epoch -2; else with the known one.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

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
from semel.types import Address, TopicPartition
from semel.verify.simulation.controller.cluster import LEADER_DURING_DELETE, Cluster, Partition

Order: TypeAlias = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
LISTENER: Final = "PLAINTEXT"
_EPOCH_DURING_DELETE: Final = -2


class Batch:
    """The orders of one event."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._roles: dict[int, dict[TopicPartition, bool]] = {}
        self._news: dict[int, dict[TopicPartition, None]] = {}
        self._stops: dict[int, dict[TopicPartition, bool]] = {}

    def become(self, brokers: Iterable[int], place: TopicPartition, *, new: Collection[int] = ()) -> None:
        """These brokers learn their role; for those in `new` the replica is new. All brokers learn the metadata."""
        for broker in brokers:
            if broker in self._cluster.brokers:
                roles = self._roles.setdefault(broker, {})
                roles[place] = roles.get(place, False) or broker in new
        self.tell(self._cluster.brokers, [place])

    def tell(self, brokers: Iterable[int], places: Iterable[TopicPartition] = ()) -> None:
        """These brokers learn who is alive, and the state of these partitions."""
        listed = list(places)
        for broker in brokers:
            if broker in self._cluster.brokers:
                self._news.setdefault(broker, {}).update(dict.fromkeys(listed))

    def stop(self, broker: int, place: TopicPartition, *, delete: bool) -> None:
        """This broker stops its replica."""
        if broker in self._cluster.brokers:
            stops = self._stops.setdefault(broker, {})
            stops[place] = stops.get(place, False) or delete

    def requests(self) -> Iterator[tuple[int, Order]]:
        """Broker and request, in the order in which each broker is to get them."""
        for broker in sorted(self._cluster.brokers):
            if roles := self._roles.get(broker):
                yield broker, self._leader_and_isr(broker, roles)
            if (news := self._news.get(broker)) is not None:
                yield broker, self._update_metadata(broker, news)
            if stops := self._stops.get(broker):
                yield broker, self._stop_replica(broker, stops)

    def _leader_and_isr(self, broker: int, roles: Mapping[TopicPartition, bool]) -> LeaderAndIsrRequest:
        cluster = self._cluster
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, Address] = {}
        for place, is_new in roles.items():
            topic = topics.setdefault(
                place.topic,
                LeaderAndIsrTopicState(
                    topic_name=place.topic, topic_id=cluster.topics[place.topic].topic_id.bytes
                ),
            )
            state = cluster.partition(place)
            topic.partition_states.append(_role(cluster, place, state, is_new=is_new))
            if state.leader in cluster.brokers:
                leaders[state.leader] = cluster.brokers[state.leader].address
        return LeaderAndIsrRequest(
            controller_id=cluster.controller_id,
            controller_epoch=cluster.controller_epoch,
            broker_epoch=cluster.brokers[broker].epoch,
            topic_states=list(topics.values()),
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=one, host_name=address.host, port=address.port)
                for one, address in sorted(leaders.items())
            ],
        )

    def _update_metadata(self, broker: int, news: Iterable[TopicPartition]) -> UpdateMetadataRequest:
        cluster = self._cluster
        topics: dict[str, UpdateMetadataTopicState] = {}
        for place in news:
            topic = topics.setdefault(
                place.topic,
                UpdateMetadataTopicState(
                    topic_name=place.topic, topic_id=cluster.topics[place.topic].topic_id.bytes
                ),
            )
            topic.partition_states.append(_news(cluster, place, cluster.partition(place)))
        addresses = {one: life.address for one, life in sorted(cluster.brokers.items())}
        addresses[cluster.controller_id] = cluster.controller_address
        return UpdateMetadataRequest(
            controller_id=cluster.controller_id,
            controller_epoch=cluster.controller_epoch,
            broker_epoch=cluster.brokers[broker].epoch,
            topic_states=list(topics.values()),
            live_brokers=[_broker(one, address) for one, address in addresses.items()],
        )

    def _stop_replica(self, broker: int, stops: Mapping[TopicPartition, bool]) -> StopReplicaRequest:
        cluster = self._cluster
        topics: dict[str, StopReplicaTopicState] = {}
        for place, delete in stops.items():
            known = cluster.topics[place.topic]
            epoch = _EPOCH_DURING_DELETE if known.is_going else cluster.partition(place).leader_epoch
            topics.setdefault(
                place.topic, StopReplicaTopicState(topic_name=place.topic)
            ).partition_states.append(
                StopReplicaPartitionState(
                    partition_index=place.partition, leader_epoch=epoch, delete_partition=delete
                )
            )
        return StopReplicaRequest(
            controller_id=cluster.controller_id,
            controller_epoch=cluster.controller_epoch,
            broker_epoch=cluster.brokers[broker].epoch,
            topic_states=list(topics.values()),
        )


def _role(
    cluster: Cluster, place: TopicPartition, state: Partition, *, is_new: bool
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        partition_index=place.partition,
        controller_epoch=cluster.controller_epoch,
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        partition_epoch=state.partition_epoch,
        replicas=list(state.replicas),
        adding_replicas=list(state.adding),
        removing_replicas=list(state.removing),
        is_new=is_new,
        leader_recovery_state=state.recovery_state,
    )


def _news(cluster: Cluster, place: TopicPartition, state: Partition) -> UpdateMetadataPartitionState:
    is_going = cluster.topics[place.topic].is_going
    return UpdateMetadataPartitionState(
        partition_index=place.partition,
        controller_epoch=cluster.controller_epoch,
        leader=LEADER_DURING_DELETE if is_going else state.leader,
        leader_epoch=state.leader_epoch,
        isr=list(state.isr),
        zk_version=state.partition_epoch,
        replicas=list(state.replicas),
        offline_replicas=[one for one in state.replicas if one not in cluster.brokers],
    )


def _broker(broker_id: int, address: Address) -> UpdateMetadataBroker:
    endpoint = UpdateMetadataEndpoint(
        port=address.port, host=address.host, listener=LISTENER, security_protocol=0
    )
    return UpdateMetadataBroker(id=broker_id, endpoints=[endpoint], rack=None)
