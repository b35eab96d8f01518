"""A fetcher meets every answer, and every silence, that a leader may give it.

Method: two nodes on simulated hosts (`support.broker.replication_kit`). Node 1 leads, and a test answers in its place where it wants to.
"""

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable

import pytest

from semel.broker import turns
from semel.broker.config import BrokerConfig
from semel.broker.replicas import followed_partition
from semel.broker.replicas.fetcher import Fetcher
from semel.broker.replicas.fetchers import fetcher_number
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.replica import Replica
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.records.batch import place, read_header
from semel.core.replication.following import Ask, Step, Told
from semel.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from semel.core.wire.messages.list_offsets import ListOffsetsRequest
from semel.errors import ErrorCode
from semel.log.config import LogConfig
from semel.log.partition_log import Appended
from semel.types import TopicPartition
from support.broker.replication_kit import LISTENER, MUTE, TOPIC, TOPIC_ID, Node, World
from support.log.log_kit import batch_of, content

Asking = FetchRequest | ListOffsetsRequest
BACKOFF = 1.0  # replica.fetch.backoff.ms


def append(replica: Replica, *values: bytes) -> None:
    assert replica.leader is not None
    assert isinstance(replica.leader.append(batch_of(*values), acks=1), Appended)


def ends(node: Node) -> list[int]:
    return [log.log_end_offset for log in node.logs]


def named(request: Asking) -> dict[int, int]:
    """The partitions that a fetch names, with their offsets."""
    assert isinstance(request, FetchRequest)
    return {one.partition: one.fetch_offset for topic in request.topics for one in topic.partitions}


def answer(*rows: PartitionData) -> FetchResponse:
    """Without a session."""
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID.bytes, partitions=list(rows))])


class Leader:
    """Answers in the place of node 1, as often as it is told; what was asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.heard: list[Asking] = []
        self.versions: set[int] = set()
        self.at: list[float] = []
        self.next: list[Callable[[FetchRequest], object]] = []
        self.always: Callable[[Asking], object] = lambda _request: None
        world[1].instead = self

    def __call__(self, version: int, request: Asking) -> object:
        self.heard.append(request)
        self.versions.add(version)
        self.at.append(self.world.simulation.loop.time())
        if self.next and isinstance(request, FetchRequest):
            return self.next.pop(0)(request)
        return self.always(request)

    async def answers(self, *answers: Callable[[FetchRequest], object]) -> None:
        """Answer the next fetches, which come within the half second that a leader waits for records."""
        self.next.extend(answers)
        await self.world.until(lambda: not self.next)

    @property
    def fetches(self) -> list[FetchRequest]:
        return [one for one in self.heard if isinstance(one, FetchRequest)]


async def begin(world: World, *, records: int = 1) -> Leader:
    """Node 2 has what node 1 has."""
    await world.start()
    world.elect(1)
    for replica in world[1].replicas:
        for number in range(records):
            append(replica, b"%d" % number)
    await world.until_alike()
    return Leader(world)


# Sessions


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_a_session_that_ends_is_begun_anew_at_once_and_slowly_where_that_does_not_help(
    code: ErrorCode,
) -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        await leader.answers(lambda _request: FetchResponse(error_code=code))
        append(world[1].replicas[0], b"more")
        await world.until_alike(seconds=BACKOFF)
        begun = next(one for one in leader.fetches if one.session_epoch == 0)
        assert named(begun) == {0: 1, 1: 1}
        assert (begun.session_id == 0) is (code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

        leader.always = lambda _request: FetchResponse(error_code=code)
        before = len(leader.heard)
        await asyncio.sleep(20)
        assert 15 <= len(leader.heard) - before <= 25, "asked again, and not all the time"
        leader.always = lambda _request: None
        append(world[1].replicas[1], b"more")
        await world.until_alike()

    World(partitions=2).run(story)


def test_one_request_is_in_flight_and_says_what_is_new() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        for number in range(3):
            append(world[1].replicas[number], b"more")
            await world.until_alike()
            fetch = next(one for one in reversed(leader.fetches) if named(one))
            assert named(fetch) == {number: 2}
            assert fetch.session_epoch > 0
        leader.always = lambda _request: MUTE
        await leader.answers(lambda _request: MUTE)
        before = len(leader.heard)
        node = world[2]
        node.within(node.replicas[1].unfollow, node.surroundings)
        node.within(
            node.replicas[1].follow, node.surroundings, leader_id=1, leader_epoch=0, partition_epoch=0
        )
        await asyncio.sleep(20)
        assert len(leader.heard) == before

    World(partitions=3).run(story)


def test_a_partition_that_is_added_is_in_the_next_request_and_one_that_is_removed_is_forgotten() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        node = world[2]
        node.within(node.replicas[1].unfollow, node.surroundings)
        await asyncio.sleep(2)
        assert [topic.partitions for one in leader.fetches for topic in one.forgotten_topics_data] == [[1]]
        node.within(
            node.replicas[1].follow, node.surroundings, leader_id=1, leader_epoch=0, partition_epoch=0
        )
        append(world[1].replicas[1], b"more")
        before = len(leader.fetches)
        await world.until_alike()
        assert named(leader.fetches[before]) == {1: 1}

    World(partitions=2).run(story)


def test_a_topic_without_an_id_is_fetched_by_name() -> None:
    """Version 12, as long as one of them has none."""

    async def story(world: World) -> None:
        leader = await begin(world)
        append(world[1].replicas[0], b"more")
        await world.until_alike()
        assert leader.versions == {12}
        assert {topic.topic for one in leader.fetches for topic in one.topics} == {TOPIC}

    World(topic_id=uuid.UUID(int=0), partitions=2).run(story)


# Errors of one partition


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        4711,
    ],
)
def test_a_partition_in_error_is_asked_for_again_after_a_while_and_holds_up_no_other(code: int) -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        await leader.answers(lambda _request: answer(PartitionData(partition_index=0, error_code=code)))
        append(world[1].replicas[0], b"more")
        append(world[1].replicas[1], b"more")
        await world.until(lambda: ends(world[2]) == [1, 2], BACKOFF)
        await asyncio.sleep(BACKOFF / 2)
        assert ends(world[2])[0] == 1
        await world.until_alike(seconds=2 * BACKOFF)
        assert world[2].fetchers.failed == 0

    World(partitions=2).run(story)


def test_a_partition_that_is_fenced_waits_for_the_controller() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        fenced = ErrorCode.FENCED_LEADER_EPOCH
        await leader.answers(lambda _request: answer(PartitionData(partition_index=0, error_code=fenced)))
        append(world[1].replicas[0], b"more")
        append(world[1].replicas[1], b"more")
        await world.until(lambda: ends(world[2]) == [1, 2])
        before = len(leader.fetches)
        await asyncio.sleep(30)
        assert ends(world[2]) == [1, 2]
        assert not any(0 in named(one) for one in leader.fetches[before:])
        assert world[2].fetchers.failed == 1
        world.elect(1)
        await world.until_alike()
        assert world[2].fetchers.failed == 0

    World(partitions=2).run(story)


def test_a_damaged_batch_is_not_stored_and_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        whole = batch_of(b"two", b"three")
        damaged = bytearray(whole)
        place(damaged, read_header(damaged), 1, 0)
        damaged[-1] ^= 1
        row = PartitionData(partition_index=0, records=bytes(damaged), high_watermark=3)
        await leader.answers(lambda _request: answer(row))
        for replica in world[1].replicas:
            append(replica, b"two", b"three")
        await world.until(lambda: ends(world[2])[1] == 3, BACKOFF)
        assert ends(world[2])[0] == 1
        await world.until_alike()
        assert content(world[2].log) == content(world[1].log)
        assert sum("damaged batch" in one.getMessage() for one in caplog.records) == 1

    caplog.set_level(logging.ERROR)
    World(partitions=2).run(story)


def test_records_that_do_not_follow_fail_the_partition() -> None:
    """A leader that sends what is here already must not be asked for it for ever."""

    async def story(world: World) -> None:
        leader = await begin(world)
        old = content(world[1].log)
        await leader.answers(
            lambda _request: answer(PartitionData(partition_index=0, records=old, high_watermark=1))
        )
        append(world[1].replicas[0], b"more")
        await world.until(lambda: world[2].fetchers.failed == 1)
        await asyncio.sleep(10)
        assert ends(world[2]) == [1]
        world.elect(1)
        await world.until_alike()

    World().run(story)


def test_an_answer_for_what_was_not_asked_is_passed_over() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        rows = [PartitionData(partition_index=0, high_watermark=1), PartitionData(partition_index=77)]
        await leader.answers(lambda _request: answer(*rows))
        append(world[1].replicas[0], b"more")
        await world.until_alike()

    World().run(story)


# Silence


def test_a_leader_that_is_mute_is_asked_over_another_link(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        leader.always = lambda _request: MUTE
        await leader.answers(lambda _request: MUTE)
        append(world[1].replicas[0], b"more")
        before = len(leader.heard)
        await asyncio.sleep(60)
        asked = len(leader.heard) - before
        assert 4 <= asked <= 13, "again after replica.socket.timeout.ms and a pause"
        assert sum("cannot be fetched" in one.getMessage() for one in caplog.records) == 1
        leader.always = lambda _request: None
        await world.until_alike()
        assert sum("is fetched from again" in one.getMessage() for one in caplog.records) == 1

    caplog.set_level(logging.INFO)
    World(settings={"replica.socket.timeout.ms": 5000, "replica.fetch.wait.max.ms": 500}).run(story)


def test_a_leader_that_has_no_answer_about_its_ends_is_asked_again() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        out_of_range = ErrorCode.OFFSET_OUT_OF_RANGE
        await leader.answers(
            lambda _request: answer(PartitionData(partition_index=0, error_code=out_of_range))
        )
        leader.always = lambda request: MUTE if isinstance(request, ListOffsetsRequest) else None
        append(world[1].replicas[0], b"more")
        await world.until_alike(seconds=20)
        assert any(isinstance(one, ListOffsetsRequest) for one in leader.heard)
        assert world[2].log.truncations == 0

    World(settings={"replica.socket.timeout.ms": 5000}).run(story)


def test_a_link_that_is_lost_is_made_again_and_so_is_the_session() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        for number in range(3):
            world.simulation.network.break_connections("broker1", "broker2")
            append(world[1].replicas[0], b"more")
            before = len(leader.fetches)
            await world.until_alike(seconds=5)
            assert leader.fetches[before].session_epoch == 0, number

    World().run(story)


def test_a_leader_with_another_address_is_not_waited_for_at_the_old_one() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        await leader.answers(lambda _request: MUTE)
        append(world[1].replicas[0], b"more")
        node = world[2]
        node.brokers[1] = RegisteredBroker(1, {LISTENER.name: Endpoint("broker1", 9999)}, epoch=0)
        node.within(node.fetchers.brokers_changed)
        await asyncio.sleep(3)
        assert ends(node) == [1], "nobody listens there"
        node.brokers[1] = RegisteredBroker(1, {LISTENER.name: Endpoint("broker1", 9092)}, epoch=0)
        node.within(node.fetchers.brokers_changed)
        await world.until_alike(seconds=1)

    World().run(story)


# Stopping, and other orders in the middle


@pytest.mark.parametrize("how", ["stop", "epoch"])
def test_the_rest_of_an_answer_is_not_appended_once_there_are_other_orders(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS_MAX", 0.0)
    monkeypatch.setattr(followed_partition, "BATCHES_AT_ONCE", 1)
    appended = 0
    append_piece = FollowedPartition.append

    def interrupted(partition: FollowedPartition, piece: memoryview) -> None:
        nonlocal appended
        append_piece(partition, piece)
        appended += 1
        if appended == 3:
            asyncio.get_running_loop().call_soon(interrupt)

    def interrupt() -> None:
        node = world[2]
        if how == "stop":
            node.replicas[0].unfollow(node.surroundings)
        else:
            world.elect(1)

    async def story(world: World) -> None:
        leader = await begin(world, records=0)
        monkeypatch.setattr(FollowedPartition, "append", interrupted)
        for _ in range(10):
            append(world[1].replicas[0], b"v")
        if how == "stop":
            await asyncio.sleep(10)
            assert appended == ends(world[2])[0] == 3
        else:
            await world.until_alike()
            fetched = [named(one).get(0) for one in leader.fetches]
            assert 3 in fetched, "the rest was asked for again, in the new epoch"
            assert content(world[2].log) == content(world[1].log)

    world = World()
    world.run(story)


@pytest.mark.parametrize("how", ["stop", "epoch", "lead"])
def test_a_cut_under_way_changes_nothing_once_there_are_other_orders(how: str) -> None:
    """The disk is slow: the cut waits for its checkpoint when the orders come."""

    async def story(world: World) -> None:
        await begin(world, records=20)
        world.elect(1, told=(1,))
        followed = world[2].log
        for _ in range(5):
            append(world[1].replicas[0], b"lost")
        disk = world.simulation.host("broker1").disk
        disk.sync_delay_seconds = (1.0, 1.0)
        world.elect(2, told=(2,))
        append(world[2].replicas[0], b"kept")
        world.tell(world.orders)
        log, node = world[1].log, world[1]
        await world.until(lambda: bool(node.directory._cuts_to_come))
        assert log.truncations == 0
        assert log.log_end_offset == 25
        if how == "stop":
            node.within(node.replicas[0].unfollow, node.surroundings)
        else:
            world.elect(2 if how == "epoch" else 1)
        await asyncio.sleep(0.5)
        assert log.log_end_offset == 25, "the checkpoint is not written yet"
        disk.sync_delay_seconds = (0.0, 0.0)
        if how == "stop":
            await asyncio.sleep(20)
            assert (log.truncations, log.log_end_offset) == (0, 25)
        else:
            await world.until_alike()
            assert content(log) == content(followed)
            assert log.log_end_offset == (25 if how == "lead" else 21)
        await world.until(lambda: not node.directory._cuts_to_come)
        assert log.truncations == (how == "epoch")

    World(config=LogConfig(segment_bytes=1500, index_interval_bytes=200)).run(story)


def test_cuts_of_one_answer_share_a_checkpoint() -> None:
    async def story(world: World) -> None:
        await begin(world, records=3)
        world.elect(1, told=(1,))
        for replica in world[1].replicas:
            append(replica, b"lost")
        writes = 0
        begin_cuts = world[1].directory.begin_cuts

        def counted(offsets: dict[TopicPartition, int]) -> Callable[[], None]:
            nonlocal writes
            writes += 1
            assert len(offsets) == 5
            return begin_cuts(offsets)

        world[1].directory.begin_cuts = counted  # type: ignore[method-assign, assignment]
        world.elect(2, told=(2,))
        for replica in world[2].replicas:
            append(replica, b"kept")
        world.tell(world.orders)
        await world.until(
            lambda: [content(log) for log in world[1].logs] == [content(log) for log in world[2].logs]
        )
        assert writes == 1
        assert [log.truncations for log in world[1].logs] == [1] * 5

    World(partitions=5, settings={"num.replica.fetchers": 1}).run(story)


# Settings


def test_settings_that_change_count_from_the_next_request_on() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        node = world[2]
        node.settings = node.settings.with_dynamic({"num.replica.fetchers": "3"})
        node.within(node.fetchers.settings_changed)
        for replica in world[1].replicas:
            append(replica, b"more")
        before = len(leader.fetches)
        await world.until_alike()
        first: Counter[frozenset[int]] = Counter()
        for one in leader.fetches[before:]:
            if one.session_epoch == 0:
                first[frozenset(named(one))] += 1
        wanted: dict[int, set[int]] = {}
        for index in range(6):
            wanted.setdefault(fetcher_number(TopicPartition(TOPIC, index), 3), set()).add(index)
        assert set(first) == {frozenset(one) for one in wanted.values()}
        node.settings = BrokerConfig.of(
            {"node.id": 2, "log.dirs": "/data", "num.replica.fetchers": 1, "replica.fetch.max.bytes": 77}
        )
        node.within(node.fetchers.settings_changed)
        before = len(leader.fetches)
        for replica in world[1].replicas:
            append(replica, b"more")
        await world.until_alike()
        asked = [
            one for fetch in leader.fetches[before:] for topic in fetch.topics for one in topic.partitions
        ]
        assert {one.partition_max_bytes for one in asked} == {77}
        assert len({id(fetcher) for fetcher in node.fetchers._fetchers.values()}) == 1

    World(partitions=6, settings={"num.replica.fetchers": 2}).run(story)


@pytest.mark.parametrize(
    ("topic", "partition", "number"),
    [("orders", 0, 4), ("orders", 1, 3), ("orders", 4, 0), ("", 7, 2), ("polygenelubricants", 1, 2)],
)
def test_a_partitions_fetcher_is_kafkas(topic: str, partition: int, number: int) -> None:
    """Utils.abs(31 * topic.hashCode() + partition) % 5, as Java says."""
    assert fetcher_number(TopicPartition(topic, partition), 5) == number


def test_the_number_without_an_opposite_is_nought() -> None:
    """31 * "polygenelubricants".hashCode() is Integer.MIN_VALUE, of which Utils.abs makes 0."""
    assert fetcher_number(TopicPartition("polygenelubricants", 0), 5) == 0


def test_what_flush_messages_asks_for_is_on_disk_before_the_leader_hears_of_it() -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        node = world[2]

        def judge(request: Asking) -> object:
            for index, offset in named(request).items():
                assert node.logs[index].recovery_point >= offset
            return None

        async def others_sync() -> None:
            while True:
                await node.replicas[0].commits.flush()

        leader.always = judge
        world.simulation.host("broker2").disk.sync_delay_seconds = (0.01, 0.1)
        node.within(node.runtime.tasks.spawn, others_sync(), name="syncs of the housekeeping")
        for number in range(20):
            append(world[1].replicas[number % 2], b"more")
            await asyncio.sleep(0.03)
        await world.until_alike()
        assert node.logs[0].recovery_point == node.logs[0].log_end_offset == 11

    World(partitions=2, config=LogConfig(flush_messages=1)).run(story)


# This broker's disk


@pytest.mark.parametrize("operation", ["sync", "write"])
def test_a_disk_that_fails_gives_up_the_partition_and_no_other(operation: str) -> None:
    async def story(world: World) -> None:
        leader = await begin(world)
        world.simulation.host("broker2").disk.fail(operation, path_part="orders-1/")  # type: ignore[arg-type]
        for replica in world[1].replicas:
            append(replica, b"more")
        node = world[2]
        await world.until(lambda: bool(node.failures))
        await world.until(lambda: [ends(node)[0], ends(node)[2]] == [2, 2])
        assert [where for where, _error in node.failures] == [TopicPartition(TOPIC, 1)]
        assert len(node.fetchers) == 2
        append(world[1].replicas[1], b"more")
        await asyncio.sleep(5)
        assert ends(node)[1] <= 2
        assert max(named(one).get(1, 0) for one in leader.fetches) <= 1, "the leader took it for stored"

    World(partitions=3, config=LogConfig(flush_messages=1)).run(story)


@pytest.mark.parametrize(
    ("operation", "path"), [("rename", "recovery-point"), ("create", "being-cut"), ("truncate", "orders-0/")]
)
def test_a_cut_that_the_disk_refuses_gives_up_the_partition(operation: str, path: str) -> None:
    async def story(world: World) -> None:
        await begin(world, records=3)
        world.elect(1, told=(1,))
        append(world[1].replicas[0], b"lost")
        world.elect(2, told=(2,))
        append(world[2].replicas[0], b"kept")
        world.simulation.host("broker1").disk.fail(operation, path_part=path)  # type: ignore[arg-type]
        world.tell(world.orders)
        node = world[1]
        await world.until(lambda: bool(node.failures))
        assert (node.log.offline is None) is (path == "recovery-point"), "nothing was done to it yet"
        assert node.log.log_end_offset in (3, 4)
        await asyncio.sleep(5)
        assert not len(node.fetchers)

    World().run(story)


def test_a_beginning_that_the_disk_refuses_is_tried_again() -> None:
    async def story(world: World) -> None:
        await begin(world, records=3)
        world.simulation.host("broker2").disk.fail("rename", path_part="log-start")
        world[1].log.advance_log_start(2)
        append(world[1].replicas[0], b"more")
        await world.until(lambda: ends(world[2]) == [4])
        assert world[2].log.log_start_offset == 0
        append(world[1].replicas[0], b"more")
        await world.until_alike()
        assert world[2].log.log_start_offset == 2
        assert not world[2].failures

    World().run(story)


# Errors that nobody foresaw


def test_an_unforeseen_error_costs_its_partition_a_leader_epoch_and_no_other_anything(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    told = FollowedPartition.told
    is_broken = True

    def broken(partition: FollowedPartition, asked: Ask, answered: Told) -> Step:
        if is_broken and partition.topic_partition.partition == 1:
            raise ZeroDivisionError("nobody foresaw it")
        return told(partition, asked, answered)

    async def story(world: World) -> None:
        nonlocal is_broken
        await begin(world)
        monkeypatch.setattr(FollowedPartition, "told", broken)
        for _ in range(3):
            for replica in world[1].replicas:
                append(replica, b"more")
        await world.until(lambda: [ends(world[2])[0], ends(world[2])[2]] == [4, 4])
        await asyncio.sleep(20)
        assert ends(world[2])[1] == 1
        assert world[2].fetchers.failed == 1
        (error,) = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert "orders-1" in error.getMessage()
        assert error.exc_info is not None
        is_broken = False
        world.elect(1)
        await world.until_alike()

    World(partitions=3).run(story)


def test_a_fetcher_that_breaks_begins_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    questions = Fetcher._questions
    broken: list[float] = []

    async def story(world: World) -> None:
        async def breaking(fetcher: Fetcher) -> object:
            if len(broken) < 15:
                broken.append(world.simulation.loop.time())
                raise ZeroDivisionError("nobody foresaw it")
            return await questions(fetcher)

        await begin(world)
        monkeypatch.setattr(Fetcher, "_questions", breaking)
        append(world[1].replicas[0], b"more")
        await world.until(lambda: len(broken) == 15)
        append(world[1].replicas[0], b"more")
        await world.until_alike()
        assert broken[-1] - broken[0] >= 13, "with pauses"
        lines = [one for one in caplog.records if one.levelno >= logging.ERROR]
        assert 2 <= len(lines) <= 3, "the log is not filled with it"
        assert all(one.exc_info for one in lines)

    World().run(story)


def test_a_cut_that_breaks_gives_up_its_partition_and_the_others_are_cut(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World) -> None:
        await begin(world, records=3)
        world.elect(1, told=(1,))
        for replica in world[1].replicas:
            append(replica, b"lost")
        world.elect(2, told=(2,))
        for replica in world[2].replicas:
            append(replica, b"kept")

        def broken(*_args: object) -> None:
            raise ZeroDivisionError("nobody foresaw it")

        monkeypatch.setattr(world[1].logs[1], "truncate_to", broken)
        world.tell(world.orders)
        await world.until(lambda: bool(world[1].failures))
        assert [where for where, _error in world[1].failures] == [TopicPartition(TOPIC, 1)]
        await world.until(lambda: content(world[1].logs[0]) == content(world[2].logs[0]))
        await world.until(lambda: content(world[1].logs[2]) == content(world[2].logs[2]))
        assert world[1].logs[1].offline is not None

    World(partitions=3, settings={"num.replica.fetchers": 1}).run(story)


# What is shown


def test_lag_and_failures_are_shown() -> None:
    async def story(world: World) -> None:
        leader = await begin(world, records=3)
        node = world[2]
        assert (node.fetchers.lag_max, len(node.fetchers)) == (0, 2)
        data = content(world[1].log)
        await leader.answers(
            lambda _request: answer(PartitionData(partition_index=0, records=b"", high_watermark=40))
        )
        await world.until(lambda: node.fetchers.lag_max == 37, 0.1)
        assert node.log.high_watermark == 3, "no further than this log reaches"
        append(world[1].replicas[0], b"more")
        await world.until(lambda: node.fetchers.lag_max == 0)
        assert content(node.log)[: len(data)] == data

    World(partitions=2).run(story)
