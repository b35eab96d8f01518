"""Shared by the tests of topics' administration: a broker and a client on a simulated host that can lose its power.

A story is a coroutine with a `Client`. `told` runs stories one after the other, each with a broker started anew on what
the one before left behind. Time is simulated: a story that sleeps for a minute takes none, and whatever was due by then is
done.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.replicas.led_partition import LedPartition
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.core.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from semel.core.wire.registry import BY_KEY, ApiKey
from semel.errors import ErrorCode
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.runtime.memory_files import MemoryDisk
from semel.runtime.simulation import Simulation

R = TypeVar("R", bound=Response)
PORT = 9092
SETTINGS = {"listeners": f"PLAINTEXT://127.0.0.1:{PORT}", "log.dirs": "data", "node.id": "1"}


class Client:
    """One connection to the broker, and the broker itself to look behind it."""

    def __init__(self, broker: Broker, disk: MemoryDisk, connection: Connection) -> None:
        self.broker = broker
        self.disk = disk
        self._connection = connection

    async def ask(self, request: Request[R], version: int = -1) -> R:
        """The answer; in the newest version unless told."""
        newest = BY_KEY[ApiKey(request.schema.api_key)].last
        return await self._connection.send(request, newest if version < 0 else version, timeout_ms=60_000)

    async def another(self) -> "Client":
        connection = await connect(self.broker.runtime, "127.0.0.1", PORT)
        return Client(self.broker, self.disk, connection)

    async def create(self, *names: str, partitions: int = 1) -> list[ErrorCode]:
        topics = [
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1) for name in names
        ]
        answer = await self.ask(CreateTopicsRequest(topics=topics))
        return [ErrorCode(topic.error_code) for topic in answer.topics]

    async def produce(
        self, topic: str, partition: int = 0, values: Sequence[bytes] = (b"v",)
    ) -> PartitionProduceResponse:
        data = PartitionProduceData(
            index=partition, records=build_batch([RecordInput(b"k", v, 1) for v in values])
        )
        wanted = [TopicProduceData(name=topic, partition_data=[data])]
        answer = await self.ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=wanted), 12)
        return answer.responses[0].partition_responses[0]

    def partition(self, topic: str, index: int = 0) -> LedPartition:
        found = self.broker.parts.partitions.get(topic, index)
        assert found is not None
        return found

    def directories(self) -> list[str]:
        """What the data directory has for partitions of clients."""
        entries = self.disk.list_directory("data")
        return [
            name for name in entries if self.disk.is_directory(f"data/{name}") and not name.startswith("__")
        ]


Story = Callable[[Client], Awaitable[None]]


def told(*stories: Story, cut_power: bool = False, **settings: str) -> None:
    """Run the stories on one disk; between them the broker stops, or the power goes."""
    simulation = Simulation(1)
    config = BrokerConfig.of(
        {**SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
    )

    async def main() -> None:
        host = simulation.host("127.0.0.1")
        for story in stories:
            await host.start(partial(_tell, config=config, disk=host.disk, story=story, stop=not cut_power))
            if cut_power:
                host.cut_power()
            else:
                host.kill()

    simulation.run(main())


async def _tell(
    runtime: Runtime, config: BrokerConfig, disk: MemoryDisk, story: Story, *, stop: bool
) -> None:
    broker = Broker(config, runtime)
    await broker.start()
    connection = await connect(runtime, "127.0.0.1", PORT)
    await story(Client(broker, disk, connection))
    if stop:
        connection.close()
        await broker.stop()
