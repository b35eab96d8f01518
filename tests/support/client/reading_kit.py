"""A broker in a simulation for tests of the public consumer: topics, records written straight into its log, consumers.

Records bypass producers, so that a test says exactly which batches there are: of transactions, damaged, of any time.
"""

from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.replicas.led_partition import LedPartition
from semel.client.calls.create_topics import create_topic
from semel.client.calls.delete_topics import delete_topic
from semel.client.calls.describe_group import find_group
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.consumer.consumer import AsyncConsumer
from semel.client.values.consuming import ConsumerRecord
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.log.partition_log import Appended
from semel.runtime.simulation import Simulation

ADDRESS = "broker:9092"


class ReadingWorld:
    """One broker, on the runtime of the test."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.runtime = simulation.host("client").boot()
        """Of the consumers, and of the test."""
        self._host = simulation.host("broker")
        self._broker_runtime = self._host.boot()
        self.broker: Broker
        self._consumers = 0

    async def start(self, **settings: str) -> None:
        dotted = {name.replace("_", "."): value for name, value in settings.items()}
        config = {"listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data", **dotted}
        self.broker = Broker(BrokerConfig.of(config), self._broker_runtime)
        await self.broker.start()

    async def topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        async with Cluster(self.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
            given = {key.replace("_", "."): value for key, value in configs.items()}
            await create_topic(cluster, name, partitions=partitions, configs=given)

    async def delete(self, name: str) -> None:
        async with Cluster(self.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
            await delete_topic(cluster, name)

    async def grow(self, name: str, partitions: int) -> None:
        async with Cluster(self.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
            topic = CreatePartitionsTopic(name=name, count=partitions, assignments=None)
            answer = await cluster.send(CreatePartitionsRequest(topics=[topic], timeout_ms=10_000))
            assert [one.error_code for one in answer.results] == [0]

    async def members(self, group: str) -> list[str]:
        """Who the coordinator believes is in the group."""
        async with Cluster(self.runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
            found = await find_group(cluster, group)
            return [] if found is None else [member.member_id for member in found.members]

    def partition(self, topic: str, index: int = 0) -> LedPartition:
        found = self.broker.parts.partitions.get(topic, index)
        assert found is not None
        return found

    def write(
        self, topic: str, values: Iterable[bytes | RecordInput | None], index: int = 0, **options: Any
    ) -> None:
        """One batch; `options` are those of `build_batch`."""
        records = [
            one if isinstance(one, RecordInput) else RecordInput(None, one, self.runtime.clock.now_ms())
            for one in values
        ]
        partition = self.partition(topic, index)
        partition.log.producers.verification_required = (
            False  # No coordinator knows of transactions made here.
        )
        assert isinstance(partition.append(build_batch(records, **options)), Appended)

    def transact(
        self, topic: str, producer_id: int, values: Iterable[bytes], commit: bool | None, index: int = 0
    ) -> None:
        """A batch of a transaction, and its end unless that is None."""
        self.write(
            topic,
            values,
            index,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        if commit is not None:
            self.end(topic, producer_id, commit=commit, index=index)

    def end(self, topic: str, producer_id: int, *, commit: bool, index: int = 0) -> None:
        """The marker that ends a transaction."""
        marked = self.partition(topic, index).append_marker(
            producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, commit=commit
        )
        assert isinstance(marked, Appended)

    def consumer(self, **settings: Any) -> AsyncConsumer:
        """A consumer on the same runtime; at the beginning of what it is assigned, unless said otherwise."""
        self._consumers += 1
        given = {
            "bootstrap_servers": ADDRESS,
            "client_id": f"c{self._consumers}",
            "auto_offset_reset": "earliest",
            **settings,
        }
        return AsyncConsumer(given, runtime=self.runtime)


Story = Callable[[ReadingWorld], Coroutine[Any, Any, None]]


def told(story: Story, *, seed: int = 1, **settings: str) -> None:
    """Tell a story in a simulation, beside a broker with these settings."""

    simulation = Simulation(seed)
    world = ReadingWorld(simulation)

    async def run() -> None:
        await world.start(**settings)
        await story(world)
        await world.broker.stop()
        await world.runtime.tasks.close()

    simulation.run(run())


async def take(consumer: AsyncConsumer, count: int, *, seconds: float = 60) -> list[ConsumerRecord]:
    """That many records, by polling."""
    clock = consumer._runtime.clock
    deadline = clock.monotonic() + seconds
    found: list[ConsumerRecord] = []
    while len(found) < count:
        found += await consumer.poll(1_000)
        assert clock.monotonic() < deadline, f"{len(found)} of {count} records came"
    return found


def values(records: Iterable[ConsumerRecord]) -> list[Any]:
    return [record.value for record in records]
