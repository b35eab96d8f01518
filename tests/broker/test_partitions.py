"""Partitions come back as the metadata says: with a new leader epoch after an unclean stop, without what is left over.

Method: a directory and a metadata image by hand, on a disk in memory; the broker's part that owns partitions is built anew
for every life.
"""

import contextlib
import uuid
from collections.abc import Mapping

import pytest

from semel.broker import partitions
from semel.broker.config import BrokerConfig
from semel.broker.partitions import Partitions
from semel.broker.replicas.led_partition import LedPartition
from semel.core.idempotence.producer_window import Duplicate
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import LeaderEpochRow, TopicGoneRow, TopicRow
from semel.errors import ErrorCode, LogError
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.memory_faults import DiskCrashed
from semel.runtime.simulation import SimulatedHost, Simulation, simulated_runtime
from semel.types import TopicPartition
from support.log.log_kit import batch_of

BROKER = BrokerConfig.of().node_id
FIRST, SECOND = uuid.UUID(int=1), uuid.UUID(int=2)
ORDERS = TopicRow("orders", FIRST, alone(BROKER, 2))
ZERO = TopicPartition("orders", 0)


class Machine:
    """A host whose broker part is started and ended by hand."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.lives = 0
        self.simulation = Simulation(1)
        self.host: SimulatedHost = self.simulation.host("broker")
        self.runtime: Runtime
        self.directory: LogDirectory
        self.start()

    def start(self) -> Partitions:
        self.runtime = self.host.boot()
        self.directory = LogDirectory.open(
            self.runtime.files, "/data", node_id=1, cluster_id="c", directory_id="d"
        )
        self.partitions = Partitions(self.directory, self.image, BrokerConfig.of(), self.runtime)
        self.simulation.loop.run_until_complete(self.partitions.load())
        if self.lives and not self.directory.was_clean:  # As `app.Broker` does, durably.
            known = max(self.image.leader_epoch_min, self.partitions.highest_leader_epoch())
            self.image.apply(LeaderEpochRow(known + 1))
        self.lives += 1
        assert self.follow(*self.image) == {}
        return self.partitions

    def after_kill(self) -> Partitions:
        self.host.kill()
        return self.start()

    def after_power_cut(self) -> Partitions:
        self.host.cut_power()
        return self.start()

    def after_clean_stop(self) -> Partitions:
        self.directory.close(self.runtime.clock.now_ms())
        return self.after_kill()

    def follow(self, *rows: TopicRow) -> dict[str, OSError]:
        """As `MetadataApplier` does for topics that are new or changed."""
        failed: dict[str, OSError] = self.simulation.loop.run_until_complete(self.partitions.make(rows))
        return failed

    def make(self, row: TopicRow) -> None:
        self.image.apply(row)
        assert self.follow(row) == {}

    def delete(self, row: TopicRow) -> None:
        doomed = self.partitions.take_out([row])
        self.simulation.loop.run_until_complete(
            self.partitions.remove(doomed, lambda _: contextlib.nullcontext())
        )

    def zero(self) -> LedPartition:
        partition = self.partitions.get("orders", 0)
        assert partition is not None
        return partition


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_partition_is_found_by_name_and_by_id(machine: Machine) -> None:
    machine.make(ORDERS)
    found = machine.partitions.get("orders", 1)
    assert found is not None
    assert found.log.topic_partition == TopicPartition("orders", 1)
    assert machine.partitions.find("", FIRST.bytes, 1) is found
    assert machine.partitions.find("orders", None, 1) is found
    assert machine.partitions.get("orders", 2) is None
    assert machine.partitions.get("orders", -1) is None
    assert machine.partitions.get("bills", 0) is None
    assert machine.partitions.find("", FIRST.bytes, 2) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert machine.partitions.find("orders", SECOND.bytes, 0) is ErrorCode.UNKNOWN_TOPIC_ID
    assert machine.partitions.find("bills", None, 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.leader for one in machine.partitions] == machine.partitions.of_topic("orders")


# Leader epochs


def test_a_new_partition_is_led_in_epoch_0(machine: Machine) -> None:
    machine.make(ORDERS)
    assert machine.zero().leader_epoch == 0


def test_a_clean_stop_keeps_the_leader_epoch(machine: Machine) -> None:
    machine.make(ORDERS)
    assert isinstance(machine.zero().append(batch_of(b"v")), Appended)
    machine.after_clean_stop()
    assert machine.zero().leader_epoch == 0


def test_an_unclean_stop_begins_a_new_leader_epoch(machine: Machine) -> None:
    machine.make(ORDERS)
    for epoch in range(3):
        assert machine.zero().leader_epoch == epoch
        assert isinstance(machine.zero().append(batch_of(b"v")), Appended)
        machine.after_kill()
    assert machine.zero().leader_epoch == 3
    assert [entry.epoch for entry in machine.zero().log.leader_epochs.entries] == [0, 1, 2]


def test_who_believes_in_another_leader_epoch_is_told(machine: Machine) -> None:
    machine.make(ORDERS)
    machine.zero().append(batch_of(b"v"))
    machine.after_kill()
    check = machine.zero().check_leader_epoch
    assert check(1) is ErrorCode.NONE
    assert check(-1) is ErrorCode.NONE, "-1: the client knows none"
    assert check(0) is ErrorCode.FENCED_LEADER_EPOCH
    assert check(2) is ErrorCode.UNKNOWN_LEADER_EPOCH


# What a crash leaves over


def test_records_and_producers_are_there_after_a_kill(machine: Machine) -> None:
    machine.make(ORDERS)
    sent = batch_of(b"v", producer_id=7)
    assert isinstance(machine.zero().append(bytearray(sent)), Appended)
    machine.after_kill()
    assert machine.zero().settled, "everything that is there is visible"
    assert isinstance(machine.zero().append(bytearray(sent)), Duplicate)


def test_a_directory_without_a_topic_goes(machine: Machine) -> None:
    """The deletion is in the metadata, the crash came before the files were touched."""
    machine.make(ORDERS)
    machine.zero().append(batch_of(b"v"))
    machine.image.apply(TopicGoneRow("orders"))
    machine.after_kill()
    assert list(machine.partitions) == []
    assert ZERO not in machine.directory.logs
    assert not machine.runtime.files.exists("/data/orders-0")


def test_the_directory_of_a_topic_made_again_goes(machine: Machine) -> None:
    machine.make(ORDERS)
    sent = batch_of(b"v", producer_id=7, sequence=3)
    machine.zero().append(bytearray(sent))
    machine.image.apply(TopicGoneRow("orders"))
    machine.image.apply(TopicRow("orders", SECOND, alone(BROKER, 2)))
    machine.after_kill()
    assert machine.zero().topic_id == SECOND
    assert machine.zero().log.log_end_offset == 0
    assert 7 not in machine.zero().log.producers, "its producers are not those of the old topic"


def test_a_topic_without_directories_gets_them(machine: Machine) -> None:
    """The creation is in the metadata, the crash came before the directories were made."""
    machine.image.apply(ORDERS)
    machine.after_kill()
    assert len(machine.partitions.of_topic("orders")) == 2
    assert machine.directory.topic_ids[ZERO] == FIRST


def test_a_directory_without_an_id_belongs_to_the_topic_of_its_name(machine: Machine) -> None:
    """The crash came between the directory and the file that says whose it is."""
    machine.make(ORDERS)
    machine.zero().append(batch_of(b"v"))
    machine.runtime.files.remove("/data/orders-0/partition.metadata")
    machine.after_kill()
    assert machine.zero().log.log_end_offset == 1
    assert machine.directory.topic_ids[ZERO] == FIRST


def test_a_partition_beyond_the_topics_number_goes(machine: Machine) -> None:
    machine.make(TopicRow("orders", FIRST, alone(BROKER, 3)))
    machine.image.apply(ORDERS)
    machine.after_kill()
    assert len(machine.partitions.of_topic("orders")) == 2
    assert not machine.runtime.files.exists("/data/orders-2")


def test_a_topic_grows(machine: Machine) -> None:
    machine.make(ORDERS)
    zero = machine.zero()
    machine.make(TopicRow("orders", FIRST, alone(BROKER, 4)))
    assert len(machine.partitions.of_topic("orders")) == 4
    assert machine.zero() is zero


# Disks that refuse


@pytest.mark.parametrize("at_once", [1, 250])
@pytest.mark.parametrize("operation", ["rename", "sync_directory"])
def test_a_deletion_the_disk_refused_leaves_nothing_to_the_next_topic(
    machine: Machine, operation: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by the simulation, produce seeds 836 and 1071."""
    monkeypatch.setattr(partitions, "_AT_ONCE", at_once)
    machine.make(ORDERS)
    machine.zero().append(batch_of(b"old", producer_id=7))
    machine.image.apply(TopicGoneRow("orders"))
    machine.host.disk.fail(operation)  # type: ignore[arg-type]  # one of the names it lists
    with pytest.raises(OSError, match="Input/output error"):
        machine.delete(ORDERS)
    machine.make(TopicRow("orders", SECOND, alone(BROKER, 2)))
    assert machine.zero().log.log_end_offset == 0
    machine.zero().append(batch_of(b"new", producer_id=8))
    machine.after_kill()
    assert machine.zero().log.log_end_offset == 1
    assert list(machine.zero().log.producers.producers) == [8]


def test_a_creation_the_disk_refused_is_durable_when_it_is_tried_again(machine: Machine) -> None:
    machine.host.disk.fail("sync_directory", skip=1)
    machine.image.apply(ORDERS)
    refused = machine.follow(ORDERS)
    assert "Input/output error" in str(refused["orders"])
    assert machine.follow(ORDERS) == {}
    for partition in machine.partitions.of_topic("orders"):
        partition.append(batch_of(b"v"))
        partition.log.flush(0)
    machine.after_power_cut()
    assert [partition.log.log_end_offset for partition in machine.partitions] == [1, 1]


def test_a_directory_made_just_before_a_kill_is_durable_after_the_next_start() -> None:
    """Its name was never synced; what is acknowledged in it later must not vanish with it."""
    for operations in range(30):
        machine = Machine()
        machine.image.apply(TopicRow("orders", FIRST, alone(BROKER, 1)))
        machine.host.disk.crash_at_operation(operations, death="kill")
        with contextlib.suppress(DiskCrashed):
            machine.follow(TopicRow("orders", FIRST, alone(BROKER, 1)))
        if machine.host.is_alive:
            machine.host.disk.clear_faults()
            machine.host.kill()
        machine.start()
        machine.zero().append(batch_of(b"v"))
        machine.zero().log.flush(0)
        machine.after_power_cut()
        assert machine.zero().log.log_end_offset == 1, operations


# Visibility


def test_records_are_visible_at_once_where_nobody_asked_for_syncs(machine: Machine) -> None:
    machine.make(ORDERS)
    machine.zero().append(batch_of(b"v"))
    assert machine.zero().settled
    assert machine.zero().log.high_watermark == 1


def test_records_wait_for_the_sync_where_it_was_asked_for() -> None:
    simulation, runtime = simulated_runtime(1)
    image = MetadataImage()
    directory = LogDirectory.open(runtime.files, "/data", node_id=1, cluster_id="c", directory_id="d")
    partitions = Partitions(directory, image, BrokerConfig.of(), runtime)
    row = TopicRow("orders", FIRST, alone(BROKER, 1), {"flush.messages": "1"})
    image.apply(row)

    async def story() -> None:
        assert await partitions.make([row]) == {}
        partition = partitions.get("orders", 0)
        assert partition is not None
        partition.append(batch_of(b"v"))
        assert not partition.settled
        assert partition.log.high_watermark == 0
        await partition.settle(1)
        assert partition.log.recovery_point == 1
        assert partition.log.high_watermark == 1
        simulation.host("localhost").disk.fail("sync")
        partition.append(batch_of(b"w"))
        with pytest.raises(LogError, match="offline"):
            await partition.settle(2)
        assert partition.log.high_watermark == 1, "what could not be synced is never shown"
        # The next sync would succeed, because the system takes what it dropped for clean. Produce seed 10040.
        with pytest.raises(LogError, match="offline"):
            await partition.commits.flush()
        with pytest.raises(LogError, match="offline"):
            partition.log.flush(0)
        assert partition.log.recovery_point == 1, "it never moves over bytes that may be lost"

    simulation.run(story())


def test_a_topics_settings_are_read_once_for_all_of_its_partitions(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list of 32 KB takes a millisecond: a change of one, and a start, took 11 s with 10,000 partitions."""
    count = 50
    machine.image.apply(TopicRow("orders", FIRST, alone(BROKER, count), {"retention.ms": "5"}))
    assert machine.follow(*machine.image) == {}
    asked: list[str | None] = []
    read = BrokerConfig.log_config

    def counted(config: BrokerConfig, configs: Mapping[str, str], *, checked: bool = False) -> LogConfig:
        asked.append(configs.get("retention.ms"))
        return read(config, configs, checked=checked)

    monkeypatch.setattr(BrokerConfig, "log_config", counted)
    machine.image.apply(TopicRow("orders", FIRST, alone(BROKER, count), {"retention.ms": "7"}))
    machine.partitions.reconfigure("orders")
    assert asked == ["7"]
    assert {replica.log.config.retention_ms for replica in machine.partitions} == {7}
    asked.clear()
    loaded = machine.after_kill()
    assert asked.count("7") == 1
    assert {replica.log.config.retention_ms for replica in loaded} == {7}
    assert len(loaded.of_topic("orders")) == count
