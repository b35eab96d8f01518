"""Calls about topics, their partitions and their records.

Role.   The part of the admin client that makes, shows, grows and deletes topics, asks for offsets and deletes records.
Rules.  A question, or a request that may be sent twice, is repeated while errors pass; any other is sent once, to the controller.
"""

# ruff: noqa: N815 - the aliases are Java's names.

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from semel.client import arguments
from semel.client.admin.core import (
    AdminCore,
    W,
    by_partition,
    carried_out,
    names,
    partitions,
    public,
    settled,
)
from semel.client.admin.tables import Answers, Listing
from semel.client.calls import known
from semel.client.calls.create_topics import create_topics
from semel.client.calls.delete_topics import delete_topics
from semel.client.calls.list_offsets import list_offsets
from semel.client.calls.list_topics import list_topics
from semel.client.calls.routing import by_topic, controller, leaders_of
from semel.client.cluster import TopicView, topic_view
from semel.client.config import ISOLATION_LEVELS
from semel.client.values.administration import (
    CreatedTopic,
    DeletedRecords,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    PartitionReassignment,
    TopicDescription,
    TopicListing,
    TopicPartitionInfo,
)
from semel.core.wire.messages import elect_leaders as electing
from semel.core.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from semel.core.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from semel.core.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
)
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.core.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from semel.errors import ErrorCode, RefusedError, SemelError, error_code, refused
from semel.exceptions import IllegalArgumentException
from semel.types import TopicPartition

_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_ELECTIONS: Final = {"preferred": 0, "unclean": 1}
_HIGH_WATERMARK: Final = -1


class TopicCalls(AdminCore):
    """Topics, partitions, records."""

    @public
    async def create_topics(
        self,
        topics: str | NewTopic | Iterable[str | NewTopic],
        *,
        validate_only: bool = False,
        timeout_ms: int | None = None,
    ) -> Answers[str, CreatedTopic]:
        """Make topics: names, for the broker's defaults, or `NewTopic`s. With `validate_only` nothing is made."""
        accepted = "a topic's name, a NewTopic, or a list of them"
        given = (
            [topics] if isinstance(topics, str | NewTopic) else arguments.listed("topics", topics, accepted)
        )
        wanted = [
            _creatable(
                one if isinstance(one, NewTopic) else NewTopic(arguments.text("topics", one, accepted))
            )
            for one in given
        ]
        results = await create_topics(
            self._cluster, wanted, validate_only=validate_only, timeout_ms=_wait(timeout_ms)
        )
        return settled({one.name: _created(one, self._cluster.where) for one in results})

    @public
    async def delete_topics(self, topics: str | Iterable[str], *, timeout_ms: int | None = None) -> None:
        """Remove topics with all their records."""
        results = await delete_topics(self._cluster, names(topics, "topics"), timeout_ms=_wait(timeout_ms))
        settled(
            {
                one.name: _refusal(
                    one.error_code, f"to delete topic {one.name!r}", self._cluster.where, one.error_message
                )
                for one in results
            }
        )

    @public
    async def list_topics(self, *, list_internal: bool = False) -> Listing[TopicListing]:
        """The topics, by name; with Kafka's own if asked for."""
        found = await list_topics(self._cluster)
        return Listing(
            TopicListing(one.name, one.topic_id, one.is_internal)
            for one in found
            if list_internal or not one.is_internal
        )

    @public
    async def describe_topics(self, topics: str | Iterable[str]) -> Answers[str, TopicDescription]:
        """Topics with their partitions, leaders and replicas."""
        wanted = names(topics, "topics")
        if not wanted:  # Kafka takes no names for none, older brokers for all.
            return Answers()
        cluster = self._cluster

        async def ask() -> dict[str, TopicDescription | SemelError]:
            answer = await cluster.metadata(wanted)
            found: dict[str, TopicDescription | SemelError] = {}
            for one in answer.topics:
                name, code = one.name or "", error_code(one.error_code)
                if code is ErrorCode.NONE or code is ErrorCode.LEADER_NOT_AVAILABLE:
                    found[name] = _described(topic_view(one))
                elif code.retriable and code not in _UNKNOWN:
                    raise refused(code, f"to describe topic {name!r}", by=cluster.where)
                else:
                    found[name] = refused(code, f"to describe topic {name!r}", by=cluster.where)
            return found

        return settled(await cluster.patiently(ask))

    @public
    async def create_partitions(
        self, counts: Mapping[str, int | NewPartitions], *, validate_only: bool = False
    ) -> None:
        """Give topics more partitions: their whole number, by topic."""
        timeout_ms = self._settings.request_timeout_ms
        topics = []
        for name, given in arguments.mapped("counts", counts, "a mapping of topics to numbers").items():
            wanted = given if isinstance(given, NewPartitions) else NewPartitions(_count(name, given))
            assignments = wanted.new_assignments
            topics.append(
                CreatePartitionsTopic(
                    name=name,
                    count=wanted.total_count,
                    assignments=None
                    if assignments is None
                    else [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments],
                )
            )
        request = CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)
        cluster = self._cluster

        async def order() -> dict[str, SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
            return {
                one.name: _refusal(
                    one.error_code,
                    f"to add partitions to topic {one.name!r}",
                    cluster.where,
                    one.error_message,
                )
                for one in answer.results
            }

        await carried_out(cluster, order)

    @public
    async def list_offsets(
        self,
        specs: Mapping[W, OffsetSpec],
        *,
        isolation_level: str = "read_committed",
    ) -> Answers[TopicPartition, ListOffsetsResultInfo]:
        """Where partitions begin, end, or are at a time. The end is the last stable offset, or with `read_uncommitted` the
        high watermark."""
        if isolation_level not in ISOLATION_LEVELS:
            raise IllegalArgumentException(
                f"isolation_level={isolation_level!r}: use {' or '.join(ISOLATION_LEVELS)}"
            )
        wanted = by_partition(specs, "specs")
        for where, spec in wanted.items():
            if not isinstance(spec, OffsetSpec):
                raise arguments.refused(f"specs[{where}]", spec, "an OffsetSpec, as OffsetSpec.latest()")
        asked = {where: spec.timestamp for where, spec in wanted.items()}
        found = await list_offsets(self._cluster, asked, isolation_level=isolation_level)
        return settled(
            {
                where: one
                if isinstance(one, SemelError)
                else ListOffsetsResultInfo(known(one.offset), known(one.timestamp), one.leader_epoch)
                for where, one in found.items()
            }
        )

    @public
    async def delete_records(
        self, before_offsets: Mapping[W, int]
    ) -> Answers[TopicPartition, DeletedRecords]:
        """Delete what lies before an offset, by partition; -1 deletes everything that is there now."""
        wanted = {
            where: arguments.whole(
                f"before_offsets[{where}]", offset, "an offset, or -1 for the end", least=-1
            )
            for where, offset in by_partition(before_offsets, "before_offsets").items()
        }
        timeout_ms = self._settings.request_timeout_ms
        cluster = self._cluster

        async def order() -> dict[TopicPartition, DeletedRecords | SemelError]:
            found: dict[TopicPartition, DeletedRecords | SemelError] = {}
            for leader, some in (await leaders_of(cluster, wanted)).items():
                request = DeleteRecordsRequest(
                    topics=[
                        DeleteRecordsTopic(
                            name=topic,
                            partitions=[
                                DeleteRecordsPartition(
                                    partition_index=index, offset=wanted[TopicPartition(topic, index)]
                                )
                                for index in indexes
                            ],
                        )
                        for topic, indexes in by_topic(some).items()
                    ],
                    timeout_ms=timeout_ms,
                )
                answer = await cluster.send(request, node_id=leader, timeout_ms=timeout_ms)
                for topic in answer.topics:
                    for one in topic.partitions:
                        where = TopicPartition(topic.name, one.partition_index)
                        what = f"to delete records of {where} before {wanted[where]}"
                        refusal = _refusal(one.error_code, what, cluster.where)
                        if refusal is not None and refusal.code.retriable:
                            raise refusal
                        found[where] = refusal or DeletedRecords(one.low_watermark)
            return {where: found[where] for where in wanted}

        return settled(await cluster.patiently(order))

    @public
    async def elect_leaders(
        self, topic_partitions: Iterable[tuple[str, int]] | None = None, *, election_type: str = "preferred"
    ) -> Answers[TopicPartition, None]:
        """Let the preferred replicas lead again (or, "unclean", any that are left): of these partitions or of all."""
        if election_type not in _ELECTIONS:
            raise IllegalArgumentException(f"election_type={election_type!r}: use {' or '.join(_ELECTIONS)}")
        timeout_ms = self._settings.request_timeout_ms
        topics = None if topic_partitions is None else by_topic(partitions(topic_partitions))
        request = electing.ElectLeadersRequest(
            election_type=_ELECTIONS[election_type],
            topic_partitions=None
            if topics is None
            else [
                electing.TopicPartitions(topic=name, partitions=indexes) for name, indexes in topics.items()
            ],
            timeout_ms=timeout_ms,
        )
        cluster = self._cluster

        async def order() -> dict[TopicPartition, SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
            if answer.error_code:
                raise refused(answer.error_code, "to elect leaders", by=cluster.where)
            return {
                TopicPartition(topic.topic, one.partition_id): _refusal(
                    one.error_code,
                    f"to elect a leader of {topic.topic}-{one.partition_id}",
                    cluster.where,
                    one.error_message,
                )
                for topic in answer.replica_election_results
                for one in topic.partition_result
                if one.error_code != ErrorCode.ELECTION_NOT_NEEDED
            }

        return await carried_out(cluster, order)

    @public
    async def alter_partition_reassignments(self, replicas: Mapping[W, Sequence[int] | None]) -> None:
        """Move partitions to these brokers; None stops a move."""
        timeout_ms = self._settings.request_timeout_ms
        wanted = by_partition(replicas, "replicas")
        request = AlterPartitionReassignmentsRequest(
            timeout_ms=timeout_ms,
            topics=[
                ReassignableTopic(
                    name=topic,
                    partitions=[
                        ReassignablePartition(
                            partition_index=index, replicas=_listed(wanted[TopicPartition(topic, index)])
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in by_topic(wanted).items()
            ],
        )
        cluster = self._cluster

        async def order() -> dict[TopicPartition, SemelError | None]:
            answer = await cluster.send(request, node_id=await controller(cluster), timeout_ms=timeout_ms)
            if answer.error_code:
                raise refused(
                    answer.error_code, "to move partitions", by=cluster.where, reason=answer.error_message
                )
            return {
                TopicPartition(topic.name, one.partition_index): _refusal(
                    one.error_code,
                    f"to move {topic.name}-{one.partition_index}",
                    cluster.where,
                    one.error_message,
                )
                for topic in answer.responses
                for one in topic.partitions
            }

        await carried_out(cluster, order)

    @public
    async def list_partition_reassignments(
        self, topic_partitions: Iterable[tuple[str, int]] | None = None
    ) -> Answers[TopicPartition, PartitionReassignment]:
        """The moves under way, of these partitions or of all."""
        topics = None if topic_partitions is None else by_topic(partitions(topic_partitions))
        request = ListPartitionReassignmentsRequest(
            timeout_ms=self._settings.request_timeout_ms,
            topics=None
            if topics is None
            else [
                ListPartitionReassignmentsTopics(name=name, partition_indexes=indexes)
                for name, indexes in topics.items()
            ],
        )
        cluster = self._cluster

        async def ask() -> Answers[TopicPartition, PartitionReassignment]:
            answer = await cluster.send(request, node_id=await controller(cluster))
            if answer.error_code:
                raise refused(
                    answer.error_code, "to list moves", by=cluster.where, reason=answer.error_message
                )
            return Answers(
                {
                    TopicPartition(topic.name, one.partition_index): PartitionReassignment(
                        tuple(one.replicas), tuple(one.adding_replicas), tuple(one.removing_replicas)
                    )
                    for topic in answer.topics
                    for one in topic.partitions
                }
            )

        return await cluster.patiently(ask)

    createTopics = create_topics
    deleteTopics = delete_topics
    listTopics = list_topics
    describeTopics = describe_topics
    createPartitions = create_partitions
    listOffsets = list_offsets
    deleteRecords = delete_records
    electLeaders = elect_leaders
    alterPartitionReassignments = alter_partition_reassignments
    listPartitionReassignments = list_partition_reassignments


def _creatable(topic: NewTopic) -> CreatableTopic:
    name = arguments.text("NewTopic: name", topic.name, "a topic's name", may_be_empty=True)
    assignments = arguments.mapped(
        f"{name}: replicas_assignments",
        topic.replicas_assignments or {},
        "a mapping of partitions to brokers",
    )
    configs = arguments.mapped(f"{name}: configs", topic.configs, "a mapping of settings to texts")
    return CreatableTopic(
        name=name,
        num_partitions=-1 if assignments else _number(name, "num_partitions", topic.num_partitions),
        replication_factor=-1
        if assignments
        else _number(name, "replication_factor", topic.replication_factor, arguments.INT16_MAX),
        assignments=[
            CreatableReplicaAssignment(
                partition_index=_number(name, "partition", index),
                broker_ids=[_number(name, "broker", one) for one in _listed(brokers) or ()],
            )
            for index, brokers in assignments.items()
        ],
        configs=[
            CreatableTopicConfig(
                name=arguments.text(f"{name}: configs", key, "names of settings"),
                value=None
                if value is None
                else arguments.text(f"{name}: {key}", value, "text", may_be_empty=True),
            )
            for key, value in configs.items()
        ],
    )


def _number(topic: str, what: str, given: object, most: int = arguments.INT32_MAX) -> int:
    return arguments.whole(f"{topic}: {what}", given, "a whole number", most=most, least=-most)


def _created(one: CreatableTopicResult, where: str) -> CreatedTopic | RefusedError:
    if one.error_code:
        return refused(one.error_code, f"to create topic {one.name!r}", by=where, reason=one.error_message)
    topic_id = uuid.UUID(bytes=bytes(one.topic_id))
    return CreatedTopic(
        one.name,
        topic_id if topic_id.int else None,
        known(one.num_partitions),
        known(one.replication_factor),
        {each.name: each.value for each in one.configs or ()},
    )


def _wait(timeout_ms: int | None) -> int | None:
    return None if timeout_ms is None else arguments.wait_ms(timeout_ms)


def _count(topic: object, given: object) -> int:
    return arguments.whole(
        f"counts[{topic}]", given, "a number of partitions or a NewPartitions", most=arguments.INT32_MAX
    )


def _described(view: TopicView) -> TopicDescription:
    return TopicDescription(
        view.name,
        view.topic_id,
        view.is_internal,
        tuple(
            TopicPartitionInfo(
                one.partition, known(one.leader), known(one.leader_epoch), one.replicas, one.isr, one.offline
            )
            for one in view.partitions
        ),
    )


def _listed(some: Sequence[int] | None) -> list[int] | None:
    return None if some is None else arguments.listed("replicas", some, "a list of brokers, or None")


def _refusal(number: int, what: str, where: str, reason: str | None = None) -> RefusedError | None:
    return refused(number, what, by=where, reason=reason) if number else None
