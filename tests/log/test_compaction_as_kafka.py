"""Apache Kafka's cleaner and ours on the same logs: the same records, markers and horizons are left.

Method: random logs with transactions, tombstones and every codec are written, copied, and cleaned by both at the same
moment with maps of the same size; what is left is compared batch by batch. The story goes on in the directory we have
cleaned, then in the one Kafka has: each opens and cleans what the other left. In the end Kafka's own tool reads ours.
And a broker of Kafka's starts on a directory we have cleaned, serves it, and cleans it further.
"""

import asyncio
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic

from semel.core.records.build import Record
from semel.log.compaction import cleaning as cleaning_module
from semel.log.compaction.cleaning import CleanerLimits
from semel.log.compaction.plan import dirtiness
from semel.log.partition_log import PartitionLog
from semel.peers.kafka import KafkaBroker, KafkaHome
from semel.runtime.files import RealFiles
from support.log.compaction_kit import clean, told, with_kernels
from support.log.compaction_story import RETENTION_MS, Story
from support.log.log_kit import open_at

pytestmark = pytest.mark.java
ORACLE = Path(__file__).parent.parent / "java" / "CompactionOracle.java"
SEEDS = range(4)
ROUNDS = 3


def left(log: PartitionLog) -> Iterator[tuple[object, ...]]:
    """The content of a log, without headers that stay only to close the gap before the next segment."""
    batches = told(log)
    for one, following in zip(batches, [*batches[1:], None], strict=True):
        header = one.header
        ends_segment = following is None or following.segment is not one.segment
        window = log.producers.producers.get(header.producer_id)
        is_last = (
            window is not None
            and bool(window.batches)
            and window.batches[-1].last_offset == header.last_offset
        )
        if not one.records and ends_segment and not is_last:
            continue
        yield (
            header.base_offset,
            header.last_offset,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.attributes,
            header.max_timestamp,
            header.delete_horizon_ms,
            tuple((r.offset, r.timestamp_ms, r.key, r.value, r.headers) for r in one.records),
        )


@pytest.mark.mission("LOG-07")
def test_both_leave_the_same(kafka_home: KafkaHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning_module, "key_offsets", with_kernels)
    files = RealFiles()
    stories: list[Story] = []
    for seed in SEEDS:
        dice = random.Random(seed)
        directory = tmp_path / f"seed-{seed}" / "orders-0"
        directory.mkdir(parents=True)
        stories.append(Story(dice, files, str(directory), keys=dice.choice([4, 12, 60])))
    empties = 0
    ours: list[tuple[PartitionLog, int]] = []
    for turn in range(ROUNDS):
        asked = []
        ours.clear()
        for story in stories:
            limits = CleanerLimits(dedupe_bytes=story.dice.choice([24 * 24, 1 << 16]), load_factor=0.75)
            story.live(30)
            story.log.roll(story.now_ms)
            story.log.close(story.now_ms)
            copy = f"{story.directory}.{turn}/orders-0"
            shutil.copytree(story.directory, copy)
            log = open_at(files, story.config, directory=copy, now_ms=story.now_ms)
            dirt = dirtiness(log, story.cleaned_offset, story.now_ms)
            line = (
                story.directory,
                story.config.segment_bytes,
                story.config.index_interval_bytes,
                RETENTION_MS,
                story.now_ms,
                dirt.first_dirty_offset,
                dirt.first_uncleanable_offset,
                limits.dedupe_bytes,
            )
            asked.append(" ".join(map(str, line)))
            done = clean(log, now_ms=story.now_ms, cleaned_offset=story.cleaned_offset, limits=limits)
            ours.append((log, done.end_offset))
        answers = kafka_home.run(str(ORACLE), stdin="\n".join(asked) + "\n").split()
        for story, (log, end_offset), answer in zip(stories, ours, answers, strict=True):
            theirs = open_at(files, story.config, directory=story.directory, now_ms=story.now_ms)
            # With nothing to note, Kafka answers 0.
            assert end_offset == max(int(answer), story.cleaned_offset)
            assert list(left(log)) == list(left(theirs))
            empties += sum(1 for one in told(log) if not one.records)
            story.cleaned_offset = end_offset
            story.log = log if turn == 0 else theirs
            story.directory = story.log.directory
            story.now_ms += story.dice.choice([1, 600, 1500])
    assert empties > 0
    shown = kafka_home.run(
        "org.apache.kafka.tools.DumpLogSegments",
        "--deep-iteration",
        "--files",
        ",".join(
            f"{log.directory}/{segment.base_offset:020d}.log"
            for log, _end in ours
            for segment in log.segments
        ),
    )
    assert "deleteHorizonMs" in shown
    assert "Found timestamp mismatch" not in shown
    assert "Non-consecutive offsets" not in shown.replace("Non-consecutive offsets in", "")
    expected = sum(len(one.records) for log, _end in ours for one in told(log))
    assert shown.count("| offset:") == expected


@pytest.mark.timeout(600)
@pytest.mark.mission("LOG-07")
def test_a_broker_of_kafkas_serves_what_we_cleaned_and_cleans_on(
    kafka_home: KafkaHome, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning_module, "key_offsets", with_kernels)
    settings = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100"}
    broker = KafkaBroker(kafka_home, tmp_path, settings=settings)
    request.addfinalizer(broker.kill)
    broker.start()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic("orders", 1, 1, topic_configs=configs)])
    admin.close()
    broker.stop()

    directory = broker.data / "orders-0"
    story = Story(random.Random(5), RealFiles(), str(directory), now_ms=int(time.time() * 1000))
    story.live(60)
    while story.open:
        story.end_one()
    story.log.roll(story.now_ms)
    story.clean()
    story.check()
    expected = [(r.offset, r.key or b"", r.value) for r in survivors(story.log) if r.value is not None]
    story.live(40)  # Dirt, for Kafka's cleaner.
    while story.open:
        story.end_one()
    story.log.roll(story.now_ms)
    story.log.close(story.now_ms)
    latest = {one.key: one for one in story.written if not one.aborted}
    lasting = {
        key: one.offset for key, one in latest.items() if one.value is not None
    }  # Tombstones may have gone.
    (broker.data / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {story.cleaned_offset}\n")

    broker.start()
    found = consumed(broker, story.log.log_end_offset)
    assert {(offset, key, value) for offset, key, value in found} <= {
        (one.offset, one.key, one.value) for one in story.written
    }
    assert {(o, k, v) for o, k, v in expected if latest[k].offset == o} <= set(found)
    deadline = time.monotonic() + 120
    note = broker.data / "cleaner-offset-checkpoint"
    while note.read_text().split()[-1] == str(story.cleaned_offset):
        assert time.monotonic() < deadline, "Kafka's cleaner did not clean"
        time.sleep(0.1)
    left = consumed(broker, story.log.log_end_offset)
    assert {key: offset for offset, key, value in left if value is not None} == lasting
    broker.stop()

    again = open_at(RealFiles(), story.config, directory=str(directory), now_ms=story.now_ms)
    assert {r.key: r.offset for r in survivors(again) if r.value is not None} == lasting


def survivors(log: PartitionLog) -> list[Record]:
    return [record for one in told(log) if not one.header.is_control for record in one.records]


def consumed(broker: KafkaBroker, end_offset: int) -> list[tuple[int, bytes, bytes | None]]:
    """Everything a consumer of committed records gets."""

    async def read() -> list[tuple[int, bytes, bytes | None]]:
        partition = TopicPartition("orders", 0)
        consumer = AIOKafkaConsumer(
            bootstrap_servers=broker.bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            rows: list[tuple[int, bytes, bytes | None]] = []
            while await consumer.position(partition) < end_offset:
                got = await consumer.getmany(partition, timeout_ms=500)
                rows += [(r.offset, r.key, r.value) for records in got.values() for r in records]
            return rows
        finally:
            await consumer.stop()

    return asyncio.run(asyncio.wait_for(read(), 120))
