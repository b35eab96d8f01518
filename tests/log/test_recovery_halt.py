"""A recovery that is told to leave off loses nothing: the next one finds what the first would have found.

Method: the logs of several crashes, opened with a `Halt` that is asked for at the first look, at the second, and so on, until a
recovery ends before it is asked. After each the directory is opened again, once by a kill's successor and once after a power cut.
"""

import pytest

from semel.errors import LogError, RecoveryHaltedError
from semel.log import names
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.halt import NEVER, Halt
from semel.log.partition_log import PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.files import join
from semel.runtime.memory_files import MemoryDisk
from semel.types import TopicPartition
from support.log.log_kit import (
    DIRECTORY,
    NOW,
    PARTITION,
    batch_of,
    content,
    disk,
    end,
    file_bytes,
    open_at,
    send,
)

SMALL = LogConfig(segment_bytes=400, index_interval_bytes=100, producer_id_expiration_ms=10**14)


class AskedAt(Halt):
    """Asked for at the look with this number, counted from 0."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._left = number

    @property
    def is_asked(self) -> bool:
        self._left -= 1
        return self._left < 0


def killed(*, without: tuple[str, ...] = ()) -> MemoryDisk:
    """A disk a broker left by a kill: transactions in several segments, a batch that was cut off, files that are missing."""
    files = disk()
    log = open_at(files, SMALL)
    for n in range(12):
        send(log, batch_of(b"a%d" % n, producer_id=1, sequence=n, transactional=True))
        send(log, batch_of(b"b%d" % n, producer_id=2, sequence=n, transactional=True))
        end(log, 1, commit=n % 2 == 0)
        if n % 3 == 0:
            end(log, 2, commit=False)
    size = log.active.size_bytes
    log.active.file.write_at(size, bytes(batch_of(b"cut off"))[:70])
    files.kill()
    for name in files.list_directory(DIRECTORY):
        if name.endswith(without):
            files.remove(join(DIRECTORY, name))
    for name in files.list_directory(DIRECTORY):
        file = files.open(join(DIRECTORY, name))
        file.sync()  # A power cut takes what recovery does, and nothing that was before.
        file.close()
    for path in (DIRECTORY, "/data", "/"):
        files.sync_directory(path)
    return files


def opened(files: MemoryDisk, halt: Halt = NEVER, *, recovery_point: int = 0) -> PartitionLog:
    opening = Opening(
        topic_partition=PARTITION,
        directory=DIRECTORY,
        config=SMALL,
        now_ms=NOW,
        clean=False,
        recovery_point=recovery_point,
        halt=halt,
    )
    log = open_log(files, opening)
    log.advance_high_watermark(log.log_end_offset)
    return log


def told(log: PartitionLog) -> tuple[object, ...]:
    """Everything a log knows."""
    aborted = [entry for segment in log.segments for entry in segment.txn_index.entries]
    return (
        log.log_start_offset,
        log.last_stable_offset,
        log.log_end_offset,
        content(log),
        log.producers.entries(),
        aborted,
        log.leader_epochs.entries,
    )


@pytest.mark.parametrize("recovery_point", [0, 30])
@pytest.mark.parametrize("then", ["kill", "power cut"])
@pytest.mark.parametrize(
    "without",
    [(), (names.OFFSET_INDEX,), (names.SNAPSHOT,), (names.LEADER_EPOCHS, names.TXN_INDEX, names.SNAPSHOT)],
    ids=["nothing", "an index", "snapshots", "all that is rebuilt"],
)
def test_left_off_at_any_look_the_next_recovery_finds_the_same(
    without: tuple[str, ...], then: str, recovery_point: int
) -> None:
    expected = told(opened(killed(without=without), recovery_point=recovery_point))
    looks = 0
    while True:
        files = killed(without=without)
        try:
            opened(files, AskedAt(looks), recovery_point=recovery_point)
        except RecoveryHaltedError:
            looks += 1
        else:
            break
        files.kill() if then == "kill" else files.crash()
        assert told(opened(files, recovery_point=recovery_point)) == expected, f"left off at look {looks}"
    assert looks >= (40 if recovery_point == 0 else 10), "every batch that is read is a place to leave off"


def test_a_directory_that_was_left_off_is_not_marked_as_clean() -> None:
    files = killed()
    before = file_bytes(files)
    directory = LogDirectory.open(files, "/data", node_id=1, cluster_id="c", directory_id="d")
    halt = Halt()
    halt.ask()
    assert not issubclass(RecoveryHaltedError, LogError), "it would be taken for damage"
    with pytest.raises(RecoveryHaltedError, match=f"{DIRECTORY} .*the next start recovers the log again"):
        directory.read_some([(PARTITION, SMALL)], NOW, halt)
    directory.release()
    assert not files.exists("/data/.kafka_cleanshutdown")
    assert not files.exists("/data/recovery-point-offset-checkpoint")
    assert file_bytes(files) == before, "asked for before anything was read, it leaves everything alone"
    again = LogDirectory.open(files, "/data", node_id=1, cluster_id="c", directory_id="d")
    assert not again.was_clean
    again.load_all(lambda _partition: SMALL, NOW)
    assert list(again.logs) == [PARTITION]
    assert not again.damaged
    assert again.logs[TopicPartition("orders", 0)].log_end_offset == opened(killed()).log_end_offset
