"""A compacted log whose cleaner dies at any moment: the latest record of every key is always there.

Method: seeded stories on a disk that kills and cuts the power (`verify.simulation.scenarios.compaction_crash`); one log whose
cleaning is killed at every single file operation; and the left-overs a start must deal with, put there by hand.
"""

import pytest

from semel.core.records.build import RecordInput, build_batch
from semel.log import leftovers
from semel.log.compaction import cleaned_segment
from semel.log.compaction.cleaned_segment import Swap
from semel.log.compaction.cleaning import CleanedGroup, CleanerLimits, Cleaning
from semel.log.compaction.plan import dirtiness
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.runtime.files import read_whole
from semel.runtime.memory_faults import Death
from semel.runtime.memory_files import MemoryDisk
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.scenarios import compaction_crash
from support.log.compaction_kit import clean, told
from support.log.log_kit import DIRECTORY, NOW, content, disk, open_at, send

SEEDS = 80
CONFIG = LogConfig(segment_bytes=400, cleanup_compact=True, cleanup_delete=False)


@pytest.mark.parametrize("first", range(0, SEEDS, 8))
@pytest.mark.mission("LOG-07")
def test_no_story_loses_the_latest_of_a_key(first: int) -> None:
    for seed in range(first, first + 8):
        compaction_crash.run(seed)


@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_a_death_at_every_file_operation_of_a_cleaning(death: Death) -> None:
    operation = 0
    while compaction_crash.run_death_at(0, operation, death):
        operation += 1
    assert operation > 40


@pytest.mark.parametrize("what", ["order of renames", "unsynced keys"])
def test_the_scenario_notices(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if what == "order of renames":
        # The new segment is called .swap before its bytes are on disk.
        monkeypatch.setattr(cleaned_segment.CleanedSegment, "finish", _finish_without_syncs)
    else:
        # A key is superseded by a record that is not synced.
        monkeypatch.setattr(PartitionLog, "recovery_point", _RecoveryPoint(), raising=False)
        monkeypatch.setattr(compaction_crash.Story, "flush", lambda _story: None)
    with pytest.raises(PromiseBroken):
        play_all()


def play_all() -> None:
    for seed in range(SEEDS):
        compaction_crash.run(seed)


class _RecoveryPoint:
    """Says that everything is synced."""

    def __get__(self, log: PartitionLog, _owner: object) -> int:
        return log.log_end_offset

    def __set__(self, log: PartitionLog, value: int) -> None:
        pass


def _finish_without_syncs(self: cleaned_segment.CleanedSegment, keys: object) -> None:
    self._time_index.append(*keys.largest_timestamp)  # type: ignore[attr-defined]  # A KeyOffsets.
    self._offset_index.file.seal()
    self._time_index.file.seal()
    self._txn_index.flush()
    self._file.close()


def written(files: MemoryDisk) -> PartitionLog:
    log = open_at(files, CONFIG)
    for n in range(12):
        send(log, build_batch([RecordInput(b"k%d" % (n % 3), b"%d" % n * 40, NOW)]))
    log.roll(NOW)
    log.flush(NOW)
    return log


def names_of(files: MemoryDisk) -> list[str]:
    return [n for n in files.list_directory(DIRECTORY) if ".log" in n or "index" in n]


def put(files: MemoryDisk, name: str, data: bytes) -> None:
    file = files.open(f"{DIRECTORY}/{name}", create=True)
    file.write_at(0, data)
    file.close()


def test_a_cleaning_that_was_not_over_leaves_the_log_as_it_was() -> None:
    files = disk()
    log = written(files)
    before, names = content(log), names_of(files)
    log.close(NOW)
    for kind in (".log", ".index", ".timeindex", ".txnindex"):
        put(files, f"{0:020d}{kind}.cleaned", b"half of it")
    again = open_at(files, CONFIG)
    assert content(again) == before
    assert names_of(files) == names


def test_a_swap_that_was_decided_is_finished_and_takes_the_old_segments_with_it() -> None:
    files = disk()
    log = written(files)
    cleaned_files = disk(1)
    other = written(cleaned_files)
    clean(other, now_ms=NOW)
    expected = content(other)
    new = read_whole(cleaned_files, f"{DIRECTORY}/{0:020d}.log")
    end = [one.header.next_offset for one in told(other) if one.segment.base_offset == 0][-1]
    bases = [segment.base_offset for segment in log.segments]
    log.close(NOW)
    put(files, f"{0:020d}.log.swap", new)
    put(files, f"{0:020d}.index.swap", b"who knows whose")
    again = open_at(files, CONFIG)
    assert [s.base_offset for s in again.segments] == [0, *(base for base in bases if base >= end)]
    assert content(again).startswith(new)
    assert content(again)[: len(new)] == expected[: len(new)]
    assert not [n for n in names_of(files) if n.endswith((".swap", ".deleted"))]


def test_an_index_called_swap_without_its_log_is_thrown_away() -> None:
    files = disk()
    log = written(files)
    before = content(log)
    log.close(NOW)
    put(files, f"{0:020d}.index.swap", b"\x00" * 8)
    put(files, f"{0:020d}.txnindex.swap", b"\x00" * 34)
    again = open_at(files, CONFIG)
    assert content(again) == before
    assert not [n for n in names_of(files) if n.endswith(".swap")]


def test_a_part_of_a_split_that_kafka_had_not_finished_is_thrown_away() -> None:
    files = disk()
    log = written(files)
    before = content(log)
    log.close(NOW)
    put(files, f"{0:020d}.log.cleaned", b"")
    put(files, f"{4:020d}.log.swap", b"")
    leftovers.settle_leftovers(files, DIRECTORY)
    assert content(open_at(files, CONFIG)) == before


def test_segments_that_became_many_are_exchanged_one_group_at_a_time() -> None:
    files = disk()
    log = written(files)
    many = len(log.segments)
    clean(log, now_ms=NOW)
    clean(log, now_ms=NOW)  # Now that neighbours are small.
    log.remove_deleted_files(NOW + 10**9)
    assert len(log.segments) < many
    on_disk = [n for n in files.list_directory(DIRECTORY) if n.endswith(".log")]
    assert on_disk == [f"{segment.base_offset:020d}.log" for segment in log.segments]


def test_a_topic_made_again_under_the_name_of_one_that_is_compacted_keeps_its_files() -> None:
    """Threads that still work for the old one find the directory of the new one."""
    files = disk()
    old = written(files)
    dirt = dirtiness(old, None, NOW)
    cleaning = Cleaning.begin(old, dirt, files=files, limits=CleanerLimits(), secret=bytes(16), now_ms=NOW)
    group = next(step for step in cleaning.steps() if isinstance(step, CleanedGroup))
    swap = Swap(files, old, group.cleaned, group.old, NOW)
    assert swap.begin()
    swap.commit()
    swap.replace()
    files.rename(DIRECTORY, f"{DIRECTORY}.deleted")
    new = open_at(files, CONFIG)
    send(new, build_batch([RecordInput(b"key", b"of the new one", NOW)]))
    before = files.list_directory(DIRECTORY)
    swap.retire()
    assert files.list_directory(DIRECTORY) == before
    assert files.exists(new.active.file.path)
