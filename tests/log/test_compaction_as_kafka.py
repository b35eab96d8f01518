"""Apache Kafka's cleaner and ours on the same logs: the same records, markers and horizons are left.

Method: random logs with transactions, tombstones and every codec are written, copied, and cleaned by both at the same
moment with maps of the same size; what is left is compared batch by batch. The story goes on in the directory we have
cleaned, then in the one Kafka has: each opens and cleans what the other left. In the end Kafka's own tool reads ours.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compaction_kit import clean, told, with_kernels
from compaction_story import RETENTION_MS, Story
from log_kit import open_at
from semel.bench.kafka_peer import KafkaHome
from semel.log.compaction import cleaning as cleaning_module
from semel.log.compaction.cleaning import CleanerLimits
from semel.log.compaction.plan import dirtiness
from semel.log.partition_log import PartitionLog
from semel.runtime.files import RealFiles

pytestmark = pytest.mark.java
ORACLE = Path(__file__).parent.parent / "java" / "CompactionOracle.java"
SEEDS = range(4)
ROUNDS = 3


def left(log: PartitionLog) -> Iterator[tuple[object, ...]]:
    """What is in a log, but for headers that stay only to close the gap before the next segment."""
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
