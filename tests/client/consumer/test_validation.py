"""A consumer whose partition got another leader goes on exactly where the log still is what it read (KIP-320).

Method: the real broker in a simulation, whose log is cut back while it is down, as when a new leader has less than the old one
had; and brokers played by functions, for what the real one never says: that it knows nothing of an epoch, that it is too old to
be asked, and that another replica is nearer.
"""

from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.values.consuming import OffsetAndMetadata
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.api_versions import ServedApi, advertised
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from semel.core.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.core.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.core.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.exceptions import LogTruncationException, OffsetOutOfRangeException
from semel.log.checkpoints import CLEAN_SHUTDOWN
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from support.broker.fake_broker import FakeBroker
from support.client.reading_kit import ReadingWorld, take, told, values
from support.net.net_worlds import in_simulation

T0 = TopicPartition("t", 0)
TOPIC_ID = bytes(15) + b"\1"


def numbered(word: str, first: int, last: int) -> list[bytes]:
    return [b"%s %d" % (word.encode(), number) for number in range(first, last)]


async def cut_back(world: ReadingWorld, to: int) -> None:
    """The broker starts again, with a log that ends earlier, under another leader epoch."""
    world.partition("t").log.truncate_to(to, world.runtime.clock.now_ms())
    await restart(world)


async def restart(world: ReadingWorld) -> None:
    """As after a crash, which is when a broker leads anew."""
    before = world.partition("t").leader_epoch
    await world.broker.stop()
    world.simulation.host("broker").disk.remove(f"/data/{CLEAN_SHUTDOWN}")
    await world.start()
    assert world.partition("t").leader_epoch > before


async def truncation(consumer: AsyncConsumer) -> LogTruncationException:
    """What a poll raises."""
    with pytest.raises(LogTruncationException, match="t-0 was read up to offset 10") as truncated:
        await consumer.poll(60_000)
    assert isinstance(truncated.value, OffsetOutOfRangeException)
    return truncated.value


# A log that was cut back


def test_a_log_that_was_cut_back_is_read_on_from_where_it_was_cut() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        for number in range(10):
            world.write("t", numbered("old", number, number + 1))
        async with world.consumer(auto_offset_reset="latest") as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            assert values(await take(consumer, 10)) == numbered("old", 0, 10)
            await cut_back(world, 6)
            world.write("t", numbered("new", 6, 20))  # Longer than before: the position is in range again.
            assert values(await take(consumer, 14)) == numbered("new", 6, 20)
            assert await consumer.position(T0) == 20

    told(story)


def test_without_a_reset_the_user_hears_where_the_logs_part() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        for number in range(10):
            world.write("t", numbered("old", number, number + 1))
        async with world.consumer(auto_offset_reset="none") as consumer:
            consumer.assign([T0])
            consumer.seek(T0, 0)
            await take(consumer, 10)
            epoch = world.partition("t").leader_epoch
            await cut_back(world, 6)
            world.write("t", numbered("new", 6, 20))
            heard = [await truncation(consumer) for _ in range(2)]  # As long as nobody seeks.
            assert [one.divergent_offsets for one in heard] == [{T0: OffsetAndMetadata(6, "", epoch)}] * 2
            consumer.seek(T0, heard[0].divergent_offsets[T0])
            assert values(await take(consumer, 14)) == numbered("new", 6, 20)

    told(story)


def test_a_stored_position_is_checked_before_it_is_read_from() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        for number in range(10):
            world.write("t", numbered("old", number, number + 1))
        async with world.consumer(group_id="g") as consumer:
            consumer.assign([T0])
            await take(consumer, 10)
            await consumer.commit()
        await cut_back(world, 6)
        world.write("t", numbered("new", 6, 20))
        async with world.consumer(group_id="g") as consumer:
            consumer.assign([T0])
            assert await consumer.position(T0) == 6
            assert values(await take(consumer, 14)) == numbered("new", 6, 20)

    told(story)


def test_a_log_that_was_not_cut_back_is_read_on_without_loss_or_repeat() -> None:
    async def story(world: ReadingWorld) -> None:
        await world.topic("t")
        found: list[bytes] = []
        async with world.consumer(max_poll_records=3) as consumer:
            consumer.assign([T0])
            for life in range(4):
                world.write("t", numbered("life", 10 * life, 10 * life + 10))
                found += values(await take(consumer, 4))
                await restart(world)
                found += values(await take(consumer, 10 * life + 10 - len(found)))
        assert found == numbered("life", 0, 40)

    told(story)


# Played brokers


class Two:
    """Brokers 1 and 2; 1 leads the only partition, and 2 has a copy. What they say about records is up to the test."""

    def __init__(self) -> None:
        self.epoch = 3
        self.fetches: list[tuple[int, int]] = []
        """Which broker was asked for which offset."""
        self.checks: list[tuple[int, int]] = []
        """Under which epoch, and about which."""
        self.ends = EpochEndOffset(leader_epoch=3, end_offset=100)
        self.says: Callable[[int, int], PartitionData | None] = lambda _node, _offset: PartitionData()

    def answer(self, node: int, request: Request[Any]) -> Response | None:
        match request:
            case MetadataRequest():
                return self._metadata()
            case ListOffsetsRequest():
                found = ListOffsetsPartitionResponse(partition_index=0, timestamp=-1, offset=50)
                return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])
            case OffsetForLeaderEpochRequest():
                (asked,) = request.topics[0].partitions
                self.checks.append((asked.current_leader_epoch, asked.leader_epoch))
                end = OffsetForLeaderTopicResult(topic="t", partitions=[self.ends])
                return OffsetForLeaderEpochResponse(topics=[end])
            case FetchRequest():
                (wanted,) = request.topics[0].partitions
                self.fetches.append((node, wanted.fetch_offset))
                said = self.says(node, wanted.fetch_offset)
                if said is None:
                    return None
                return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[said])])
            case _:
                raise AssertionError(request)

    def _metadata(self) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=node, host="127.0.0.1", port=9091 + node) for node in (1, 2)
        ]
        partition = MetadataResponsePartition(leader_id=1, leader_epoch=self.epoch, replica_nodes=[1, 2])
        topic = MetadataResponseTopic(name="t", topic_id=TOPIC_ID, partitions=[partition])
        return MetadataResponse(brokers=brokers, cluster_id="c", controller_id=1, topics=[topic])


def records(offset: int, *values_: bytes, epoch: int = 3) -> PartitionData:
    batch = build_batch(
        [RecordInput(None, value, 1) for value in values_], base_offset=offset, partition_leader_epoch=epoch
    )
    return PartitionData(high_watermark=200, last_stable_offset=200, log_start_offset=0, records=batch)


def played(
    brokers: Two,
    story: Callable[[AsyncConsumer], Coroutine[Any, Any, None]],
    served: tuple[ServedApi, ...] | None = None,
    **settings: Any,
) -> None:
    async def run(runtime: Runtime) -> None:
        listeners = [
            await FakeBroker(lambda request, at=node: brokers.answer(at, request), served).listen(  # type: ignore[misc]  # a default binds it
                runtime, 9091 + node
            )
            for node in (1, 2)
        ]
        given = {"bootstrap_servers": "127.0.0.1:9092", "metadata_max_age_ms": 1_000, **settings}
        async with AsyncConsumer(given, runtime=runtime) as consumer:
            consumer.assign([T0])
            await story(consumer)
        for listener in listeners:
            await listener.close()

    in_simulation(run)


def test_a_leader_that_knows_nothing_of_the_epoch_resets_the_position() -> None:
    brokers = Two()
    brokers.says = lambda _node, offset: records(offset, b"%d" % offset)
    brokers.ends = EpochEndOffset()

    async def story(consumer: AsyncConsumer) -> None:
        consumer.seek(T0, OffsetAndMetadata(10, "", 2))
        assert [one.offset for one in await consumer.poll(10_000)] == [50], "where ListOffsets says"
        assert brokers.checks == [(3, 2)]

    played(brokers, story, auto_offset_reset="earliest")
    brokers.checks.clear()

    async def refusing(consumer: AsyncConsumer) -> None:
        consumer.seek(T0, OffsetAndMetadata(10, "", 2))
        with pytest.raises(LogTruncationException, match="its leader has nothing of it") as truncated:
            await consumer.poll(10_000)
        assert not truncated.value.divergent_offsets

    played(brokers, refusing, auto_offset_reset="none")


def test_a_leader_that_cannot_say_yet_is_asked_again() -> None:
    brokers = Two()
    brokers.says = lambda _node, offset: records(offset, b"%d" % offset)
    brokers.ends = EpochEndOffset(error_code=ErrorCode.OFFSET_NOT_AVAILABLE)

    async def story(consumer: AsyncConsumer) -> None:
        consumer.seek(T0, OffsetAndMetadata(10, "", 2))
        assert not await consumer.poll(1_000)
        assert len(brokers.checks) > 1
        assert not brokers.fetches
        brokers.ends = EpochEndOffset(leader_epoch=2, end_offset=10)
        assert [one.offset for one in await consumer.poll(10_000)] == [10]

    played(brokers, story)


def test_a_broker_too_old_to_be_asked_is_fetched_from() -> None:
    brokers = Two()
    brokers.says = lambda _node, offset: records(offset, b"%d" % offset)
    served = tuple(
        one._replace(last=2) if one.key == ApiKey.OFFSET_FOR_LEADER_EPOCH else one for one in advertised()
    )

    async def story(consumer: AsyncConsumer) -> None:
        consumer.seek(T0, OffsetAndMetadata(10, "", 2))
        assert [one.offset for one in await consumer.poll(10_000)] == [10]
        assert not brokers.checks

    played(brokers, story, served)


def test_metadata_of_an_older_leader_is_not_taken() -> None:
    brokers = Two()
    brokers.says = lambda _node, offset: records(offset, b"%d" % offset)

    async def story(consumer: AsyncConsumer) -> None:
        consumer.seek(T0, 10)
        await consumer.poll(10_000)
        brokers.epoch = 5
        while (5, 3) not in brokers.checks:
            await consumer.poll(500)
        brokers.epoch = 4  # Of a broker that has not heard yet.
        for _ in range(5):
            await consumer.poll(1_000)
        assert brokers.checks == [(5, 3)]

    played(brokers, story)


# A nearer replica


def nearer() -> PartitionData:
    return PartitionData(high_watermark=200, preferred_read_replica=2)


@pytest.mark.parametrize("trouble", ["behind", "gone"])
def test_a_nearer_replica_is_read_from_until_it_fails_and_then_the_leader_again(trouble: str) -> None:
    brokers = Two()
    is_failing = False

    def says(node: int, offset: int) -> PartitionData | None:
        if node == 1:
            return records(offset, b"of the leader") if is_failing else nearer()
        if is_failing:
            out_of_range = PartitionData(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
            return out_of_range if trouble == "behind" else None
        return records(offset, b"of the replica")

    brokers.says = says

    async def story(consumer: AsyncConsumer) -> None:
        nonlocal is_failing
        consumer.seek(T0, 10)
        assert values(await take(consumer, 1)) == [b"of the replica"]
        assert brokers.fetches[:2] == [(1, 10), (2, 10)]
        is_failing = True
        seen = []
        while b"of the leader" not in seen:
            seen += values(await take(consumer, 1))
        offsets = [offset for _node, offset in brokers.fetches]
        assert offsets == sorted(offsets), "nothing was reset"
        back = next(index for index, (node, _) in enumerate(brokers.fetches) if index and node == 1)
        assert brokers.fetches[back][1] == brokers.fetches[back - 1][1], "the leader is asked for the same"

    played(brokers, story, client_rack="here", max_poll_records=1, fetch_max_bytes=1)
