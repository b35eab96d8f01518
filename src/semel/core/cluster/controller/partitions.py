"""Partitions move between their states: the first table, carried out.

Role.   Kafka's PartitionStateMachine. `move` is the door; `elect` holds an election for partitions that have a state node.
Rules.  * New to Online makes the state node: the first live replica leads, all live ones are in sync. Without a live one it stays New.
        * An election reads the states anew and writes against what it read. Where another was there it begins again, a few times.
        * A state that a controller of a later epoch wrote is left alone.
        * A partition that cannot be moved stays as it is, and its reason is the result. The others move.
"""

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Final

from semel.core.cluster import documents, paths
from semel.core.cluster.controller import elections
from semel.core.cluster.controller.context import Leadership
from semel.core.cluster.controller.elections import Elected
from semel.core.cluster.controller.operations import (
    Steps,
    create_states,
    get_all,
    read_states,
    write_states,
)
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.states import PARTITION_MOVES, PartitionState, check
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import ZnodeError
from semel.errors import InvariantError
from semel.types import TopicPartition

_TRIES_MAX: Final = 20
_UNCLEAN: Final = "unclean.leader.election.enable"


class Strategy(Enum):
    """The occasion of an election."""

    OFFLINE = auto()
    UNCLEAN = auto()
    """The same, and a leader that is not in sync is wanted rather than none."""
    REASSIGNMENT = auto()
    PREFERRED = auto()
    CONTROLLED_SHUTDOWN = auto()


Outcome = Leadership | str
"""The new state of a partition, or why it has none."""


class Partitions:
    """The partitions of a term."""

    def __init__(self, term: Term) -> None:
        self._term = term
        self._context = term.context

    def startup(self) -> Steps[None]:
        """Take the states from what was read, and elect where nobody leads."""
        context = self._context
        for partition in context.partitions():
            state = context.leaderships.get(partition)
            if state is None:
                now = PartitionState.NEW
            elif context.is_online(state.leader, partition):
                now = PartitionState.ONLINE
            else:
                now = PartitionState.OFFLINE
            context.partition_states[partition] = now
        yield from self.elect_leaderless()

    def elect_leaderless(self, topic: str | None = None) -> Steps[None]:
        """Have leaders for all partitions, or a topic's, that are new or offline."""
        context = self._context
        chosen = [
            partition
            for partition, state in context.partition_states.items()
            if state in (PartitionState.OFFLINE, PartitionState.NEW)
            and topic in (None, partition.topic)
            and not context.is_being_deleted(partition.topic)
        ]
        yield from self.move(chosen, PartitionState.ONLINE, Strategy.OFFLINE)

    def move(
        self, partitions: Iterable[TopicPartition], to: PartitionState, strategy: Strategy | None = None
    ) -> Steps[dict[TopicPartition, Outcome]]:
        """Move all of them, and send what follows from it. The outcomes of elections."""
        context = self._context
        chosen = list(dict.fromkeys(partitions))
        for one in chosen:
            check(PARTITION_MOVES, one, context.partition_state(one), to)
        outcomes: dict[TopicPartition, Outcome] = {}
        if to is not PartitionState.ONLINE:
            for one in chosen:
                if to is PartitionState.NON_EXISTENT:
                    context.partition_states.pop(one, None)
                else:
                    context.partition_states[one] = to
            return outcomes
        batch = RequestBatch(self._term)
        new = [one for one in chosen if context.partition_state(one) is PartitionState.NEW]
        if new:
            outcomes |= yield from self._create(new, batch)
        others = [one for one in chosen if context.partition_state(one) is not PartitionState.NEW]
        others = [one for one in others if one not in outcomes]
        if others:
            if strategy is None:
                raise InvariantError("an election has an occasion")
            outcomes |= yield from self._elect(others, strategy, batch)
        for one, outcome in outcomes.items():
            if isinstance(outcome, Leadership):
                context.partition_states[one] = PartitionState.ONLINE
            else:
                self._term.note(f"{one} has no new leader: {outcome}", is_warning=False)
        batch.send()
        return outcomes

    # From New

    def _create(
        self, partitions: Sequence[TopicPartition], batch: RequestBatch
    ) -> Steps[dict[TopicPartition, Outcome]]:
        context = self._context
        outcomes: dict[TopicPartition, Outcome] = {}
        wanted: dict[TopicPartition, Leadership] = {}
        for one in partitions:
            live = context.online(context.assignment(one).replicas, one)
            if live:
                wanted[one] = Leadership(live[0], 0, live, 0, context.epoch)
            else:
                outcomes[one] = "no replica is online"
        made = yield from create_states(context, wanted)
        for one in wanted:
            state = made.get(one)
            if state is None:
                outcomes[one] = "its state could not be created: another is there, or its topic has gone"
                continue
            outcomes[one] = context.leaderships[one] = state
            batch.lead_and_follow(state.isr, one, state, context.assignment(one), is_new=True)
        return outcomes

    # Elections

    def _elect(
        self, partitions: Sequence[TopicPartition], strategy: Strategy, batch: RequestBatch
    ) -> Steps[dict[TopicPartition, Outcome]]:
        outcomes: dict[TopicPartition, Outcome] = {}
        left = list(partitions)
        for _try in range(_TRIES_MAX):
            left = yield from self._elect_once(left, strategy, batch, outcomes)
            if not left:
                break
        for one in left:
            outcomes[one] = "its state changes all the time"
        return outcomes

    def _elect_once(
        self,
        partitions: Sequence[TopicPartition],
        strategy: Strategy,
        batch: RequestBatch,
        outcomes: dict[TopicPartition, Outcome],
    ) -> Steps[list[TopicPartition]]:
        """The partitions whose state was another when it was to be written."""
        context = self._context
        states = self.fit(partitions, (yield from read_states(partitions)), outcomes)
        unclean = yield from self._unclean(states, strategy)
        wanted: dict[TopicPartition, Leadership] = {}
        recipients: dict[TopicPartition, tuple[int, ...]] = {}
        for one, state in states.items():
            elected, recipients[one] = self._decide(one, state, strategy, is_unclean=one in unclean)
            if elected is None:
                outcomes[one] = f"nobody can be elected (strategy {strategy.name.lower()}, isr {state.isr})"
            else:
                wanted[one] = state.changed(elected.leader, elected.isr, is_recovering=elected.is_recovering)
        again = []
        for one, written in (yield from write_states(context, wanted)).items():
            if written is None:
                again.append(one)
                continue
            outcomes[one] = context.leaderships[one] = written
            self._term.elections += 1
            self._term.unclean_elections += written.leader not in states[one].isr
            batch.lead_and_follow(recipients[one], one, written, context.assignment(one), is_new=False)
        return again

    def fit(
        self,
        partitions: Iterable[TopicPartition],
        read: dict[TopicPartition, Leadership | ZnodeError],
        outcomes: dict[TopicPartition, Outcome],
    ) -> dict[TopicPartition, Leadership]:
        """The states that this controller may change; the reasons for the others go to `outcomes`."""
        states: dict[TopicPartition, Leadership] = {}
        for one in partitions:
            state = read.get(one)
            if state is None:
                outcomes[one] = "it has no state in ZooKeeper"
            elif isinstance(state, ZnodeError):
                outcomes[one] = str(state)
            elif state.controller_epoch > self._context.epoch:
                outcomes[one] = f"a controller of epoch {state.controller_epoch} has written its state"
            else:
                states[one] = state
        return states

    def _decide(
        self, one: TopicPartition, state: Leadership, strategy: Strategy, *, is_unclean: bool
    ) -> tuple[Elected | None, tuple[int, ...]]:
        """Who is elected, and the replicas that are told."""
        context = self._context
        assignment = context.assignment(one)
        replicas, isr = assignment.replicas, state.isr
        match strategy:
            case Strategy.OFFLINE | Strategy.UNCLEAN:
                online = context.online(replicas, one)
                return elections.offline(replicas, isr, online, is_unclean_allowed=is_unclean), online
            case Strategy.REASSIGNMENT:
                target = assignment.target
                return elections.reassignment(target, isr, context.online(target, one)), target
            case Strategy.PREFERRED:
                return elections.preferred(replicas, isr, context.online(replicas, one)), replicas
            case Strategy.CONTROLLED_SHUTDOWN:
                up = tuple(id_ for id_ in replicas if context.is_online(id_, one, with_stopping=True))
                stopping = tuple(context.shutting_down)
                return elections.controlled_shutdown(replicas, isr, up, stopping), up

    def _unclean(
        self, states: dict[TopicPartition, Leadership], strategy: Strategy
    ) -> Steps[dict[TopicPartition, None]]:
        """The partitions that may have a leader that is not in sync: those without a live one in sync, if their topics allow it."""
        context = self._context
        if strategy is Strategy.UNCLEAN:
            return dict.fromkeys(states)
        if strategy is not Strategy.OFFLINE:
            return {}
        lost = [one for one, state in states.items() if not context.online(state.isr, one)]
        topics = list(dict.fromkeys(one.topic for one in lost))
        found = yield from get_all(topics, paths.topic_configs, watch=False)
        allowed = {}
        for topic in topics:
            allowed[topic] = self._term.settings.unclean_leader_election_enable
            if topic not in found:
                continue
            try:
                configs = documents.decode_configs(paths.topic_configs(topic), found[topic].data)
            except ZnodeError as error:
                self._term.note(f"no unclean election for topic {topic}: {error}")
                allowed[topic] = False
            else:
                if _UNCLEAN in configs:
                    allowed[topic] = configs[_UNCLEAN].strip().lower() == "true"
        return {one: None for one in lost if allowed[one.topic]}
