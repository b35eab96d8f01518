"""A change of the metadata is there whole or not at all, wherever the machine died, and always once it was answered.

Method: a store on a disk in memory that dies at every operation of a commit, by kill and by power cut; what the next start
reads is compared with what was committed.
"""

import asyncio
import random
import uuid

import pytest

from semel.cluster.standalone import METADATA_CONFIG, StandaloneStore
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import (
    BrokerConfigRow,
    ClusterRow,
    ProducerIdsRow,
    Row,
    TopicGoneRow,
    TopicRow,
)
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.records.build import RecordInput, build_batch
from semel.errors import CorruptLogError, LogError
from semel.log.directory import LogDirectory
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import Runtime
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.runtime.simulation import SimulatedHost, Simulation
from semel.types import TopicPartition

BEFORE: list[Row] = [ClusterRow("cluster"), TopicRow("old", uuid.UUID(int=1), alone(1, 1))]
CHANGE: list[Row] = [
    TopicGoneRow("old"),
    TopicRow("orders", uuid.UUID(int=2), alone(1, 3), {"retention.ms": "1000"}),
    BrokerConfigRow("", {"log.retention.ms": "5"}),
    ProducerIdsRow(1000),
]


def opened(runtime: Runtime) -> tuple[StandaloneStore, PartitionLog]:
    directory = LogDirectory.open(runtime.files, "/data", node_id=1, cluster_id="c", directory_id="d")
    log = directory.load(TopicPartition(METADATA_TOPIC, 0), METADATA_CONFIG, runtime.clock.now_ms())
    directory.load_all(lambda _: METADATA_CONFIG, runtime.clock.now_ms())
    log.advance_high_watermark(log.log_end_offset)
    return StandaloneStore(log, runtime.tasks, runtime.clock, broker_id=1), log


def image_of(*rows: Row) -> MetadataImage:
    image = MetadataImage()
    for row in rows:
        image.apply(row)
    return image


class Life:
    """One host that commits, dies at a planned operation and starts again."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.host: SimulatedHost = self.simulation.host("broker")
        self.answered = False

    async def commit(self, runtime: Runtime) -> None:
        store, _log = opened(runtime)
        await store.commit(CHANGE)
        self.answered = True

    async def prepare(self, runtime: Runtime) -> None:
        store, _log = opened(runtime)
        await store.commit(BEFORE)

    async def read(self, runtime: Runtime) -> MetadataImage:
        return opened(runtime)[0].image


def play(seed: int, operation: int, death: Death) -> tuple[MetadataImage, bool, bool]:
    """What is read after a death at an operation of the commit; whether it was answered, whether anything died."""
    life = Life(seed)

    async def story() -> tuple[MetadataImage, bool]:
        await life.host.start(life.prepare)
        life.host.kill()
        life.host.disk.crash_at_operation(operation, death=death)
        task = life.host.start(life.commit)
        death_came = asyncio.create_task(life.host.until_dead())
        await asyncio.wait([task, death_came], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            assert task.exception() is None or isinstance(task.exception(), DiskCrashed)
        died = not life.host.is_alive
        if not died:
            life.host.disk.clear_faults()
            life.host.cut_power()
        return await life.host.start(life.read), died

    image, died = life.simulation.run(story())
    return image, life.answered, died


@pytest.mark.parametrize("death", ["kill", "power cut"])
def test_a_change_is_there_whole_or_not_at_all(death: Death) -> None:
    before, after = image_of(*BEFORE), image_of(*BEFORE, *CHANGE)
    seen, operation, died = set[bool](), 0, True
    while died:
        for seed in range(4):
            image, answered, died = play(seed, operation, death)
            assert image in (before, after), (operation, seed)
            assert image == after or not answered, "what was answered is there"
            seen.add(image == after)
        operation += 1
    assert operation > 5, "there are points to die at"
    assert seen == {False, True}


def test_the_next_start_reads_what_was_committed() -> None:
    life = Life(1)

    async def story() -> MetadataImage:
        await life.host.start(life.prepare)
        life.host.kill()
        await life.host.start(life.commit)
        life.host.cut_power()
        return await life.host.start(life.read)

    image = life.simulation.run(story())
    assert image == image_of(*BEFORE, *CHANGE)
    assert image.cluster_id == "cluster"
    assert image.topic("old") is None


def test_the_image_changes_before_the_answer() -> None:
    """The next decision must see it, while the disk still works."""
    life = Life(1)

    async def program(runtime: Runtime) -> None:
        life.host.disk.sync_delay_seconds = (1.0, 1.0)
        store, log = opened(runtime)
        committing = runtime.tasks.spawn(store.commit(BEFORE), name="commit")
        await runtime.tasks.sleep(0.1)
        assert store.image.topic("old") is not None
        assert not committing.done()
        await committing
        assert log.recovery_point == log.log_end_offset

    async def story() -> None:
        await life.host.start(program)

    life.simulation.run(story())


def test_after_a_failed_sync_nothing_is_answered() -> None:
    life = Life(1)

    async def program(runtime: Runtime) -> None:
        store, _log = opened(runtime)
        await store.commit(BEFORE)
        life.host.disk.fail("sync", path_part=".log")
        with pytest.raises(LogError, match="offline"):
            await store.commit(CHANGE)
        with pytest.raises(LogError, match="offline"):
            await store.commit([ProducerIdsRow(2000)])

    async def story() -> None:
        await life.host.start(program)

    life.simulation.run(story())


def test_a_row_of_a_later_version_stops_the_start() -> None:
    life = Life(1)

    async def program(runtime: Runtime) -> None:
        _store, log = opened(runtime)
        row = RecordInput(key=b"cluster", value=b'{"version":2}', timestamp_ms=0)
        log.append(build_batch([row]), leader_epoch=0, now_ms=0)
        with pytest.raises(CorruptLogError, match="version 2 is not known"):
            StandaloneStore(log, runtime.tasks, runtime.clock, broker_id=1)

    async def story() -> None:
        await life.host.start(program)

    life.simulation.run(story())


def test_many_random_changes_are_replayed_as_they_were_applied() -> None:
    life = Life(3)
    dice = random.Random(3)
    lived: list[MetadataImage] = []

    def some_row() -> Row:
        name = f"topic{dice.randrange(5)}"
        match dice.randrange(4):
            case 0:
                return TopicGoneRow(name)
            case 1:
                return BrokerConfigRow(str(dice.randrange(2)), {"log.retention.ms": str(dice.randrange(9))})
            case 2:
                return ProducerIdsRow(dice.randrange(10**6))
            case _:
                return TopicRow(name, uuid.UUID(int=dice.getrandbits(128)), alone(1, dice.randint(1, 9)))

    async def program(runtime: Runtime) -> None:
        store, _log = opened(runtime)
        for _ in range(200):
            await store.commit([some_row() for _ in range(dice.randint(1, 4))])
        lived.append(store.image)

    async def story() -> MetadataImage:
        await life.host.start(program)
        life.host.cut_power()
        return await life.host.start(life.read)

    assert life.simulation.run(story()) == lived[0]
