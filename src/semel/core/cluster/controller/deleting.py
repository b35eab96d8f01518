"""Deletion of topics: in rounds, until every replica has said that its log is gone.

Role.   Kafka's TopicDeletionManager.
Flow.   `enqueue` -> `resume`: partitions go, brokers are told with leader -2, replicas stop, then delete -> the answers come to `completed`
        and `failed` -> once all replicas are gone, the topic's nodes are.
Rules.  * A topic with a replica that is not online, or that is being reassigned, waits: it is ineligible until `eligible_again`.
        * A topic is never half deleted for clients: it is gone from the metadata at once, and its name is taken until the end.
        * Where `delete.topic.enable=false`, the wish is removed, and nothing else happens.
"""

from collections.abc import Iterable

from semel.core.cluster import paths
from semel.core.cluster.controller.context import Replica
from semel.core.cluster.controller.operations import Steps, delete, delete_trees
from semel.core.cluster.controller.partitions import Partitions
from semel.core.cluster.controller.replicas import Replicas
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.states import PartitionState, ReplicaState
from semel.core.cluster.controller.term import Term

_R = ReplicaState


class Deletions:
    """The topics that are to go."""

    def __init__(self, term: Term, partitions: Partitions, replicas: Replicas) -> None:
        self._term = term
        self._context = term.context
        self._partitions = partitions
        self._replicas = replicas

    def begin_term(self, wished: Iterable[str], waiting: Iterable[str]) -> Steps[None]:
        """Topics whose deletion is wished, and those that have to wait with it."""
        context = self._context
        names = [one for one in wished if one in context.topics]
        if not self._term.settings.delete_topic_enable:
            yield from delete(paths.deletion(one) for one in names)
            return
        context.to_delete.update(dict.fromkeys(names))
        self.wait_with(waiting)

    def changed(self, wished: Iterable[str]) -> Steps[None]:
        """TopicDeletion: take up all wishes."""
        context = self._context
        names = list(wished)
        unknown = [one for one in names if one not in context.topics]
        if unknown:
            self._term.note(f"topics {', '.join(unknown)} are to be deleted, and do not exist")
            yield from delete(paths.deletion(one) for one in unknown)
        known = [one for one in names if one in context.topics]
        if not self._term.settings.delete_topic_enable:
            yield from delete(paths.deletion(one) for one in known)
            return
        context.to_delete.update(dict.fromkeys(known))
        moving = dict.fromkeys(one.topic for one in context.reassigning)
        self.wait_with(one for one in known if one in moving)
        yield from self.resume()

    def wait_with(self, topics: Iterable[str]) -> None:
        """Their deletion waits."""
        context = self._context
        context.ineligible.update({one: None for one in topics if context.is_being_deleted(one)})

    def eligible_again(self, topics: Iterable[str]) -> Steps[None]:
        """A broker is back, or a reassignment is over: go on."""
        context = self._context
        names = [one for one in dict.fromkeys(topics) if context.is_being_deleted(one)]
        for one in names:
            context.ineligible.pop(one, None)
        if names:
            yield from self.resume()

    def failed(self, replicas: Iterable[Replica]) -> Steps[None]:
        """These replicas cannot be deleted now."""
        own = [one for one in replicas if self._context.is_being_deleted(one.topic_partition.topic)]
        if not own:
            return
        yield from self._replicas.move(
            self._replicas.those_that_may(own, _R.DELETION_INELIGIBLE), _R.DELETION_INELIGIBLE
        )
        self.wait_with(one.topic_partition.topic for one in own)
        yield from self.resume()

    def completed(self, replicas: Iterable[Replica]) -> Steps[None]:
        """The logs of these replicas are gone."""
        own = [one for one in replicas if self._context.is_being_deleted(one.topic_partition.topic)]
        yield from self._replicas.move(
            self._replicas.those_that_may(own, _R.DELETION_SUCCESSFUL), _R.DELETION_SUCCESSFUL
        )
        yield from self.resume()

    def is_in_progress(self, topic: str) -> bool:
        return bool(self._context.topic_replicas(topic, _R.DELETION_STARTED))

    def resume(self) -> Steps[None]:
        """Whatever can be done for the topics that are to go."""
        context = self._context
        again: list[Replica] = []
        begin: list[str] = []
        for topic in list(context.to_delete):
            everything = context.topic_replicas(topic)
            gone = context.topic_replicas(topic, _R.DELETION_SUCCESSFUL)
            if len(gone) == len(everything):
                yield from self._finish(topic, gone)
                continue
            is_in_progress = self.is_in_progress(topic)
            if not is_in_progress:
                again += context.topic_replicas(topic, _R.DELETION_INELIGIBLE)
            if not is_in_progress and topic not in context.ineligible:
                begin.append(topic)
        yield from self._replicas.move(again, _R.OFFLINE)
        if begin:
            yield from self._begin(begin)

    def _begin(self, topics: list[str]) -> Steps[None]:
        context = self._context
        unseen = [one for one in topics if one not in context.deletion_begun]
        partitions = [partition for one in unseen for partition in context.partitions_of(one)]
        yield from self._partitions.move(partitions, PartitionState.OFFLINE)
        yield from self._partitions.move(partitions, PartitionState.NON_EXISTENT)
        context.deletion_begun.update(dict.fromkeys(unseen))
        batch = RequestBatch(self._term)
        batch.tell(context.brokers, [partition for one in topics for partition in context.partitions_of(one)])
        batch.send()
        yield from self._delete_replicas(topics)

    def _delete_replicas(self, topics: list[str]) -> Steps[None]:
        context = self._context
        dead: list[Replica] = []
        doomed: list[Replica] = []
        waiting: list[str] = []
        for topic in topics:
            left = context.topic_replicas(
                topic, where=lambda one: context.replica_state(one) is not _R.DELETION_SUCCESSFUL
            )
            own = [one for one in left if self._is_dead(one)]
            dead += own
            waiting += [topic] if own else []
            doomed += [one for one in left if not self._is_dead(one)]
        # A replica that was made on a broker that was dead already was never moved: it stays as it is.
        yield from self._replicas.move(
            self._replicas.those_that_may(dead, _R.DELETION_INELIGIBLE), _R.DELETION_INELIGIBLE
        )
        yield from self._replicas.move(doomed, _R.OFFLINE)
        yield from self._replicas.move(doomed, _R.DELETION_STARTED)
        self.wait_with(waiting)

    def _is_dead(self, replica: Replica) -> bool:
        return not self._context.is_online(replica.broker_id, replica.topic_partition)

    def _finish(self, topic: str, replicas: list[Replica]) -> Steps[None]:
        yield from self._replicas.move(replicas, _R.NON_EXISTENT)
        # The settings before the topic: whoever takes over between the two finds a topic that is still to go.
        yield from delete([paths.topic_configs(topic)])
        yield from delete_trees([paths.topic(topic)])
        yield from delete([paths.deletion(topic)])
        self._context.remove_topic(topic)
        self._term.note(f"topic {topic} is deleted", is_warning=False)
