"""A batch that is not right gets the code from us that Apache Kafka gives it.

Method: every kind of flaw, alone and with a checksum that no longer holds, sent as raw bytes to a real broker and
appended to our log under the same settings. Clients decide by the code whether to send again or to give up.
"""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import unpack

import pytest
from kafka.admin import KafkaAdminClient, NewTopic

from semel.core.records import batch
from semel.core.records.batch import read_header
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire import framing
from semel.core.wire.framing import RequestHeader
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from semel.errors import ErrorCode, Refuse
from semel.log.config import LogConfig
from semel.peers.kafka import KafkaHome
from semel.runtime.clock import RealClock
from support.log.log_kit import batch_of, disk, open_at

VERSION = 9
NOT_YET = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
LIMIT = 1000
DAY = 86_400_000
TOPICS = {
    "plain": ({"max.message.bytes": str(LIMIT)}, LogConfig(max_message_bytes=LIMIT)),
    "compacted": ({"cleanup.policy": "compact"}, LogConfig(cleanup_compact=True)),
    "bounded": (
        {"message.timestamp.before.max.ms": str(DAY // 2)},
        LogConfig(message_timestamp_before_max_ms=DAY // 2),
    ),
    "unpacked": (
        {"compression.type": "uncompressed", "max.message.bytes": str(LIMIT)},
        LogConfig(compression_type=0, max_message_bytes=LIMIT),
    ),
}


def with_header(**changes: int) -> bytearray:
    """A batch whose header lies, its checksum made good again."""
    data = batch_of(b"a", b"b", timestamp_ms=NOW)
    batch.write_header(data, 0, read_header(data)._replace(**changes))
    batch.set_crc(data, 0, len(data))
    return data


def flawed(data: bytearray) -> bytearray:
    """The same with a checksum that does not hold: it was damaged on the way."""
    header = read_header(data)
    batch.write_header(data, 0, header._replace(crc=header.crc ^ 1))
    return data


NOW = RealClock().now_ms()
CASES: list[tuple[str, str, Callable[[], bytearray]]] = [
    ("sound", "plain", lambda: batch_of(b"a", timestamp_ms=NOW)),
    ("a bad checksum", "plain", lambda: flawed(with_header())),
    ("old message format", "plain", lambda: with_header(magic=1)),
    ("a format yet to come", "plain", lambda: with_header(magic=3)),
    ("too few bytes for a header", "plain", lambda: batch_of(b"abc")[:40]),
    ("a cut-off batch", "plain", lambda: batch_of(b"abc")[:-1]),
    ("nothing", "plain", bytearray),
    ("two batches", "plain", lambda: batch_of(b"a") + batch_of(b"b")),
    ("a length below the smallest", "plain", lambda: with_header(batch_length=3)),
    ("a count that is too high", "plain", lambda: with_header(records_count=3)),
    ("offsets that skip", "plain", lambda: with_header(last_offset_delta=7)),
    ("no records", "plain", lambda: with_header(records_count=0, last_offset_delta=-1)),
    ("no records but an offset", "plain", lambda: with_header(records_count=0, last_offset_delta=0)),
    ("fewer records than bytes", "plain", lambda: with_header(records_count=1, last_offset_delta=0)),
    ("more records than bytes", "plain", lambda: with_header(records_count=3, last_offset_delta=2)),
    ("an offset of its own", "plain", lambda: with_header(base_offset=5)),
    ("a negative sequence", "plain", lambda: with_header(producer_id=1, producer_epoch=0)),
    ("a control record", "plain", lambda: with_header(attributes=0x20)),
    ("too many bytes", "plain", lambda: batch_of(b"x" * 2000, timestamp_ms=NOW)),
    ("tomorrow", "plain", lambda: batch_of(b"x", timestamp_ms=NOW + 2 * DAY)),
    ("a damaged count", "plain", lambda: flawed(with_header(records_count=3))),
    ("a damaged offset delta", "plain", lambda: flawed(with_header(last_offset_delta=7))),
    ("a damaged flag", "plain", lambda: flawed(with_header(attributes=0x20))),
    ("a damaged timestamp type", "plain", lambda: flawed(with_header(attributes=0x08))),
    ("a damaged sequence", "plain", lambda: flawed(with_header(producer_id=1, producer_epoch=0))),
    ("a damaged offset", "plain", lambda: flawed(with_header(base_offset=5))),
    ("too many bytes, damaged", "plain", lambda: flawed(batch_of(b"x" * 2000, timestamp_ms=NOW))),
    ("an offset of its own and too many bytes", "plain", lambda: moved(batch_of(b"x" * 2000))),
    ("no key", "compacted", lambda: build_batch([RecordInput(None, b"v", NOW)])),
    ("no key, and the wrong day", "compacted", lambda: build_batch([RecordInput(None, b"v", NOW + 2 * DAY)])),
    ("yesterday", "bounded", lambda: batch_of(b"x", timestamp_ms=NOW - DAY)),
    ("no time", "bounded", lambda: batch_of(b"x", timestamp_ms=-1)),
    ("too large once unpacked", "unpacked", lambda: batch_of(b"a" * 5000, timestamp_ms=NOW, compression=4)),
]


# Where we say more than Kafka does: it answers the first two with "unknown error" and a stack trace in its log, and
# takes the third, whose records then show times nobody gave them.
STRICTER: list[tuple[str, Callable[[], bytearray], ErrorCode, ErrorCode]] = [
    (
        "an unknown codec",
        lambda: with_header(attributes=6),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ),
    (
        "a codec the records are not in",
        lambda: with_header(attributes=1),
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_RECORD,
    ),
    (
        "the broker's timestamps",
        lambda: with_header(attributes=0x08),
        ErrorCode.NONE,
        ErrorCode.INVALID_TIMESTAMP,
    ),
]


def moved(data: bytearray) -> bytearray:
    batch.set_base_offset(data, 0, 5)
    return data


class Wire:
    """One connection that sends Produce requests and reads the code."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def produce(self, topic: str, data: bytearray) -> tuple[ErrorCode, str | None]:
        request = ProduceRequest(
            acks=-1,
            timeout_ms=30_000,
            topic_data=[
                TopicProduceData(
                    name=topic, partition_data=[PartitionProduceData(index=0, records=bytes(data))]
                )
            ],
        )
        self._socket.sendall(framing.request_frame(RequestHeader(0, VERSION, 1, "raw"), request))
        frame = self._receive(unpack(">i", self._receive(4))[0])
        response = ProduceResponse.decode(frame, VERSION, framing.read_response_header(frame, 1)[1])
        answer = response.responses[0].partition_responses[0]
        return ErrorCode(answer.error_code), answer.error_message

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("Kafka closed the connection")
            data += piece
        return data

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(scope="module")
def kafka(kafka_home: KafkaHome, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    directory: Path = tmp_path_factory.mktemp("kafka")
    with kafka_home.broker(directory) as broker:
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        admin.create_topics(
            [NewTopic(name, 1, 1, topic_configs=settings) for name, (settings, _config) in TOPICS.items()]
        )
        admin.close()
        wire = Wire(broker.port)
        for topic in TOPICS:  # A topic is there a moment before its leader is.
            while wire.produce(topic, batch_of(b"first", timestamp_ms=NOW))[0] in NOT_YET:
                continue
        yield wire
        wire.close()


def ours(topic: str, data: bytearray) -> tuple[ErrorCode, str]:
    answer = open_at(disk(), TOPICS[topic][1]).append(data, leader_epoch=0, now_ms=NOW)
    return (answer.code, answer.reason) if isinstance(answer, Refuse) else (ErrorCode.NONE, str(answer))


@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("what", "topic", "make"), CASES, ids=[what for what, *_ in CASES])
def test_a_flaw_has_kafkas_code(what: str, topic: str, make: Callable[[], bytearray], kafka: Wire) -> None:
    expected, message = kafka.produce(topic, make())
    code, reason = ours(topic, make())
    assert code is expected, f"{what}: Kafka says {expected.name} ({message}), we say {code.name} ({reason})"


@pytest.mark.java
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("what", "make", "kafkas", "stricter"), STRICTER, ids=[what for what, *_ in STRICTER]
)
def test_where_we_say_more(
    what: str, make: Callable[[], bytearray], kafkas: ErrorCode, stricter: ErrorCode, kafka: Wire
) -> None:
    assert (kafka.produce("plain", make())[0], ours("plain", make())[0]) == (kafkas, stricter), what
