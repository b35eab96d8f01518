"""How a row of the table is written: a title, versions, a request for a side, and what to remember of the answer."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from compat.differential.exchange import Side
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.message import Message
from semel.core.wire.messages import create_topics, fetch, list_offsets, metadata, produce

Build = Callable[[Side, int], Message]
Learn = Callable[[Side, Any], None]
T0 = int(time.time()) * 1000 - 60_000  # When the first record happened: too late for retention.


@dataclass(frozen=True)
class Ask:
    """One request, in each of these versions, to both brokers."""

    title: str
    versions: Sequence[int]
    build: Build
    learn: Learn | None = None
    changes: bool = False
    """Whether it changes anything: then it is sent once. Else it may be sent to Kafka again, which answers a change
    before every part of it knows."""
    begins: bool = False
    """Whether Kafka begins something with it whose end it does not wait for: it may be sent again until that is done."""
    answered: bool = True


@dataclass(frozen=True)
class AskBytes:
    """A frame no message stands for."""

    title: str
    frame: bytes


def create(
    name: str,
    partitions: int = 1,
    replicas: int = 1,
    *,
    configs: Iterable[tuple[str, str | None]] = (),
    assignments: Iterable[tuple[int, Sequence[int]]] = (),
) -> create_topics.CreatableTopic:
    return create_topics.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[create_topics.CreatableTopicConfig(name=key, value=value) for key, value in configs],
        assignments=[
            create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in assignments
        ],
    )


def learn_created(side: Side, answer: create_topics.CreateTopicsResponse) -> None:
    for topic in answer.topics:
        side.topic_ids[topic.name] = topic.topic_id


def records(
    count: int = 1,
    *,
    at: int = T0,
    size: int = 10,
    key: bytes | None = b"key",
    **how: Any,
) -> bytearray:
    """A batch whose records are a millisecond apart."""
    return build_batch([RecordInput(key, b"v" * size, at + index) for index in range(count)], **how)


def produced(
    data: bytes | bytearray | None,
    topic: str = "orders",
    partition: int = 0,
    *,
    acks: int = -1,
    transactional_id: str | None = None,
) -> Build:
    """A produce request of one batch."""

    def build(side: Side, version: int) -> Message:
        return produce.ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    name=topic,
                    topic_id=topic_id(side, topic),
                    partition_data=[produce.PartitionProduceData(index=partition, records=data)],
                )
            ],
        )

    return build


def topic_id(side: Side, topic: str) -> bytes:
    """The topic's id there; for one nobody created an id nobody has."""
    return side.topic_ids.get(topic, b"\x01" * 16)


def fetched(
    *wanted: tuple[str, int, int],
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    session: str | None = None,
    forget: Sequence[tuple[str, int]] = (),
    **how: Any,
) -> Build:
    """A fetch of (topic, partition, offset); within a session under the name it was remembered by."""

    def build(side: Side, version: int) -> Message:
        topics: dict[str, fetch.FetchTopic] = {}
        for name, partition, offset in wanted:
            topic = topics.setdefault(name, fetch.FetchTopic(topic=name, topic_id=topic_id(side, name)))
            topic.partitions.append(
                fetch.FetchPartition(
                    partition=partition,
                    fetch_offset=offset,
                    partition_max_bytes=partition_max_bytes,
                    current_leader_epoch=leader_epoch if version >= 9 else -1,
                    last_fetched_epoch=last_epoch if version >= 12 else -1,
                )
            )
        return fetch.FetchRequest(
            max_bytes=max_bytes,
            topics=list(topics.values()),
            session_id=side.numbers[session] if session else 0,
            forgotten_topics_data=[
                fetch.ForgottenTopic(topic=name, topic_id=topic_id(side, name), partitions=[partition])
                for name, partition in forget
            ],
            **how,
        )

    return build


def learn_session(name: str) -> Learn:
    def learn(side: Side, answer: fetch.FetchResponse) -> None:
        side.numbers[name] = answer.session_id

    return learn


def offsets(
    timestamp: int, topic: str = "orders", partition: int = 0, *, epoch: int = -1, committed: bool = False
) -> Build:
    def build(side: Side, version: int) -> Message:
        return list_offsets.ListOffsetsRequest(
            replica_id=-1,
            isolation_level=1 if committed and version >= 2 else 0,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=topic,
                    partitions=[
                        list_offsets.ListOffsetsPartition(
                            partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch
                        )
                    ],
                )
            ],
        )

    return build


def described(*names: str, **how: Any) -> Build:
    """Metadata of these topics; of all if none is named."""

    def build(side: Side, version: int) -> Message:
        topics = [metadata.MetadataRequestTopic(name=name) for name in names]
        return metadata.MetadataRequest(topics=topics or (None if version else []), **how)

    return build


def always(message: Message) -> Build:
    """The same request to both sides, in every version."""
    return lambda _side, _version: message
