"""A seeded world for a group of our consumers: killed, frozen out, restarted, while the broker and the network fail too.

Every consumer is a host of its own; while records are written, the broker is killed and comes back, consumers
are killed, close and come anew, connections break, stall and are cut. Each consumer notes what it was handed and commits it in order.
At the end, in peace: every record was handed to somebody; nobody was handed what he had been handed in the same turn; what is
committed is the end of every partition.
"""

import asyncio
import random
import sys
from typing import Any

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.client.calls.create_topics import create_topic
from semel.client.cluster import Cluster
from semel.client.config import ClientConfig
from semel.client.consumer.consumer import AsyncConsumer
from semel.core.records.build import RecordInput, build_batch
from semel.exceptions import KafkaException
from semel.log.partition_log import Appended
from semel.runtime.bundle import Runtime
from semel.runtime.memory_network import Link
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition

PARTITIONS = 4
ADDRESS = "broker:9092"
PLACES = [TopicPartition("t", index) for index in range(PARTITIONS)]
TROUBLED = Link(stall_probability=0.002, break_probability=0.002)


class Faults:
    """One world and what was seen in it."""

    def __init__(self, seed: int, settings: dict[str, Any], *, rounds: int) -> None:
        self.simulation = Simulation(seed)
        self.dice = random.Random(seed)
        self.settings = settings
        self.rounds = rounds
        self.broker: Broker | None = None
        self.written = dict.fromkeys(PLACES, 0)
        self.handed: dict[TopicPartition, set[int]] = {where: set() for where in PLACES}
        self.names = 0
        self.alive: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []
        self.errors: list[str] = []

    # The broker

    async def _serve(self, runtime: Runtime) -> None:
        config = {"listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}
        broker = Broker(BrokerConfig.of({**config, "group.initial.rebalance.delay.ms": "500"}), runtime)
        await broker.start()
        self.broker = broker
        await asyncio.get_running_loop().create_future()

    async def start_broker(self) -> None:
        self.broker = None
        self.simulation.host("broker").start(self._serve)
        while self.broker is None:
            await asyncio.sleep(0.05)

    async def make_topic(self) -> None:
        runtime = self.simulation.host("admin").boot()
        async with Cluster(runtime, ClientConfig.of({"bootstrap.servers": ADDRESS})) as cluster:
            await create_topic(cluster, "t", partitions=PARTITIONS)

    def write(self) -> None:
        if self.broker is None:
            return
        for where in PLACES:
            partition = self.broker.parts.partitions.get(*where)
            assert partition is not None
            count = self.dice.randint(1, 5)
            records = [RecordInput(None, b"%d" % (self.written[where] + n), 1) for n in range(count)]
            assert isinstance(partition.append(build_batch(records)), Appended)
            self.written[where] += count

    # Consumers

    def start_consumer(self) -> None:
        self.names += 1
        name = f"c{self.names}"
        self.alive[name] = stop = asyncio.Event()
        self.tasks.append(
            self.simulation.host(name).start(lambda runtime: self._consume(runtime, name, stop))
        )

    async def _consume(self, runtime: Runtime, name: str, stop: asyncio.Event) -> None:
        turns: dict[TopicPartition, int] = {}

        def assigned(partitions: Any) -> None:
            turns.update(dict.fromkeys(partitions, -1))

        consumer = AsyncConsumer(
            {
                "bootstrap_servers": ADDRESS,
                "group_id": "g",
                "client_id": name,
                "auto_offset_reset": "earliest",
                "enable_auto_commit": name[-1] in "02468",  # Some by themselves, some by hand.
                "auto_commit_interval_ms": 1_000,
                "max_poll_records": 7,
                "request_timeout_ms": 5_000,
                "metadata_max_age_ms": 5_000,
                **self.settings,
            },
            runtime=runtime,
        )
        consumer.subscribe(["t"], on_assign=assigned)
        is_behind = False
        while not stop.is_set():
            records = await consumer.poll(200)
            for record in records:
                where = record.topic_partition
                assert where in consumer.assignment(), f"{name} was handed {where}, which it does not own"
                assert record.offset > turns[where], f"{name}: {where} {record.offset} after {turns[where]}"
                assert record.value == b"%d" % record.offset
                turns[where] = record.offset
                self.handed[where].add(record.offset)
            if (records or is_behind) and not consumer.config["enable.auto.commit"]:
                try:
                    await consumer.commit(timeout_ms=3_000)
                    is_behind = False
                except KafkaException as error:
                    self.errors.append(type(error).__name__)
                    is_behind = True
        await consumer.close(timeout_ms=10_000)
        del self.alive[name]

    # The story

    async def tell(self) -> None:
        await self.start_broker()
        await self.make_topic()
        for _ in range(3):
            self.start_consumer()
        self.simulation.network.set_link(TROUBLED)
        for _ in range(self.rounds):
            for _ in range(10):
                self.write()
                await asyncio.sleep(self.dice.uniform(0.05, 0.4))
            await self.disturb()
        self.simulation.network.set_link(Link())
        self.simulation.network.heal()
        await self.settle()
        for stop in list(self.alive.values()):
            stop.set()
        await self.until(lambda: not self.alive, "everybody has left")
        assert self.broker is not None
        await self.check_committed()

    async def disturb(self) -> None:
        kind = self.dice.choice(["broker", "kill", "close", "join", "cut", "break", "nothing"])
        names = sorted(self.alive)
        match kind:
            case "broker":
                self.simulation.host("broker").kill()
                self.broker = None
                await asyncio.sleep(self.dice.uniform(0.1, 8))
                await self.start_broker()
            case "kill" if len(names) > 1:
                name = self.dice.choice(names)
                del self.alive[name]
                self.simulation.host(name).kill()
            case "close" if len(names) > 1:
                self.alive[self.dice.choice(names)].set()
            case "join" if len(names) < 5:
                self.start_consumer()
            case "cut" if names:
                name = self.dice.choice(names)
                self.simulation.network.partition(name, "broker")
                await asyncio.sleep(self.dice.uniform(0.5, 20))
                self.simulation.network.heal()
            case "break" if names:
                self.simulation.network.break_connections(self.dice.choice(names), "broker")
            case _:
                pass
        if not self.alive:
            self.start_consumer()

    async def settle(self) -> None:
        def all_read() -> bool:
            return all(len(self.handed[where]) == self.written[where] for where in PLACES)

        await self.until(all_read, "every record was handed out")
        await asyncio.sleep(
            60
        )  # Longer than a session: what a dead one did not commit is read again by another.

    async def until(self, condition: Any, what: str, seconds: float = 180) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while not condition():
            for task in self.tasks:
                if task.done():
                    task.result()  # What failed there fails here.
            assert loop.time() < deadline, (
                f"never: {what}; {self.written}, {[(w, len(h)) for w, h in self.handed.items()]}, {self.errors}"
            )
            await asyncio.sleep(0.2)

    async def check_committed(self) -> None:
        runtime = self.simulation.host("checker").boot()
        settings = {"bootstrap_servers": ADDRESS, "group_id": "g", "client_id": "checker"}
        async with AsyncConsumer(settings, runtime=runtime) as consumer:
            stored = await consumer.committed(PLACES)
        assert {where: at and at.offset for where, at in stored.items()} == self.written


SETTINGS: dict[str, dict[str, Any]] = {
    "eager": {
        "partition_assignment_strategy": "RangeAssignor",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
    },
    "cooperative": {
        "partition_assignment_strategy": "CooperativeStickyAssignor",
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
    },
    "kip-848": {"group_protocol": "consumer"},
}


def run(seed: int, kind: str, *, rounds: int) -> None:
    """One world, to its end; raises what went wrong."""
    faults = Faults(seed, SETTINGS[kind], rounds=rounds)
    faults.simulation.run(faults.tell())


if __name__ == "__main__":  # More of them: `python tests/support/client/consumer_faults.py FIRST_SEED COUNT`.
    first, count = map(int, sys.argv[1:])
    for each in range(first, first + count):
        for which in SETTINGS:
            run(each, which, rounds=25)
            print(f"seed {each}, {which}: nothing lost", flush=True)
