"""The wire codec beside kio and kafka-python: microseconds to write and to read one small message.

Role.   Every message a busy broker or client handles per request, in the newest version that all three have.
Flow.   `python -m semel.bench codec`. Each message is written once by ours and read by the peers, so that all hold the same.
Rules.  * Writing starts from a message object and ends with its bytes; reading is the reverse. No header, no frame.
        * kio reads with a compiled extension and writes in Python; kafka-python and ours are Python both ways.
"""

import importlib
import io
from collections.abc import Callable
from typing import Final, NamedTuple

from semel.bench.measure import Comparison, Subject, peer
from semel.core.wire import registry
from semel.core.wire.api_versions import Features, advertised, api_versions_response
from semel.core.wire.message import Message, Request
from semel.core.wire.messages import fetch, heartbeat, metadata, offset_commit, produce

_RECORDS: Final = bytes(61 + 100)  # One record of 100 bytes, about.
_TOPIC: Final = "orders"
_KAFKA_PYTHON: Final = {
    "Produce": "producer",
    "Fetch": "consumer",
    "Heartbeat": "consumer",
    "OffsetCommit": "consumer",
    "Metadata": "metadata",
    "ApiVersions": "metadata",
}


class Sample(NamedTuple):
    """A message of the kind that is sent all day, and the version it is sent in."""

    title: str
    message: Message
    version: int


def samples() -> list[Sample]:
    """The messages measured."""
    produced = produce.PartitionProduceResponse(index=3, base_offset=1_000_000, log_start_offset=0)
    fetched = fetch.PartitionData(
        partition_index=3, high_watermark=900, last_stable_offset=900, log_start_offset=0, records=_RECORDS
    )
    wanted = fetch.FetchPartition(partition=3, fetch_offset=899, partition_max_bytes=1 << 20)
    committed = offset_commit.OffsetCommitRequestPartition(partition_index=3, committed_offset=900)
    api_versions, _ = api_versions_response(
        3, advertised(), Features({"metadata.version": (7, 27)}, {"group.version": 1}, 9)
    )
    return [
        Sample(
            "Produce request, 1 partition",
            produce.ProduceRequest(
                acks=-1,
                timeout_ms=30_000,
                topic_data=[
                    produce.TopicProduceData(
                        name=_TOPIC, partition_data=[produce.PartitionProduceData(index=3, records=_RECORDS)]
                    )
                ],
            ),
            9,
        ),
        Sample(
            "Produce response, 1 partition",
            produce.ProduceResponse(
                responses=[produce.TopicProduceResponse(name=_TOPIC, partition_responses=[produced])]
            ),
            9,
        ),
        Sample(
            "Fetch request, 1 partition",
            fetch.FetchRequest(
                max_wait_ms=500,
                min_bytes=1,
                isolation_level=1,
                session_epoch=0,
                topics=[fetch.FetchTopic(topic=_TOPIC, partitions=[wanted])],
            ),
            12,
        ),
        Sample(
            "Fetch response, 1 partition",
            fetch.FetchResponse(
                session_id=7, responses=[fetch.FetchableTopicResponse(topic=_TOPIC, partitions=[fetched])]
            ),
            12,
        ),
        Sample("Metadata response, 10 topics", _metadata(), 12),
        Sample("ApiVersions response", api_versions, 3),
        Sample(
            "Heartbeat request",
            heartbeat.HeartbeatRequest(
                group_id="group-0323", generation_id=4, member_id=f"consumer-1-{'0' * 36}"
            ),
            4,
        ),
        Sample("Heartbeat response", heartbeat.HeartbeatResponse(), 4),
        Sample(
            "OffsetCommit request, 1 partition",
            offset_commit.OffsetCommitRequest(
                group_id="group-0323",
                generation_id_or_member_epoch=4,
                member_id=f"consumer-1-{'0' * 36}",
                topics=[offset_commit.OffsetCommitRequestTopic(name=_TOPIC, partitions=[committed])],
            ),
            8,
        ),
    ]


def comparisons() -> list[Comparison]:
    """Writing and reading of each sample."""
    return [made for sample in samples() for made in (_writing(sample), _reading(sample))]


def _metadata() -> Message:
    brokers = [
        metadata.MetadataResponseBroker(node_id=node, host=f"broker-{node}", port=9092) for node in (1, 2, 3)
    ]
    topics = [
        metadata.MetadataResponseTopic(
            name=f"topic-{number}",
            topic_id=bytes([number]) * 16,
            partitions=[
                metadata.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=1,
                    leader_epoch=5,
                    replica_nodes=[1, 2, 3],
                    isr_nodes=[1, 2, 3],
                )
                for index in range(3)
            ],
        )
        for number in range(1, 11)
    ]
    return metadata.MetadataResponse(brokers=brokers, cluster_id="cluster", controller_id=1, topics=topics)


def _writing(sample: Sample) -> Comparison:
    _, message, version = sample
    raw = message.encode(version)
    return Comparison(
        title=f"write {sample.title}",
        unit="messages",
        units_per_run=1,
        subjects=[
            Subject("Semel", lambda: message.encode(version)),
            peer("kio", lambda: _kio_writer(sample, raw)),
            peer("kafka-python", lambda: _kafka_python_writer(sample, raw)),
        ],
        target="at least 5 times kio and kafka-python",
        target_ratio=5,
    )


def _reading(sample: Sample) -> Comparison:
    _, message, version = sample
    raw, cls = message.encode(version), type(message)
    return Comparison(
        title=f"read {sample.title}",
        unit="messages",
        units_per_run=1,
        subjects=[
            Subject("Semel", lambda: cls.decode(raw, version)),
            peer("kio", lambda: _kio_reader(sample, raw)),
            peer("kafka-python", lambda: _kafka_python_reader(sample, raw)),
        ],
        target="1-3 µs for a small message",
    )


def _kio_class(sample: Sample) -> type:
    cls = type(sample.message)
    kind = "request" if issubclass(cls, Request) else "response"
    api = registry.api(cls.schema.api_key).key.name.lower()
    found: type = getattr(importlib.import_module(f"kio.schema.{api}.v{sample.version}.{kind}"), cls.__name__)
    return found


def _kio_reader(sample: Sample, raw: bytes) -> Callable[[], object]:
    from kio.serial import entity_reader

    read = entity_reader(_kio_class(sample))
    return lambda: read(raw, 0)


def _kio_writer(sample: Sample, raw: bytes) -> Callable[[], object]:
    from kio.serial import entity_reader, entity_writer

    cls = _kio_class(sample)
    entity, _ = entity_reader(cls)(raw, 0)
    write = entity_writer(cls)

    def run() -> bytes:
        buffer = io.BytesIO()
        write(buffer, entity)
        return buffer.getvalue()

    return _checked(run, raw)


def _kafka_python_reader(sample: Sample, raw: bytes) -> Callable[[], object]:
    cls, version = _kafka_python_class(sample), sample.version
    return lambda: cls.decode(raw, version=version)  # type: ignore[attr-defined]  # untyped peer


def _kafka_python_writer(sample: Sample, raw: bytes) -> Callable[[], object]:
    cls, version = _kafka_python_class(sample), sample.version
    entity = cls.decode(raw, version=version)  # type: ignore[attr-defined]  # untyped peer
    return _checked(entity.encode, raw)  # It keeps the version it was read in.


def _kafka_python_class(sample: Sample) -> type:
    api = registry.api(sample.message.schema.api_key)
    module = importlib.import_module(f"kafka.protocol.{_KAFKA_PYTHON[api.name]}")
    found: type = getattr(module, type(sample.message).__name__)
    return found


def _checked(run: Callable[[], object], raw: bytes) -> Callable[[], object]:
    """A peer that writes other bytes does other work; its figure would mean nothing."""
    if bytes(run()) != raw:  # type: ignore[call-overload]  # bytes or a bytearray, whichever the peer returns
        raise ValueError("the peer writes other bytes for the same message")
    return run
