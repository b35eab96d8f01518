"""Followers ask for more than consumers may see, and by asking make it visible.

Method: a broker on a simulated host that leads a partition of three replicas; the other two are requests sent by hand, which
no real broker sends here yet.
"""

import asyncio

from semel.broker.replicas.surroundings import Surroundings
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.errors import ErrorCode
from support.broker.admin_kit import Client, told
from support.log.log_kit import batch_of

BY_NAME, WITH_STATE = 12, 17
CONSUMER = -1


async def lead(client: Client, *, leader_epoch: int = 0, partition_epoch: int = 1) -> None:
    """Have broker 1 lead, with 2 and 3 in sync."""
    if not is_made(client):
        await client.create("orders")
    replica = client.broker.parts.partitions.replica("orders", 0)
    assert replica is not None
    brokers = {node: RegisteredBroker(node, {}) for node in (1, 2, 3)}
    if replica.leader is not None and replica.leader._is_alone:
        replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    replica.lead(
        Surroundings(1, 30_000, brokers),
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        replicas=(1, 2, 3),
        isr=(1, 2, 3),
    )


def is_made(client: Client) -> bool:
    return client.broker.parts.partitions.replica("orders", 0) is not None


async def put(client: Client, *, acks: int = 1) -> ErrorCode:
    data = PartitionProduceData(index=0, records=batch_of(b"v"))
    wanted = [TopicProduceData(name="orders", partition_data=[data])]
    answer = await client.ask(ProduceRequest(acks=acks, timeout_ms=5000, topic_data=wanted), 11)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def get(
    client: Client,
    replica_id: int,
    offset: int,
    *,
    version: int = BY_NAME,
    broker_epoch: int = -1,
    leader_epoch: int = -1,
    last_epoch: int = -1,
    wait_ms: int = 0,
    committed: bool = False,
) -> PartitionData:
    topic_id = client.partition("orders").topic_id.bytes
    partition = FetchPartition(
        fetch_offset=offset,
        partition_max_bytes=1 << 20,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_epoch,
        log_start_offset=0,
    )
    request = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        isolation_level=int(committed),
        topics=[FetchTopic(topic="orders", topic_id=topic_id, partitions=[partition])],
    )
    if version >= 15:
        request.replica_state = ReplicaState(replica_id=replica_id, replica_epoch=broker_epoch)
    else:
        request.replica_id = replica_id
    answer = await client.ask(request, version)
    return answer.responses[0].partitions[0]


async def latest(client: Client, replica_id: int, version: int = 7) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name="orders", partitions=[asked])]
    )
    return (await client.ask(request, version)).topics[0].partitions[0]


def size(data: PartitionData) -> int:
    return len(data.records or b"")


def test_a_follower_reads_to_the_end_and_consumers_what_all_have() -> None:
    async def story(client: Client) -> None:
        await lead(client)
        for _ in range(3):
            assert await put(client) is ErrorCode.NONE
        assert size(await get(client, CONSUMER, 0)) == 0
        assert size(await get(client, -2, 0)) == 0, "Kafka's debuggers are consumers"
        for version in (BY_NAME, WITH_STATE):
            found = await get(client, 2, 0, version=version, committed=True)
            assert (size(found), found.high_watermark) == (3 * len(batch_of(b"v")), 0)
            assert found.aborted_transactions is None
        await get(client, 2, 3)
        await get(client, 3, 2, version=WITH_STATE)
        found = await get(client, CONSUMER, 0)
        assert (size(found), found.high_watermark) == (2 * len(batch_of(b"v")), 2)
        assert [(await latest(client, one)).offset for one in (CONSUMER, -2, 2)] == [2, 3, 3]

    told(story)


def test_an_acknowledgement_by_all_waits_for_their_fetches() -> None:
    async def story(client: Client) -> None:
        await lead(client)
        other, consumer = await client.another(), await client.another()
        waiting = asyncio.ensure_future(put(client, acks=-1))
        reading = asyncio.ensure_future(get(consumer, CONSUMER, 0, wait_ms=60_000))
        await asyncio.sleep(1)
        await get(other, 2, 1)
        await asyncio.sleep(1)
        assert not waiting.done()
        assert not reading.done()
        await get(other, 3, 1)
        assert await waiting is ErrorCode.NONE
        assert size(await reading), "a long poll ends when the high watermark moves"
        assert await put(client, acks=-1) is ErrorCode.REQUEST_TIMED_OUT
        assert client.partition("orders").log.log_end_offset == 2

    told(story)


def test_a_followers_long_poll_ends_with_the_next_append() -> None:
    async def story(client: Client) -> None:
        await lead(client)
        follower = await client.another()
        loop = asyncio.get_running_loop()
        began = loop.time()
        polling = asyncio.ensure_future(get(follower, 2, 0, wait_ms=60_000))
        await asyncio.sleep(1)
        await put(client)
        assert size(await polling)
        assert loop.time() - began < 2
        progress = client.partition("orders").leading.followers[2]
        assert progress.log_end_offset == 0, "what it was sent it has only when it says so"

    told(story)


def test_replicas_that_are_not_followers_now_are_told_to_try_again() -> None:
    async def story(client: Client) -> None:
        await lead(client, leader_epoch=4)
        await put(client)

        async def code(replica_id: int, offset: int = 0, **more: int) -> ErrorCode:
            return ErrorCode((await get(client, replica_id, offset, version=WITH_STATE, **more)).error_code)  # type: ignore[arg-type]

        assert await code(7) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await code(7, leader_epoch=4) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await code(2, leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
        assert await code(2, leader_epoch=5) is ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await code(2, leader_epoch=4, broker_epoch=9) is ErrorCode.NONE
        assert await code(2, 1, leader_epoch=4, broker_epoch=8) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert client.partition("orders").leading.followers[2].log_end_offset == 0
        fenced = await get(client, CONSUMER, 0, version=WITH_STATE, leader_epoch=3)
        assert fenced.current_leader is not None, "and a consumer, who leads"

    told(story)


def test_a_follower_whose_log_diverges_has_shown_nothing() -> None:
    """KAFKA-13141: else the high watermark would pass what it is about to cut."""

    async def story(client: Client) -> None:
        await lead(client)
        await put(client)
        await lead(client, leader_epoch=5, partition_epoch=2)
        await put(client)
        for _ in range(2):
            found = await get(client, 2, 3, last_epoch=3)
            assert found.diverging_epoch is not None
            assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (0, 1)
            assert size(found) == 0
        assert client.partition("orders").leading.followers[2].log_end_offset == -1
        found = await get(client, 2, 9)
        assert ErrorCode(found.error_code) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert client.partition("orders").leading.followers[2].log_end_offset == -1

    told(story)


def test_a_new_leader_tells_consumers_no_offset_before_it_knows_what_was_shown() -> None:
    async def story(client: Client) -> None:
        await lead(client)
        await put(client)
        await lead(client, leader_epoch=1, partition_epoch=2)
        for version, code in ((4, ErrorCode.LEADER_NOT_AVAILABLE), (7, ErrorCode.OFFSET_NOT_AVAILABLE)):
            assert ErrorCode((await latest(client, CONSUMER, version)).error_code) is code
        assert (await latest(client, 2)).offset == 1
        await get(client, 2, 1)
        await get(client, 3, 1)
        found = await latest(client, CONSUMER)
        assert (found.error_code, found.offset) == (0, 1)

    told(story)
