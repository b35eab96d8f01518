"""The cleaner beside a broker at work: it finds what is dirty, lets go where it must, and disturbs nobody.

Method: whole brokers in simulation, with logs whose segments are made small; time is virtual, so waiting costs nothing.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from semel.broker.cleaner import Cleaner
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.errors import ErrorCode
from semel.log import checkpoints
from semel.log.partition_log import PartitionLog
from semel.types import TopicPartition
from support.broker.admin_kit import Client, told
from support.log.compaction_kit import told as batches_of

SETTINGS: dict[str, Any] = {"log_cleaner_backoff_ms": "100", "log_cleaner_min_cleanable_ratio": "0.01"}


def compacted(log: PartitionLog, **more: object) -> PartitionLog:
    """Let a log have small segments, and be compacted."""
    small = replace(log.config, segment_bytes=300, cleanup_compact=True, cleanup_delete=False)
    log.reconfigure(replace(small, min_cleanable_dirty_ratio=0.01, **more))  # type: ignore[arg-type]  # By name.
    return log


async def fill(client: Client, topic: str, count: int = 20) -> PartitionLog:
    log = compacted(client.partition(topic).log)
    for n in range(count):
        await client.produce(topic, values=[b"%d" % n * 30])
    return log


async def until_clean(client: Client, log: PartitionLog) -> Cleaner:
    """Wait until all is clean that can be."""
    cleaner = client.broker.parts.cleaner
    async with asyncio.timeout(600):
        while cleaner.directory.cleaner_offsets.get(log.topic_partition) != log.active.base_offset:
            await client.broker.runtime.tasks.sleep(0.1)
    return cleaner


def values(log: PartitionLog) -> list[bytes | None]:
    return [record.value for one in batches_of(log) for record in one.records]


def sealed_values(log: PartitionLog) -> list[bytes | None]:
    """What was cleaned: the active segment never is."""
    return [r.value for one in batches_of(log) for r in one.records if one.segment is not log.active]


@pytest.mark.mission("LOG-07")
def test_a_dirty_log_is_cleaned_and_stays_so_over_a_restart() -> None:
    async def before(client: Client) -> None:
        await client.create("table")
        log = await fill(client, "table")
        await until_clean(client, log)
        assert sealed_values(log) == [values(log)[0]]
        assert log.log_end_offset == 20
        offsets = checkpoints.read_offsets(client.disk, f"data/{checkpoints.CLEANER_OFFSETS}")
        assert offsets == {TopicPartition("table", 0): log.active.base_offset}

    async def after(client: Client) -> None:
        log = compacted(client.partition("table").log)
        assert len(values(log)) < 5
        await client.broker.runtime.tasks.sleep(5)
        assert client.broker.parts.cleaner.metrics.cleanings == 0
        await fill(client, "table")
        await until_clean(client, log)
        assert log.log_end_offset == 40

    told(before, after, **SETTINGS)


def test_logs_are_cleaned_dirtiest_first_one_after_the_other() -> None:
    async def story(client: Client) -> None:
        await client.create("one", "two", "three")
        cleaner = client.broker.parts.cleaner
        most = 0
        for name, count in (("one", 10), ("two", 30), ("three", 20)):
            await fill(client, name, count)
        while cleaner.metrics.cleanings < 3:
            most = max(most, len(cleaner._running))
            await client.broker.runtime.tasks.sleep(0.001)
        assert most == 1
        for name in ("one", "two", "three"):
            assert len(sealed_values(client.partition(name).log)) == 1

    told(story, **SETTINGS)


def test_the_cleaner_is_not_faster_than_it_may_be() -> None:
    async def story(client: Client) -> None:
        await client.create("table")
        log = await fill(client, "table", 60)
        cleaner = await until_clean(client, log)
        moved = cleaner.metrics.bytes_read + cleaner.metrics.bytes_written
        assert moved > 5000
        assert cleaner.metrics.seconds >= moved / 1000 * 0.99

    told(story, log_cleaner_io_max_bytes_per_second="1000", **SETTINGS)


def test_without_the_cleaner_nothing_is_cleaned() -> None:
    async def story(client: Client) -> None:
        await client.create("table")
        log = await fill(client, "table")
        await client.broker.runtime.tasks.sleep(60)
        assert len(values(log)) == 20

    told(story, log_cleaner_enable="false", **SETTINGS)


def test_a_damaged_log_is_left_alone_and_every_other_is_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    async def story(client: Client) -> None:
        await client.create("bad", "good")
        log = compacted(client.partition("bad").log)
        async with client.broker.parts.cleaner.paused([log.topic_partition]):
            await fill(client, "bad")
            log.segments[1].file.write_at(90, b"\x00\xff")
        cleaner = await until_clean(client, await fill(client, "good"))
        while log.topic_partition not in cleaner.uncleanable:
            await client.broker.runtime.tasks.sleep(0.1)
        assert "checksum" in cleaner.uncleanable[log.topic_partition]
        assert len(sealed_values(client.partition("good").log)) == 1
        left = [n for n in client.disk.list_directory(log.directory) if n.endswith((".cleaned", ".swap"))]
        assert left == []
        assert (await client.produce("bad")).error_code == ErrorCode.NONE

    told(story, **SETTINGS)
    assert "bad-0 cannot be compacted and is left as it is" in caplog.text


def test_a_topic_is_deleted_and_made_again_under_a_cleaning() -> None:
    async def story(client: Client) -> None:
        for turn in range(8):
            await client.create("table")
            await fill(client, "table", 30)
            await client.broker.runtime.tasks.sleep(0.09 + turn * 0.004)
            wanted = DeleteTopicsRequest(topics=[DeleteTopicState(name="table")], timeout_ms=1000)
            assert (await client.ask(wanted)).responses[0].error_code == ErrorCode.NONE
            await client.create("table")
            fresh = client.partition("table").log
            await client.produce("table", values=[b"new"])
            await client.broker.runtime.tasks.sleep(0.05)
            assert values(fresh) == [b"new"]
            names = client.disk.list_directory(fresh.directory)
            assert [n for n in names if ".log" in n] == [f"{0:020d}.log"]
            await client.ask(wanted)

    told(story, **{**SETTINGS, "log_cleaner_io_max_bytes_per_second": "200000"})


def test_a_pause_waits_for_the_cleaning_to_let_go() -> None:
    async def story(client: Client) -> None:
        await client.create("table")
        log = await fill(client, "table", 60)
        cleaner = client.broker.parts.cleaner
        while not cleaner._running:
            await client.broker.runtime.tasks.sleep(0.001)
        async with asyncio.timeout(30), cleaner.paused([log.topic_partition]):
            assert all(task.done() for task in cleaner._running.values())
            assert not log.swapping
            log.truncate_to(40, client.broker.runtime.clock.now_ms())
        await until_clean(client, log)

    told(story, **{**SETTINGS, "log_cleaner_io_max_bytes_per_second": "20000"})


def test_the_metadata_of_topics_that_come_and_go_does_not_grow() -> None:
    async def before(client: Client) -> None:
        directory = client.broker.parts.cleaner.directory
        log = compacted(
            directory.logs[TopicPartition(METADATA_TOPIC, 0)], delete_retention_ms=0, flush_messages=1
        )
        for n in range(12):
            await client.create(f"topic {n}".replace(" ", "-"))
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name=f"topic-{n}")], timeout_ms=1000)
            await client.ask(gone)
        await client.create("stays")
        await client.create("last")
        await until_clean(client, log)
        keys = [r.key for one in batches_of(log) for r in one.records if one.segment is not log.active]
        assert len(keys) == len(set(keys))

    async def after(client: Client) -> None:
        assert sorted(client.broker.parts.store.image.topics) == ["last", "stays"]
        assert client.broker.parts.store.image.cluster_id is not None

    told(before, after, **SETTINGS)


@pytest.mark.mission("OFF-03")
def test_of_committed_offsets_the_latest_of_every_partition_is_left() -> None:
    async def story(client: Client) -> None:
        await client.create("orders", partitions=3)

        async def commit(offset: int) -> ErrorCode:
            partitions = [
                OffsetCommitRequestPartition(partition_index=n, committed_offset=offset + n) for n in range(3)
            ]
            topics = [OffsetCommitRequestTopic(name="orders", partitions=partitions)]
            answer = await client.ask(OffsetCommitRequest(group_id="g", topics=topics), 8)
            return ErrorCode(answer.topics[0].partitions[0].error_code)

        while await commit(0) is not ErrorCode.NONE:
            await client.broker.runtime.tasks.sleep(0.1)
        (log,) = [
            p.log for p in client.broker.parts.partitions.of_topic("__consumer_offsets") if p.log.size_bytes
        ]
        compacted(log)
        for offset in range(1, 30):
            assert await commit(offset * 10) is ErrorCode.NONE
        await until_clean(client, log)
        rows = [
            (r.key, r.value) for one in batches_of(log) for r in one.records if one.segment is not log.active
        ]
        assert len(rows) == len({key for key, _value in rows}) >= 3
        everything = [(r.key, r.value) for one in batches_of(log) for r in one.records]
        assert len(dict(everything)) == len(
            {key for key, _value in rows} | {key for key, _value in everything}
        )

    told(story, **SETTINGS)
