"""Reassignments: a partition moves to other replicas, step by step, and may be cancelled or resumed at every step.

Role.   Kafka's reassignment of KIP-455, by API and by `/admin/reassign_partitions`.
Flow.   `begin`: the node of the topic says what is added and removed (U), leaders know of the new replicas (A) -> these catch up and join
        the ISR -> `advance`: the target is the assignment, the leader moves, old replicas are deleted (B), last of all the node says so.
Rules.  * The node is written before anything moves, and after everything has: a controller that takes over finds every step that is owed.
        * A cancel is a reassignment to the origin. The latest wish counts, wherever it came from.
        * A partition of a topic that is to go is not reassigned, and a topic with a partition on the move does not go.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from semel.core.cluster import documents, paths
from semel.core.cluster.controller.context import Assignment, Leadership, Replica
from semel.core.cluster.controller.deleting import Deletions
from semel.core.cluster.controller.events import ZkPartitionReassignment
from semel.core.cluster.controller.operations import (
    Steps,
    ask,
    delete,
    exists,
    get,
    read_states,
    write_states,
)
from semel.core.cluster.controller.partitions import Partitions, Strategy
from semel.core.cluster.controller.replicas import Replicas
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.states import PartitionState, ReplicaState
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import ZnodeError
from semel.core.zookeeper.wire.messages import SetData
from semel.core.zookeeper.words import ZooKeeperCode
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition

_R = ReplicaState
_TRIES_MAX: Final = 20
Refusals = dict[TopicPartition, Refuse | None]


class Reassignments:
    """The partitions that move to other replicas."""

    def __init__(self, term: Term, partitions: Partitions, replicas: Replicas, deletions: Deletions) -> None:
        self._term = term
        self._context = term.context
        self._partitions = partitions
        self._replicas = replicas
        self._deletions = deletions

    # Wishes

    def startup(self) -> Steps[None]:
        """Take up wishes in ZooKeeper, and go on with what was begun."""
        taken_up = yield from self.wished_by_node()
        yield from self.resume(lambda partition, _assignment: partition not in taken_up)

    def resume(self, is_meant: Callable[[TopicPartition, Assignment], bool]) -> Steps[None]:
        for partition in list(self._context.reassigning):
            assignment = self._context.assignment(partition)
            if is_meant(partition, assignment):
                yield from self.advance(partition, assignment)

    def wished_by_node(self) -> Steps[dict[TopicPartition, None]]:
        """What `/admin/reassign_partitions` wishes, which is watched from now on; the partitions that were taken up now."""
        if not (yield from exists(paths.REASSIGN_PARTITIONS, watch=True)):
            return {}
        found = yield from get(paths.REASSIGN_PARTITIONS)
        if found is None:
            return {}
        try:
            wished = documents.decode_reassignments(found.data)
        except ZnodeError as error:
            self._term.note(f"a reassignment is passed over, and its node removed: {error}")
            yield from delete([paths.REASSIGN_PARTITIONS])
            self._term.play(ZkPartitionReassignment())
            return {}
        refusals: Refusals = {}
        for partition, target in wished.items():
            assignment = self._context.assignment(partition)
            if not assignment.is_being_reassigned or assignment.target != target:
                refusals[partition] = yield from self._begin(partition, target)
        for partition, refused in refusals.items():
            if refused is not None:
                self._term.note(f"{partition} is not reassigned: {refused.reason}")
        failed = {one for one, refused in refusals.items() if refused is not None}
        if failed or not wished:
            yield from self._take_out_of_node(lambda partition, _target: partition in failed)
        return {one: None for one in refusals if one not in failed}

    def wished_by_api(self, targets: Mapping[TopicPartition, tuple[int, ...] | None]) -> Steps[Refusals]:
        """A client's wishes; None cancels."""
        refusals: Refusals = {}
        wanted: dict[TopicPartition, tuple[int, ...]] = {}
        for partition, target in targets.items():
            assignment = self._context.assignment(partition)
            if target is not None:
                refused = self._flaw(target) or self._dead(partition, target)
                if refused is None:
                    wanted[partition] = target
                refusals[partition] = refused
            elif assignment.is_being_reassigned:
                wanted[partition] = assignment.origin
                refusals[partition] = None
            else:
                refusals[partition] = Refuse(
                    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
                )
        yield from self._take_out_of_node(lambda partition, _target: partition in wanted)
        for partition, target in wanted.items():
            refusals[partition] = yield from self._begin(partition, target)
        return refusals

    def under_way(self, wanted: Iterable[TopicPartition] | None) -> dict[TopicPartition, Assignment]:
        """The assignments of partitions that move, of these or of all."""
        context = self._context
        chosen = context.reassigning if wanted is None else wanted
        found = {one: context.assignment(one) for one in chosen}
        return {one: assignment for one, assignment in found.items() if assignment.is_being_reassigned}

    def complete(self, partition: TopicPartition) -> Steps[None]:
        """Its ISR has grown: it may be all that was waited for."""
        if partition not in self._context.reassigning:
            return
        assignment = self._context.assignment(partition)
        if (yield from self._is_complete(partition, assignment)):
            yield from self.advance(partition, assignment)

    @staticmethod
    def _flaw(target: tuple[int, ...]) -> Refuse | None:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        if not target:
            return Refuse(code, "Empty replica list specified in partition reassignment.")
        if len(set(target)) != len(target):
            shown = ", ".join(map(str, target))
            return Refuse(
                code, f"Duplicate replica ids in partition reassignment replica list: List({shown})"
            )
        if any(one < 0 for one in target):
            return Refuse(code, "Invalid broker id in replica list")
        return None

    def _dead(self, partition: TopicPartition, target: tuple[int, ...]) -> Refuse | None:
        """Clients may not name new brokers that are down. By its node a tool may: the move waits for them."""
        dead = [
            one
            for one in self._context.assignment(partition).to(target).adding
            if not self._context.is_live(one)
        ]
        if dead:
            live = ", ".join(map(str, self._context.live_ids()))
            return Refuse(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Replica assignment has brokers that are not alive. Replica list: {', '.join(map(str, dead))}, live broker list: "
                f"{live}",
            )
        return None

    def _begin(self, partition: TopicPartition, target: tuple[int, ...]) -> Steps[Refuse | None]:
        context = self._context
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not context.is_known(partition):
            return Refuse(code, "The partition does not exist.")
        if context.is_being_deleted(partition.topic):
            return Refuse(code, "The partition is being deleted")
        if (refused := self._flaw(target)) is not None:
            return refused
        if partition not in context.leaderships:
            return Refuse(ErrorCode.LEADER_NOT_AVAILABLE, "The partition has never had a leader.")
        yield from self.advance(partition, context.assignment(partition).to(target))
        return None

    # Steps

    def advance(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        """Do what can be done now."""
        context = self._context
        self._deletions.wait_with([partition.topic])
        yield from self._update_current(partition, assignment)
        if not (yield from self._is_complete(partition, assignment)):
            yield from self._tell_replicas(partition, assignment)
            new = [Replica(partition, one) for one in assignment.adding]
            yield from self._replicas.move(self._replicas.those_that_may(new, _R.NEW), _R.NEW)
            return
        added = [Replica(partition, one) for one in assignment.adding]
        yield from self._replicas.move(self._replicas.those_that_may(added, _R.ONLINE), _R.ONLINE)
        done = Assignment(assignment.target)
        context.assign(partition, done)
        yield from self._move_leader(partition, done)
        yield from self._remove_replicas(partition, assignment.removing)
        yield from self._write_assignment(partition)
        yield from self._is_over(partition, done)
        batch = RequestBatch(self._term)
        batch.tell(context.brokers, [partition])
        batch.send()
        yield from self._deletions.eligible_again([partition.topic])

    def _update_current(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        context = self._context
        before = context.assignment(partition)
        if before != assignment:
            context.assign(partition, assignment)
            yield from self._write_assignment(partition)
            unneeded = [one for one in before.replicas if one not in assignment.replicas]
            yield from self._remove_replicas(partition, unneeded)
        context.reassigning[partition] = None

    def _is_complete(self, partition: TopicPartition, assignment: Assignment) -> Steps[bool]:
        if not assignment.is_being_reassigned:
            return True
        state = (yield from read_states([partition])).get(partition)
        return isinstance(state, Leadership) and set(assignment.target) <= set(state.isr)

    def _tell_replicas(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        """LeaderAndIsr of the next leader epoch to old and new replicas."""
        state = yield from self._next_epoch(partition)
        if state is None:
            return
        batch = RequestBatch(self._term)
        batch.lead_and_follow(assignment.origin, partition, state, assignment, is_new=False)
        batch.lead_and_follow(assignment.adding, partition, state, assignment, is_new=True)
        batch.send()

    def _next_epoch(self, partition: TopicPartition) -> Steps[Leadership | None]:
        context = self._context
        for _try in range(_TRIES_MAX):
            state = (yield from read_states([partition])).get(partition)
            if not isinstance(state, Leadership) or state.controller_epoch > context.epoch:
                self._term.note(f"{partition} has no state that may be changed: {state}")
                return None
            wanted = {partition: state.changed(state.leader, state.isr)}
            written = (yield from write_states(context, wanted))[partition]
            if written is not None:
                context.leaderships[partition] = written
                return written
        self._term.note(f"{partition} has a state that changes all the time")
        return None

    def _move_leader(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        context = self._context
        leader = context.leaderships[partition].leader
        if leader in assignment.replicas and context.is_online(leader, partition):
            yield from self._tell_replicas(partition, assignment)
        else:
            yield from self._partitions.move([partition], PartitionState.ONLINE, Strategy.REASSIGNMENT)

    def _remove_replicas(self, partition: TopicPartition, broker_ids: Iterable[int]) -> Steps[None]:
        removed = [Replica(partition, one) for one in broker_ids]
        removed = [one for one in removed if self._context.replica_state(one) is not _R.NON_EXISTENT]
        for state in (_R.OFFLINE, _R.DELETION_STARTED, _R.DELETION_SUCCESSFUL, _R.NON_EXISTENT):
            yield from self._replicas.move(removed, state)

    def _write_assignment(self, partition: TopicPartition) -> Steps[None]:
        topic = self._context.topics[partition.topic]
        data = documents.encode_topic(topic.node())
        (result,) = yield from ask([SetData(paths.topic(topic.name), data)], ZooKeeperCode.NO_NODE)
        if not result.is_done:
            self._term.note(f"topic {topic.name} has no node any more: somebody else has deleted it")

    def _is_over(self, partition: TopicPartition, assignment: Assignment) -> Steps[None]:
        self._context.reassigning.pop(partition, None)
        yield from self._take_out_of_node(
            lambda other, target: other == partition and target == assignment.replicas
        )

    # `/admin/reassign_partitions`

    def _take_out_of_node(self, is_over: Callable[[TopicPartition, tuple[int, ...]], bool]) -> Steps[None]:
        """The wishes that are over leave the node, and with the last one the node goes."""
        found = yield from get(paths.REASSIGN_PARTITIONS)
        if found is None:
            return
        try:
            wished = documents.decode_reassignments(found.data)
        except ZnodeError:
            return  # `wished_by_node` says so, and removes it.
        left = {one: target for one, target in wished.items() if not is_over(one, target)}
        if not left:
            yield from delete([paths.REASSIGN_PARTITIONS])
            self._term.play(ZkPartitionReassignment())
        elif len(left) < len(wished):
            yield from ask(
                [SetData(paths.REASSIGN_PARTITIONS, documents.encode_reassignments(left))],
                ZooKeeperCode.NO_NODE,
            )
