"""A disk that refuses in the middle of something: the log goes on as if it had not been asked, or says it cannot.

Method: each operation an append consists of is made to fail in turn, on a disk in memory; what was acknowledged
before and after must be there, once and in order, for this process and for the next one.
"""

import errno
import random
from collections.abc import Callable

import pytest

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.errors import ErrorCode, Refuse
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.runtime.memory_files import MemoryDisk, MemoryFile
from support.log.log_kit import DIRECTORY, NOW, batch_of, content, disk, end, open_at, send

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=1, producer_id_expiration_ms=10**12)


def offsets(log: PartitionLog) -> list[int]:
    return [header.base_offset for _position, header in batch.headers(content(log))]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [".snapshot", ".log", ".index", ".timeindex"])
def test_a_roll_that_fails_leaves_no_segment_behind(kind: str, clean: bool) -> None:
    """A batch too large for the segment asks for a new one, which cannot be made; a small one still fits the old."""
    files = disk()
    log = open_at(files, SMALL)
    for n in range(3):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    files.fail("create", errno.EMFILE, path_part=kind)
    refused = send(log, batch_of(b"y" * 300, producer_id=1, sequence=3))
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert send(log, batch_of(b"z", producer_id=1, sequence=3)) == Appended(3, 3, -1)
    before = content(log)
    if clean:
        log.close(NOW)
    else:
        files.kill()
    again = open_at(files, SMALL, clean=clean)
    assert content(again) == before
    assert again.log_end_offset == 4


def test_a_half_made_segment_that_cannot_be_removed_takes_the_log_offline() -> None:
    files = disk()
    log = open_at(files, SMALL)
    for n in range(3):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    before = content(log)
    files.fail("create", errno.EIO, path_part=".index")
    files.fail("remove", errno.EIO)
    assert isinstance(send(log, batch_of(b"y" * 300, producer_id=1, sequence=3)), Refuse)
    later = send(log, batch_of(b"z", producer_id=1, sequence=3))
    assert isinstance(later, Refuse)
    assert "offline" in later.reason
    files.kill()
    again = open_at(files, SMALL, clean=False)
    assert content(again) == before


def test_an_index_that_cannot_be_loaded_refuses_the_batch_before_it_is_written() -> None:
    """After a start the indexes of the last segment are on disk; the append that first needs them cannot read them."""
    files = disk()
    log = open_at(files, SMALL)
    for n in range(3):
        send(log, batch_of(b"x", producer_id=1, sequence=n))
    log.close(NOW)
    log = open_at(files, SMALL)
    send(log, batch_of(b"x", producer_id=1, sequence=3))
    files.fail("open", errno.EMFILE, path_part="index")
    assert isinstance(send(log, batch_of(b"x", producer_id=1, sequence=4)), Refuse)
    assert send(log, batch_of(b"x", producer_id=1, sequence=4)) == Appended(4, 4, -1)
    assert offsets(log) == [0, 1, 2, 3, 4]
    files.kill()
    assert offsets(open_at(files, SMALL, clean=False)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("clean", [True, False])
def test_an_abort_whose_index_entry_cannot_be_written_is_an_abort_all_the_same(clean: bool) -> None:
    files = disk()
    log = open_at(files)
    send(log, batch_of(b"x", producer_id=1, transactional=True))
    files.fail("create", errno.ENOSPC, path_part=".txnindex")
    assert isinstance(end(log, 1, commit=False), Appended)
    assert log.last_stable_offset == log.log_end_offset == 2
    aborted = reading.aborted_transactions(log, 0, 2)
    assert [(entry.producer_id, entry.first_offset) for entry in aborted] == [(1, 0)]
    if clean:
        log.close(NOW)
    else:
        files.kill()
    assert reading.aborted_transactions(open_at(files, clean=clean), 0, 2) == aborted


def emptied_by_retention(files: MemoryDisk) -> PartitionLog:
    """A log without batches: the snapshot where it begins is all that is known of its producer."""
    log = open_at(files, SMALL)
    send(log, batch_of(b"x", producer_id=1, sequence=0))
    log.advance_log_start(1)
    assert log.delete_old_segments(NOW) == 1
    return log


@pytest.mark.parametrize("death", ["kill", "power cut"])
@pytest.mark.parametrize("what", ["close", "open"])
def test_the_only_copy_of_a_producers_state_is_never_written_over_in_place(what: str, death: str) -> None:
    for operation in range(40):
        files = disk(operation)
        log = emptied_by_retention(files)
        if what == "open":
            files.kill()
        files.crash_at_operation(operation, death=death)  # type: ignore[arg-type]  # The two words it takes.
        try:
            if what == "open":
                open_at(files, SMALL, clean=False)
            else:
                log.close(NOW)
        except DiskCrashed:
            files.restart()
        else:
            files.clear_faults()
            files.kill()
        again = open_at(files, SMALL, clean=False)
        assert isinstance(send(again, batch_of(b"x", producer_id=1, sequence=0)), Duplicate), operation


class Meddling(MemoryDisk):
    """A disk on which something else happens right before a file is opened."""

    before_open: Callable[[], object] | None = None

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        if self.before_open is not None:
            meddle, self.before_open = self.before_open, None
            meddle()
        return super().open(path, create=create, read_only=read_only)


def test_a_sync_goes_on_when_retention_takes_a_file_away_under_it() -> None:
    files = Meddling(random.Random(1))
    log = open_at(files, SMALL)
    for n in range(12):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    assert len(log.segments) > 2
    log.advance_log_start(log.log_end_offset)
    job = log.begin_flush()
    files.before_open = lambda: log.delete_old_segments(NOW)
    job.run()
    log.finish_flush(job, NOW)
    assert log.recovery_point == 12
    assert len(log.segments) == 1


@pytest.mark.parametrize("seed", range(40))
def test_what_a_start_serves_after_a_failed_sync_and_a_kill_survives_the_next_power_cut(seed: int) -> None:
    """The system takes pages for clean whose sync failed: reading them back, and syncing again, proves nothing."""
    files = disk(seed)
    log = open_at(files, SMALL)
    for n in range(3):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    log.flush(NOW)
    for n in range(3, 9):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    files.fail("sync", errno.EIO, path_part=".log", skip=seed % 2)
    with pytest.raises(OSError, match="Input/output"):
        log.flush(NOW)
    files.kill()
    again = open_at(files, SMALL, clean=False, recovery_point=3)
    served = content(again)
    assert offsets(again) == list(range(9))
    files.crash()
    last = open_at(files, SMALL, clean=False, recovery_point=again.recovery_point)
    assert content(last) == served
    assert "sync-failed" not in files.list_directory(DIRECTORY)


def test_a_failed_sync_that_cannot_even_be_noted_is_said_aloud(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    log = open_at(files, SMALL)
    send(log, batch_of(b"x", producer_id=1, sequence=0))
    files.fail("sync", errno.EIO)
    files.fail("create", errno.EROFS, path_part="sync-failed")
    with pytest.raises(OSError, match="Input/output"):
        log.flush(NOW)
    assert "the mark of the failed sync could not be written" in caplog.text
    assert log.offline is not None


@pytest.mark.parametrize("death", ["kill", "power cut"])
@pytest.mark.parametrize("start", [0, 4, 50])
def test_a_log_that_begins_anew_is_the_old_one_or_the_new_one_at_every_moment(
    start: int, death: Death
) -> None:
    """A follower far behind its leader throws its log away; a crash at any change must leave one that can go on."""

    def story(files: MemoryDisk) -> PartitionLog:
        log = open_at(files, SMALL)
        for n in range(20):
            send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
        log.flush(NOW)
        return log

    dry = disk()
    log = story(dry)
    before = dry.counters.operations
    log.truncate_fully_and_start_at(start, NOW)
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (start, start, 1)
    for point in range(dry.counters.operations - before):
        files = disk(point)
        log = story(files)
        files.crash_at_operation(point, death=death)
        with pytest.raises(DiskCrashed):
            log.truncate_fully_and_start_at(start, NOW)
        files.restart()
        again = open_at(files, SMALL, clean=False, recovery_point=20)
        assert again.log_end_offset in (*range(21), start)
        assert offsets(again) == list(range(again.log_start_offset, again.log_end_offset))
        again.truncate_fully_and_start_at(start, NOW)
        assert isinstance(send(again, batch_of(b"y")), Appended)


def test_a_log_that_cannot_begin_anew_stays_as_it_was() -> None:
    files = disk()
    log = open_at(files, SMALL)
    for n in range(20):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    before = content(log)
    files.fail("create", errno.ENOSPC, path_part=".log")
    with pytest.raises(OSError, match="No space"):
        log.truncate_fully_and_start_at(50, NOW)
    assert content(log) == before
    assert isinstance(send(log, batch_of(b"y", producer_id=1, sequence=20)), Appended)
