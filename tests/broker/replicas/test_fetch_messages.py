"""A follower's requests are Kafka's, byte for byte, and its leader's answers mean what Kafka's followers make of them.

Method: requests recorded from followers of Apache Kafka 3.9.2, and from a trial one its leaders served; each is made anew from what a
follower knew when it was sent.
"""

import gzip
import json
from pathlib import Path

import pytest

from semel.broker.replicas.fetch_messages import (
    EARLIEST,
    FetchSettings,
    Wanted,
    fetch_request,
    offsets_request,
    told,
)
from semel.core.client.fetch_session import FetchPlan, FetchSession
from semel.core.replication.epochs import EpochEnd
from semel.core.replication.following import Ask, Told
from semel.core.wire.framing import RequestHeader, read_request_header, read_response_header, request_frame
from semel.core.wire.messages.fetch import EpochEndOffset, FetchRequest, FetchResponse, PartitionData
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.types import TopicPartition

FRAMES = Path(__file__).parents[2] / "core" / "wire" / "golden" / "frames-between-brokers-3.9.2.jsonl.gz"
SETTINGS = FetchSettings(max_wait_ms=500, min_bytes=1, max_bytes=10_485_760, partition_max_bytes=1_048_576)
VERSION = 17


def frames(kind: str) -> dict[str, bytes]:
    """By title, those of Fetch."""
    rows = [json.loads(line) for line in gzip.decompress(FRAMES.read_bytes()).splitlines()]
    return {
        row["title"].removeprefix(f"Fetch v{VERSION} {kind}: "): bytes.fromhex(row["frame"])
        for row in rows
        if row["key"] == ApiKey.FETCH and row["kind"] == kind
    }


REQUESTS, RESPONSES = frames("request"), frames("response")


@pytest.mark.parametrize("title", REQUESTS)
def test_a_request_is_the_one_kafka_sends(title: str) -> None:
    frame = REQUESTS[title]
    header, position = read_request_header(frame)
    theirs = FetchRequest.decode(frame, VERSION, position)
    say: dict[TopicPartition, Wanted] = {}
    for number, topic in enumerate(theirs.topics):
        for one in topic.partitions:
            ask = Ask(
                one.current_leader_epoch, one.fetch_offset, one.last_fetched_epoch, one.log_start_offset
            )
            say[TopicPartition(f"topic{number}", one.partition)] = Wanted(topic.topic_id, ask)
    forget = {
        TopicPartition(f"gone{number}", one): topic.topic_id
        for number, topic in enumerate(theirs.forgotten_topics_data)
        for one in topic.partitions
    }
    assert theirs.replica_state is not None
    ours = fetch_request(
        FetchPlan(theirs.session_id, theirs.session_epoch, True, say, forget),
        SETTINGS,
        node_id=theirs.replica_state.replica_id,
        broker_epoch=theirs.replica_state.replica_epoch,
    )
    assert header.client_id == f"broker-{theirs.replica_state.replica_id}-fetcher-0"
    again = RequestHeader(ApiKey.FETCH, VERSION, header.correlation_id, header.client_id)
    assert request_frame(again, ours)[4:] == frame


def test_a_session_goes_on_as_kafkas_does() -> None:
    """Recorded: a new session, one that says what moved, one that has nothing to say, one that forgets."""
    session: FetchSession[Wanted] = FetchSession()
    topic_id = b"\1" * 16
    wanted = {TopicPartition("t", 0): Wanted(topic_id, Ask(0, 0, -1, 0))}
    assert session.plan(wanted, by_id=True).session_epoch == 0
    session.answered(9, ErrorCode.NONE)
    assert session.plan(wanted, by_id=True)[:4] == (9, 1, True, {})
    session.answered(9, ErrorCode.NONE)
    moved = {TopicPartition("t", 0): Wanted(topic_id, Ask(0, 20, 0, 0))}
    assert session.plan(moved, by_id=True).say == moved
    session.answered(9, ErrorCode.NONE)
    assert session.plan({}, by_id=True).forget == {TopicPartition("t", 0): topic_id}


def test_a_topic_without_an_id_is_named() -> None:
    plan = FetchPlan(0, 0, False, {TopicPartition("t", 3): Wanted(bytes(16), Ask(4, 7, 2, 1))}, {})
    request = fetch_request(plan, SETTINGS, node_id=3, broker_epoch=59)
    again = FetchRequest.decode(request.encode(12), 12)
    assert (again.replica_id, again.topics[0].topic) == (3, "t")
    assert again.topics[0].partitions[0].last_fetched_epoch == 2


@pytest.mark.parametrize(
    ("title", "code"),
    [
        ("unknown topic id", ErrorCode.UNKNOWN_TOPIC_ID),
        ("unknown leader epoch", ErrorCode.UNKNOWN_LEADER_EPOCH),
        ("records from kafka leader", ErrorCode.NONE),
    ],
)
def test_an_answer_is_understood(title: str, code: ErrorCode) -> None:
    frame = RESPONSES[title]
    _, position = read_response_header(frame, 1)
    answer = FetchResponse.decode(frame, VERSION, position)
    found = told(answer.responses[0].partitions[0])
    assert found.code is code
    assert found.diverging is None


def test_where_logs_part_is_understood_and_so_are_errors_of_a_newer_leader() -> None:
    row = PartitionData(diverging_epoch=EpochEndOffset(epoch=3, end_offset=17), high_watermark=5)
    assert told(row) == Told(high_watermark=5, diverging=EpochEnd(3, 17))
    assert told(PartitionData(error_code=4711)).code is ErrorCode.UNKNOWN_SERVER_ERROR


def test_the_leader_is_asked_for_its_ends_in_the_epoch_that_is_known() -> None:
    asked = {TopicPartition("t", 0): 4, TopicPartition("u", 1): 5, TopicPartition("t", 2): 6}
    request = offsets_request(asked, EARLIEST, node_id=3)
    assert (request.replica_id, request.isolation_level) == (3, 0)
    assert {
        (topic.name, one.partition_index): (one.current_leader_epoch, one.timestamp)
        for topic in request.topics
        for one in topic.partitions
    } == {("t", 0): (4, -2), ("u", 1): (5, -2), ("t", 2): (6, -2)}
