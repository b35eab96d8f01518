"""One client's large request costs others a turn, not their patience; and it ends as if it had been handled in one piece.

Method: a simulated broker, where a thread is an event of its own: whatever was sent behind a heavy request would overtake it if it
could. How long others wait is measured with real processes (`tests/load`).
"""

import asyncio

import pytest

from semel.broker import dispatch
from semel.broker.handlers import fetch
from semel.core.records import effort
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.codecs import Compression
from semel.core.records.validation import RECORD_ERRORS_MAX, inspect
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.describe_groups import DescribeGroupsRequest
from semel.core.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.core.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.errors import DisconnectedError, ErrorCode
from semel.net.connection import Connection
from support.broker.admin_kit import Client, told

BOMB = bytes(effort.UNPACKED_BYTES_MAX + 1)
NOW = 1_000


def batch(value: bytes, sequence: int = -1, producer_id: int = -1, *, codec: int = Compression.ZSTD) -> bytes:
    made = build_batch(
        [RecordInput(None, value, NOW)],
        compression=codec,
        producer_id=producer_id,
        producer_epoch=-1 if producer_id < 0 else 0,
        base_sequence=sequence,
    )
    return bytes(made)


async def produced(client: Client, *batches: bytes, topic: str = "orders") -> list[PartitionProduceResponse]:
    """One request with a batch for each of the first partitions."""
    data = [PartitionProduceData(index=index, records=bytearray(one)) for index, one in enumerate(batches)]
    wanted = [TopicProduceData(name=topic, partition_data=data)]
    answer = await client.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=wanted), 11)
    return answer.responses[0].partition_responses


def test_batches_of_one_producer_stay_in_order() -> None:
    """The second would be refused as out of order if it were looked at while the first is on a thread."""

    async def story(client: Client) -> None:
        await client.create("orders")
        producer_id = (await client.ask(InitProducerIdRequest(transactional_id=None))).producer_id
        answers = await asyncio.gather(
            *(
                produced(client, batch(BOMB if sequence % 2 == 0 else b"v", sequence, producer_id))
                for sequence in range(5)
            )
        )
        assert [(one.error_code, one.base_offset) for (one,) in answers] == [(0, n) for n in range(5)]

    told(story)


def test_another_client_is_served_meanwhile() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=5)
        other = await client.another()
        heavy = asyncio.create_task(produced(client, *[batch(BOMB)] * 5))
        light = 0
        while not heavy.done():
            await other.ask(MetadataRequest(topics=[]))
            light += 1
        assert light > 1
        assert [answer.error_code for answer in await heavy] == [0] * 5

    told(story)


def test_a_request_is_answered_in_its_own_order_and_by_the_words_of_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heavy or not, sound or damaged: the same answers."""
    damaged = bytearray(batch(BOMB))
    damaged[-1] ^= 1
    batches = [batch(b"v"), batch(BOMB), bytes(damaged), batch(b"w"), batch(BOMB, codec=Compression.GZIP)]
    heard: list[list[PartitionProduceResponse]] = []

    async def story(client: Client) -> None:
        await client.create("orders", partitions=4)
        heard.append(await produced(client, *batches))

    told(story)
    monkeypatch.setattr("semel.broker.handlers.produce.is_heavy", lambda *_: False)
    told(story)
    assert heard[0] == heard[1]
    assert [ErrorCode(answer.error_code).name for answer in heard[0]] == [
        "NONE",
        "NONE",
        "CORRUPT_MESSAGE",
        "NONE",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ]


def test_a_topic_that_goes_while_its_batch_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = asyncio.Event()

    def slow(*arguments: object) -> object:
        looked.set()
        return inspect(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("semel.broker.handlers.produce.inspect", slow)

    async def story(client: Client) -> None:
        await client.create("orders")
        other = await client.another()
        heavy = asyncio.create_task(produced(client, batch(BOMB)))
        gone = await other.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")], timeout_ms=1000))
        assert gone.responses[0].error_code == 0
        (answer,) = await heavy
        assert answer.error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        assert looked.is_set()
        assert client.broker.parts.partitions.get("orders", 0) is None

    told(story)


def test_rules_that_change_meanwhile_are_the_ones_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        log = client.partition("orders").log

        def strict(*arguments: object) -> object:
            outcome = inspect(*arguments)  # type: ignore[arg-type]
            log.reconfigure(client.broker.config.log_config({"max.message.bytes": "70"}))
            return outcome

        monkeypatch.setattr("semel.broker.handlers.produce.inspect", strict)
        (answer,) = await produced(client, batch(BOMB))
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE

    told(story)


def test_a_wrong_clock_is_told_with_a_few_records() -> None:
    """A million record errors would be an answer of a hundred megabytes."""
    ahead = 1 << 41
    count = 500
    data = bytes(build_batch([RecordInput(b"k", b"v", ahead + number) for number in range(count)]))

    async def story(client: Client) -> None:
        await client.create("orders")
        (answer,) = await produced(client, data)
        assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
        assert [one.batch_index for one in answer.record_errors] == list(range(RECORD_ERRORS_MAX))
        assert f"{count - 1} more are refused" in (answer.error_message or "")
        assert str(ahead) in (answer.record_errors[0].batch_index_error_message or "")

    told(story)


def test_a_large_batch_is_searched_by_time_as_a_small_one() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        times = [*range(100, 100 + effort.RECORDS_IN_PYTHON_MAX), 90, 5_000, 4_000]
        await client.ask(
            ProduceRequest(
                acks=-1,
                timeout_ms=1000,
                topic_data=[
                    TopicProduceData(
                        name="orders",
                        partition_data=[
                            PartitionProduceData(
                                index=0,
                                records=build_batch([RecordInput(None, None, time) for time in times]),
                            )
                        ],
                    )
                ],
            ),
            11,
        )
        for wanted in (0, 100, 500, 3_000, 4_500, 5_000, 5_001, -3):
            asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=wanted)
            request = ListOffsetsRequest(
                replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name="orders", partitions=[asked])]
            )
            (found,) = (await client.ask(request, 7)).topics[0].partitions
            target = max(times) if wanted == -3 else wanted
            expected = next(((n, time) for n, time in enumerate(times) if time >= target), (-1, -1))
            assert (found.offset, found.timestamp) == expected

    told(story)


def test_rows_by_the_thousand_are_answered_all() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        names = [f"t{number}" for number in range(5 * dispatch.ROWS_AT_ONCE)]
        topics = [MetadataRequestTopic(name=name) for name in ["orders", *names]]
        answer = await client.ask(MetadataRequest(topics=topics, allow_auto_topic_creation=False), 9)
        codes = {topic.name: topic.error_code for topic in answer.topics}
        assert codes == {"orders": 0, **dict.fromkeys(names, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        described = await client.ask(DescribeGroupsRequest(groups=names), 5)
        assert [group.group_id for group in described.groups] == names

    told(story)


def test_more_rows_than_a_broker_takes_close_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def story(client: Client) -> None:
        other = await client.another()
        names = [f"g{number}" for number in range(dispatch.ROWS_MAX + 1)]
        with pytest.raises(DisconnectedError):
            await client.ask(DescribeGroupsRequest(groups=names), 5)
        assert (await other.ask(MetadataRequest(topics=[]))).topics == []

    told(story)
    (line,) = [record.getMessage() for record in caplog.records if "closing the connection" in record.message]
    assert f"DescribeGroupsRequest v5 has more than {dispatch.ROWS_MAX} rows" in line
    assert "ask in several requests" in line


def test_a_commit_of_thousands_of_partitions_is_stored_whole() -> None:
    count = 2_500

    async def story(client: Client) -> None:
        await client.create("orders", partitions=count)
        partitions = [
            OffsetCommitRequestPartition(partition_index=index, committed_offset=index + 1)
            for index in range(count)
        ]
        answer = await client.ask(
            OffsetCommitRequest(
                group_id="g",
                generation_id_or_member_epoch=-1,
                topics=[OffsetCommitRequestTopic(name="orders", partitions=partitions)],
            ),
            8,
        )
        (topic,) = answer.topics
        assert [one.partition_index for one in topic.partitions] == list(range(count))
        assert {one.error_code for one in topic.partitions} == {0}
        stored = await client.ask(
            OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 8
        )
        (read,) = stored.groups[0].topics
        assert sorted((one.partition_index, one.committed_offset) for one in read.partitions) == [
            (index, index + 1) for index in range(count)
        ]

    told(story)


# Fetch.


def fetch_of(count: int, *, max_wait_ms: int, min_bytes: int = 1, session_epoch: int = -1) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        session_epoch=session_epoch,
        topics=[
            FetchTopic(
                topic="orders",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 16)
                    for index in range(count)
                ],
            )
        ],
    )


MANY = 2 * fetch.PARTITIONS_AT_ONCE


def found(answer: FetchResponse) -> dict[int, int]:
    """Bytes by partition, where there are any."""
    return {
        one.partition_index: len(one.records)
        for topic in answer.responses
        for one in topic.partitions
        if one.records
    }


def test_many_partitions_are_fetched_in_turns() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=MANY)
        await client.produce("orders", 3)
        await client.produce("orders", MANY - 1)
        answer = await client.ask(fetch_of(MANY, max_wait_ms=0), 12)
        assert list(found(answer)) == [3, MANY - 1]
        assert len(answer.responses[0].partitions) == MANY

    told(story)


@pytest.mark.parametrize("partition", [0, MANY - 1])
def test_a_record_ends_the_wait_of_a_fetch_of_many(partition: int) -> None:
    """Wherever it comes, also in a partition that was looked at before a pause."""

    async def story(client: Client) -> None:
        await client.create("orders", partitions=MANY)
        writer = await client.another()
        clock = client.broker.runtime.clock
        began = clock.monotonic()
        waiting = asyncio.create_task(client.ask(fetch_of(MANY, max_wait_ms=50_000), 12))
        await writer.produce("orders", partition)
        assert list(found(await waiting)) == [partition]
        assert clock.monotonic() - began < 10
        assert not any(one.waiters for one in client.broker.parts.partitions.of_topic("orders"))

    told(story)


def test_a_fetch_of_many_ends_with_its_patience() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=MANY)
        clock = client.broker.runtime.clock
        began = clock.monotonic()
        answer = await client.ask(fetch_of(MANY, max_wait_ms=3_000), 12)
        assert found(answer) == {}
        assert 3 <= clock.monotonic() - began < 4

    told(story)


@pytest.mark.parametrize("count", [1, MANY])
def test_long_polls_end_with_their_connection(count: int) -> None:
    """A client that is gone leaves no waiter behind: the next append would have to wake them all."""

    async def story(client: Client) -> None:
        await client.create("orders", partitions=count)
        partitions = client.broker.parts.partitions.of_topic("orders")
        gone = await client.another()
        polls = [asyncio.create_task(gone.ask(fetch_of(count, max_wait_ms=50_000), 12)) for _ in range(20)]
        while not all(one.waiters for one in partitions):
            await asyncio.sleep(0.01)
        connection: Connection = gone._connection
        connection.close()
        await asyncio.wait(polls)
        for poll in polls:
            with pytest.raises(DisconnectedError):
                await poll
        await asyncio.sleep(1)
        assert not any(one.waiters for one in partitions)

    told(story)
