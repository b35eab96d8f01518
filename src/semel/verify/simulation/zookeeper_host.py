"""ZooKeeper's machine in a simulated world: it dies, stands still and comes back, and what it was told stays.

Role.   `ZooKeeperHost` keeps a `ZooKeeperServer` going on its host. Its tree and its sessions outlive its process, as an ensemble's
        outlive a member's: clients see connections that break, silence, and sessions that get their time anew.
Flow.   `keep` starts it, and starts it again after a pause whenever it died.
"""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from semel.core.zookeeper.machine import Machine
from semel.runtime.bundle import Runtime
from semel.verify.simulation.zookeeper_server import ZooKeeperServer

if TYPE_CHECKING:
    from semel.verify.simulation.world import World

ZOOKEEPER: Final = "zookeeper"
ZOOKEEPER_PORT: Final = 2181


class ZooKeeperHost:
    """The host, and what runs on it."""

    def __init__(self, world: "World", machine: Machine) -> None:
        self._world = world
        self._host = world.simulation.host(ZOOKEEPER)
        self._pause_seconds = 0.1
        self.server: Final = ZooKeeperServer(machine, self._changed)
        self.on_change: Final[list[Callable[[Machine], None]]] = []
        """Called after everything that may have changed a node: ZooKeeper's own word, whoever hears of it."""

    @property
    def machine(self) -> Machine:
        return self.server.machine

    def end(self, pause_seconds: float, *, power: bool = False) -> None:
        """End it now; it comes back after a pause."""
        self._pause_seconds = pause_seconds
        if self._host.is_alive:
            how = "a power cut" if power else "a kill"
            self._world.tell(f"ZooKeeper gets {how}, back after {pause_seconds:.3f} s")
            if power:
                self._host.cut_power()
            else:
                self._host.kill()

    def lose_answers(self, count: int) -> None:
        self._world.tell(f"ZooKeeper loses the answers to its next {count} writes")
        self.server.lose_answers(count)

    def expire(self, session_id: int) -> None:
        """End a session, as if nothing had been heard of it."""
        self._world.tell(f"ZooKeeper ends session {session_id:#x}")
        if self._host.is_alive:
            self.server.expire(session_id, self._host.clock.monotonic_ms())

    async def keep(self) -> None:
        """Keep it going, for ever."""
        while True:
            self._host.start(self._program)
            await self._host.until_dead()
            await asyncio.sleep(self._pause_seconds)

    async def _program(self, runtime: Runtime) -> None:
        self._world.tell("ZooKeeper serves")
        await self.server.run(runtime, ZOOKEEPER, ZOOKEEPER_PORT)

    def _changed(self, _zxid: int) -> None:
        for told in self.on_change:
            told(self.machine)
