"""The model controller in office: one event after the other, each to its end.

Role.   One term of one controller. An event is handled as Kafka's controller does it: read what is so now, decide, write at
        ZooKeeper under the fence, then send orders.
Flow.   `take_over`, then whatever `actors.controller` was told: brokers, topics, wishes of leaders, replicas that were deleted.
Rules.  * Nothing is decided by what was known when an event was told of: watched nodes are read when their event is handled.
        * A state is sent only after ZooKeeper has it.
        * A broker that was registered anew between two looks has died and is born, in one event.
        * A topic is deleted once all its replicas' brokers are there; its nodes go when all have said that they deleted it.
Elsewhere. The rules of each step: `decisions`. What is sent: `orders`.
"""

import random
import uuid
from collections.abc import Iterable
from dataclasses import replace

from semel.core.cluster import documents, paths
from semel.core.wire.message import Response
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.messages.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from semel.core.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.verify.simulation.controller import decisions
from semel.verify.simulation.controller.channels import Channels
from semel.verify.simulation.controller.cluster import Cluster, Partition, Topic
from semel.verify.simulation.controller.ledger import Ledger
from semel.verify.simulation.controller.orders import Batch, Order


class Office:
    """One term."""

    def __init__(self, cluster: Cluster, ledger: Ledger, channels: Channels) -> None:
        self.cluster = cluster
        self._ledger = ledger
        self._channels = channels

    async def take_over(self) -> None:
        """Learn everything, tell everybody, and go on with what was begun."""
        cluster, ledger = self.cluster, self._ledger
        cluster.brokers = await ledger.brokers()
        self._channels.use(cluster.brokers)
        await self._read_topics()
        await self._read_deletions()
        batch = Batch(cluster)
        batch.tell(cluster.brokers)  # A follower refuses a leader it does not know.
        self._send(batch)
        batch = Batch(cluster)
        for place in self._standing():
            batch.become(cluster.partition(place).replicas, place)
        self._send(batch)
        await self._go_on()
        await self.reassignments_wanted()
        await self.elections_wanted()

    async def _go_on(self) -> None:
        """Do what may be possible now: make, elect, exchange, delete."""
        await self._make()
        await self._elect()
        for place in self._standing():
            if self.cluster.partition(place).is_reassigned:
                await self._exchange(place)
        await self.delete_on()

    def _standing(self) -> list[TopicPartition]:
        """The partitions that have a state, and are not about to go."""
        cluster = self.cluster
        return [
            place
            for place in cluster.places()
            if cluster.partition(place).is_written and not cluster.topics[place.topic].is_going
        ]

    def _send(self, batch: Batch) -> None:
        for broker, order in batch.requests():
            self._channels.send(broker, order)

    async def _change(self, place: TopicPartition, partition: Partition) -> bool:
        """Write a state; False if the node held another one than was known: that is known now."""
        version = await self._ledger.write_state(place, partition)
        if version is None:
            await self._read_again(place)
            return False
        self.cluster.put(place, replace(partition, partition_epoch=version))
        return True

    async def _read_again(self, place: TopicPartition) -> None:
        topic = await self._ledger.topic(place.topic)
        if topic is not None and place.partition in topic.partitions:
            self.cluster.put(place, topic.partitions[place.partition])

    # Brokers

    async def brokers_changed(self) -> None:
        """Deaths first, then births."""
        cluster = self.cluster
        before, now = cluster.brokers, await self._ledger.brokers()
        stayed = {one: life for one, life in before.items() if now.get(one) == life}
        born = [one for one in now if one not in stayed]
        if len(stayed) < len(before):
            cluster.brokers = stayed
            cluster.stopping &= set(stayed)
            self._channels.use(stayed)
            await self._elect()
            batch = Batch(cluster)
            batch.tell(stayed)
            self._send(batch)
        if born:
            cluster.brokers = now
            self._channels.use(now)
            batch = Batch(cluster)
            batch.tell(stayed)
            batch.tell(born, self._standing())
            self._send(batch)
            batch = Batch(cluster)
            for place in self._standing():
                replicas = cluster.partition(place).replicas
                batch.become([one for one in born if one in replicas], place)
            self._send(batch)
            await self._go_on()

    async def _elect(self) -> None:
        """Every partition has a leader and an ISR of brokers that are up, as far as there are any."""
        cluster = self.cluster
        batch = Batch(cluster)
        for place in self._standing():
            changed = decisions.after_deaths(cluster.partition(place), up=cluster.up, live=cluster.live)
            if changed is not None and await self._change(place, changed):
                batch.become(changed.replicas, place)
        self._send(batch)

    # Topics

    async def topics_changed(self) -> None:
        await self._read_topics()
        await self._make()

    async def _read_topics(self) -> None:
        cluster = self.cluster
        names = await self._ledger.children(paths.TOPICS)
        for gone in [name for name in cluster.topics if name not in names]:
            del cluster.topics[gone]
        for name in sorted(names):
            if name not in cluster.topics:
                topic = await self._ledger.topic(name)
                if topic is not None:
                    cluster.topics[name] = topic

    async def _make(self) -> None:
        """Give new partitions their first state."""
        cluster = self.cluster
        batch = Batch(cluster)
        for place in cluster.places():
            partition = cluster.partition(place)
            if partition.is_written or cluster.topics[place.topic].is_going:
                continue
            first = decisions.first_state(partition, cluster.live)
            if first is None:
                continue
            version = await self._ledger.make_state(place, first)
            if version is None:
                await self._read_again(place)
                continue
            cluster.put(place, replace(first, partition_epoch=version))
            batch.become(first.isr, place, new=first.isr)
        self._send(batch)

    async def deletions_changed(self) -> None:
        await self._read_deletions()
        await self.delete_on()

    async def _read_deletions(self) -> None:
        for name in sorted(await self._ledger.children(paths.DELETE_TOPICS)):
            topic = self.cluster.topics.get(name)
            if topic is None:
                await self._ledger.remove(paths.deletion(name))
            elif not topic.is_going:
                topic.is_going = True
                batch = Batch(self.cluster)
                batch.tell(self.cluster.brokers, _places(name, topic))
                self._send(batch)

    async def delete_on(self) -> None:
        """Have the replicas of topics that go deleted, and then their nodes."""
        cluster = self.cluster
        for name in [name for name, topic in sorted(cluster.topics.items()) if topic.is_going]:
            topic = cluster.topics[name]
            wanted = [
                (place, one) for place in _places(name, topic) for one in cluster.partition(place).replicas
            ]
            missing = [one for one in wanted if (one[0].partition, one[1]) not in topic.gone_from]
            if not missing:
                await self._ledger.remove_topic(name)
                del cluster.topics[name]
            elif all(broker in cluster.brokers for _place, broker in missing):
                for delete in (False, True):
                    batch = Batch(cluster)
                    for place, broker in missing:
                        batch.stop(broker, place, delete=delete)
                    self._send(batch)

    async def answered(self, broker: int, order: Order, response: Response) -> None:
        """A broker has carried out an order: replicas may be gone."""
        if not isinstance(order, StopReplicaRequest) or not isinstance(response, StopReplicaResponse):
            return
        deleted = {
            TopicPartition(topic.topic_name, one.partition_index)
            for topic in order.topic_states
            for one in topic.partition_states
            if one.delete_partition
        }
        if response.error_code or not deleted:
            return
        done = False
        for row in response.partition_errors:
            place = TopicPartition(row.topic_name, row.partition_index)
            known = self.cluster.topics.get(place.topic)
            if known is not None and known.is_going and place in deleted and not row.error_code:
                known.gone_from.add((place.partition, broker))
                done = True
        if done and all(
            (place.partition, one) in topic.gone_from
            for name, topic in self.cluster.topics.items()
            if topic.is_going
            for place in _places(name, topic)
            for one in self.cluster.partition(place).replicas
        ):
            await self.delete_on()

    # Leaders and replicas that are to be others

    async def elections_wanted(self) -> None:
        """The preferred replicas shall lead."""
        data = await self._ledger.wanted(paths.PREFERRED_REPLICA_ELECTION)
        if data is None:
            return
        cluster = self.cluster
        asked = documents.decode_partitions(paths.PREFERRED_REPLICA_ELECTION, data)
        batch = Batch(cluster)
        for place in [one for one in self._standing() if one in asked]:
            changed = decisions.preferred(cluster.partition(place), cluster.live)
            if changed is not None and await self._change(place, changed):
                batch.become(changed.replicas, place)
        self._send(batch)
        await self._ledger.remove(paths.PREFERRED_REPLICA_ELECTION)

    async def reassignments_wanted(self) -> None:
        """Other replicas are asked for."""
        data = await self._ledger.wanted(paths.REASSIGN_PARTITIONS)
        if data is None:
            return
        asked = documents.decode_reassignments(data)
        for place in [one for one in self._standing() if one in asked]:
            before = self.cluster.partition(place)
            changed = decisions.reassigned(before, asked[place])
            if changed == before:
                continue
            self.cluster.put(place, changed)
            await self._ledger.write_topic(place.topic, self.cluster.topics[place.topic])
            await self._retire(place, [one for one in before.replicas if one not in changed.replicas])
            await self._exchange(place)
        await self._ledger.remove(paths.REASSIGN_PARTITIONS)

    async def _exchange(self, place: TopicPartition) -> None:
        """Go on with an exchange of replicas: bring the new ones in, or take the old ones out."""
        cluster = self.cluster
        partition = cluster.partition(place)
        if not decisions.is_exchanged(partition):
            changed = decisions.raised(partition)
            if await self._change(place, changed):
                batch = Batch(cluster)
                batch.become(changed.replicas, place, new=changed.adding)
                self._send(batch)
            return
        changed_or_none = decisions.led_by_target(partition, cluster.live)
        if changed_or_none is None or not await self._change(place, changed_or_none):
            return
        batch = Batch(cluster)
        batch.become(changed_or_none.replicas, place)
        self._send(batch)
        await self._retire(place, partition.removing)
        await self._ledger.write_topic(place.topic, cluster.topics[place.topic])
        batch = Batch(cluster)
        batch.tell(cluster.brokers, [place])
        self._send(batch)

    async def _retire(self, place: TopicPartition, brokers: Iterable[int]) -> None:
        """These brokers' replicas leave the ISR, stop, and are deleted."""
        cluster = self.cluster
        for broker in brokers:
            await self._take_out(place, broker)
            batch = Batch(cluster)
            batch.stop(broker, place, delete=True)
            self._send(batch)

    async def _take_out(self, place: TopicPartition, broker: int) -> None:
        """A follower stops, and leaves the ISR."""
        cluster = self.cluster
        changed = decisions.in_sync_without(cluster.partition(place), broker)
        batch = Batch(cluster)
        if changed is not None and await self._change(place, changed):
            batch.become([one for one in changed.replicas if one != broker], place)
        batch.stop(broker, place, delete=False)
        self._send(batch)

    async def whim(self, dice: random.Random) -> None:
        """Let some partition have another leader, or only another epoch."""
        cluster = self.cluster
        standing = [place for place in self._standing() if cluster.partition(place).leader in cluster.live]
        if not standing:
            return
        place = dice.choice(standing)
        partition = cluster.partition(place)
        changed: Partition | None = decisions.raised(partition)
        if dice.random() < 0.8:
            changed = decisions.moved(partition, dice.choice(partition.isr), cluster.live)
        if changed is not None and await self._change(place, changed):
            batch = Batch(cluster)
            batch.become(changed.replicas, place)
            self._send(batch)

    # Wishes

    async def alter_partition(self, request: AlterPartitionRequest) -> AlterPartitionResponse:
        """Leaders wish for another ISR."""
        cluster = self.cluster
        code = decisions.judge_asker(cluster, request.broker_id, request.broker_epoch)
        if code:
            return AlterPartitionResponse(error_code=code)
        topics: list[AlteredTopic] = []
        touched: list[TopicPartition] = []
        for asked in request.topics:
            name = cluster.named(uuid.UUID(bytes=asked.topic_id))
            rows: list[AlteredPartition] = []
            for wish in asked.partitions:
                if name is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID
                elif wish.partition_index not in cluster.topics[name].partitions:
                    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                else:
                    place = TopicPartition(name, wish.partition_index)
                    touched.append(place)
                    rows.append(await self._alter(place, wish))
                    continue
                rows.append(AlteredPartition(partition_index=wish.partition_index, error_code=code))
            topics.append(AlteredTopic(topic_id=asked.topic_id, partitions=rows))
        batch = Batch(cluster)
        batch.tell(cluster.brokers, touched)
        self._send(batch)
        for place in touched:
            partition = cluster.partition(place)
            if partition.is_reassigned and decisions.is_exchanged(partition):
                await self._exchange(place)
        return AlterPartitionResponse(topics=topics)

    async def _alter(self, place: TopicPartition, wish: AlterPartitionData) -> AlteredPartition:
        cluster = self.cluster
        index = wish.partition_index
        judged = decisions.judge_wish(
            cluster.partition(place),
            [one.broker_id for one in wish.new_isr_with_epochs],
            leader_epoch=wish.leader_epoch,
            partition_epoch=wish.partition_epoch,
            recovery_state=wish.leader_recovery_state,
            live=cluster.live,
        )
        if isinstance(judged, Partition):
            if not await self._change(place, judged):
                return AlteredPartition(partition_index=index, error_code=ErrorCode.INVALID_UPDATE_VERSION)
        elif judged:
            return AlteredPartition(partition_index=index, error_code=judged)
        state = cluster.partition(place)
        return AlteredPartition(
            partition_index=index,
            leader_id=state.leader,
            leader_epoch=state.leader_epoch,
            isr=list(state.isr),
            leader_recovery_state=state.recovery_state,
            partition_epoch=state.partition_epoch,
        )

    async def allocate(self, request: AllocateProducerIdsRequest) -> AllocateProducerIdsResponse:
        """A broker wishes for producer ids."""
        if request.broker_id not in self.cluster.brokers:
            return AllocateProducerIdsResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)
        code = decisions.judge_asker(self.cluster, request.broker_id, request.broker_epoch)
        if code:
            return AllocateProducerIdsResponse(error_code=code)
        block = await self._ledger.next_producer_ids(request.broker_id)
        return AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.last - block.first + 1
        )

    async def shut_down(self, request: ControlledShutdownRequest) -> ControlledShutdownResponse:
        """A broker wishes to stop: its leaderships go to others first."""
        cluster, broker = self.cluster, request.broker_id
        life = cluster.brokers.get(broker)
        if life is None:
            return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        if request.broker_epoch < life.epoch:
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        cluster.stopping.add(broker)
        for place in self._standing():
            partition = cluster.partition(place)
            if len(partition.replicas) == 1 or broker not in partition.replicas:
                continue
            if partition.leader != broker:
                await self._take_out(place, broker)
                continue
            changed = decisions.led_without(partition, broker, cluster.live)
            if changed is not None and await self._change(place, changed):
                batch = Batch(cluster)
                batch.become(changed.replicas, place)
                self._send(batch)
        remaining = [place for place in self._standing() if cluster.partition(place).leader == broker]
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=one.topic, partition_index=one.partition) for one in remaining
            ]
        )


def _places(name: str, topic: Topic) -> list[TopicPartition]:
    return [TopicPartition(name, index) for index in sorted(topic.partitions)]
