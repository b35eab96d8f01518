"""A ZooKeeper of one member as a pure machine: connections in, answers and events out.

Role.   `Machine` is what a server shell asks for every frame and every tick. It owns the tree, the sessions and the watches.
Flow.   `connect` with the first frame of a connection -> `handle` for each request after it -> `disconnect` when it is gone; `tick`
        when a session's time is over. All give `Output`s: frames to send and connections to close, in order.
Rules.  * Pure: time comes in, nothing waits. The same calls give the same outputs. `now_ms` is of a clock that never goes back and
          ends sessions; `wall_ms` is what nodes show as the time they were made.
        * Every write takes a zxid, also one that is refused; so do the beginning and the end of a session. Reads take none.
        * A watch that a write fires is told before the write is answered: a client that reads the answer has got the event.
        * A multi is all or nothing. If one operation is refused, the ones before it say OK, it says why, and the rest say
          RUNTIME_INCONSISTENCY; the answer's header says OK.
        * A session that goes on over another connection closes the old one; a request that still arrives there is answered SESSION_MOVED.
Elsewhere. Which nodes may be written, and in what order checks are made: `tree`. Bytes: `wire`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.core.zookeeper import access
from semel.core.zookeeper.sessions import Session, Sessions
from semel.core.zookeeper.tree import AclSet, Change, Created, DataSet, Deleted, Draft, Tree, Unchanged
from semel.core.zookeeper.watches import Watches
from semel.core.zookeeper.wire import messages
from semel.core.zookeeper.wire.messages import (
    AUTH_XID,
    PASSWORD_BYTES,
    AclOf,
    Answer,
    Auth,
    Children,
    ChildrenWithStat,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Create,
    CreatedWithStat,
    Data,
    Done,
    Exists,
    Failed,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    MultiOperation,
    MultiResults,
    Ping,
    Read,
    ReplyHeader,
    Request,
    SetAcl,
    SetWatches,
    StatOf,
    Sync,
    Synced,
    Unserved,
    WatchEvent,
    Write,
    op_of,
)
from semel.core.zookeeper.words import (
    SYNC_CONNECTED,
    Acl,
    EventType,
    Identity,
    Permission,
    RefusedError,
    ZooKeeperCode,
)

_Result: TypeAlias = messages.Created | CreatedWithStat | messages.Deleted | StatOf | messages.Checked
FIRST_SESSION_ID: Final = 1 << 56
"""A server's ids begin with its number."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The answer to a connect request."""

    connection: int
    response: ConnectResponse


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a request of this kind."""

    connection: int
    header: ReplyHeader
    op: int
    answer: Answer | None


@dataclass(frozen=True, slots=True)
class Event:
    """A watch fired."""

    connection: int
    zxid: int
    event: WatchEvent


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection, behind what was sent to it."""

    connection: int


Output: TypeAlias = Connected | Reply | Event | Close


@dataclass(slots=True)
class _Connection:
    """A connection with a session."""

    session_id: int
    identities: list[Identity]


class Machine:
    """The server."""

    def __init__(
        self,
        *,
        tick_ms: int = 2000,
        timeout_min_ms: int | None = None,
        timeout_max_ms: int | None = None,
        first_session_id: int = FIRST_SESSION_ID,
    ) -> None:
        self.tree: Final = Tree()
        self.sessions: Final = Sessions(
            tick_ms,
            2 * tick_ms if timeout_min_ms is None else timeout_min_ms,
            20 * tick_ms if timeout_max_ms is None else timeout_max_ms,
            first_session_id,
        )
        self.zxid = 0
        """Of the last write."""
        self._watches = Watches()
        self._connections: dict[int, _Connection] = {}

    # Sessions

    def connect(self, connection: int, request: ConnectRequest, now_ms: int) -> list[Output]:
        """The first frame of a connection: a session begins, goes on, or is over."""
        if request.last_zxid_seen > self.zxid:
            return [Close(connection)]  # This client has seen the future: it must ask another server.
        timeout_ms = self.sessions.granted(request.timeout_ms)
        if request.session_id == 0:
            self.zxid += 1
            session = self.sessions.open(connection, timeout_ms, now_ms)
            return [self._connected(connection, session)]
        known = self.sessions.by_id.get(request.session_id)
        outputs: list[Output] = []
        if known is not None and known.connection is not None:
            outputs.append(Close(known.connection))
            self._watches.forget(known.connection)
            known.connection = None
        if known is None or known.password != request.password:
            return [
                *outputs,
                Connected(connection, ConnectResponse(0, 0, 0, bytes(PASSWORD_BYTES))),
                Close(connection),
            ]
        known.connection = connection
        known.timeout_ms = timeout_ms
        self.sessions.touch(known, now_ms)
        return [*outputs, self._connected(connection, known)]

    def _connected(self, connection: int, session: Session) -> Connected:
        self._connections[connection] = _Connection(session.session_id, [])
        response = ConnectResponse(0, session.timeout_ms, session.session_id, session.password)
        return Connected(connection, response)

    def disconnect(self, connection: int) -> None:
        """A connection is gone; its session waits for another."""
        gone = self._connections.pop(connection, None)
        self._watches.forget(connection)
        if gone is not None:
            session = self.sessions.by_id.get(gone.session_id)
            if session is not None and session.connection == connection:
                session.connection = None

    def tick(self, now_ms: int) -> list[Output]:
        """End the sessions whose time is over."""
        outputs: list[Output] = []
        for session in self.sessions.expired(now_ms):
            outputs += self._end(session)
            if session.connection is not None:
                outputs.append(Close(session.connection))
        return outputs

    def give_time(self, now_ms: int) -> None:
        """Every session gets its whole timeout anew: a new leader knows nobody's last word."""
        for session in self.sessions.by_id.values():
            self.sessions.touch(session, now_ms)

    def expire(self, session_id: int, now_ms: int) -> list[Output]:
        """End a session now, whatever was heard of it."""
        session = self.sessions.by_id.get(session_id)
        if session is not None:
            session.expires_at_ms = now_ms
        return self.tick(now_ms)

    def _end(self, session: Session) -> list[Output]:
        """The session is over, and its ephemeral nodes are deleted."""
        self.zxid += 1
        del self.sessions.by_id[session.session_id]
        gone = self.tree.ephemerals(session.session_id)
        return self._applied([Deleted(path) for path in gone], 0)

    # Requests

    def handle(self, connection: int, xid: int, request: Request, now_ms: int, wall_ms: int) -> list[Output]:
        """A request of a connection with a session."""
        one = self._connections.get(connection)
        if one is None:
            return [Close(connection)]
        session = self.sessions.by_id.get(one.session_id)
        if session is not None and session.connection == connection:
            self.sessions.touch(session, now_ms)
        match request:
            case Ping():
                return [self._reply(connection, xid, request, Done())]
            case Auth():
                return self._authenticate(connection, one, request)
            case CloseSession():
                return self._close(connection, session, xid, request)
            case Exists() | GetData() | GetAcl() | GetChildren() | Sync() | SetWatches():
                return self._read(connection, one, session, xid, request)
            case Unserved():
                refused = self._refused(connection, xid, request, ZooKeeperCode.UNIMPLEMENTED)
                return [refused, Close(connection)]  # As ZooKeeper; the session lives on.
            case _:
                return self._write(connection, one, session, xid, request, wall_ms)

    def _authenticate(self, connection: int, one: _Connection, request: Auth) -> list[Output]:
        identity = access.authenticated(request.scheme, request.credentials or b"")
        code = ZooKeeperCode.OK if identity is not None else ZooKeeperCode.AUTH_FAILED
        reply = Reply(connection, ReplyHeader(AUTH_XID, 0, code), op_of(request), None)
        if identity is None:
            return [reply, Close(connection)]
        if identity not in one.identities:
            one.identities.append(identity)
        return [reply]

    def _close(
        self, connection: int, session: Session | None, xid: int, request: CloseSession
    ) -> list[Output]:
        outputs = [] if session is None else self._end(session)
        return [*outputs, self._reply(connection, xid, request, Done()), Close(connection)]

    def _write(
        self,
        connection: int,
        one: _Connection,
        session: Session | None,
        xid: int,
        request: Write,
        wall_ms: int,
    ) -> list[Output]:
        self.zxid += 1
        draft = Draft(self.tree, one.session_id, one.identities)
        operations = request.operations if isinstance(request, Multi) else (request,)
        changes: list[Change] = []
        try:
            _must_be_here(connection, session)
            for operation in operations:
                change = draft.judge(operation)
                changes.append(change)
        except RefusedError as refused:
            if not isinstance(request, Multi) or refused.reason is ZooKeeperCode.SESSION_MOVED:
                return [self._refused(connection, xid, request, refused.reason)]
            return [
                self._reply(connection, xid, request, _failed(len(operations), len(changes), refused.reason))
            ]
        outputs: list[Output] = []
        results: list[_Result] = []
        for operation, change in zip(operations, changes, strict=True):
            outputs += self._applied([change], wall_ms)
            results.append(self._result(operation, change))
        answer: Answer = MultiResults(tuple(results)) if isinstance(request, Multi) else results[0]
        return [*outputs, self._reply(connection, xid, request, answer)]

    def _result(self, operation: MultiOperation | SetAcl, change: Change) -> _Result:
        match change:
            case Created() if isinstance(operation, Create) and operation.with_stat:
                return CreatedWithStat(change.path, self.tree.node(change.path).stat())
            case Created():
                return messages.Created(change.path)
            case Deleted():
                return messages.Deleted()
            case DataSet() | AclSet():
                return StatOf(self.tree.node(change.path).stat())
            case Unchanged():
                return messages.Checked()

    def _applied(self, changes: Sequence[Change], wall_ms: int) -> list[Output]:
        """Apply changes, and tell those who watch."""
        outputs: list[Output] = []
        for change in changes:
            for occurrence in self.tree.apply(change, self.zxid, wall_ms):
                for connection in self._watches.fired(occurrence):
                    watcher = self._connections.get(connection)
                    if watcher is not None and access.permits(
                        occurrence.acl, Permission.READ, watcher.identities
                    ):
                        outputs.append(self._event(connection, self.zxid, occurrence.type, occurrence.path))
        return outputs

    def _read(
        self, connection: int, one: _Connection, session: Session | None, xid: int, request: Read
    ) -> list[Output]:
        try:
            _must_be_here(connection, session)
            if isinstance(request, SetWatches):
                events = self._set_watches(connection, request)
                return [*events, self._reply(connection, xid, request, Done())]
            return [self._reply(connection, xid, request, self._answer(connection, one, request))]
        except RefusedError as refused:
            return [self._refused(connection, xid, request, refused.reason)]

    def _answer(
        self, connection: int, one: _Connection, request: Exists | GetData | GetAcl | GetChildren | Sync
    ) -> Answer:
        path = request.path
        match request:
            case Sync():
                return Synced(path)
            case Exists():
                there = self.tree.get(path)
                if there is not None:
                    _must_be_permitted(there.acl, Permission.READ, one, path)
                if request.watch:
                    self._watches.watch_data(path, connection)  # Of a node that is not there, too.
                return StatOf(self.tree.node(path).stat())
            case GetData():
                node = self.tree.node(path)
                _must_be_permitted(node.acl, Permission.READ, one, path)
                if request.watch:
                    self._watches.watch_data(path, connection)
                return Data(node.data, node.stat())
            case GetAcl():
                node = self.tree.node(path)
                _must_be_permitted(node.acl, Permission.READ | Permission.ADMIN, one, path)
                sees_all = access.permits(node.acl, Permission.ADMIN, one.identities)
                return AclOf(node.acl if sees_all else access.without_secrets(node.acl), node.stat())
            case GetChildren():
                node = self.tree.node(path)
                _must_be_permitted(node.acl, Permission.READ, one, path)
                if request.watch:
                    self._watches.watch_children(path, connection)
                names = tuple(sorted(node.children))
                return ChildrenWithStat(names, node.stat()) if request.with_stat else Children(names)

    def _set_watches(self, connection: int, request: SetWatches) -> list[Output]:
        outputs: list[Output] = []

        def tell(type_: EventType, path: str) -> None:
            outputs.append(self._event(connection, self.zxid, type_, path))

        for path in request.data:
            node = self.tree.get(path)
            if node is None:
                tell(EventType.NODE_DELETED, path)
            elif node.mzxid > request.relative_zxid:
                tell(EventType.NODE_DATA_CHANGED, path)
            else:
                self._watches.watch_data(path, connection)
        for path in request.exist:
            if self.tree.get(path) is not None:
                tell(EventType.NODE_CREATED, path)
            else:
                self._watches.watch_data(path, connection)
        for path in request.child:
            node = self.tree.get(path)
            if node is None:
                tell(EventType.NODE_DELETED, path)
            elif node.pzxid > request.relative_zxid:
                tell(EventType.NODE_CHILDREN_CHANGED, path)
            else:
                self._watches.watch_children(path, connection)
        return outputs

    def _event(self, connection: int, zxid: int, type_: EventType, path: str) -> Event:
        return Event(connection, zxid, WatchEvent(type_, SYNC_CONNECTED, path))

    def _reply(self, connection: int, xid: int, request: Request, answer: Answer) -> Reply:
        return Reply(connection, ReplyHeader(xid, self.zxid, ZooKeeperCode.OK), op_of(request), answer)

    def _refused(self, connection: int, xid: int, request: Request, code: ZooKeeperCode) -> Reply:
        return Reply(connection, ReplyHeader(xid, self.zxid, code), op_of(request), None)


def _must_be_here(connection: int, session: Session | None) -> None:
    """The session lives, and speaks through this connection."""
    if session is None:
        raise RefusedError(ZooKeeperCode.SESSION_EXPIRED)
    if session.connection != connection:
        raise RefusedError(ZooKeeperCode.SESSION_MOVED)


def _must_be_permitted(acl: Sequence[Acl], permission: Permission, one: _Connection, path: str) -> None:
    if not access.permits(acl, permission, one.identities):
        raise RefusedError(ZooKeeperCode.NO_AUTH, path)


def _failed(operations: int, before: int, code: ZooKeeperCode) -> MultiResults:
    """Nothing of a multi happened, for its operation at `before` was refused."""
    behind = operations - before - 1
    codes = [ZooKeeperCode.OK] * before + [code] + [ZooKeeperCode.RUNTIME_INCONSISTENCY] * behind
    return MultiResults(tuple(Failed(one) for one in codes))
