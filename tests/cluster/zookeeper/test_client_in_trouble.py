"""Whatever ZooKeeper, its connections and its sessions go through, a client counts each write once and misses no change.

Method: a counter is written by compare-and-set, as producer id blocks are, by a client of a simulated ZooKeeper whose answers
are lost, whose connections break, whose process dies and freezes, and which ends sessions, all from a seed. A second client
watches. Afterwards the counter is the number of writes that were told to have succeeded, each seen by the watcher or a later one.
"""

import asyncio
import random

import pytest

from semel.cluster.zookeeper.client import SessionExpiredError, Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.recipes import Registration, ensure, write_if
from semel.core.zookeeper.wire.messages import WatchEvent
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from support.cluster.member_kit import PORT, Ensemble

SEEDS = 60
_WRITES = 40
_SETTINGS = Settings(Servers((("zookeeper", PORT),)), session_timeout_ms=6_000)


def _number(data: bytes | None) -> int:
    return int(data or b"0")


class Writer:
    """Adds one, again and again, and notes what it was told."""

    def __init__(self) -> None:
        self.told = 0
        self.perhaps = 0
        self.sessions = 0

    async def run(self, runtime: Runtime) -> None:
        client = ZooKeeperClient(runtime, _SETTINGS, on_event=lambda _event: None, on_session=self._session)
        await client.open()
        registration = Registration(client, "/writer")
        while self.told < _WRITES:
            try:
                await ensure(client, "/counter", b"0")
                stat = await registration.create(b"here")
                assert stat.ephemeral_owner
                found = await client.get("/counter")
                assert found is not None
                wanted = b"%d" % (_number(found.data) + 1)
                if await write_if(client, "/counter", wanted, found.stat.version) is not None:
                    self.told += 1
            except SessionExpiredError:
                self.perhaps += 1  # The last write may have been done.
            await runtime.tasks.sleep(0.05)
        await client.close()

    def _session(self) -> None:
        self.sessions += 1


class Watcher:
    """Reads when its watch says so, and after every new session."""

    def __init__(self) -> None:
        self.seen: list[int] = []
        self._wake = asyncio.Event()

    async def run(self, runtime: Runtime) -> None:
        client = ZooKeeperClient(runtime, _SETTINGS, on_event=self._told, on_session=self._wake.set)
        await client.open()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                found = await client.get("/counter", watch=True)
            except SessionExpiredError:
                continue
            if found is not None:
                self.seen.append(_number(found.data))

    def _told(self, event: WatchEvent) -> None:
        assert event.path == "/counter"
        self._wake.set()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_each_write_counts_once_and_no_change_is_missed(seed: int) -> None:
    simulation = Simulation(seed)
    dice = random.Random(f"trouble {seed}")
    ensemble, writer, watcher = Ensemble(simulation), Writer(), Watcher()

    async def story() -> int:
        keeping = asyncio.ensure_future(ensemble.keep())
        writing = simulation.host("writer").start(writer.run)
        watching = simulation.host("watcher").start(watcher.run)
        troubling = asyncio.ensure_future(ensemble.trouble(dice))
        async with asyncio.timeout(1800):
            await writing
            troubling.cancel()
            final = _number(ensemble.server.machine.tree.node("/counter").data)
            while not watcher.seen or watcher.seen[-1] != final:
                assert not watching.done(), watching.exception()
                await asyncio.sleep(0.5)
        keeping.cancel()
        return final

    final = simulation.run(story())
    assert writer.told <= final <= writer.told + writer.perhaps
    assert watcher.seen == sorted(watcher.seen)


def test_the_troubles_really_happen() -> None:
    """Else the test above shows little: sessions end, and answers to writes that were done are lost."""
    sessions = perhaps = 0
    for seed in range(10):
        simulation = Simulation(seed)
        ensemble, writer = Ensemble(simulation), Writer()

        async def story(simulation: Simulation, ensemble: Ensemble, writer: Writer, seed: int) -> None:
            keeping = asyncio.ensure_future(ensemble.keep())
            writing = simulation.host("writer").start(writer.run)
            troubling = asyncio.ensure_future(ensemble.trouble(random.Random(f"trouble {seed}")))
            await writing
            troubling.cancel()
            keeping.cancel()

        simulation.run(story(simulation, ensemble, writer, seed))
        sessions += writer.sessions
        perhaps += writer.perhaps
    assert sessions > 20
    assert perhaps > 5
