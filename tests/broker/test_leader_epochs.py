"""Every partition is led in an epoch that no lost record can have had, whatever happened to it and to the metadata between.

Method: a broker lives and dies many times from one seed. Topics come, grow, get settings and go; the metadata's log is compacted
between lives, by writing it anew with the last row of every key, in any order. A witness outside notes the epochs that were used.
"""

import asyncio
import random
import uuid
from functools import partial

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.topics import create_all, delete_all
from semel.cluster.standalone import METADATA_CONFIG
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import TopicRow
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.log.directory import LogDirectory
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition
from support.broker.admin_kit import SETTINGS
from support.log.log_kit import batch_of

LIVES = 12
METADATA = TopicPartition(METADATA_TOPIC, 0)


class Witness:
    """The highest epoch in which each partition took records, by topic id and index."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.used: dict[tuple[uuid.UUID, int], int] = {}
        self.unclean = False

    async def live(self, runtime: Runtime, *, stop: bool) -> None:
        broker = Broker(BrokerConfig.of(SETTINGS), runtime)
        await broker.start()
        self.look(broker, started=True)
        for _ in range(self.dice.randint(1, 5)):
            await self.change(broker)
            self.look(broker, started=False)
        if stop:
            await broker.stop()
        self.unclean = not stop

    def look(self, broker: Broker, *, started: bool) -> None:
        """Append to every partition, and compare its epoch with those that were used before."""
        parts = broker.parts
        for partition in [
            one for topic in parts.partitions.topics for one in parts.partitions.of_topic(topic)
        ]:
            index = partition.log.topic_partition.partition
            row = parts.store.image.topic(partition.log.topic_partition.topic)
            assert row is not None
            assert row.states[index].leader_epoch == partition.leader_epoch
            assert partition.leader_epoch >= partition.log.leader_epochs.latest
            before = self.used.get((row.topic_id, index), -1)
            if started and self.unclean:
                assert partition.leader_epoch > before, "records of that epoch may be lost"
            else:
                assert partition.leader_epoch >= before
            if self.dice.random() < 0.7:
                assert isinstance(partition.append(batch_of(b"v")), Appended)
                self.used[row.topic_id, index] = partition.leader_epoch

    async def change(self, broker: Broker) -> None:
        administration = broker.parts.administration
        image = broker.parts.store.image
        name = self.dice.choice("abcd")
        row = image.topic(name)
        if row is None:
            row = TopicRow(name, uuid.UUID(int=self.dice.getrandbits(128)), alone(1, self.dice.randint(1, 2)))
            assert await create_all(administration, [row]) == {}
        elif (choice := self.dice.random()) < 0.3:
            await delete_all(administration, [name])
        elif choice < 0.6:
            grown = TopicRow(name, row.topic_id, row.states + alone(1, 1), row.configs)
            assert await create_all(administration, [grown]) == {}
        else:
            configs = {"max.message.bytes": str(self.dice.randint(1000, 2000))}
            await broker.parts.store.commit([TopicRow(name, row.topic_id, row.states, configs)])

    async def compact(self, runtime: Runtime) -> None:
        """As the cleaner, and more: not even the order of the keys is kept."""
        directory = LogDirectory.open(runtime.files, "data", node_id=1, cluster_id="c", directory_id="d")
        clean, now_ms = directory.was_clean, runtime.clock.now_ms()
        log = directory.load(METADATA, METADATA_CONFIG, now_ms)
        last: dict[bytes | None, RecordInput] = {}
        for segment in log.segments:
            for _position, header, data in segment.scan():
                for record in iter_records(data, 0, header):
                    last[record.key] = RecordInput(record.key, record.value, record.timestamp_ms)
        rows = list(last.values())
        self.dice.shuffle(rows)
        directory.truncate(METADATA, 0, now_ms)
        log.append(build_batch(rows), leader_epoch=0, now_ms=now_ms)
        log.flush(now_ms)
        if clean:
            directory.close(now_ms)
        else:
            directory.release()


@pytest.mark.parametrize("seed", range(12))
def test_no_epoch_is_used_again_after_an_unclean_stop(seed: int) -> None:
    simulation = Simulation(seed)
    host = simulation.host("127.0.0.1")
    witness = Witness(seed)

    async def main() -> None:
        for _ in range(LIVES):
            ending = witness.dice.choice(["clean", "kill", "power cut"])
            await host.start(partial(witness.live, stop=ending == "clean"))
            if ending == "power cut":
                host.cut_power()
            else:
                host.kill()
            if witness.dice.random() < 0.5:
                await host.start(witness.compact)
                host.kill()
            await asyncio.sleep(1)

    simulation.run(main())
    assert witness.used
