"""The other half of the table: records in and out, offsets, metadata, ids of producers, versions."""

import struct
from typing import Any, Final

from compat.differential.asking import (
    T0,
    Ask,
    AskBytes,
    always,
    described,
    fetched,
    learn_session,
    offsets,
    produced,
    records,
    topic_id,
)
from compat.differential.exchange import Side
from semel.core.records import batch
from semel.core.records.batch import CRC_POSITION
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.message import Message
from semel.core.wire.messages import api_versions, fetch, init_producer_id, metadata, produce

_PRODUCE: Final = (3, 5, 7, 8, 9, 10, 11, 12, 13)
_FETCH: Final = (4, 5, 7, 9, 10, 11, 12, 13, 15, 16, 17, 18)


def _put(
    title: str,
    data: bytes | bytearray | None,
    *where: Any,
    versions: tuple[int, ...] = (3, 8, 13),
    **how: Any,
) -> Ask:
    return Ask(f"produce: {title}", versions, produced(data, *where, **how), changes=True)


def _mine(name: str, sequence: int, *, epoch: int = 0, count: int = 2, **how: Any) -> Any:
    """A batch of the producer remembered under `name`."""

    def build(side: Side, version: int) -> Message:
        data = records(
            count, producer_id=side.numbers[name], producer_epoch=epoch, base_sequence=sequence, **how
        )
        return produced(data, "orders", 1)(side, version)

    return build


def _idempotent(title: str, build: Any, versions: tuple[int, ...] = (8, 13)) -> Ask:
    return Ask(f"produce: idempotent, {title}", versions, build, changes=True)


def _learn_producer(name: str) -> Any:
    def learn(side: Side, answer: init_producer_id.InitProducerIdResponse) -> None:
        side.numbers[name] = answer.producer_id

    return learn


def _damaged(change: Any) -> bytearray:
    data = records(2)
    change(data)
    return data


def _wrong_crc(data: bytearray) -> None:
    data[CRC_POSITION] ^= 0xFF


def _renumbered(**fields: int) -> bytearray:
    """A batch whose header says something else, under a checksum that fits."""
    data = records(2)
    header = batch.read_header(data)._replace(**fields)
    batch.write_header(data, 0, header)
    batch.set_crc(data, 0, len(data))
    return data


def _old_magic(data: bytearray) -> None:
    data[16] = 1


NOW: Final = 4_000_000_000_000  # Far ahead of any clock.

PRODUCING: Final = (
    _put("a batch in every version", records(3), versions=_PRODUCE),
    _put("acks=1", records(1), acks=1),
    _put("every codec: gzip", records(5, compression=1)),
    _put("every codec: snappy", records(5, compression=2)),
    _put("every codec: lz4", records(5, compression=3)),
    _put("every codec: zstd", records(5, compression=4), versions=(3, 7, 13)),
    _put("stamped by the broker", records(2), "stamped"),
    _put("a topic stored in zstd", records(2), "zstd"),
    _put("a topic nobody made", records(1), "nowhere"),
    _put("a partition nobody made", records(1), "orders", 9),
    _put("a negative partition", records(1), "orders", -1),
    _put("an impossible name", records(1), "a b", versions=(3, 8)),
    _put("acks=2", records(1), acks=2),
    _put("acks=-2", records(1), acks=-2),
    _put("empty records", b""),
    _put("half a header", bytes(records(1))[:30]),
    _put("half a batch", bytes(records(3))[:-5]),
    _put("a wrong checksum", _damaged(_wrong_crc)),
    _put("magic 1", _damaged(_old_magic)),
    _put("two batches", records(1) + records(1)),
    _put("a count that is too high", _renumbered(records_count=3)),
    _put("a count that is too low", _renumbered(records_count=1)),
    _put("a last offset that does not fit", _renumbered(last_offset_delta=5)),
    _put("a codec nobody knows", _renumbered(attributes=7)),
    _put("a control batch", _renumbered(attributes=0x20)),
    _put(
        "a marker's clothes", _renumbered(attributes=0x30, producer_id=5, producer_epoch=0, base_sequence=0)
    ),
    _put("a base offset of its own", _renumbered(base_offset=77)),
    _put("a leader epoch of its own", _renumbered(partition_leader_epoch=44)),
    _put("stamped by the client as by a broker", _renumbered(attributes=0x08), "odd"),
    _put("stamped by the client and the broker", _renumbered(attributes=0x08), "stamped"),
    _put("too large for the topic", records(1, size=600), "small"),
    _put("just small enough", records(1, size=300), "small"),
    _put("without a key to a compacted topic", records(1, key=None), "compacted"),
    _put("with a key to a compacted topic", records(1), "compacted"),
    _put("from the future", records(1, at=NOW)),
    _put("from 1970", records(1, at=5)),
    _put("without a time", records(1, at=-1)),
    _put(
        "transactional, without an id",
        records(1, transactional=True, producer_id=4, producer_epoch=0, base_sequence=0),
    ),
    Ask(
        "init producer id",
        (0, 1, 2, 3, 4, 5),
        always(init_producer_id.InitProducerIdRequest(transactional_id=None)),
        _learn_producer("anna"),
    ),
    Ask(
        "init producer id: another",
        (5,),
        always(init_producer_id.InitProducerIdRequest(transactional_id=None)),
        _learn_producer("bert"),
    ),
    Ask(
        "init producer id: an empty transactional id",
        (0, 5),
        always(init_producer_id.InitProducerIdRequest(transactional_id="")),
        changes=True,
    ),
    Ask(
        "init producer id: an id without an epoch",
        (3, 5),
        always(init_producer_id.InitProducerIdRequest(transactional_id=None, producer_id=7)),
        changes=True,
    ),
    Ask(
        "init producer id: an epoch without an id",
        (3, 5),
        always(init_producer_id.InitProducerIdRequest(transactional_id=None, producer_epoch=7)),
        changes=True,
    ),
    Ask(
        "init producer id: an id of its own",
        (3, 5),
        always(
            init_producer_id.InitProducerIdRequest(transactional_id=None, producer_id=7, producer_epoch=1)
        ),
        changes=True,
    ),
    _idempotent("the first", _mine("anna", 0), (8,)),
    _idempotent("the first again", _mine("anna", 0)),
    _idempotent("the second", _mine("anna", 2), (8,)),
    _idempotent("the first two again", _mine("anna", 0)),
    _idempotent("a gap", _mine("anna", 9)),
    _idempotent("an overlap", _mine("anna", 1)),
    _idempotent("a longer copy", _mine("anna", 2, count=3)),
    _idempotent("the next", _mine("anna", 4), (8,)),
    _idempotent("a new epoch, not from 0", _mine("anna", 5, epoch=1)),
    _idempotent("a new epoch", _mine("anna", 0, epoch=1), (8,)),
    _idempotent("an old epoch", _mine("anna", 6, epoch=0)),
    _idempotent("a stranger at 5", _mine("bert", 5), (11,)),
    _idempotent("a negative sequence", _mine("bert", -1)),
    _idempotent("no epoch", _mine("bert", 7, epoch=-1)),
)
BY_NOBODY: Final = Ask(
    "produce: acks=0 to a topic nobody made",
    (8,),
    produced(records(1), "nowhere", acks=0),
    changes=True,
    answered=False,
)


def _get(title: str, build: Any, versions: tuple[int, ...] = (4, 11, 13, 18)) -> Ask:
    return Ask(f"fetch: {title}", versions, build)


FETCHING: Final = (
    _get("from the start", fetched(("orders", 0, 0)), _FETCH),
    _get("committed", fetched(("orders", 0, 0), isolation_level=1), _FETCH),
    _get("in the middle of a batch", fetched(("orders", 0, 1))),
    _get("at the end", fetched(("orders", 1, 8), max_wait_ms=10, min_bytes=1)),
    _get("beyond the end", fetched(("orders", 1, 5000), max_wait_ms=10, min_bytes=1)),
    _get("a negative offset", fetched(("orders", 0, -1))),
    _get("two partitions", fetched(("orders", 0, 0), ("orders", 1, 0))),
    _get("two topics", fetched(("orders", 0, 0), ("stamped", 0, 0), ("compacted", 0, 0))),
    _get("what the broker compressed", fetched(("zstd", 0, 0)), (10, 18)),
    _get("what the broker compressed, too old to read it", fetched(("zstd", 0, 0)), (4, 9)),
    _get("one byte", fetched(("orders", 0, 0), partition_max_bytes=1)),
    _get("no bytes", fetched(("orders", 0, 0), partition_max_bytes=0, max_bytes=0)),
    _get("one byte of two", fetched(("orders", 0, 0), ("orders", 1, 0), max_bytes=1)),
    _get("cut in a batch", fetched(("orders", 0, 0), partition_max_bytes=150)),
    _get("an empty partition", fetched(("quiet", 0, 0), max_wait_ms=10, min_bytes=1)),
    _get("a partition nobody made", fetched(("orders", 9, 0))),
    _get("a topic nobody made", fetched(("nowhere", 0, 0))),
    _get("some there, some not", fetched(("nowhere", 0, 0), ("orders", 0, 0), ("orders", 9, 0))),
    _get("no topics", fetched()),
    _get("the leader as known", fetched(("orders", 0, 0), leader_epoch=0), (9, 18)),
    _get("the leader to come", fetched(("orders", 0, 0), leader_epoch=5), (9, 18)),
    _get("the epoch it read", fetched(("orders", 0, 3), last_epoch=0), (12, 18)),
    _get("an epoch nobody had", fetched(("orders", 0, 3), last_epoch=5), (12, 18)),
    Ask(
        "fetch: a session is begun",
        (7, 12, 13, 18),
        fetched(("orders", 1, 0), ("quiet", 0, 0), session_epoch=0),
        changes=True,
    ),
    Ask(
        "fetch: a session by id",
        (18,),
        fetched(("orders", 1, 0), ("quiet", 0, 0), ("quiet", 1, 0), session_epoch=0),
        learn_session("id"),
        changes=True,
    ),
    Ask(
        "fetch: a session by name",
        (12,),
        fetched(("orders", 1, 0), ("quiet", 0, 0), session_epoch=0),
        learn_session("name"),
        changes=True,
    ),
    Ask("fetch: a session goes on", (18,), fetched(session="id", session_epoch=1), changes=True),
    Ask(
        "fetch: a session moves",
        (18,),
        fetched(("orders", 1, 8), session="id", session_epoch=2, max_wait_ms=10, min_bytes=1),
        changes=True,
    ),
    Ask(
        "fetch: a session adds and forgets",
        (18,),
        fetched(("orders", 0, 0), ("orders", 9, 0), session="id", session_epoch=3, forget=[("orders", 1)]),
        changes=True,
    ),
    Ask("fetch: a session's old epoch", (18,), fetched(session="id", session_epoch=1), changes=True),
    Ask("fetch: a session's later epoch", (18,), fetched(session="id", session_epoch=9), changes=True),
    Ask(
        "fetch: a session by name, asked by id", (13,), fetched(session="name", session_epoch=1), changes=True
    ),
    Ask("fetch: a session by id, asked by name", (12,), fetched(session="id", session_epoch=4), changes=True),
    Ask("fetch: a session by name goes on", (12,), fetched(session="name", session_epoch=2), changes=True),
    Ask(
        "fetch: a session nobody began",
        (7, 12, 18),
        always(fetch.FetchRequest(session_id=77, session_epoch=3)),
        changes=True,
    ),
    Ask("fetch: a session ends", (18,), fetched(session="id", session_epoch=-1), changes=True),
    Ask("fetch: a session that ended", (18,), fetched(session="id", session_epoch=5), changes=True),
)


def _at(title: str, build: Any, versions: tuple[int, ...] = (1, 3, 4, 7, 11)) -> Ask:
    return Ask(f"list offsets: {title}", versions, build)


LISTING: Final = (
    _at("latest", offsets(-1)),
    _at("latest, committed", offsets(-1, committed=True)),
    _at("earliest", offsets(-2)),
    _at("of the largest timestamp", offsets(-3), (6, 7, 11)),
    _at("of the largest timestamp, stamped", offsets(-3, "compacted"), (7, 11)),
    _at("of the largest timestamp, empty", offsets(-3, "quiet"), (7, 11)),
    _at("earliest local", offsets(-4), (7, 8, 11)),
    _at("latest tiered", offsets(-5), (8, 9, 11)),
    _at("earliest to upload", offsets(-6), (10, 11)),
    _at("a name nobody has", offsets(-7), (1, 11)),
    _at("by time", offsets(T0)),
    _at("by time, between", offsets(T0 + 2)),
    _at("by time, before all", offsets(0)),
    _at("by time, after all", offsets(NOW)),
    _at("of an empty log, latest", offsets(-1, "quiet")),
    _at("of an empty log, earliest", offsets(-2, "quiet")),
    _at("of an empty log, by time", offsets(T0, "quiet")),
    _at("the leader as known", offsets(-1, epoch=0), (4, 11)),
    _at("the leader to come", offsets(-1, epoch=3), (4, 11)),
    _at("a partition nobody made", offsets(-1, partition=9)),
    _at("a topic nobody made", offsets(-1, "nowhere")),
)


def _named(**how: Any) -> Any:
    def build(side: Side, _version: int) -> Message:
        asked = [
            metadata.MetadataRequestTopic(name=None, topic_id=topic_id(side, name))
            for name in ("orders", "nowhere")
        ]
        return metadata.MetadataRequest(topics=asked, allow_auto_topic_creation=False, **how)

    return build


ASKING: Final = (
    Ask("metadata: some", (0, 1, 5, 9, 13), described("orders", "quiet", allow_auto_topic_creation=True)),
    Ask("metadata: the same twice", (1, 13), described("orders", "orders")),
    Ask("metadata: none", (1, 12, 13), always(metadata.MetadataRequest(topics=[]))),
    Ask(
        "metadata: what is not there",
        (4, 9, 12, 13),
        described("nowhere", "a b", "orders", allow_auto_topic_creation=False),
    ),
    Ask("metadata: an empty name", (4, 12), described("", allow_auto_topic_creation=False)),
    Ask(
        "metadata: internal topics",
        (4, 12),
        described("__consumer_offsets", "__transaction_state", allow_auto_topic_creation=False),
    ),
    Ask("metadata: by id", (12, 13), _named()),
    Ask(
        "metadata: operations on topics",
        (8, 12),
        described(
            "orders", "nowhere", include_topic_authorized_operations=True, allow_auto_topic_creation=False
        ),
    ),
    Ask(
        "metadata: operations on the cluster",
        (8, 10),
        described("orders", include_cluster_authorized_operations=True),
    ),
    Ask(
        "api versions",
        (0, 1, 2, 3, 4),
        always(
            api_versions.ApiVersionsRequest(
                client_software_name="differential", client_software_version="1.0"
            )
        ),
    ),
    Ask("api versions: software without a name", (3, 4), always(api_versions.ApiVersionsRequest())),
    Ask(
        "api versions: an impossible name",
        (3, 4),
        always(api_versions.ApiVersionsRequest(client_software_name="a b", client_software_version="1")),
    ),
)


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _header(key: int, version: int, correlation_id: int = 5) -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, -1)


MALFORMED: Final = (
    AskBytes("frame: ApiVersions of a version to come", _frame(_header(18, 99))),
    AskBytes("frame: Metadata of a version to come", _frame(_header(3, 99))),
    AskBytes("frame: Produce 2", _frame(_header(0, 2))),
    AskBytes("frame: Fetch 3", _frame(_header(1, 3))),
    AskBytes("frame: a negative version", _frame(_header(3, -1))),
    AskBytes("frame: an API nobody knows", _frame(_header(12345, 0))),
    AskBytes("frame: an empty request", _frame(b"")),
    AskBytes("frame: half a header", _frame(_header(3, 1)[:6])),
    AskBytes("frame: Metadata without a body", _frame(_header(3, 1))),
    AskBytes("frame: CreateTopics with a cut body", _frame(_header(19, 2) + b"\x00\x00\x00\x02\x00")),
    AskBytes("frame: a negative length", struct.pack(">i", -5)),
    AskBytes("frame: a length beyond socket.request.max.bytes", struct.pack(">i", 200_000_000) + bytes(64)),
)

MANY: Final = (
    Ask(
        "produce: two topics, some good, some not",
        (8, 12),
        lambda _side, _version: produce.ProduceRequest(
            acks=-1,
            timeout_ms=10_000,
            topic_data=[
                produce.TopicProduceData(
                    name=name,
                    partition_data=[
                        produce.PartitionProduceData(index=index, records=bytes(data))
                        for index, data in partitions
                    ],
                )
                for name, partitions in (
                    ("orders", [(0, records(1)), (1, _damaged(_wrong_crc)), (8, records(1))]),
                    ("nowhere", [(0, records(1))]),
                    ("stamped", [(0, build_batch([RecordInput(b"k", b"v", T0)]))]),
                )
            ],
        ),
        changes=True,
    ),
)
