"""A broker's client of ZooKeeper: many servers, one session after the other, watches that outlive a connection.

Role.   `ZooKeeperClient` keeps a session with one of several servers. `recipes` build Kafka's ways on it.
Flow.   `open` waits for the first session -> callers ask -> `_keep` connects again whenever the connection breaks, and begins
        another session when the old one is over.
Rules.  * A caller waits while there is no connection, and its request is sent again when its answer was lost. So a write may
          have been carried out twice: a create answers NODE_EXISTS then, a conditional set BAD_VERSION. Recipes look whether
          it was their own.
        * A request belongs to the session it was made in. `SessionExpiredError` ends it when that session is over: its
          caller's ephemeral nodes, watches and fences are gone.
        * `before_session` is awaited before another session is opened, so that nobody acts on the old one. It asks nothing.
        * A watch is set by the read that asks for it, and fires once. On another connection of the same session the watches
          are set again with the last zxid, so no change between is missed.
        * Bounds: requests in flight; what waits is first come, first served. Silence is logged, less and less often.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.session import Session, SessionOverError, ZooKeeperError
from semel.core.zookeeper.wire.messages import (
    ANY_VERSION,
    Answer,
    Auth,
    ChildrenWithStat,
    CloseSession,
    Create,
    Created,
    Data,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    MultiOperation,
    MultiResults,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    StatOf,
    Sync,
    WatchEvent,
)
from semel.core.zookeeper.words import OPEN_ACL, Acl, EventType, Stat, ZooKeeperCode
from semel.errors import DisconnectedError, InvariantError, SemelError
from semel.runtime.bundle import Runtime

A = TypeVar("A")

_log: Final = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = (0.05, 1.0)
"""The first pause between two rounds of all servers, and the longest."""
_WARN_SECONDS: Final = (1.0, 60.0)
_SET_WATCHES_BYTES_MAX: Final = 128 * 1024
_LOSSES_TO_WARN: Final = 5


class SessionExpiredError(SemelError):
    """The session in which a request was made is over."""


class ZooKeeperUnreachableError(SemelError):
    """No server gave a session in time, or the client is closed."""


class ZooKeeperAuthError(SemelError):
    """The servers refuse the client's credentials."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to reach an ensemble; the names are Kafka's, without `zookeeper.`."""

    servers: Servers
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int = 18_000
    max_in_flight_requests: int = 10
    credentials: tuple[tuple[str, bytes], ...] = ()
    """Schemes and what they ask for, as `("digest", b"user:password")`."""


async def _nothing() -> None:
    pass


class _Watches:
    """The watches that are set, by the kind of read that set them."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.exist: set[str] = set()
        self.child: set[str] = set()

    def learn(self, request: Request, code: ZooKeeperCode) -> None:
        """A read was answered: is its watch set?"""
        match request:
            case GetData(path, True) if code is ZooKeeperCode.OK:
                self.data.add(path)
            case GetChildren(path, True) if code is ZooKeeperCode.OK:
                self.child.add(path)
            case Exists(path, True):
                (self.data if code is ZooKeeperCode.OK else self.exist).add(path)
            case _:
                pass

    def fired(self, event: WatchEvent) -> None:
        if event.type is EventType.NODE_CHILDREN_CHANGED:
            self.child.discard(event.path)
        else:
            self.data.discard(event.path)
            self.exist.discard(event.path)
            if event.type is EventType.NODE_DELETED:
                self.child.discard(event.path)

    def requests(self, last_zxid: int) -> list[SetWatches]:
        """Requests that set all of them again, none too large for a server."""
        found: list[SetWatches] = []
        kinds = (self.data, self.exist, self.child)
        portion: tuple[list[str], list[str], list[str]] = ([], [], [])
        size = 0
        for kind, paths in enumerate(kinds):
            for path in sorted(paths):
                if size > _SET_WATCHES_BYTES_MAX:
                    found.append(_set_watches(last_zxid, portion))
                    portion, size = ([], [], []), 0
                portion[kind].append(path)
                size += len(path.encode())
        return [*found, _set_watches(last_zxid, portion)] if size else found


def _set_watches(last_zxid: int, paths: tuple[list[str], list[str], list[str]]) -> SetWatches:
    return SetWatches(last_zxid, *(tuple(one) for one in paths))


class ZooKeeperClient:
    """One client of an ensemble."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        *,
        on_event: Callable[[WatchEvent], None],
        before_session: Callable[[], Awaitable[None]] = _nothing,
        on_session: Callable[[], object] = lambda: None,
        on_failure: Callable[[SemelError], object] = lambda _error: None,
    ) -> None:
        """`on_event` is told every watch that fires; `on_session` that another session has begun, without watches; `on_failure`
        why a client that was open can have no session any more."""
        self._runtime = runtime
        self._settings = settings
        self._on_event = on_event
        self._before_session = before_session
        self._on_session = on_session
        self._on_failure = on_failure
        self._is_open = False
        self._addresses = list(settings.servers.addresses)
        runtime.dice.shuffle(self._addresses)
        self._tried = 0
        self._watches = _Watches()
        self._session = Session(
            runtime, self._addresses[0], settings.session_timeout_ms, self._told, self._learn, self._lose
        )
        # Others get their turn while the session lives, and `open` can say in time how a silent server behaved.
        shortest_ms = min(settings.session_timeout_ms, settings.connection_timeout_ms)
        self._session.connect_ms = max(1, shortest_ms // (len(self._addresses) + 1))
        self._lost = asyncio.Event()
        self._change = asyncio.Event()
        """Set at every change of what a caller waits for, and replaced."""
        self._is_ready = False
        self._places = asyncio.Semaphore(settings.max_in_flight_requests)
        self._keeper: asyncio.Task[None] | None = None
        self._failure: SemelError | None = None
        self._generation = 0
        self._last_error: str = "nothing tried yet"

    # Opening and closing

    async def open(self) -> None:
        """Begin the first session. Raises `ZooKeeperUnreachableError`, `ZooKeeperAuthError`."""
        self._keeper = self._runtime.tasks.spawn(self._keep(), name="zookeeper", on_failure=self._broke)
        try:
            async with asyncio.timeout(self._settings.connection_timeout_ms / 1000):
                await self._until_ready(self._generation)
        except TimeoutError:
            self._stop()
            raise ZooKeeperUnreachableError(
                f"no session with ZooKeeper at {self._settings.servers} within "
                f"{self._settings.connection_timeout_ms} ms: {self._last_error}; is zookeeper.connect right, and does it run?"
            ) from None
        self._is_open = True

    async def close(self) -> None:
        """End the session now, so that its ephemeral nodes go. Without a connection they go when it times out."""
        keeper = self._keeper
        if keeper is not None:
            self._keeper = None
            keeper.cancel()
            try:
                async with asyncio.timeout(1):
                    await self._session.ask(CloseSession())
            except (TimeoutError, SemelError) as error:
                _log.debug("the session was left to time out: %s", error)
        self._stop()

    def _stop(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        self._is_open = False
        self._fail(ZooKeeperUnreachableError("the client of ZooKeeper is closed"))
        self._session.disconnect()

    @property
    def session_id(self) -> int:
        return self._session.session_id

    @property
    def generation(self) -> int:
        """Grows when a session is over: what is asked after that belongs to the next one."""
        return self._generation

    @property
    def is_connected(self) -> bool:
        return self._is_ready and self._failure is None

    @property
    def servers(self) -> Servers:
        return self._settings.servers

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the servers granted, or the one that was asked for before they did."""
        return self._session.granted_ms or self._settings.session_timeout_ms

    async def connected(self) -> None:
        """Return once there is a connection, of whichever session. Raises what ended the client."""
        while not self._is_ready:
            if self._failure is not None:
                raise self._failure
            await self._change.wait()

    # Asking. Paths are those below the chroot.

    async def get(self, path: str, *, watch: bool = False) -> Data | None:
        """A node's data and Stat, or None; with a watch a missing node is watched as well."""
        while True:
            found = await self._unless_missing(GetData(path, watch), Data)
            if found is not None or not watch or await self.exists(path, watch=True) is None:
                return found

    async def exists(self, path: str, *, watch: bool = False) -> Stat | None:
        found = await self._unless_missing(Exists(path, watch), StatOf)
        return None if found is None else found.stat

    async def children(self, path: str, *, watch: bool = False) -> tuple[str, ...] | None:
        found = await self._unless_missing(GetChildren(path, watch, with_stat=True), ChildrenWithStat)
        return None if found is None else found.names

    async def create(
        self, path: str, data: bytes | None, *, flags: int = 0, acl: tuple[Acl, ...] = OPEN_ACL
    ) -> str:
        """The path of the new node. Raises `ZooKeeperError`: NODE_EXISTS may be this create itself, sent again."""
        return _is(await self.ask(Create(path, data, acl, flags)), Created).path

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """The new Stat. Raises `ZooKeeperError`: BAD_VERSION may be this write itself, sent again."""
        return _is(await self.ask(SetData(path, data, version)), StatOf).stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        await self.ask(Delete(path, version))

    async def multi(self, *operations: MultiOperation) -> MultiResults:
        """All of them or none; `failure` of the result says why none."""
        return _is(await self.ask(Multi(operations)), MultiResults)

    async def ask(self, request: Request) -> Answer:
        """The answer, whatever connections it takes. Raises `ZooKeeperError`, `SessionExpiredError`."""
        return self._inward(await self._ask(request, self._outward(request)))

    async def ask_outside(self, request: Request) -> Answer:
        """The same for a path that is not below the chroot: to make the chroot itself."""
        return await self._ask(request, request)

    async def _ask(self, request: Request, outward: Request) -> Answer:
        generation = self._generation
        losses = 0
        async with self._places:
            while True:
                await self._until_ready(generation)
                try:
                    return await self._session.ask(outward)
                except DisconnectedError as error:
                    losses += 1
                    self._last_error = str(error)
                    if losses % _LOSSES_TO_WARN == 0:
                        _log.warning("no answer to %s over %d connections: %s", _name(request), losses, error)

    async def _unless_missing(self, request: Request, kind: type[A]) -> A | None:
        try:
            return _is(await self.ask(request), kind)
        except ZooKeeperError as error:
            if error.reason is ZooKeeperCode.NO_NODE:
                return None
            raise

    async def _until_ready(self, generation: int) -> None:
        """There is a connection, and the session is the one that was asked."""
        while True:
            if self._failure is not None:
                raise self._failure
            if generation != self._generation:
                raise SessionExpiredError("the session of ZooKeeper ended before the answer")
            if self._is_ready:
                return
            await self._change.wait()

    def _changed(self, *, is_ready: bool) -> None:
        self._is_ready = is_ready
        change, self._change = self._change, asyncio.Event()
        change.set()

    # The chroot

    def _outward(self, request: Request) -> Request:
        chroot = self._settings.servers.chroot
        if not chroot:
            return request
        match request:
            case Multi():
                return Multi(tuple(replace(one, path=_below(chroot, one.path)) for one in request.operations))
            case (
                Create()
                | Delete()
                | Exists()
                | GetData()
                | SetData()
                | GetAcl()
                | SetAcl()
                | GetChildren()
                | Sync()
            ):
                return replace(request, path=_below(chroot, request.path))
            case _:
                return request

    def _inward(self, answer: Answer) -> Answer:
        chroot = self._settings.servers.chroot
        match answer:
            case Created(path) if chroot:
                return Created(_above(chroot, path))
            case MultiResults(results) if chroot:
                return MultiResults(
                    tuple(
                        Created(_above(chroot, one.path)) if isinstance(one, Created) else one
                        for one in results
                    )
                )
            case _:
                return answer

    # The session

    def _told(self, event: WatchEvent) -> None:
        self._watches.fired(event)
        self._on_event(replace(event, path=_above(self._settings.servers.chroot, event.path)))

    def _learn(self, request: Request, code: ZooKeeperCode) -> None:
        self._watches.learn(request, code)

    def _lose(self) -> None:
        self._changed(is_ready=False)
        self._lost.set()

    def _broke(self, _name: str, error: BaseException) -> None:
        """The keeper has ended, and with it the session will."""
        failure = (
            error if isinstance(error, SemelError) else InvariantError(f"ZooKeeper's client broke: {error!r}")
        )
        if failure is not error:
            _log.error("ZooKeeper's client broke", exc_info=error)
        was_open = self._is_open
        self._fail(failure)
        self._session.disconnect()
        if was_open:
            self._on_failure(failure)

    def _fail(self, failure: SemelError) -> None:
        if self._failure is None:
            self._failure = failure
        self._changed(is_ready=False)

    async def _keep(self) -> None:
        """A session, for ever."""
        while True:
            await self._connect()
            self._lost.clear()
            if self._session.is_connected:
                self._changed(is_ready=True)
                await self._lost.wait()

    async def _connect(self) -> None:
        """Until a server takes the session, or gives another one."""
        pause, warned = _PAUSE_SECONDS[0], _WARN_SECONDS[0]
        began = self._runtime.clock.monotonic()
        while True:
            self._session.address = self._addresses[self._tried % len(self._addresses)]
            self._tried += 1
            is_new = self._session.session_id == 0
            try:
                await self._session.connect()
                await self._introduce()
            except SessionOverError:
                _log.warning(
                    "ZooKeeper ended the session: this broker's registration and its watches are gone"
                )
                await self._end_session()
                continue
            except DisconnectedError as error:
                self._last_error = str(error)
            else:
                if is_new:
                    self._on_session()
                return
            away = self._runtime.clock.monotonic() - began
            if away >= warned:
                warned = away + min(2 * warned, _WARN_SECONDS[1])
                _log.warning(
                    "no server of ZooKeeper at %s for %.0f s: %s. Changes of metadata wait until one is back",
                    self._settings.servers,
                    away,
                    self._last_error,
                )
            if self._tried % len(self._addresses) == 0:
                await self._runtime.tasks.sleep(pause * self._runtime.dice.uniform(0.5, 1.0))
                pause = min(2 * pause, _PAUSE_SECONDS[1])

    async def _introduce(self) -> None:
        """Credentials first, then the watches of the connection before."""
        for scheme, credentials in self._settings.credentials:
            try:
                await self._session.ask(Auth(0, scheme, credentials))
            except ZooKeeperError as error:
                if error.reason is not ZooKeeperCode.AUTH_FAILED:
                    raise
                raise ZooKeeperAuthError(
                    f"ZooKeeper at {self._settings.servers} refuses the credentials of scheme {scheme!r}: "
                    "check zookeeper's users and this broker's zookeeper.set.acl and login"
                ) from error
        for request in self._watches.requests(self._session.last_zxid):
            await self._session.ask(request)

    async def _end_session(self) -> None:
        self._watches = _Watches()
        self._generation += 1
        self._changed(is_ready=False)
        await self._before_session()


def _is(answer: Answer, kind: type[A]) -> A:
    if not isinstance(answer, kind):
        raise InvariantError(f"ZooKeeper answered {type(answer).__name__} where {kind.__name__} was due")
    return answer


def _name(request: Request) -> str:
    path = getattr(request, "path", "")
    return f"{type(request).__name__} {path}".rstrip()


def _below(chroot: str, path: str) -> str:
    return chroot if path == "/" else chroot + path


def _above(chroot: str, path: str) -> str:
    return path.removeprefix(chroot) or "/"
