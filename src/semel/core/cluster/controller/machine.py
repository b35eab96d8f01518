"""The controller of a cluster, one event after the other. Read this first.

Role.   `Machine` is one term of a controller: made when an election is won, thrown away when the term ends, however it ends.
Flow.   the shell plays `Startup`, then events as they come: `play` gives a generator of `operations.Steps`. The shell carries out the
        batches that it yields and sends their results; after each batch, and at the end, it takes the `outbox`. What the generator
        returns is the answer to whoever asked.
Rules.  * No I/O, no clock, no dice: what an event needs it reads through its batches, when it is played.
        * An event that is broken off leaves a machine that must not be used again. Everything that counts is in ZooKeeper.
        * A take-over repairs first and tells brokers of each other before anything else: a follower refuses a leader that it does not know.
"""

import uuid
from collections.abc import Callable
from typing import Any

from semel.core.cluster import documents, paths
from semel.core.cluster.controller import events
from semel.core.cluster.controller.answering import Answers
from semel.core.cluster.controller.balancing import Elections
from semel.core.cluster.controller.brokers import Brokers
from semel.core.cluster.controller.context import Context, Leadership, Replica
from semel.core.cluster.controller.deleting import Deletions
from semel.core.cluster.controller.events import Event
from semel.core.cluster.controller.operations import (
    Steps,
    ask,
    children,
    delete,
    exists,
    get,
    get_all,
    read_states,
)
from semel.core.cluster.controller.partitions import Partitions
from semel.core.cluster.controller.reassigning import Reassignments
from semel.core.cluster.controller.replicas import Replicas
from semel.core.cluster.controller.requests import RequestBatch
from semel.core.cluster.controller.term import Settings, Term
from semel.core.cluster.controller.topics import Topics
from semel.core.cluster.documents import ZnodeError
from semel.core.zookeeper.wire.messages import Create, SetData
from semel.core.zookeeper.words import ZooKeeperCode
from semel.errors import ErrorCode
from semel.types import TopicPartition


class Machine:
    """One term."""

    def __init__(self, epoch: int, settings: Settings, new_id: Callable[[], uuid.UUID]) -> None:
        """`new_id` gives a topic that has no id one that no other has."""
        self.term = term = Term(Context(epoch), settings)
        self._context = term.context
        self._partitions = Partitions(term)
        self._replicas = Replicas(term, self._partitions)
        self._deletions = Deletions(term, self._partitions, self._replicas)
        self._reassignments = Reassignments(term, self._partitions, self._replicas, self._deletions)
        self._brokers = Brokers(term, self._partitions, self._replicas, self._deletions, self._reassignments)
        self._topics = Topics(term, self._partitions, self._replicas, new_id)
        self._elections = Elections(term, self._partitions)
        self._answers = Answers(term)

    @property
    def context(self) -> Context:
        return self._context

    def play(self, event: Event) -> Steps[Any]:
        """The steps of an event."""
        match event:
            case events.Startup():
                return self._take_over()
            case events.CompleteReassignment(partition):
                return self._reassignments.complete(partition)
            case events.AutoPreferredReplicaLeaderElection():
                return self._elections.balance()
            case events.UncleanLeaderElectionEnable(topic):
                return self._partitions.elect_leaderless(topic)
            case events.BrokerBehind():
                return self._brokers.behind(event)
            case events.LeaderAndIsrResponseReceived():
                return self._brokers.roles_answered(event)
            case events.TopicDeletionStopReplicaResponseReceived():
                return self._deletion_answered(event)
            case (
                events.AlterPartitionReceived()
                | events.AllocateProducerIds()
                | events.ControlledShutdown()
                | events.ReplicaLeaderElection()
                | events.ApiPartitionReassignment()
                | events.ListPartitionReassignments()
            ):
                return self._answer(event)
            case _:
                return self._look(event)

    def _look(self, event: events.Watched) -> Steps[Any]:
        """The steps of an event that a watch caused."""
        match event:
            case events.BrokerChange():
                return self._brokers.changed()
            case events.BrokerModifications(broker_id):
                return self._brokers.modified(broker_id)
            case events.TopicChange():
                return self._topics.changed()
            case events.PartitionModifications(topic):
                return self._topics.modified(topic)
            case events.TopicDeletion():
                return self._delete_topics()
            case events.IsrChangeNotification():
                return self._isrs_changed()
            case events.LogDirEventNotification():
                return self._brokers.directories_failed()
            case events.ZkPartitionReassignment():
                return self._reassignments.wished_by_node()
            case events.ZkPreferredReplicaElection():
                return self._elections.wished_by_node()

    def _answer(self, event: events.Answered) -> Steps[Any]:
        """The steps of an event that somebody waits for."""
        match event:
            case events.AlterPartitionReceived(request, version):
                return self._answers.alter_partitions(request, version)
            case events.AllocateProducerIds(request):
                return self._answers.allocate(request)
            case events.ControlledShutdown(request):
                return self._brokers.stopping(request)
            case events.ReplicaLeaderElection():
                return self._elections.wished_by_api(event)
            case events.ApiPartitionReassignment(targets):
                return self._reassignments.wished_by_api(targets)
            case events.ListPartitionReassignments(partitions):
                return _at_once(self._reassignments.under_way(partitions))

    # Taking over

    def _take_over(self) -> Steps[None]:
        context = self._context
        yield from self._repair_features()
        for path in (paths.LOG_DIR_EVENTS, paths.ISR_CHANGES):
            # Everything is read anew: what they tell is known by then.
            names = yield from children(path, watch=True)
            yield from delete(f"{path}/{name}" for name in names)
        yield from exists(paths.PREFERRED_REPLICA_ELECTION, watch=True)
        yield from self._brokers.take_over()
        yield from self._topics.take_over()
        yield from self._read_states(list(context.partitions()))
        wished = sorted((yield from children(paths.DELETE_TOPICS, watch=True)))
        waiting = [one.topic for one in context.reassigning] + [
            replica.topic_partition.topic
            for replica in context.replicas_of(context.partitions())
            if not context.is_online(replica.broker_id, replica.topic_partition)
        ]
        yield from self._deletions.begin_term(wished, waiting)
        batch = RequestBatch(self.term)
        batch.tell(context.brokers)
        batch.send()
        yield from self._replicas.startup()
        yield from self._partitions.startup()
        yield from self._reassignments.startup()
        yield from self._deletions.resume()
        yield from self._elections.wished_by_node()
        unknown = [one for one in wished if one not in context.topics]
        if unknown:
            yield from self._delete_topics()

    def _repair_features(self) -> Steps[None]:
        """A cluster has a node of features, and they are enabled."""
        data = documents.encode_features({})
        found = yield from get(paths.FEATURE)
        if found is None:
            yield from ask([Create(paths.FEATURE, data)], ZooKeeperCode.NODE_EXISTS)
        elif not documents.are_features_enabled(found.data):
            yield from ask([SetData(paths.FEATURE, data)])

    def _read_states(self, partitions: list[TopicPartition]) -> Steps[None]:
        for partition, state in (yield from read_states(partitions)).items():
            if isinstance(state, Leadership):
                self._context.leaderships[partition] = state
            else:
                self.term.note(f"{partition} is taken to have no leader: {state}")

    # Topics that are to go

    def _delete_topics(self) -> Steps[None]:
        names = yield from children(paths.DELETE_TOPICS, watch=True)
        yield from self._deletions.changed(sorted(names))

    def _deletion_answered(self, event: events.TopicDeletionStopReplicaResponseReceived) -> Steps[None]:
        broker = self._context.brokers.get(event.broker_id)
        if broker is None or broker.epoch != event.broker_epoch:
            return
        answered = {
            TopicPartition(row.topic_name, row.partition_index): row.error_code
            for row in event.response.partition_errors
        }
        own = [one for one in event.deleted if one in answered and self._deletions.is_in_progress(one.topic)]
        is_refused = event.response.error_code != ErrorCode.NONE
        failed = [one for one in own if is_refused or answered[one]]
        if failed:
            self.term.note(
                f"broker {event.broker_id} cannot delete {', '.join(map(str, failed))} now: they wait for its restart"
            )
        yield from self._deletions.failed(Replica(one, event.broker_id) for one in failed)
        gone = [one for one in own if one not in failed]
        if gone:
            yield from self._deletions.completed(Replica(one, event.broker_id) for one in gone)

    # Leaders of old versions

    def _isrs_changed(self) -> Steps[None]:
        context = self._context
        names = yield from children(paths.ISR_CHANGES, watch=True)
        found = yield from get_all(sorted(names), lambda name: f"{paths.ISR_CHANGES}/{name}", watch=False)
        changed: dict[TopicPartition, None] = {}
        for name, result in found.items():
            try:
                told = documents.decode_partitions(f"{paths.ISR_CHANGES}/{name}", result.data)
            except ZnodeError as error:
                self.term.note(f"a change of ISRs is passed over: {error}")
            else:
                changed.update({one: None for one in told if context.is_known(one)})
        if changed:
            yield from self._read_states(list(changed))
            batch = RequestBatch(self.term)
            batch.tell(context.brokers, changed)
            batch.send()
            for one in changed:
                yield from self._reassignments.complete(one)
        yield from delete(f"{paths.ISR_CHANGES}/{name}" for name in names)


def _at_once(answer: Any) -> Steps[Any]:
    """An answer that needs nothing."""
    yield from ()
    return answer
