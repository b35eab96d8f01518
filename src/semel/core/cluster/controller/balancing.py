"""Elections that somebody wishes: of preferred leaders by a tool, a client or the clock, of leaders at all by a client.

Role.   Kafka's ReplicaLeaderElection, by API and by `/admin/preferred_replica_election`, and AutoPreferredReplicaLeaderElection.
Rules.  * A partition that is led as wished already is not elected for.
        * The node is removed once its elections are held, whatever came of them, and watched again.
        * The balance is looked at broker by broker: where more than a few of the partitions that prefer it are led elsewhere, those that can
          be led by it are elected for. Not while partitions move.
"""

from collections.abc import Iterable

from semel.core.cluster import documents, paths
from semel.core.cluster.controller import elections
from semel.core.cluster.controller.context import Leadership
from semel.core.cluster.controller.events import ReplicaLeaderElection, ZkPreferredReplicaElection
from semel.core.cluster.controller.operations import Steps, delete, exists, get
from semel.core.cluster.controller.partitions import Partitions, Strategy
from semel.core.cluster.controller.states import PartitionState
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import ZnodeError
from semel.errors import ErrorCode, Refuse
from semel.types import TopicPartition


class Elections:
    """Elections by wish."""

    def __init__(self, term: Term, partitions: Partitions) -> None:
        self._term = term
        self._context = term.context
        self._partitions = partitions

    def wished_by_api(self, event: ReplicaLeaderElection) -> Steps[dict[TopicPartition, Refuse | int]]:
        """The new leader of each partition, or why it has none."""
        partitions = list(self._context.partitions()) if event.partitions is None else event.partitions
        return (yield from self._elect(partitions, is_unclean=event.is_unclean))

    def wished_by_node(self) -> Steps[None]:
        """What `/admin/preferred_replica_election` wishes, which is watched from now on."""
        if not (yield from exists(paths.PREFERRED_REPLICA_ELECTION, watch=True)):
            return
        found = yield from get(paths.PREFERRED_REPLICA_ELECTION)
        if found is None:
            return
        try:
            wished = documents.decode_partitions(paths.PREFERRED_REPLICA_ELECTION, found.data)
        except ZnodeError as error:
            self._term.note(f"a preferred election is passed over, and its node removed: {error}")
            wished = []
        for partition, refused in (yield from self._elect(wished, is_unclean=False)).items():
            if isinstance(refused, Refuse) and refused.code is not ErrorCode.ELECTION_NOT_NEEDED:
                self._term.note(f"{partition} has no preferred leader: {refused.reason}")
        yield from delete([paths.PREFERRED_REPLICA_ELECTION])
        self._term.play(ZkPreferredReplicaElection())

    def balance(self) -> Steps[None]:
        """AutoPreferredReplicaLeaderElection."""
        context = self._context
        preferring: dict[int, list[TopicPartition]] = {}
        for partition in context.partitions():
            replicas = context.assignment(partition).replicas
            if replicas and not context.is_being_deleted(partition.topic):
                preferring.setdefault(replicas[0], []).append(partition)
        for broker_id, own in sorted(preferring.items()):
            elsewhere = [
                one
                for one in own
                if (state := context.leaderships.get(one)) is not None and state.leader != broker_id
            ]
            percent = self._term.settings.leader_imbalance_per_broker_percentage
            if len(elsewhere) * 100 <= percent * len(own):
                continue
            chosen = [one for one in elsewhere if not context.reassigning and self._can_lead(one)]
            yield from self._partitions.move(chosen, PartitionState.ONLINE, Strategy.PREFERRED)

    def _can_lead(self, partition: TopicPartition) -> bool:
        context = self._context
        replicas = context.assignment(partition).replicas
        isr = context.leaderships[partition].isr
        return elections.preferred(replicas, isr, context.online(replicas, partition)) is not None

    def _elect(
        self, partitions: Iterable[TopicPartition], *, is_unclean: bool
    ) -> Steps[dict[TopicPartition, Refuse | int]]:
        context = self._context
        answers: dict[TopicPartition, Refuse | int] = {}
        chosen: list[TopicPartition] = []
        for one in partitions:
            state = context.leaderships.get(one)
            if not context.is_known(one):
                answers[one] = Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            elif context.is_being_deleted(one.topic):
                answers[one] = Refuse(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif state is not None and self._is_led_as_wished(one, state, is_unclean=is_unclean):
                answers[one] = Refuse(
                    ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition."
                )
            else:
                chosen.append(one)
        strategy = Strategy.UNCLEAN if is_unclean else Strategy.PREFERRED
        outcomes = yield from self._partitions.move(chosen, PartitionState.ONLINE, strategy)
        code = (
            ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
            if is_unclean
            else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        )
        for one in chosen:
            outcome = outcomes[one]
            answers[one] = (
                outcome.leader
                if isinstance(outcome, Leadership)
                else Refuse(code, f"Failed to elect leader for partition {one}: {outcome}")
            )
        return answers

    def _is_led_as_wished(self, one: TopicPartition, state: Leadership, *, is_unclean: bool) -> bool:
        if is_unclean:
            return self._context.is_live(state.leader)
        return state.leader == self._context.assignment(one).replicas[0]
