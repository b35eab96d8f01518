"""Topics come, grow and go: what their nodes say becomes partitions and replicas.

Role.   Kafka's TopicChange and PartitionModifications, and the topics at a take-over.
Rules.  * A topic whose node lacks an id is given one at a take-over or at its creation. An id that is remembered is written back where an
          old tool has dropped or changed it: it is never made anew.
        * Partitions that are added to a topic that is to go are taken out of its node again.
        * Partitions that vanish from a node, or replicas that change there by another hand, are not followed.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence

from semel.core.cluster import documents, paths
from semel.core.cluster.controller.context import Topic, assignments_of
from semel.core.cluster.controller.operations import Result, Steps, ask, children, get, get_all
from semel.core.cluster.controller.partitions import Partitions, Strategy
from semel.core.cluster.controller.replicas import Replicas
from semel.core.cluster.controller.states import PartitionState, ReplicaState
from semel.core.cluster.controller.term import Term
from semel.core.cluster.documents import TopicNode, ZnodeError
from semel.core.zookeeper.wire.messages import SetData
from semel.core.zookeeper.words import ZooKeeperCode
from semel.types import TopicPartition


class Topics:
    """The topics of a term."""

    def __init__(
        self, term: Term, partitions: Partitions, replicas: Replicas, new_id: Callable[[], uuid.UUID]
    ) -> None:
        """`new_id` gives an id that no topic has."""
        self._term = term
        self._context = term.context
        self._partitions = partitions
        self._replicas = replicas
        self._new_id = new_id

    def take_over(self) -> Steps[None]:
        """Know all topics at the beginning of a term, watched from now on."""
        yield from self._learn((yield from children(paths.TOPICS, watch=True)))
        context = self._context
        for topic in context.topics.values():
            for index, assignment in topic.partitions.items():
                if assignment.is_being_reassigned:
                    context.reassigning[TopicPartition(topic.name, index)] = None

    def changed(self) -> Steps[None]:
        """TopicChange."""
        context = self._context
        names = yield from children(paths.TOPICS, watch=True)
        there = dict.fromkeys(names)
        for name in [one for one in context.topics if one not in there]:
            context.remove_topic(name)
        new = yield from self._learn([one for one in names if one not in context.topics])
        yield from self._create(partition for name in new for partition in context.partitions_of(name))

    def _learn(self, names: Sequence[str]) -> Steps[list[str]]:
        """Read topics that are new here; those that are known now."""
        found = yield from get_all(sorted(names), paths.topic, watch=True)
        known: list[str] = []
        without_id: list[Topic] = []
        for name, result in found.items():
            node = self._decoded(name, result)
            if node is None:
                continue
            topic = Topic(name, node.topic_id or self._new_id(), assignments_of(node))
            if node.topic_id is None:
                without_id.append(topic)
            self._context.put_topic(topic)
            known.append(name)
        yield from self._write(without_id)
        return known

    def _decoded(self, name: str, result: Result) -> TopicNode | None:
        try:
            return documents.decode_topic(name, result.data)
        except ZnodeError as error:
            self._term.note(f"topic {name} is passed over: {error}")
            return None

    def _write(self, topics: Sequence[Topic]) -> Steps[None]:
        """Have the nodes say what is known here."""
        yield from ask(
            [SetData(paths.topic(one.name), documents.encode_topic(one.node())) for one in topics],
            ZooKeeperCode.NO_NODE,
        )

    def modified(self, name: str) -> Steps[None]:
        """PartitionModifications."""
        context = self._context
        known = context.topics.get(name)
        if known is None:
            return  # It is being deleted, or TopicChange sees it.
        found = yield from get(paths.topic(name), watch=True)
        node = None if found is None else self._decoded(name, found)
        if node is None:
            return
        added = {
            index: assignment
            for index, assignment in assignments_of(node).items()
            if index not in known.partitions
        }
        if context.is_being_deleted(name):
            if added:
                self._term.note(
                    f"partitions {list(added)} are not added to topic {name}: it is being deleted"
                )
                yield from self._write([known])
            return
        known.partitions |= added
        if node.topic_id != known.topic_id:
            self._term.note(
                f"the node of topic {name} has lost its id {known.topic_id}, which is written back"
            )
            yield from self._write([known])
        yield from self._create(TopicPartition(name, index) for index in added)

    def _create(self, partitions: Iterable[TopicPartition]) -> Steps[None]:
        new = list(partitions)
        yield from self._partitions.move(new, PartitionState.NEW)
        replicas = self._context.replicas_of(new)
        yield from self._replicas.move(replicas, ReplicaState.NEW)
        yield from self._partitions.move(new, PartitionState.ONLINE, Strategy.OFFLINE)
        yield from self._replicas.move(replicas, ReplicaState.ONLINE)
