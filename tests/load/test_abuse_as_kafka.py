"""Requests that are much work get the answer Apache Kafka gives, whatever way they take through the broker.

Method: the same frames to both brokers. Codes, offsets and rows must be equal; Kafka names every refused record, Semel the first ten.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from semel.bench.abuse_requests import (
    bomb,
    empty_members_frame,
    fetch_frame,
    large_batch,
    metadata_frame,
    now_ms,
    produce_frame,
    time_search_frame,
)
from semel.bench.broker_load import FETCH_VERSION, PRODUCE_VERSION, Wire
from semel.core.records.codecs import Compression
from semel.core.records.validation import RECORD_ERRORS_MAX
from semel.core.wire import framing
from semel.core.wire.message import Response
from semel.core.wire.registry import ApiKey, api
from semel.errors import ErrorCode
from semel.peers.kafka import KafkaBroker
from semel.peers.processes import SemelProcess

pytestmark = pytest.mark.java
DAY_MS = 86_400_000
ROWS = 3_000


def answer(wire: Wire, key: ApiKey, data: bytes, version: int) -> Any:
    """The decoded answer to a frame."""
    wire.socket.sendall(data)
    received = wire.receive()
    _correlation_id, position = framing.read_response_header(received, api(key).response_header(version))
    decoded: Response = api(key).response.decode(received, version, position)
    return decoded


@pytest.fixture
def wires(broker: SemelProcess, kafka_broker: KafkaBroker) -> Iterator[tuple[Wire, Wire]]:
    with Wire(broker.bootstrap) as ours, Wire(kafka_broker.bootstrap) as theirs:
        yield ours, theirs


def both(wires: tuple[Wire, Wire], key: ApiKey, data: bytes, version: int) -> tuple[Any, Any]:
    return answer(wires[0], key, data, version), answer(wires[1], key, data, version)


def test_bombs_are_taken_and_found_again_by_their_time(wires: tuple[Wire, Wire]) -> None:
    for wire in wires:
        wire.create_topic("bombs", 3)
    data = produce_frame("bombs", [bomb(Compression.ZSTD), bomb(Compression.GZIP), bomb(Compression.LZ4)])
    said = [
        [(one.error_code, one.base_offset) for one in found.responses[0].partition_responses]
        for found in both(wires, ApiKey.PRODUCE, data, PRODUCE_VERSION)
    ]
    assert said[0] == said[1] == [(0, 0)] * 3


def test_records_too_far_ahead(wires: tuple[Wire, Wire]) -> None:
    for wire in wires:
        wire.create_topic("ahead")
    data = produce_frame("ahead", [large_batch(now_ms() + 10 * DAY_MS)])
    ours, theirs = (
        found.responses[0].partition_responses[0]
        for found in both(wires, ApiKey.PRODUCE, data, PRODUCE_VERSION)
    )
    assert ours.error_code == theirs.error_code == ErrorCode.INVALID_TIMESTAMP
    indexes = [[one.batch_index for one in found.record_errors] for found in (ours, theirs)]
    assert indexes[0] == indexes[1][:RECORD_ERRORS_MAX]


def test_a_stream_of_empty_members(wires: tuple[Wire, Wire]) -> None:
    for wire in wires:
        wire.create_topic("members")
    data = empty_members_frame("members")
    ours, theirs = (
        found.responses[0].partition_responses[0].error_code
        for found in both(wires, ApiKey.PRODUCE, data, PRODUCE_VERSION)
    )
    assert ours == ErrorCode.NONE
    assert theirs in (ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR), (
        "Kafka 4.3.1 fails over so many members"
    )


def test_a_time_in_a_large_batch(wires: tuple[Wire, Wire]) -> None:
    now = now_ms()
    stored = produce_frame("times", [large_batch(now - 1000, 1000)])
    for wire in wires:
        wire.create_topic("times")
        assert (
            answer(wire, ApiKey.PRODUCE, stored, PRODUCE_VERSION)
            .responses[0]
            .partition_responses[0]
            .error_code
            == 0
        )
    for wanted in (now - 2000, now - 1000, now - 500, now, now + 1):
        data, version = time_search_frame("times", wanted)
        ours, theirs = (
            found.topics[0].partitions[0] for found in both(wires, ApiKey.LIST_OFFSETS, data, version)
        )
        assert (ours.error_code, ours.timestamp, ours.offset) == (
            theirs.error_code,
            theirs.timestamp,
            theirs.offset,
        )


def test_rows_by_the_thousand(wires: tuple[Wire, Wire]) -> None:
    ours, theirs = both(wires, ApiKey.METADATA, metadata_frame(ROWS), 9)
    assert sorted((one.name, one.error_code) for one in ours.topics) == sorted(
        (one.name, one.error_code) for one in theirs.topics
    )
    ours, theirs = both(wires, ApiKey.FETCH, fetch_frame(ROWS), FETCH_VERSION)
    rows = [
        sorted(
            (topic.topic, one.partition_index, one.error_code)
            for topic in found.responses
            for one in topic.partitions
        )
        for found in (ours, theirs)
    ]
    assert rows[0] == rows[1]
