"""Brokers come, go and come back; their directories fail; they stop with notice.

Role.   Kafka's BrokerChange, BrokerModifications, LogDirEventNotification, ControlledShutdown, and the answers to LeaderAndIsr.
Rules.  * A broker whose epoch has grown was away, however short: its death and its return are both played.
        * Brokers that come are told of all partitions, the others of the brokers: before any LeaderAndIsr, for a follower does not follow
          a leader that it has not heard of.
        * A replica is offline on a failed directory until its broker answers otherwise, or comes anew.
"""

import uuid
from collections.abc import Iterable, Sequence

from semel.core.cluster import documents, fencing, paths
from semel.core.cluster.controller.context import LiveBroker, Replica
from semel.core.cluster.controller.deleting import Deletions
from semel.core.cluster.controller.effects import Connect, Disconnect
from semel.core.cluster.controller.events import BrokerBehind, LeaderAndIsrResponseReceived
from semel.core.cluster.controller.operations import Steps, children, delete, get, get_all
from semel.core.cluster.controller.partitions import Partitions, Strategy
from semel.core.cluster.controller.reassigning import Reassignments
from semel.core.cluster.controller.replicas import Replicas
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.states import PartitionState, ReplicaState
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import ZnodeError
from semel.core.wire.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from semel.errors import ErrorCode
from semel.types import TopicPartition

_R = ReplicaState


class Brokers:
    """The brokers of a term."""

    def __init__(
        self,
        term: Term,
        partitions: Partitions,
        replicas: Replicas,
        deletions: Deletions,
        reassignments: Reassignments,
    ) -> None:
        self._term = term
        self._context = term.context
        self._partitions = partitions
        self._replicas = replicas
        self._deletions = deletions
        self._reassignments = reassignments

    def read(self) -> Steps[dict[int, LiveBroker]]:
        """The brokers that are registered, watched from now on."""
        names = [one for one in (yield from children(paths.BROKER_IDS, watch=True)) if one.isdecimal()]
        names.sort(key=int)
        found = yield from get_all(names, lambda name: paths.broker(int(name)), watch=True)
        brokers: dict[int, LiveBroker] = {}
        for name, result in found.items():
            broker_id = int(name)
            try:
                node = documents.decode_broker(broker_id, result.data)
            except ZnodeError as error:
                self._term.note(f"broker {broker_id} is passed over: {error}")
                continue
            if result.stat is not None:
                brokers[broker_id] = LiveBroker(broker_id, result.stat.czxid, node)
        return brokers

    def take_over(self) -> Steps[None]:
        """Know the brokers at the beginning of a term."""
        self._context.brokers = yield from self.read()
        self._term.outbox += [Connect(one) for one in self._context.brokers.values()]

    def changed(self) -> Steps[None]:
        """BrokerChange."""
        context = self._context
        now = yield from self.read()
        known = context.brokers
        new = [one for one in now if one not in known]
        dead = [one for one in sorted(known) if one not in now]
        bounced = [one for one in now if one in known and now[one].epoch > known[one].epoch]
        self._term.outbox += [Connect(now[one]) for one in new]
        for one in bounced:
            self._term.outbox += [Disconnect(one), Connect(now[one])]
        self._term.outbox += [Disconnect(one) for one in dead]
        if new:
            context.brokers |= {one: now[one] for one in new}
            yield from self._started(new)
        if bounced:
            for one in bounced:
                del context.brokers[one]
            yield from self._died(bounced)
            context.brokers |= {one: now[one] for one in bounced}
            yield from self._started(bounced)
        if dead:
            for one in dead:
                del context.brokers[one]
            yield from self._died(dead)

    def modified(self, broker_id: int) -> Steps[None]:
        """BrokerModifications: everybody is told of new endpoints."""
        context = self._context
        found = yield from get(paths.broker(broker_id), watch=True)
        known = context.brokers.get(broker_id)
        if found is None or known is None or found.stat is None or found.stat.czxid != known.epoch:
            return  # BrokerChange sees it.
        try:
            node = documents.decode_broker(broker_id, found.data)
        except ZnodeError as error:
            self._term.note(f"broker {broker_id} is taken as it was: {error}")
            return
        if node.endpoints == known.node.endpoints and node.protocols == known.node.protocols:
            return
        broker = LiveBroker(broker_id, known.epoch, node)
        context.brokers[broker_id] = broker
        self._term.outbox.append(Connect(broker))
        self._tell(context.brokers)

    def behind(self, event: BrokerBehind) -> Steps[None]:
        """A broker did not take its requests for long, and they were dropped: it is told everything anew."""
        broker = self._context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        self._term.note(f"broker {event.broker_id} has not taken its requests: it is told everything anew")
        own = self._context.replicas_on([event.broker_id])
        yield from self._deletions.failed(
            one for one in own if self._context.replica_state(one) is _R.DELETION_STARTED
        )
        yield from self._started([event.broker_id])

    def _tell(self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition] = ()) -> None:
        batch = RequestBatch(self._term)
        batch.tell(broker_ids, partitions)
        batch.send()

    def _started(self, broker_ids: Sequence[int]) -> Steps[None]:
        context = self._context
        for one in broker_ids:
            context.offline_dirs.pop(one, None)
        self._tell(one for one in context.brokers if one not in broker_ids)
        self._tell(broker_ids, context.with_leaders())
        own = context.replicas_on(broker_ids)
        yield from self._replicas.move(self._replicas.those_that_may(own, _R.ONLINE), _R.ONLINE)
        yield from self._partitions.elect_leaderless()
        yield from self._reassignments.resume(
            lambda _partition, assignment: any(one in broker_ids for one in assignment.target)
        )
        yield from self._deletions.eligible_again(one.topic_partition.topic for one in own)

    def _died(self, broker_ids: Sequence[int]) -> Steps[None]:
        context = self._context
        for one in broker_ids:
            context.offline_dirs.pop(one, None)
            context.shutting_down.pop(one, None)
        yield from self._went_offline(context.replicas_on(broker_ids))

    def _went_offline(self, replicas: Sequence[Replica]) -> Steps[None]:
        context = self._context
        of_deleted = [one for one in replicas if context.is_being_deleted(one.topic_partition.topic)]
        others = [one for one in replicas if not context.is_being_deleted(one.topic_partition.topic)]
        leaderless = context.with_offline_leader()
        yield from self._partitions.move(leaderless, PartitionState.OFFLINE)
        yield from self._partitions.elect_leaderless()
        yield from self._replicas.move(self._replicas.those_that_may(others, _R.OFFLINE), _R.OFFLINE)
        if of_deleted:
            yield from self._deletions.failed(of_deleted)
        if not others and not leaderless:
            self._tell(context.brokers)

    # Directories

    def directories_failed(self) -> Steps[None]:
        """LogDirEventNotification: the brokers are asked which of their replicas are left."""
        names = yield from children(paths.LOG_DIR_EVENTS, watch=True)
        found = yield from get_all(names, lambda name: f"{paths.LOG_DIR_EVENTS}/{name}", watch=False)
        broker_ids: dict[int, None] = {}
        for name, result in found.items():
            try:
                broker_ids[documents.decode_log_dir_event(f"{paths.LOG_DIR_EVENTS}/{name}", result.data)] = (
                    None
                )
            except ZnodeError as error:
                self._term.note(f"an event of a log directory is passed over: {error}")
        own = self._context.replicas_on(broker_ids)
        yield from self._replicas.move(self._replicas.those_that_may(own, _R.ONLINE), _R.ONLINE)
        yield from delete(f"{paths.LOG_DIR_EVENTS}/{name}" for name in names)

    def roles_answered(self, event: LeaderAndIsrResponseReceived) -> Steps[None]:
        """The replicas that a broker cannot have are offline."""
        context = self._context
        broker = context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        if event.response.error_code:
            code = ErrorCode(event.response.error_code).name
            self._term.note(f"broker {event.broker_id} refuses LeaderAndIsr with {code}")
            return
        before = context.offline_dirs.get(event.broker_id, {})
        now = dict(before)
        new: dict[TopicPartition, None] = {}
        for topic in event.response.topics:
            name = context.name_of(uuid.UUID(bytes=topic.topic_id))
            if name is None:
                continue
            for row in topic.partition_errors:
                partition = TopicPartition(name, row.partition_index)
                if row.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                    if partition not in before:
                        new[partition] = None
                    now[partition] = None
                elif not row.error_code:
                    now.pop(partition, None)
        context.offline_dirs[event.broker_id] = now
        if new:
            yield from self._went_offline([Replica(one, event.broker_id) for one in new])

    # Stopping with notice

    def stopping(self, request: ControlledShutdownRequest) -> Steps[ControlledShutdownResponse]:
        """ControlledShutdown: others lead, and the broker follows no more. The partitions that it still leads."""
        context = self._context
        broker_id = request.broker_id
        broker = context.brokers.get(broker_id)
        if broker is None:
            return ControlledShutdownResponse(error_code=ErrorCode.BROKER_NOT_AVAILABLE)
        if fencing.is_stale_broker(request.broker_epoch, broker.epoch):
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        context.shutting_down[broker_id] = None
        acted_on = [
            one.topic_partition
            for one in context.replicas_on([broker_id])
            if len(context.assignment(one.topic_partition).replicas) > 1
            and one.topic_partition in context.leaderships
            and not context.is_being_deleted(one.topic_partition.topic)
        ]
        led = [one for one in acted_on if context.leaderships[one].leader == broker_id]
        followed = [one for one in acted_on if context.leaderships[one].leader != broker_id]
        yield from self._partitions.move(led, PartitionState.ONLINE, Strategy.CONTROLLED_SHUTDOWN)
        batch = RequestBatch(self._term)
        for one in followed:
            batch.stop([broker_id], one, delete=False)
        batch.send()
        yield from self._replicas.move(
            self._replicas.those_that_may([Replica(one, broker_id) for one in followed], _R.OFFLINE),
            _R.OFFLINE,
        )
        left = [
            one
            for one, state in context.leaderships.items()
            if state.leader == broker_id
            and len(context.assignment(one).replicas) > 1
            and not context.is_being_deleted(one.topic)
        ]
        return ControlledShutdownResponse(
            remaining_partitions=[
                RemainingPartition(topic_name=one.topic, partition_index=one.partition) for one in left
            ]
        )
