"""A candidate for leader at a ZooKeeper that writes while it believes that it leads: Kafka's election, to its operations.

Role.   `Elector` is an actor of a `World`. It registers at an ephemeral node and stands for leader as Kafka's controllers do.
        As leader it writes to one node, each time fenced by the version of the epoch's node.
Flow.   connect -> register -> elect: multi [create ephemeral /controller, set /controller_epoch if its version is the one that was
        read] -> write: multi [check /controller_epoch, set /ledger] -> until a check fails, or another leads.
Rules.  * A write that got no answer is sent again, in a new session if the old one is over. Its sender may not lead any more:
          only the check can tell it.
        * An election without an answer is looked up: it was won if /controller names this process and the epoch it wanted.
        * It waits for its turn at a watch on /controller, set by the read that found another one there.
"""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Final

from semel.cluster.zookeeper.session import (
    Session,
    SessionOverError,
    ZooKeeperError,
)
from semel.core.zookeeper.wire.messages import (
    Answer,
    Check,
    Create,
    Data,
    Delete,
    Exists,
    GetData,
    Multi,
    MultiOperation,
    MultiResults,
    Request,
    SetData,
    StatOf,
    WatchEvent,
)
from semel.core.zookeeper.words import EPHEMERAL, ZooKeeperCode
from semel.errors import DisconnectedError
from semel.runtime.bundle import Runtime
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

CONTROLLER: Final = "/controller"
EPOCH: Final = "/controller_epoch"
LEDGER: Final = "/ledger"
IDS: Final = "/ids"
_PAUSE_SECONDS: Final = (0.02, 0.4)


@dataclass(frozen=True, slots=True)
class _Term:
    """That one leads, and the version of the epoch's node by which it is fenced."""

    epoch: int
    fence: int


class Elector:
    """The actor."""

    def __init__(self, world: World, name: str, timeout_ms: int) -> None:
        self.name = name
        self._world = world
        self._timeout_ms = timeout_ms
        self._processes = 0
        self._written = 0
        self._is_finishing = False
        self._is_registered = False

    async def run(self, runtime: Runtime) -> None:
        self._processes += 1
        await _Process(self, f"{self.name}.{self._processes}", runtime, self._timeout_ms).run()

    def finish(self) -> None:
        self._is_finishing = True

    def owes(self) -> str | None:
        return None if self._is_registered else "its registration"

    def registered(self, is_registered: bool) -> None:
        self._is_registered = is_registered

    def next_number(self) -> int:
        self._written += 1
        return self._written


class _Process:
    """One process of it."""

    def __init__(self, elector: Elector, name: str, runtime: Runtime, timeout_ms: int) -> None:
        self._elector = elector
        self._name = name
        self._runtime = runtime
        self._changed = asyncio.Event()
        self._client = Session(runtime, (ZOOKEEPER, ZOOKEEPER_PORT), timeout_ms, self._told)

    async def run(self) -> None:
        self._elector.registered(False)
        while True:
            await self._register()
            term = await self._stand()
            if term is None:
                await self._until_changed()
            else:
                await self._lead(term)

    def _told(self, event: WatchEvent) -> None:
        if event.path == CONTROLLER:
            self._changed.set()

    async def _ask(self, request: Request) -> Answer:
        """The answer, whatever connection or session it takes; for reads and what may be done twice."""
        while True:
            try:
                return await self._ask_once(request)
            except DisconnectedError:
                await self._pause()

    async def _ask_once(self, request: Request) -> Answer:
        """The answer; raises `DisconnectedError` if nobody can know whether it was done."""
        while not self._client.is_connected:
            try:
                await self._client.connect()
            except SessionOverError:
                self._elector.registered(False)
                self._changed.set()
            except DisconnectedError:
                await self._pause()
        return await self._client.ask(request)

    async def _pause(self) -> None:
        await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_PAUSE_SECONDS))

    async def _find(self, path: str, *, watch: bool = False) -> Data | None:
        try:
            answer = await self._ask(GetData(path, watch))
        except ZooKeeperError as error:
            if error.reason is ZooKeeperCode.NO_NODE:
                return None
            raise
        if not isinstance(answer, Data):
            raise TypeError(f"{answer} answers no getData")
        return answer

    # Registration

    async def _register(self) -> None:
        """Its node is there, and of its session."""
        path = f"{IDS}/{self._elector.name}"
        while True:
            try:
                await self._ask(Create(path, self._name.encode(), flags=EPHEMERAL))
            except ZooKeeperError as error:
                if error.reason is not ZooKeeperCode.NODE_EXISTS:
                    raise
            found = await self._find(path)
            if found is not None and found.stat.ephemeral_owner == self._client.session_id:
                self._elector.registered(True)
                return
            if found is not None:  # Of its own life before, whose session is not over yet.
                await self._try(Delete(path, found.stat.version))
            await self._pause()

    async def _try(self, request: Request) -> None:
        with contextlib.suppress(ZooKeeperError):
            await self._ask(request)

    # Election

    async def _stand(self) -> _Term | None:
        """Its term, or None: another leads, or may."""
        self._changed.clear()
        if await self._find(CONTROLLER, watch=True) is not None:
            return None
        known = await self._find(EPOCH)
        if known is None:
            await self._try(Create(EPOCH, b"0"))
            return None if await self._find(EPOCH) is None else await self._stand()
        epoch, version = int(known.data or b"0") + 1, known.stat.version
        claim = f"{self._name} {epoch}".encode()
        try:
            results = await self._ask_once(
                Multi((Create(CONTROLLER, claim, flags=EPHEMERAL), SetData(EPOCH, b"%d" % epoch, version)))
            )
            if isinstance(results, MultiResults) and results.failure is None:
                return _Term(epoch, version + 1)
        except DisconnectedError:
            pass
        found = await self._find(CONTROLLER, watch=True)  # Perhaps only the answer was lost.
        if found is not None and found.data == claim:
            return _Term(epoch, version + 1)
        return None

    async def _until_changed(self) -> None:
        """Until /controller may be free; a watch that was lost with its connection is looked after now and then."""
        while not self._changed.is_set():
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(0.5, 1.0))
            if not self._client.is_connected or not await self._is_led():
                return

    async def _is_led(self) -> bool:
        try:
            answer = await self._ask(Exists(CONTROLLER, watch=True))
        except ZooKeeperError as error:
            if error.reason is ZooKeeperCode.NO_NODE:
                return False
            raise
        return isinstance(answer, StatOf)

    # Leading

    async def _lead(self, term: _Term) -> None:
        while True:
            number = self._elector.next_number()
            entry = f"{self._name} {term.epoch} {number}".encode()
            answer = await self._ask(Multi(tuple(fenced(term.fence, SetData(LEDGER, entry)))))
            if isinstance(answer, MultiResults) and answer.failure is not None:
                self._elector.registered(False)
                return
            await self._pause()


def fenced(fence: int, write: MultiOperation) -> list[MultiOperation]:
    """A leader's write: done only while the epoch is its own."""
    return [Check(EPOCH, fence), write]
