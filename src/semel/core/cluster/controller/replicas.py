"""Replicas move between their states: the second table, carried out.

Role.   Kafka's ReplicaStateMachine. `move` is the door.
Rules.  * A replica that goes offline is stopped and leaves the ISR, unless it is the last one; the leader epoch grows, and the others are told.
        * Replicas are moved broker by broker, in the order of their ids, and what follows is sent together.
        * `those_that_may` is for rounds over many replicas, some of which are in a state of their own: a deletion may have got further.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from semel.core.cluster.controller.context import Leadership, Replica
from semel.core.cluster.controller.operations import Steps, read_states, write_states
from semel.core.cluster.controller.partitions import Outcome, Partitions
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.states import REPLICA_MOVES, ReplicaState, check, may_move
from semel.core.cluster.controller.term import Term
from semel.types import TopicPartition

_TRIES_MAX: Final = 20
NO_LEADER: Final = -1


class Replicas:
    """The replicas of a term."""

    def __init__(self, term: Term, partitions: Partitions) -> None:
        self._term = term
        self._context = term.context
        self._partitions = partitions

    def startup(self) -> Steps[None]:
        """Take the states from which brokers are alive, and tell every replica its role."""
        context = self._context
        online: list[Replica] = []
        offline: list[Replica] = []
        for replica in context.replicas_of(context.partitions()):
            is_online = context.is_online(replica.broker_id, replica.topic_partition)
            (online if is_online else offline).append(replica)
            # Of a topic that is deleted a replica on a dead broker has failed to go: Kafka takes all of them for such.
            context.replica_states[replica] = (
                ReplicaState.ONLINE if is_online else ReplicaState.DELETION_INELIGIBLE
            )
        yield from self.move(online, ReplicaState.ONLINE)
        yield from self.move(offline, ReplicaState.OFFLINE)

    def those_that_may(self, replicas: Iterable[Replica], to: ReplicaState) -> list[Replica]:
        """The replicas whose state allows the move."""
        return [one for one in replicas if may_move(REPLICA_MOVES, self._context.replica_state(one), to)]

    def move(self, replicas: Iterable[Replica], to: ReplicaState) -> Steps[None]:
        """Move all of them, and send what follows from it."""
        by_broker: dict[int, list[Replica]] = {}
        for one in dict.fromkeys(replicas):
            check(REPLICA_MOVES, one, self._context.replica_state(one), to)
            by_broker.setdefault(one.broker_id, []).append(one)
        batch = RequestBatch(self._term)
        for broker_id, own in sorted(by_broker.items()):
            match to:
                case ReplicaState.NEW:
                    self._to_new(own, batch)
                case ReplicaState.ONLINE:
                    self._to_online(own, batch)
                case ReplicaState.OFFLINE:
                    yield from self._to_offline(broker_id, own, batch)
                case ReplicaState.DELETION_STARTED:
                    for one in own:
                        self._context.replica_states[one] = to
                        batch.stop((broker_id,), one.topic_partition, delete=True)
                case ReplicaState.DELETION_SUCCESSFUL | ReplicaState.DELETION_INELIGIBLE:
                    for one in own:
                        self._context.replica_states[one] = to
                case ReplicaState.NON_EXISTENT:
                    self._to_non_existent(own)
        batch.send()

    def _to_new(self, replicas: Sequence[Replica], batch: RequestBatch) -> None:
        context = self._context
        for one in replicas:
            state = context.leaderships.get(one.topic_partition)
            if state is not None:
                if state.leader == one.broker_id:
                    self._term.note(f"{one} is its leader already, and cannot be new")
                    continue
                assignment = context.assignment(one.topic_partition)
                batch.lead_and_follow((one.broker_id,), one.topic_partition, state, assignment, is_new=True)
            context.replica_states[one] = ReplicaState.NEW

    def _to_online(self, replicas: Sequence[Replica], batch: RequestBatch) -> None:
        context = self._context
        for one in replicas:
            partition = one.topic_partition
            assignment = context.assignment(partition)
            if context.replica_state(one) is ReplicaState.NEW:
                if one.broker_id not in assignment.replicas:
                    context.assign(
                        partition, assignment._replace(replicas=(*assignment.replicas, one.broker_id))
                    )
            elif (state := context.leaderships.get(partition)) is not None:
                batch.lead_and_follow((one.broker_id,), partition, state, assignment, is_new=False)
            context.replica_states[one] = ReplicaState.ONLINE

    def _to_offline(self, broker_id: int, replicas: Sequence[Replica], batch: RequestBatch) -> Steps[None]:
        context = self._context
        for one in replicas:
            batch.stop((broker_id,), one.topic_partition, delete=False)
        led = [one.topic_partition for one in replicas if one.topic_partition in context.leaderships]
        outcomes = yield from self._leave_isrs(broker_id, led)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, str):
                self._term.note(f"replica {broker_id} of {partition} stays in its ISR: {outcome}")
                continue
            if not context.is_being_deleted(partition.topic):
                assignment = context.assignment(partition)
                others = [one for one in assignment.replicas if one != broker_id]
                batch.lead_and_follow(others, partition, outcome, assignment, is_new=False)
            context.replica_states[Replica(partition, broker_id)] = ReplicaState.OFFLINE
        for one in replicas:
            if one.topic_partition not in context.leaderships:
                batch.tell(context.brokers, [one.topic_partition])
                context.replica_states[one] = ReplicaState.OFFLINE

    def _leave_isrs(
        self, broker_id: int, partitions: Sequence[TopicPartition]
    ) -> Steps[dict[TopicPartition, Outcome]]:
        """The states of these partitions without the replica in their ISRs, or why it is still there."""
        context = self._context
        outcomes: dict[TopicPartition, Outcome] = {}
        left = list(partitions)
        for _try in range(_TRIES_MAX):
            if not left:
                break
            states = self._partitions.fit(left, (yield from read_states(left)), outcomes)
            wanted: dict[TopicPartition, Leadership] = {}
            for partition, state in states.items():
                if broker_id not in state.isr:
                    known = replace(state, controller_epoch=context.epoch)
                    outcomes[partition] = context.leaderships[partition] = known
                    continue
                leader = NO_LEADER if state.leader == broker_id else state.leader
                rest = tuple(one for one in state.isr if one != broker_id)
                wanted[partition] = state.changed(leader, rest or state.isr)
            written = yield from write_states(context, wanted)
            left = [partition for partition, state in written.items() if state is None]
            for partition, new in written.items():
                if new is not None:
                    outcomes[partition] = context.leaderships[partition] = new
        for partition in left:
            outcomes[partition] = "its state changes all the time"
        # Of a topic that is deleted the state may be gone before its replicas are.
        for partition in partitions:
            if isinstance(outcomes.get(partition), str) and context.is_being_deleted(partition.topic):
                outcomes[partition] = context.leaderships[partition]
        return outcomes

    def _to_non_existent(self, replicas: Sequence[Replica]) -> None:
        context = self._context
        for one in replicas:
            context.assign(
                one.topic_partition, context.assignment(one.topic_partition).without(one.broker_id)
            )
            context.replica_states.pop(one, None)
