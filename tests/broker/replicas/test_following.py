"""A follower's log becomes its leader's, through everything that may happen between them.

Method: nodes on simulated hosts that speak to each other through the broker's own handlers and fetchers. The test is their controller,
and their disk.
"""

import asyncio

import pytest

from semel.broker.replicas.replica import Replica
from semel.core.records.codecs import Compression
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.types import TopicPartition
from support.broker.replication_kit import World
from support.log.log_kit import batch_of, content

SMALL = LogConfig(segment_bytes=1500, index_interval_bytes=200)


def append(replica: Replica, *values: bytes, **more: object) -> None:
    assert replica.leader is not None
    assert isinstance(replica.leader.append(batch_of(*values, **more), acks=1), Appended)  # type: ignore[arg-type]


def end(replica: Replica, producer_id: int, *, commit: bool) -> None:
    assert replica.leader is not None
    marked = replica.leader.append_marker(
        producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, commit=commit
    )
    assert isinstance(marked, Appended)


def aborted(log: PartitionLog) -> list[tuple[int, ...]]:
    return [tuple(entry) for segment in log.segments for entry in segment.txn_index.entries]


def assert_alike(one: PartitionLog, other: PartitionLog) -> None:
    assert content(one) == content(other)
    assert one.leader_epochs.entries == other.leader_epochs.entries
    assert one.producers.entries() == other.producers.entries()
    assert list(one.producers.open_transactions) == list(other.producers.open_transactions)
    assert one.last_stable_offset == other.last_stable_offset
    assert aborted(one) == aborted(other)


def test_a_follower_has_everything_its_leader_has() -> None:
    async def story(world: World) -> None:
        await world.start()
        world.elect(1)
        leader = world[1]
        for number in range(40):
            for replica in leader.replicas:
                append(replica, b"%d" % number * 20, producer_id=7, sequence=number)
        for codec in (Compression.GZIP, Compression.ZSTD):
            append(leader.replicas[0], b"a", b"b", compression=codec)
        for producer_id, commit in ((11, True), (12, False)):
            append(leader.replicas[1], b"t", producer_id=producer_id, sequence=0, transactional=True)
            end(leader.replicas[1], producer_id, commit=commit)
        append(leader.replicas[1], b"open", producer_id=13, sequence=0, transactional=True)
        await world.until_alike()
        for mine, theirs in zip(world[2].logs, leader.logs, strict=True):
            assert_alike(mine, theirs)
            assert mine.high_watermark == mine.log_end_offset
            assert len(mine.segments) > 1
        assert aborted(world[2].logs[1])
        assert world[2].followed[0].lag == 0
        assert world[2].replicas[0].counts.replicated_bytes_in == len(content(leader.logs[0]))

    World(partitions=3, config=SMALL).run(story)


def test_a_log_that_parts_is_cut_where_it_does() -> None:
    """KIP-101 and KIP-279: epochs decide, in as many rounds as it takes."""

    async def story(world: World) -> None:
        await world.start()
        world.elect(1)
        for _ in range(10):
            append(world[1].replicas[0], b"v")
        await world.until_alike()
        world.elect(1, told=(1,))  # Broker 2 hears of nothing from now on.
        for number in range(5):
            append(world[1].replicas[0], b"lost", producer_id=3, sequence=number, transactional=True)
        world.elect(2, told=(2,))
        append(world[2].replicas[0], b"kept")
        world.tell(world.orders)
        await world.until_alike()
        assert_alike(world[1].log, world[2].log)
        assert world[1].log.log_end_offset == 11
        assert not len(world[1].log.producers)

    World(config=SMALL).run(story)


def test_a_log_whose_leader_begins_later_begins_there() -> None:
    async def story(world: World) -> None:
        await world.start(1)
        world.elect(1)
        for number in range(60):
            append(world[1].replicas[0], b"v" * 50, producer_id=7, sequence=number)
        log = world[1].log
        log.advance_high_watermark(log.log_end_offset)
        log.advance_log_start(log.segments[4].base_offset)
        assert log.delete_old_segments(world[1].runtime.clock.now_ms())
        await world.start(2)
        await world.until_alike()
        assert world[2].log.log_start_offset == log.log_start_offset > 0
        assert content(world[2].log) == content(log)
        assert world[2].log.leader_epochs.entries == log.leader_epochs.entries

    World(config=SMALL).run(story)


def test_a_log_may_begin_inside_of_a_batch() -> None:
    """KAFKA-6975: the follower's first fetch is for an offset inside of a batch."""

    async def story(world: World) -> None:
        await world.start(1)
        world.elect(1)
        append(world[1].replicas[0], *[b"v"] * 10)
        append(world[1].replicas[0], *[b"v"] * 10)
        log = world[1].log
        log.advance_high_watermark(log.log_end_offset)
        log.advance_log_start(5)
        await world.start(2)
        await world.until_alike()
        assert (world[2].log.log_start_offset, world[2].log.segments[0].base_offset) == (5, 0)
        assert content(world[2].log) == content(log)

    World().run(story)


def test_a_leader_that_is_not_known_yet_is_waited_for() -> None:
    async def story(world: World) -> None:
        await world.start(1)
        here = world[2].brokers.pop(1)
        world.elect(1)
        append(world[1].replicas[0], b"v")
        await world.start(2)
        await asyncio.sleep(10)
        assert world[2].log.log_end_offset == 0
        world[2].brokers[1] = here
        world[2].fetchers.brokers_changed()
        await asyncio.sleep(0.1)
        assert world[2].log.log_end_offset == 1, "metadata is not waited for by the clock"

    World().run(story)


def test_nothing_happens_to_a_partition_that_is_stopped() -> None:
    async def story(world: World) -> None:
        await world.start()
        world.elect(1)
        append(world[1].replicas[0], b"v")
        await world.until_alike()
        followed = world[2].followed[0]
        append(world[1].replicas[0], b"w")
        world[2].fetchers.stop(followed)
        await asyncio.sleep(10)
        assert world[2].log.log_end_offset == 1
        assert not len(world[2].fetchers)
        world[2].fetchers.follow(followed)
        await world.until_alike()
        await world[2].fetchers.close()
        append(world[1].replicas[0], b"x")
        await asyncio.sleep(10)
        assert world[2].log.log_end_offset == 2

    World().run(story)


@pytest.mark.parametrize("cut_power", [False, True])
def test_a_leader_that_dies_and_comes_back_is_fetched_from_again(cut_power: bool) -> None:
    async def story(world: World) -> None:
        await world.start()
        world.elect(1)
        append(world[1].replicas[0], b"v")
        await world.until_alike()
        world[1].log.flush(world[1].runtime.clock.now_ms())
        world.end(1, cut_power=cut_power)
        await asyncio.sleep(5)
        await world.start(1)
        world.elect(1)
        append(world[1].replicas[0], b"w")
        await world.until_alike()
        assert_alike(world[2].log, world[1].log)

    World(config=LogConfig()).run(story)


def test_a_disk_that_refuses_gives_the_partition_up_and_no_other() -> None:
    async def story(world: World) -> None:
        await world.start()
        world.elect(1)
        world.simulation.host("broker2").disk.fail("write", path_part="orders-1/")
        for replica in world[1].replicas:
            append(replica, b"v")
        await world.until(lambda: bool(world[2].failures))
        assert [where for where, _error in world[2].failures] == [TopicPartition("orders", 1)]
        await world.until(lambda: [log.log_end_offset for log in world[2].logs] == [1, 0, 1])
        assert len(world[2].fetchers) == 2

    World(partitions=3).run(story)
