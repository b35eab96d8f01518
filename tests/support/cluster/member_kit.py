"""Members of a cluster in one simulated world: a ZooKeeper that can be ended, and a client that plays Kafka's part."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final

from semel.cluster.member import Member
from semel.cluster.zookeeper import recipes
from semel.cluster.zookeeper.client import Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper_store import ZooKeeperStore
from semel.core.cluster import documents, paths
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.metadata.deltas import Delta
from semel.core.zookeeper.machine import Machine, Output
from semel.core.zookeeper.wire.messages import Create, Delete, Multi, Request, SetData
from semel.errors import SemelError
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import SimulatedHost, Simulation
from semel.verify.simulation.zookeeper_server import ZooKeeperServer

PORT: Final = 2181
SESSION_MS: Final = 6_000
TROUBLE_SECONDS: Final = 3_600.0
"""Of virtual time: for all that must become true."""


class CountingMachine(Machine):
    """A machine that loses the answer to one write, chosen by its number."""

    def __init__(self) -> None:
        super().__init__(tick_ms=500, timeout_max_ms=60_000)
        self.to_answer = -1
        """Writes that are answered before the one that is not; negative: all are."""
        self.lose: Callable[[], None] = lambda: None

    def handle(self, connection: int, xid: int, request: Request, now_ms: int, wall_ms: int) -> list[Output]:
        if isinstance(request, Create | Delete | SetData | Multi):
            if self.to_answer == 0:
                self.lose()
            self.to_answer -= 1
        return super().handle(connection, xid, request, now_ms, wall_ms)


class Ensemble:
    """One server of ZooKeeper, that comes back whenever it was ended."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.host: SimulatedHost = simulation.host("zookeeper")
        self.machine = CountingMachine()
        self.server = ZooKeeperServer(self.machine)
        self.machine.lose = lambda: self.server.lose_answers(1)
        self.pause = 0.1

    async def keep(self) -> None:
        while True:
            self.host.start(lambda runtime: self.server.run(runtime, "zookeeper", PORT))
            await self.host.until_dead()
            await asyncio.sleep(self.pause)

    def kill(self, pause: float) -> None:
        self.pause = pause
        if self.host.is_alive:
            self.host.kill()

    def expire(self, *session_ids: int) -> None:
        """End these sessions, or all."""
        for session_id in session_ids or tuple(self.server.machine.sessions.by_id):
            if self.host.is_alive:
                self.server.expire(session_id, self.host.clock.monotonic_ms())

    async def trouble(self, dice: random.Random) -> None:
        """Everything that befalls a ZooKeeper and the way to it, until cancelled."""
        while True:
            await asyncio.sleep(dice.uniform(0.05, 1.0))
            match dice.randrange(5):
                case 0:
                    self.server.lose_answers(dice.randint(1, 3))
                case 1:
                    self.simulation.network.break_connections("zookeeper")
                case 2:
                    self.kill(dice.uniform(0.05, 3.0))
                case 3:
                    self.host.freeze(dice.uniform(0.1, 8.0))
                case _:
                    self.expire()


class Noted:
    """An applier that notes what it was told."""

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    async def apply(self, deltas: Sequence[Delta]) -> dict[str, OSError]:
        self.deltas += deltas
        return {}


class World:
    """A ZooKeeper, and whoever uses it."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.simulation = Simulation(seed)
        self.ensemble = Ensemble(self.simulation)
        self.fatal: list[SemelError] = []
        self._kafka: ZooKeeperClient | None = None

    def settings(self, chroot: str = "", *, session_timeout_ms: int = SESSION_MS) -> Settings:
        return Settings(
            Servers((("zookeeper", PORT),), chroot),
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=SESSION_MS,
        )

    def member(self, runtime: Runtime, chroot: str = "") -> Member:
        return Member(runtime, self.settings(chroot), on_fatal=self.fatal.append)

    def store(self, member: Member, broker_id: int = 1) -> ZooKeeperStore:
        return ZooKeeperStore(
            member,
            broker_id=broker_id,
            protocols={"PLAINTEXT": "PLAINTEXT"},
            supported_features={},
            change_timeout_ms=10_000,
        )

    async def started(self, broker_id: int = 1, *, host: str | None = None) -> ZooKeeperStore:
        """The store of a broker that has joined and read everything."""
        member = self.member(self.simulation.host(host or f"broker{broker_id}").boot())
        await member.connect()
        await member.cluster_id("cluster")
        store = self.store(member, broker_id)
        await store.start()
        return store

    @property
    def kafka(self) -> ZooKeeperClient:
        """A client that is no member."""
        assert self._kafka is not None
        return self._kafka

    def data(self, path: str) -> bytes | None:
        return self.ensemble.machine.tree.node(path).data

    def has(self, path: str) -> bool:
        return self.ensemble.machine.tree.get(path) is not None

    def run(self, story: Callable[["World"], Awaitable[None]]) -> None:
        async def play() -> None:
            keeping = asyncio.ensure_future(self.ensemble.keep())
            self._kafka = ZooKeeperClient(
                self.simulation.host("kafka").boot(),
                self.settings(session_timeout_ms=60_000),
                on_event=lambda _event: None,
            )
            await self._kafka.open()
            for path in paths.PERSISTENT:
                await recipes.ensure(self._kafka, path)
            async with asyncio.timeout(TROUBLE_SECONDS):
                await story(self)
            keeping.cancel()

        self.simulation.run(play())

    async def elect(self, broker_id: int = 9) -> None:
        """There is a controller."""
        await recipes.ensure(self.kafka, paths.CONTROLLER, documents.encode_controller(broker_id, 0))

    async def put(self, entity: str, configs: Mapping[str, str], *, told: bool = True) -> None:
        """Settings are changed, as a tool of Kafka does it."""
        path = f"{paths.CONFIG}/{entity}"
        await recipes.ensure(self.kafka, path)
        await self.kafka.set(path, documents.encode_configs(configs))
        if told:
            await self.tell(entity)

    async def tell(self, entity: str) -> None:
        await recipes.notify(self.kafka, paths.CONFIG_CHANGE_PREFIX, documents.encode_config_change(entity))


async def until(what: Callable[[], object]) -> None:
    """Wait for what must become true."""
    async with asyncio.timeout(TROUBLE_SECONDS / 2):
        while not what():
            await asyncio.sleep(0.05)


def broker(
    broker_id: int, *, host: str | None = None, port: int = 9092, rack: str | None = None
) -> RegisteredBroker:
    endpoint = Endpoint(host or f"broker{broker_id}", port)
    return RegisteredBroker(broker_id, {"PLAINTEXT": endpoint}, rack)


@contextlib.asynccontextmanager
async def listening(runtime: Runtime, host: str, port: int) -> AsyncIterator[None]:
    """Somebody takes connections there."""
    server = await runtime.network.listen(asyncio.Protocol, host, port)
    try:
        yield
    finally:
        server.close()
