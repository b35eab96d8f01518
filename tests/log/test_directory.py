"""The data directory: one owner, one identity, and a clean stop that is only claimed when it was one.

Method: directories on a disk in memory that is closed, killed or cut off, and the checkpoints read back.
"""

import errno
import uuid
from pathlib import Path

import pytest

from semel.errors import ConfigError, CorruptLogError, LogDirLockedError, LogError
from semel.log import checkpoints
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory, parse_directory_name
from semel.log.partition_log import Appended
from semel.runtime.files import RealFiles, read_whole
from semel.runtime.memory_files import MemoryDisk
from semel.types import TopicPartition
from semel.verify.simulation.scenarios import directory_crash
from support.log.log_kit import NOW, batch_of, content, disk, send

ORDERS = TopicPartition("orders", 0)
TOPIC_ID = uuid.UUID(int=7)


CONFIG = LogConfig(segment_bytes=500)


def open_directory(files: MemoryDisk | RealFiles, path: str = "/data", node_id: int = 1) -> LogDirectory:
    directory = LogDirectory.open(
        files, path, node_id=node_id, cluster_id="cluster", directory_id="directory"
    )
    directory.load_all(lambda _partition: CONFIG, NOW)
    return directory


def test_a_partition_survives_a_clean_stop_with_everything_known_of_it() -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    for n in range(20):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    directory.delete_records(ORDERS, 3, NOW)
    before = content(log)
    directory.close(NOW)
    assert files.exists("/data/.kafka_cleanshutdown")
    again = open_directory(files)
    log = again.logs[ORDERS]
    assert not files.exists("/data/.kafka_cleanshutdown")
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 20, 20)
    assert content(log) == before
    assert again.topic_ids == {ORDERS: TOPIC_ID}


def test_after_a_kill_the_stop_was_not_clean_and_the_log_is_gone_through() -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    for n in range(20):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    directory.checkpoint()
    files.kill()
    again = open_directory(files)
    assert again.logs[ORDERS].log_end_offset == 20
    assert again.logs[ORDERS].recovery_point == 20


def test_deleted_records_stay_deleted_through_a_power_cut() -> None:
    for seed in range(20):
        files = disk(seed)
        directory = open_directory(files)
        log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
        for n in range(10):
            send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
        directory.delete_records(ORDERS, 10, NOW)
        files.crash()
        assert open_directory(files).logs[ORDERS].log_start_offset == 10


def test_a_deletion_of_records_that_failed_is_not_taken_for_done_the_second_time() -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    for n in range(10):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    log.flush(NOW)
    files.fail("write", errno.ENOSPC, path_part="log-start-offset-checkpoint")
    with pytest.raises(OSError, match="No space"):
        directory.delete_records(ORDERS, 7, NOW)
    assert log.log_start_offset == 0
    directory.delete_records(ORDERS, 7, NOW)
    files.crash()
    assert open_directory(files).logs[ORDERS].log_start_offset == 7


def test_a_log_that_cannot_be_closed_keeps_no_other_from_it(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    directory = open_directory(files)
    for index in range(2):
        log = directory.create(TopicPartition("orders", index), TOPIC_ID, CONFIG, NOW)
        send(log, batch_of(b"x", producer_id=1, sequence=0))
    files.fail("sync", errno.EIO, path_part="orders-0/")
    directory.close(NOW)
    assert "orders-0 could not be closed cleanly" in caplog.text
    assert not files.exists("/data/.kafka_cleanshutdown")
    again = open_directory(files)
    assert [log.log_end_offset for log in again.logs.values()] == [1, 1]


def test_a_directory_has_one_owner() -> None:
    files = disk()
    open_directory(files)
    with pytest.raises(LogDirLockedError, match=r"/data/\.lock is locked"):
        open_directory(files)


def test_a_real_directory_has_one_owner(tmp_path: object) -> None:
    files = RealFiles()
    directory = open_directory(files, str(tmp_path))
    with pytest.raises(LogDirLockedError, match="another broker in this process"):
        open_directory(files, str(tmp_path))
    directory.close(NOW)
    open_directory(files, str(tmp_path)).close(NOW)


def test_a_directory_of_another_broker_is_refused_and_left_unlocked() -> None:
    files = disk()
    open_directory(files).close(NOW)
    with pytest.raises(ConfigError, match="belongs to broker 1, this is broker 2"):
        open_directory(files, node_id=2)
    open_directory(files)


def test_a_deleted_partition_is_gone_even_if_its_files_are_not_yet() -> None:
    files = disk()
    directory = open_directory(files)
    directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    directory.delete([ORDERS], "0123")
    assert files.list_directory("/data/orders-0.0123-delete")
    files.kill()
    again = open_directory(files)
    assert again.logs == {}
    assert not files.exists("/data/orders-0.0123-delete")
    recreated = again.create(ORDERS, uuid.UUID(int=8), CONFIG, NOW)
    assert recreated.log_end_offset == 0


def test_damaged_checkpoints_cost_time_only(caplog: pytest.LogCaptureFixture) -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    send(log, batch_of(b"x"))
    directory.close(NOW)
    file = files.open("/data/recovery-point-offset-checkpoint")
    file.truncate(0)
    file.write_at(0, b"0\n2\norders 0 1\n")
    assert open_directory(files).logs[ORDERS].log_end_offset == 1
    assert "announces '2' rows, 1 follow" in caplog.text


def test_the_small_files_are_kafkas() -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    send(log, batch_of(b"x"))
    directory.close(NOW)
    assert read_whole(files, "/data/recovery-point-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert read_whole(files, "/data/replication-offset-checkpoint") == b"0\n1\norders 0 1\n"
    assert read_whole(files, "/data/log-start-offset-checkpoint") == b"0\n0\n"
    assert read_whole(files, "/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":-1}'
    assert (
        read_whole(files, "/data/orders-0/partition.metadata")
        == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"
    )
    assert checkpoints.read_meta_properties(files, "/data/meta.properties") == {
        "version": "1",
        "cluster.id": "cluster",
        "node.id": "1",
        "directory.id": "directory",
    }


@pytest.mark.parametrize("text", ["short", "AAAAAAAAAAAAAAAAAAAAB!", ""])
def test_an_id_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        checkpoints.decode_uuid(text)


@pytest.mark.parametrize(
    ("content_of_file", "message"),
    [
        (b"1\n0\n", "begins with version 0"),
        (b"0\n1\na b\n", "2 fields instead of 3"),
        (b"0\n1\na b c\n", "invalid literal"),
    ],
)
def test_a_checkpoint_that_is_none_names_the_flaw(content_of_file: bytes, message: str) -> None:
    files = disk()
    files.open("/checkpoint", create=True).write_at(0, content_of_file)
    with pytest.raises(CorruptLogError, match=message):
        checkpoints.read_offsets(files, "/checkpoint")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders-0", TopicPartition("orders", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("orders", None),
        ("-3", None),
        ("orders-x", None),
        ("orders-0.0123-delete", None),
    ],
)
def test_names_of_directories(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


@pytest.mark.parametrize("seed", range(40))
def test_stories_with_kills_and_power_cuts(seed: int) -> None:
    directory_crash.run(seed)


@pytest.mark.mission("PST-06")
def test_what_one_partition_does_holds_up_no_other() -> None:
    """While one partition syncs, rolls, saves its producers and expires them, the other appends undisturbed."""
    files = disk()
    directory = open_directory(files)
    first = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    second = directory.create(TopicPartition("orders", 1), TOPIC_ID, CONFIG, NOW)
    send(first, batch_of(b"x", producer_id=1, sequence=0))
    send(second, batch_of(b"y", producer_id=1, sequence=0))
    job = first.begin_flush()  # Its sync is under way on a thread.
    first.roll(NOW)
    assert isinstance(send(second, batch_of(b"y", producer_id=1, sequence=1)), Appended)
    assert first.expire_producers(NOW + 10**9) == 1
    assert isinstance(send(second, batch_of(b"y", producer_id=1, sequence=2)), Appended)
    job.run()
    first.finish_flush(job, NOW)
    assert (first.recovery_point, second.recovery_point) == (1, 0)
    assert first.producers.entries() == []
    assert [entry.last_sequence for entry in second.producers.entries()] == [2]


@pytest.mark.mission("IDEM-07")
def test_one_producers_sequences_on_two_partitions_know_nothing_of_each_other() -> None:
    directory = open_directory(disk())
    first = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    second = directory.create(TopicPartition("orders", 1), TOPIC_ID, CONFIG, NOW)
    data = batch_of(b"same record", producer_id=1, sequence=0)
    assert isinstance(send(first, data), Appended)
    assert isinstance(send(second, data), Appended)
    before = first.producers.entries()
    for sequence in range(1, 8):
        send(second, batch_of(b"y", producer_id=1, sequence=sequence))
    assert first.producers.entries() == before
    assert isinstance(send(first, batch_of(b"next", producer_id=1, sequence=1)), Appended)


def test_a_new_partition_inherits_nothing_from_a_deletion_that_was_interrupted() -> None:
    """The machine dies after the old partition's directory is gone and before the checkpoints say so."""
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    for n in range(10):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    directory.delete_records(ORDERS, 8, NOW)
    files.fail("open", errno.EIO, path_part="checkpoint")
    with pytest.raises(OSError, match="Input/output"):
        directory.delete([ORDERS], "0123")
    files.kill()
    again = open_directory(files)
    log = again.create(ORDERS, uuid.UUID(int=8), CONFIG, NOW)
    for n in range(3):
        send(log, batch_of(b"new", producer_id=1, sequence=n))
    before = content(log)
    files.kill()
    log = open_directory(files).logs[ORDERS]
    assert (log.log_start_offset, log.log_end_offset, content(log)) == (0, 3, before)


def test_a_checkpoint_forgets_nothing_of_logs_that_are_not_loaded_yet() -> None:
    files = disk()
    directory = open_directory(files)
    other = TopicPartition("payments", 0)
    for partition in (ORDERS, other):
        log = directory.create(partition, TOPIC_ID, CONFIG, NOW)
        for n in range(5):
            send(log, batch_of(b"x", producer_id=1, sequence=n))
        directory.delete_records(partition, 3, NOW)
    files.kill()
    early = LogDirectory.open(files, "/data", node_id=1, cluster_id="cluster", directory_id="directory")
    early.load(ORDERS, CONFIG, NOW)
    early.checkpoint()
    files.kill()
    again = open_directory(files)
    assert [again.logs[partition].log_start_offset for partition in (ORDERS, other)] == [3, 3]


def test_a_stop_before_all_logs_were_loaded_is_clean_only_if_the_one_before_was() -> None:
    files = disk()
    directory = open_directory(files)
    send(directory.create(ORDERS, TOPIC_ID, CONFIG, NOW), batch_of(b"x"))
    files.kill()
    LogDirectory.open(files, "/data", node_id=1, cluster_id="cluster", directory_id="directory").close(NOW)
    assert not files.exists("/data/.kafka_cleanshutdown")
    open_directory(files).close(NOW)
    LogDirectory.open(files, "/data", node_id=1, cluster_id="cluster", directory_id="directory").close(NOW)
    assert files.exists("/data/.kafka_cleanshutdown")
    assert open_directory(files).logs[ORDERS].log_end_offset == 1


def test_a_truncation_writes_the_lower_recovery_point_down() -> None:
    files = disk()
    directory = open_directory(files)
    log = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    for n in range(20):
        send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
    log.flush(NOW)
    directory.checkpoint()
    directory.truncate(ORDERS, 4, NOW)
    path = "/data/recovery-point-offset-checkpoint"
    assert checkpoints.read_offsets(files, path) == {ORDERS: 4}


def test_a_topic_with_the_longest_name_can_be_deleted(tmp_path: Path) -> None:
    files = RealFiles()
    longest = TopicPartition("t" * 249, 1000)
    directory = open_directory(files, str(tmp_path))
    directory.create(longest, TOPIC_ID, CONFIG, NOW)
    directory.delete([longest], f"{7:032x}")
    assert [name for name in files.list_directory(str(tmp_path)) if name.endswith("-delete")]
    directory.close(NOW)
    again = open_directory(files, str(tmp_path))
    assert again.logs == {}
    assert not [name for name in files.list_directory(str(tmp_path)) if name.startswith("t")]
    again.close(NOW)


def test_a_directory_that_only_looks_deleted_is_left_alone() -> None:
    files = disk()
    open_directory(files).close(NOW)
    files.make_directory("/data/please-do-not-delete")
    open_directory(files)
    assert files.exists("/data/please-do-not-delete")


def test_a_damaged_partition_is_isolated_and_kept_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    """Through kills and stops: never served, never cut, never called clean; the other goes on."""
    files = disk()
    directory = open_directory(files)
    other = TopicPartition("orders", 1)
    logs = [directory.create(partition, TOPIC_ID, CONFIG, NOW) for partition in (ORDERS, other)]
    for log in logs:
        for n in range(20):
            send(log, batch_of(b"x" * 40, producer_id=1, sequence=n))
        log.flush(NOW)
    directory.delete_records(ORDERS, 3, NOW)
    files.kill()
    path = f"/data/orders-0/{logs[0].active.base_offset:020d}.log"
    file = files.open(path)
    file.write_at(70, bytes([file.read_at(70, 1)[0] ^ 1]))
    before = files.open(path).read_at(0, 10_000)
    for is_killed in (True, False, True):
        caplog.clear()
        directory = open_directory(files)
        assert list(directory.logs) == [other]
        assert list(directory.damaged) == [ORDERS]
        assert directory.topic_ids[ORDERS] == TOPIC_ID
        assert f"orders-0 is offline and everything else is served: {path} is damaged at" in caplog.text
        assert "semel log verify /data/orders-0" in caplog.text
        assert isinstance(send(directory.logs[other], batch_of(b"more")), Appended)
        with pytest.raises(LogError, match="orders-0 is in /data already"):
            directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
        files.kill() if is_killed else directory.close(NOW)
        assert not files.exists("/data/.kafka_cleanshutdown")
    assert files.open(path).read_at(0, 10_000) == before
    file = files.open(path)
    file.write_at(70, bytes([file.read_at(70, 1)[0] ^ 1]))  # Brought back from a copy.
    directory = open_directory(files)
    assert (directory.logs[ORDERS].log_start_offset, directory.logs[ORDERS].log_end_offset) == (3, 20)
    directory.delete([ORDERS], "0123")
    directory.close(NOW)
    assert list(open_directory(files).logs) == [other]


def test_closing_partitions_that_never_held_anything_asks_little_of_the_disk() -> None:
    """Internal topics have fifty of them: an embedded broker stops as fast as it starts."""
    files = disk()
    directory = open_directory(files)
    for index in range(20):
        directory.create(TopicPartition("quiet", index), TOPIC_ID, CONFIG, NOW)
    used = directory.create(ORDERS, TOPIC_ID, CONFIG, NOW)
    send(used, batch_of(b"x"))
    before = files.counters.syncs
    directory.close(NOW)
    assert files.counters.syncs - before < 20
    files.crash()
    again = open_directory(files)
    assert again.was_clean
    assert len(again.logs) == 21
    assert [tp for tp, log in again.logs.items() if log.log_end_offset] == [ORDERS]
