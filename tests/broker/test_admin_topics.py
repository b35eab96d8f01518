"""Topics that were answered for are there, whatever happens next; those that were refused leave nothing behind.

Method: a client on a simulated host creates, grows and deletes; what became of it is looked for in the answers, in the
data directory and after the power was cut. What each refusal looks like is compared with Kafka in `compat/differential`.
"""

import asyncio

import pytest

from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.core.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.core.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told


async def delete(client: Client, *names: str) -> list[ErrorCode]:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names])
    return [ErrorCode(one.error_code) for one in (await client.ask(request)).responses]


async def grow(client: Client, name: str, count: int, *, validate_only: bool = False) -> ErrorCode:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    request = CreatePartitionsRequest(topics=[topic], validate_only=validate_only)
    return ErrorCode((await client.ask(request)).results[0].error_code)


async def delete_records(client: Client, topic: str, offset: int) -> DeleteRecordsPartitionResult:
    wanted = DeleteRecordsTopic(
        name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)]
    )
    return (await client.ask(DeleteRecordsRequest(topics=[wanted]))).topics[0].partitions[0]


def test_topics_outlive_a_power_cut() -> None:
    ids: dict[str, bytes] = {}

    async def create(client: Client) -> None:
        topics = [
            CreatableTopic(
                name=name,
                num_partitions=2,
                replication_factor=1,
                configs=[CreatableTopicConfig(name="retention.ms", value="5000")],
            )
            for name in ("orders", "payments")
        ]
        answer = await client.ask(CreateTopicsRequest(topics=topics))
        ids.update((topic.name, topic.topic_id) for topic in answer.topics)

    async def look(client: Client) -> None:
        found = await client.ask(MetadataRequest(topics=None))
        assert {topic.name: topic.topic_id for topic in found.topics} == ids
        assert [len(topic.partitions) for topic in found.topics] == [2, 2]
        assert client.partition("payments", 1).log.config.retention_ms == 5000
        assert (await client.produce("payments", 1)).error_code == ErrorCode.NONE

    told(create, look, look, cut_power=True)


def test_the_topics_of_a_request_are_one_change() -> None:
    async def story(client: Client) -> None:
        log = client.broker.parts.store.image
        before = client.disk.counters.syncs
        assert await client.create("one") == [ErrorCode.NONE]
        alone = client.disk.counters.syncs - before
        before = client.disk.counters.syncs
        assert await client.create(*(f"many-{number}" for number in range(10))) == [ErrorCode.NONE] * 10
        together = client.disk.counters.syncs - before
        # Each topic's directory takes its own syncs; the metadata takes one for all.
        assert together < 10 * alone
        assert len(log.topics) == 11

    told(story)


def test_what_is_validated_or_refused_leaves_nothing() -> None:
    async def story(client: Client) -> None:
        good = CreatableTopic(name="good", num_partitions=3, replication_factor=1)
        answer = await client.ask(CreateTopicsRequest(topics=[good], validate_only=True))
        assert (answer.topics[0].error_code, answer.topics[0].num_partitions) == (ErrorCode.NONE, 3)
        assert await client.create("a b", "twice", "twice") == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.INVALID_REQUEST,
        ]
        assert client.directories() == []
        assert (await client.ask(MetadataRequest(topics=None))).topics == []

    told(story)


def test_a_replication_factor_needs_brokers() -> None:
    async def story(client: Client) -> None:
        topic = CreatableTopic(name="orders", num_partitions=1, replication_factor=-1)
        (result,) = (await client.ask(CreateTopicsRequest(topics=[topic]))).topics
        assert result.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert result.error_message == (
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached "
            "because only 1 broker(s) are registered."
        )

    told(story, default_replication_factor="3")


def test_two_who_create_a_topic_at_once_make_one() -> None:
    async def story(client: Client) -> None:
        other = await client.another()
        answers = await asyncio.gather(client.create("orders"), other.create("orders"))
        assert sorted(code for codes in answers for code in codes) == [
            ErrorCode.NONE,
            ErrorCode.TOPIC_ALREADY_EXISTS,
        ]
        assert client.directories() == ["orders-0"]

    told(story)


@pytest.mark.parametrize("name", [METADATA_TOPIC, "__cluster_metadata"])
def test_nobody_gets_at_the_metadata(name: str) -> None:
    """The metadata is a partition of that name: a topic made of it would let clients write metadata."""

    async def story(client: Client) -> None:
        assert await client.create(name) == [ErrorCode.INVALID_REQUEST]
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
        (topic,) = (await client.ask(asked)).topics
        assert topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert (await client.produce(name)).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    told(story)


def test_a_topic_that_is_made_again_is_another_one() -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        await client.produce("orders", values=[b"old"])
        old_id = client.partition("orders").topic_id
        assert await delete(client, "orders") == [ErrorCode.NONE]
        assert await delete(client, "orders") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await client.create("orders") == [ErrorCode.NONE]
        assert client.partition("orders").topic_id != old_id
        assert client.partition("orders").log.log_end_offset == 0
        by_old_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=old_id.bytes)])
        (result,) = (await client.ask(by_old_id)).responses
        assert result.error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert client.partition("orders").log.log_end_offset == 0

    told(story)


def test_a_deleted_topic_stays_deleted_without_power() -> None:
    async def make_and_delete(client: Client) -> None:
        await client.create("kept", "gone", partitions=2)
        assert await delete(client, "gone") == [ErrorCode.NONE]

    async def look(client: Client) -> None:
        assert [topic.name for topic in (await client.ask(MetadataRequest(topics=None))).topics] == ["kept"]
        assert client.directories() == ["kept-0", "kept-1"]

    told(make_and_delete, look, cut_power=True)


@pytest.mark.parametrize(
    ("version", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
def test_a_broker_may_be_told_to_keep_topics(version: int, code: ErrorCode) -> None:
    async def story(client: Client) -> None:
        await client.create("orders")
        answer = await client.ask(DeleteTopicsRequest(topic_names=["orders", "nowhere"]), version)
        assert [one.error_code for one in answer.responses] == [code, code]
        assert (await client.produce("orders")).error_code == ErrorCode.NONE

    told(story, delete_topic_enable="false")


def test_a_topic_grows_and_keeps_what_it_has() -> None:
    async def grow_it(client: Client) -> None:
        await client.create("orders")
        await client.produce("orders")
        assert await grow(client, "orders", 3, validate_only=True) == ErrorCode.NONE
        assert client.directories() == ["orders-0"]
        assert await grow(client, "orders", 3) == ErrorCode.NONE
        assert await grow(client, "orders", 3) == ErrorCode.INVALID_PARTITIONS
        assert (await client.produce("orders", 2)).base_offset == 0

    async def look(client: Client) -> None:
        assert client.directories() == ["orders-0", "orders-1", "orders-2"]
        assert [client.partition("orders", index).log.log_end_offset for index in range(3)] == [1, 0, 1]

    told(grow_it, look)


def test_deleted_records_stay_deleted_without_power() -> None:
    async def delete_some(client: Client) -> None:
        await client.create("orders")
        for _ in range(3):
            await client.produce("orders", values=[b"a", b"b"])
        assert (await delete_records(client, "orders", 3)).low_watermark == 3
        refused = await delete_records(client, "orders", 7)
        assert (refused.error_code, refused.low_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)

    async def look(client: Client) -> None:
        log = client.partition("orders").log
        assert (log.log_start_offset, log.log_end_offset) == (3, 6)
        assert (await delete_records(client, "orders", -1)).low_watermark == 6

    async def look_again(client: Client) -> None:
        log = client.partition("orders").log
        assert (log.log_start_offset, log.log_end_offset) == (6, 6)

    told(delete_some, look, look_again, cut_power=True)


def test_a_disk_that_refuses_is_an_answer() -> None:
    async def story(client: Client) -> None:
        client.disk.fail("sync", path_part=METADATA_TOPIC)
        assert await client.create("orders") == [ErrorCode.KAFKA_STORAGE_ERROR]
        # What reached the disk is unknown: nothing more is promised until the broker starts again.
        assert await client.create("payments") == [ErrorCode.KAFKA_STORAGE_ERROR]
        assert await delete(client, "orders") == [ErrorCode.KAFKA_STORAGE_ERROR]

    told(story, cut_power=True)


def test_a_topic_whose_logs_are_not_made_yet_says_so() -> None:
    """Metadata is changed first; a client that asks in between is told to ask again, not that there are no partitions."""

    async def ask_while_it_is_made(client: Client) -> None:
        client.disk.sync_delay_seconds = (1.0, 1.0)
        other = await client.another()
        creating = asyncio.create_task(other.create("orders", partitions=3))
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False
        )
        seen = set()
        while not creating.done():
            topic = (await client.ask(request, 9)).topics[0]
            seen.add(ErrorCode(topic.error_code))
            if not topic.error_code:
                assert len(topic.partitions) == 3
            await asyncio.sleep(0.1)
        assert seen <= {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE}
        assert ErrorCode.LEADER_NOT_AVAILABLE in seen

    told(ask_while_it_is_made)
