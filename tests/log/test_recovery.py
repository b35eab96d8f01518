"""Opening a log after any end: clean stop, kill -9, power cut, lost or damaged files.

Method: the seeded scenario of `semel.verify` for whole stories; here also every single byte at which one append
can die, every index that can be missing, and a real process that is really killed.
"""

import logging
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from semel.core.idempotence.producer_window import Duplicate
from semel.core.records import batch
from semel.errors import CorruptLogError
from semel.log import names, reading
from semel.log.config import LogConfig
from semel.log.leader_epochs import LeaderEpochs
from semel.log.partition_log import Appended, PartitionLog
from semel.log.recovery import Opening, open_log
from semel.runtime.files import RealFiles, join
from semel.runtime.memory_faults import DiskCrashed
from semel.runtime.memory_files import MemoryDisk
from semel.verify.simulation.scenarios import log_crash
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

SMALL = LogConfig(segment_bytes=500, index_interval_bytes=100, producer_id_expiration_ms=10**12)


def story(files: MemoryDisk | RealFiles, directory: str = DIRECTORY) -> PartitionLog:
    """Several segments with idempotent and transactional producers, one transaction left open."""
    log = open_at(files, SMALL, directory=directory)
    for n in range(12):
        send(log, batch_of(b"a%d" % n, b"b", producer_id=1, sequence=2 * n, timestamp_ms=NOW + n))
        send(log, batch_of(b"t", producer_id=2, sequence=n, transactional=True))
        if n % 3 == 0:
            end(log, 2, commit=n % 2 == 0)
    return log


@pytest.mark.parametrize("seed", range(250))
def test_stories_with_kills_and_power_cuts(seed: int) -> None:
    log_crash.run(seed)


@pytest.mark.parametrize(
    ("seed", "what"),
    [
        (31292, "a cut to nothing that was not synced was undone by a power cut, under what had come since"),
        (29511, "an index half rebuilt when the power went was believed, and a time was looked for in vain"),
        (27898, "the same, after the note of it was lost that a killed process had not synced"),
    ],
)
def test_seeds_that_once_failed(seed: int, what: str) -> None:
    log_crash.run(seed)


@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_trap_23_an_append_that_dies_at_any_byte_is_there_whole_or_not_at_all(death: str) -> None:
    data = batch_of(b"the last one", producer_id=1, sequence=2)
    for cut in range(len(data) + 1):
        files = disk(cut)
        log = open_at(files, SMALL)
        for n in range(2):
            send(log, batch_of(b"x", producer_id=1, sequence=n))
        log.flush(NOW)
        kept = content(log)
        files.crash_after(cut, death=death)  # type: ignore[arg-type]  # The two words it takes.
        try:
            send(log, data)
        except DiskCrashed:
            files.restart()
        else:
            files.kill()
        again = open_at(files, SMALL, clean=False, recovery_point=log.recovery_point)
        assert content(again)[: len(kept)] == kept
        assert again.log_end_offset in (2, 3)
        survived = again.log_end_offset == 3
        assert survived or not (death == "kill" and cut == len(data)), "all bytes were written"
        answer = send(again, data)
        assert isinstance(answer, Duplicate if survived else Appended)
        assert (answer.base_offset, again.log_end_offset) == (2, 3)


@pytest.mark.mission("PST-09")
def test_trap_24_kill_9_rebuilds_the_same_state_and_saves_it() -> None:
    files = disk()
    log = story(files)
    before = log.producers.entries()
    files.kill()
    again = open_at(files, SMALL, clean=False)
    assert again.producers.entries() == before
    assert files.exists(join(DIRECTORY, names.file_name(again.log_end_offset, names.SNAPSHOT)))
    assert isinstance(
        send(again, batch_of(b"a11", b"b", producer_id=1, sequence=22, timestamp_ms=NOW + 11)), Duplicate
    )


def test_a_log_that_never_held_anything_waits_for_no_disk() -> None:
    """A broker may have thousands of them after a kill."""
    files = disk()
    open_at(files, SMALL)
    files.kill()
    before, syncs = file_bytes(files), files.counters.syncs
    again = open_at(files, SMALL, clean=False)
    assert (again.log_end_offset, files.counters.syncs) == (0, syncs)
    assert file_bytes(files) == before
    assert isinstance(send(again, batch_of(b"x", producer_id=1, sequence=0)), Appended)
    again.flush(NOW)
    kept = content(again)
    files.crash()
    assert content(open_at(files, SMALL, clean=False)) == kept


@pytest.mark.mission("PST-10")
def test_all_snapshots_lost() -> None:
    files = disk()
    log = story(files)
    log.close(NOW)
    before = log.producers.entries()
    for name in file_bytes(files, endings=[".snapshot"]):
        files.remove(join(DIRECTORY, name))
    assert open_at(files, SMALL).producers.entries() == before


@pytest.mark.parametrize("damage", ["truncated", "flipped", "empty", "of the future"])
def test_trap_24_a_damaged_snapshot_is_discarded_and_rebuilt(
    damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = disk()
    log = story(files)
    log.close(NOW)
    before = log.producers.entries()
    newest = join(DIRECTORY, names.file_name(log.log_end_offset, names.SNAPSHOT))
    file = files.open(newest)
    whole = file.read_at(0, file.size())
    if damage == "truncated":
        file.truncate(len(whole) - 3)
    elif damage == "flipped":
        file.write_at(20, bytes([whole[20] ^ 1]))
    elif damage == "empty":
        file.truncate(0)
    else:
        files.rename(newest, join(DIRECTORY, names.file_name(log.log_end_offset + 5, names.SNAPSHOT)))
    with caplog.at_level(logging.WARNING, "semel.log"):
        again = open_at(files, SMALL)
    assert again.producers.entries() == before
    if damage != "of the future":
        assert "is damaged and removed" in caplog.text
    assert all(offset <= again.log_end_offset for offset in again.snapshots.offsets)


@pytest.mark.mission("PST-04")
def test_state_goes_to_disk_on_roll_and_close_only() -> None:
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=2000))
    for n in range(15):
        send(log, batch_of(b"x", producer_id=1, sequence=n))
    assert not file_bytes(files, endings=[".snapshot"])
    while len(log.segments) < 2:
        n += 1
        send(log, batch_of(b"x", producer_id=1, sequence=n))
    assert list(file_bytes(files, endings=[".snapshot"])) == [
        names.file_name(log.active.base_offset, ".snapshot")
    ]
    log.close(NOW)
    assert names.file_name(log.log_end_offset, ".snapshot") in file_bytes(files, endings=[".snapshot"])


@pytest.mark.mission("LOG-08")
def test_snapshots_stand_beside_their_segments() -> None:
    log = story(disk())
    log.close(NOW)
    found = {int(name[:20]) for name in file_bytes(log._files, endings=[".snapshot"])}
    assert found == {segment.base_offset for segment in log.segments[1:]} | {log.log_end_offset}


@pytest.mark.mission("LOG-11")
@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("kind", [".index", ".timeindex", ".txnindex"])
@pytest.mark.parametrize("damage", ["deleted", "cut", "garbage"])
def test_an_index_that_is_lost_or_damaged_comes_back_with_the_same_content(
    clean: bool, kind: str, damage: str
) -> None:
    files = disk()
    log = story(files)
    log.close(NOW)
    before = file_bytes(files, endings=[".index", ".timeindex", ".txnindex"])
    aborted = reading.aborted_transactions(log, 0, log.log_end_offset)
    victim = next(name for name in before if name.endswith(kind) and before[name])
    path = join(DIRECTORY, victim)
    if damage == "deleted":
        files.remove(path)
    else:
        file = files.open(path)
        if damage == "cut":
            file.truncate(len(before[victim]) - 1)
        else:
            file.write_at(0, b"\xff" * len(before[victim]))
    again = open_at(files, SMALL, clean=clean)
    again.close(NOW)
    assert file_bytes(files, endings=[".index", ".timeindex", ".txnindex"]) == before
    assert reading.aborted_transactions(again, 0, again.log_end_offset) == aborted


def test_leftovers_of_a_crash_are_settled() -> None:
    files = disk()
    log = story(files)
    log.close(NOW)
    kept = file_bytes(files)
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000000.index.deleted",
        "00000000000000000003.log.cleaned",
        "leader-epoch-checkpoint.tmp",
        "00000000000000000777.index",
    ):
        files.open(join(DIRECTORY, name), create=True).write_at(0, b"left over")
    open_at(files, SMALL).close(NOW)
    assert file_bytes(files) == kept


def test_a_swap_that_was_interrupted_is_finished() -> None:
    """A cleaned segment stands for several old ones: they go, it takes its name, nothing is read twice."""
    files = disk()
    log = story(files)
    whole = content(log)
    log.close(NOW)
    bases = [segment.base_offset for segment in log.segments]
    old = file_bytes(files, endings=[".log"])
    merged = b"".join(old[names.file_name(base, ".log")] for base in bases[:3])
    files.open(join(DIRECTORY, names.file_name(bases[0], ".log") + ".swap"), create=True).write_at(0, merged)
    again = open_at(files, SMALL)
    assert content(again) == whole
    assert [segment.base_offset for segment in again.segments] == [bases[0], *bases[3:]]
    assert again.producers.entries() == log.producers.entries()


def test_bytes_behind_a_hole_are_cut_off_and_said_so(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    log = story(files)
    whole = content(log)
    files.kill()
    path = join(DIRECTORY, names.file_name(log.segments[1].base_offset, ".log"))
    positions = [
        position for position, _header in batch.headers(file_bytes(files, endings=[path[-24:]]).popitem()[1])
    ]
    files.open(path).write_at(positions[1] + 30, b"\x00" * 20)
    with caplog.at_level(logging.WARNING, "semel.log"):
        again = open_at(files, SMALL, clean=False)
    assert len(again.segments) == 2
    assert again.active.size_bytes == positions[1]
    assert "checksum" in caplog.text
    assert str(path) in caplog.text
    assert whole.startswith(content(again))


def test_a_lost_index_does_not_put_the_segments_behind_it_in_doubt() -> None:
    """One synced batch has gone bad long ago: whoever reads it is told. It must not cost the segments after it."""
    files = disk()
    log = story(files)
    log.close(NOW)
    assert len(log.segments) > 4
    bases = [segment.base_offset for segment in log.segments]
    before = (log.log_end_offset, log.producers.entries(), file_bytes(files, endings=[".log"]))
    files.remove(join(DIRECTORY, names.file_name(bases[1], ".index")))
    damaged = files.open(join(DIRECTORY, names.file_name(bases[3], ".log")))
    damaged.write_at(65, bytes([damaged.read_at(65, 1)[0] ^ 1]))
    again = open_at(files, SMALL)
    assert [segment.base_offset for segment in again.segments] == bases
    assert (again.log_end_offset, again.producers.entries()) == before[:2]
    after = file_bytes(files, endings=[".log"])
    assert {name for name in after if after[name] != before[2][name]} == {names.file_name(bases[3], ".log")}


def flip(files: MemoryDisk, name: str, position: int) -> None:
    """Damage one byte of a log's file."""
    file = files.open(join(DIRECTORY, name))
    file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 1]))


def test_damage_below_the_recovery_point_is_never_cut_away() -> None:
    """Its indexes being rebuilt is how it is noticed; Kafka would cut the segment there and go on."""
    files = disk()
    log = story(files)
    log.close(NOW)
    bases = [segment.base_offset for segment in log.segments]
    files.remove(join(DIRECTORY, names.file_name(bases[1], ".index")))
    flip(files, names.file_name(bases[1], ".log"), 65)
    before = file_bytes(files, endings=[".log"])
    for clean in (True, False):
        with pytest.raises(CorruptLogError, match=r"damaged at position 0.*truncate -s 0"):
            open_at(files, SMALL, clean=clean, recovery_point=log.log_end_offset)
        assert file_bytes(files, endings=[".log"]) == before
    damaged = files.open(join(DIRECTORY, names.file_name(bases[1], ".log")))
    damaged.truncate(0)  # What the message tells a user who has no copy.
    again = open_at(files, SMALL)
    assert again.log_end_offset == log.log_end_offset
    piece = reading.read(again, bases[1], max_bytes=1, upper_bound=again.log_end_offset)
    assert piece is not None
    assert piece.base_offset == bases[2]


def test_a_flaw_in_one_segment_is_damage_below_the_recovery_point_and_a_torn_write_above_it() -> None:
    """The segment is one and the same: half of it had been synced."""
    files = disk()
    log = open_at(files)
    for n in range(6):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
        if n == 2:
            log.flush(NOW)
    ends = [position for position, _header in log.active.walk()]
    files.kill()
    flip(files, names.file_name(0, ".log"), ends[4] + 70)
    again = open_at(files, clean=False, recovery_point=3)
    assert again.log_end_offset == 4
    files.kill()
    flip(files, names.file_name(0, ".log"), ends[1] + 70)
    with pytest.raises(CorruptLogError, match="from offset 1 on, where everything had been synced"):
        open_at(files, clean=False, recovery_point=3)


@pytest.mark.parametrize("damage", [b"", b"0\n2\n0 0\n", b"\xff\xfe", None])
def test_leader_epochs_are_read_from_the_batches_where_their_file_is_unfit(damage: bytes | None) -> None:
    files = disk()
    log = open_at(files, SMALL)
    for n, epoch in enumerate((0, 0, 3, 3, 3, 7)):
        send(log, batch_of(b"x" * 100, producer_id=1, sequence=n), leader_epoch=epoch)
    before = list(log.leader_epochs.entries)
    assert [epoch for epoch, _start in before] == [0, 3, 7]
    log.close(NOW)
    path = join(DIRECTORY, names.LEADER_EPOCHS)
    if damage is None:
        files.remove(path)
    else:
        file = files.open(path)
        file.truncate(0)
        file.write_at(0, damage)
    again = open_at(files, SMALL)
    assert again.leader_epochs.entries == before
    again.close(NOW)
    assert LeaderEpochs.open(files, path).entries == before


def test_a_log_that_ends_below_its_start_begins_anew_there(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    story(files).close(NOW)
    with caplog.at_level(logging.WARNING, "semel.log"):
        again = open_at(files, SMALL, log_start_offset=1000)
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1000)
    assert "continues, empty, at the start offset" in caplog.text


def test_two_logs_mixed_in_one_directory_are_noticed() -> None:
    files = disk()
    story(files).close(NOW)
    data = file_bytes(files, endings=["00000000000000000000.log"]).popitem()[1]
    stranger = join(DIRECTORY, names.file_name(1, ".log"))
    files.open(stranger, create=True).write_at(0, data)
    with pytest.raises(CorruptLogError, match="two logs are mixed up"):
        open_at(files, SMALL, clean=False)


def test_random_damage_never_gives_wrong_records() -> None:
    """For any changed bytes on disk, the log is a prefix of the written one, or the damage is reported."""
    for seed in range(60):
        dice = random.Random(seed)
        files = disk(seed)
        log = story(files)
        whole = content(log)
        files.kill()
        name = dice.choice(sorted(file_bytes(files)))
        file = files.open(join(DIRECTORY, name))
        if file.size():
            file.write_at(dice.randrange(file.size()), dice.randbytes(dice.randrange(1, 40)))
        again = open_at(files, SMALL, clean=False)
        assert whole.startswith(content(again))


_KILLED = """
import sys
from support.log.log_kit import NOW, batch_of, open_at, send
from semel.log.config import LogConfig
from semel.runtime.files import RealFiles
log = open_at(RealFiles(), LogConfig(segment_bytes=20_000), directory=sys.argv[1])
n = 0
while True:
    send(log, batch_of(b"%d" % n, b"second", producer_id=1, sequence=2 * n & 0x7FFFFFFF, timestamp_ms=NOW + n))
    sys.stdout.write(f"{log.log_end_offset}\\n")
    sys.stdout.flush()
    n += 1
"""


def test_a_process_that_is_really_killed_loses_nothing_it_acknowledged(tmp_path: Path) -> None:
    directory = str(tmp_path / "orders-0")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    for acknowledged_min in (1, 300, 2000):
        with subprocess.Popen(
            [sys.executable, "-c", _KILLED, directory], stdout=subprocess.PIPE, env=environment, text=True
        ) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if len(lines) >= acknowledged_min:
                    process.send_signal(signal.SIGKILL)
                    break
            lines += process.stdout.readlines()
        acknowledged = int([line for line in lines if line.endswith("\n")][-1])
        log = open_at(RealFiles(), LogConfig(segment_bytes=20_000), directory=directory, clean=False)
        assert log.log_end_offset >= acknowledged
        offsets = [header.base_offset for _position, header in batch.headers(content(log))]
        assert offsets == list(range(0, log.log_end_offset, 2))
        log.truncate_fully_and_start_at(0, NOW)
        log.close(NOW)


@pytest.mark.parametrize(("cleaned_offset", "kept"), [(0, 2), (30, 3)])
def test_a_gap_between_segments_is_a_loss_where_compaction_has_not_been(
    cleaned_offset: int, kept: int
) -> None:
    files = disk()
    config = LogConfig(cleanup_compact=True, producer_id_expiration_ms=10**12)
    log = open_at(files, config)
    for _segment in range(3):
        for _batch in range(5):
            send(log, batch_of(b"x", b"y"))
        log.roll(NOW)
    middle = log.segments[1]
    files.kill()
    found = [
        position for position, _header in batch.headers(file_bytes(files, endings=["10.log"]).popitem()[1])
    ]
    files.open(join(DIRECTORY, names.file_name(middle.base_offset, ".log"))).truncate(found[-1])
    opening = Opening(PARTITION, DIRECTORY, config, NOW, clean=False, cleaned_offset=cleaned_offset)
    assert [segment.base_offset for segment in open_log(files, opening).segments[:3]] == [0, 10, 20][:kept]
