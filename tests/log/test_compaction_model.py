"""A compacted log against a plain model, over random lives.

Method: `compaction_story` writes random logs with transactions, tombstones, codecs and cleanings at any moment, with
maps that fit all keys or a few; after every cleaning the survivors, markers, producers, times and indexes are those a
list and a dictionary tell, and opening the log again, with or without its snapshots, changes nothing.
"""

import random

import pytest

from semel.log.compaction import cleaning as cleaning_module
from semel.log.compaction.cleaning import CleanerLimits
from support.log.compaction_kit import told, with_kernels, without_kernels
from support.log.compaction_story import Story
from support.log.log_kit import DIRECTORY, disk, open_at

SEEDS = 24


@pytest.mark.parametrize(
    ("seed", "engine"), [(seed, (with_kernels, without_kernels)[seed % 2]) for seed in range(SEEDS)]
)
@pytest.mark.mission("LOG-07")
def test_what_is_left_is_what_a_dictionary_says(
    seed: int, engine: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning_module, "key_offsets", engine)
    dice = random.Random(seed)
    files = disk(seed)
    story = Story(dice, files, DIRECTORY, keys=dice.choice([3, 12, 60]))
    limits = dice.choice([CleanerLimits(), CleanerLimits(dedupe_bytes=24 * 20, load_factor=0.5)])
    for _ in range(5):
        story.live(dice.randrange(5, 40))
        story.clean(limits)
        story.check()
        story.now_ms += dice.choice([1, 600, 1500])
    entries = story.log.producers.entries()
    before = [(one.header, one.records) for one in told(story.log)]
    story.log.close(story.now_ms)
    again = open_at(files, story.config, now_ms=story.now_ms)
    assert [(one.header, one.records) for one in told(again)] == before
    assert again.producers.entries() == entries
    for name in files.list_directory(DIRECTORY):
        if name.endswith((".snapshot", "index")):
            files.remove(f"{DIRECTORY}/{name}")
    files.kill()
    story.log = open_at(files, story.config, clean=False, now_ms=story.now_ms)
    story.check()
    assert [_essence(entry) for entry in story.log.producers.entries()] == [
        _essence(entry) for entry in entries
    ]


def _essence(entry: object) -> tuple[object, ...]:
    """The state a producer needs to continue. The batches before its last one are gone from the log, and from a
    replay."""
    names = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "current_txn_first_offset")
    return tuple(getattr(entry, name) for name in names)
