"""Every request and answer of ZooKeeper's that Kafka 3.9 uses, as values.

Role.   A frame is a header and one of these. `frames` puts both together, at either end.
Rules.  * Numbers of operations and of special xids are ZooKeeper's.
        * An operation with two forms on the wire (create and create2, getChildren and getChildren2) is one class that says which.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

from semel.core.zookeeper.wire.jute import (
    ACLS,
    BOOL,
    BUFFER,
    INT,
    LONG,
    STAT,
    STRING,
    STRINGS,
    Layout,
)
from semel.core.zookeeper.words import OPEN_ACL, Acl, EventType, Stat, ZooKeeperCode

EVENT_XID: Final = -1
PING_XID: Final = -2
AUTH_XID: Final = -4
SET_WATCHES_XID: Final = -8
PASSWORD_BYTES: Final = 16
ANY_VERSION: Final = -1


class Op(IntEnum):
    """The operation asked for by a request's header, or by one header of a multi."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    AUTH = 100
    SET_WATCHES = 101
    CLOSE_SESSION = -11
    ERROR = -1


# The handshake


@dataclass(frozen=True, slots=True)
class ConnectRequest:
    """The first frame of a connection: a new session (id 0), or one that goes on."""

    protocol_version: int = 0
    last_zxid_seen: int = 0
    timeout_ms: int = 0
    session_id: int = 0
    password: bytes | None = bytes(PASSWORD_BYTES)


@dataclass(frozen=True, slots=True)
class ConnectResponse:
    """Session id 0: the session that was asked for is over."""

    protocol_version: int
    timeout_ms: int
    session_id: int
    password: bytes | None

    @property
    def is_expired(self) -> bool:
        return self.session_id == 0


# Requests


@dataclass(frozen=True, slots=True)
class Create:
    """`with_stat` is create2."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...] = OPEN_ACL
    flags: int = 0
    with_stat: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Exists:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class GetData:
    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    path: str
    data: bytes | None
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class GetAcl:
    path: str


@dataclass(frozen=True, slots=True)
class SetAcl:
    path: str
    acl: tuple[Acl, ...]
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class GetChildren:
    """`with_stat` is getChildren2."""

    path: str
    watch: bool = False
    with_stat: bool = True


@dataclass(frozen=True, slots=True)
class Sync:
    path: str


@dataclass(frozen=True, slots=True)
class Check:
    """Only within a multi: the node has this version."""

    path: str
    version: int


@dataclass(frozen=True, slots=True)
class Multi:
    """Operations that all happen, or none."""

    operations: tuple["MultiOperation", ...]


@dataclass(frozen=True, slots=True)
class SetWatches:
    """The watches of the connection before, set again; changes since the zxid are told at once."""

    relative_zxid: int
    data: tuple[str, ...]
    exist: tuple[str, ...]
    child: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ping:
    pass


@dataclass(frozen=True, slots=True)
class Auth:
    type: int
    scheme: str
    credentials: bytes | None


@dataclass(frozen=True, slots=True)
class CloseSession:
    pass


@dataclass(frozen=True, slots=True)
class Unserved:
    """An operation that is not known here."""

    number: int


MultiOperation: TypeAlias = Create | Delete | SetData | Check
Write: TypeAlias = Create | Delete | SetData | SetAcl | Check | Multi
Read: TypeAlias = Exists | GetData | GetAcl | GetChildren | Sync | SetWatches
Request: TypeAlias = Write | Read | Ping | Auth | CloseSession | Unserved


# Answers


@dataclass(frozen=True, slots=True)
class Created:
    path: str


@dataclass(frozen=True, slots=True)
class CreatedWithStat:
    path: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class StatOf:
    """Of exists, setData and setACL."""

    stat: Stat


@dataclass(frozen=True, slots=True)
class Data:
    data: bytes | None
    stat: Stat


@dataclass(frozen=True, slots=True)
class AclOf:
    acl: tuple[Acl, ...]
    stat: Stat


@dataclass(frozen=True, slots=True)
class Children:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChildrenWithStat:
    names: tuple[str, ...]
    stat: Stat


@dataclass(frozen=True, slots=True)
class Synced:
    path: str


@dataclass(frozen=True, slots=True)
class Deleted:
    pass


@dataclass(frozen=True, slots=True)
class Checked:
    pass


@dataclass(frozen=True, slots=True)
class Done:
    """There is nothing to say: of ping, auth, setWatches and closeSession."""


@dataclass(frozen=True, slots=True)
class Failed:
    """Of one operation of a multi: its own error, 0 before the one that failed, RUNTIME_INCONSISTENCY behind it."""

    code: ZooKeeperCode


@dataclass(frozen=True, slots=True)
class MultiResults:
    results: tuple["MultiResult", ...]

    @property
    def failure(self) -> ZooKeeperCode | None:
        """Why nothing of it happened."""
        codes = [one.code for one in self.results if isinstance(one, Failed) and one.code]
        return codes[0] if codes else None


MultiResult: TypeAlias = Created | CreatedWithStat | StatOf | Deleted | Checked | Failed
Answer: TypeAlias = (
    Created
    | CreatedWithStat
    | StatOf
    | Data
    | AclOf
    | Children
    | ChildrenWithStat
    | Synced
    | Deleted
    | Checked
    | Done
    | MultiResults
)


@dataclass(frozen=True, slots=True)
class ReplyHeader:
    xid: int
    zxid: int
    code: ZooKeeperCode


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """A watch fired, once."""

    type: EventType
    state: int
    path: str


@dataclass(frozen=True, slots=True)
class CreateFields:
    """A create without its form."""

    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    flags: int


@dataclass(frozen=True, slots=True)
class GetChildrenFields:
    """A getChildren without its form."""

    path: str
    watch: bool


@dataclass(frozen=True, slots=True)
class MultiHeader:
    """Before each operation of a multi and each of its results, and behind the last."""

    op: int
    is_end: bool
    code: int


CONNECT_REQUEST: Final = Layout(ConnectRequest, INT, LONG, INT, LONG, BUFFER)
CONNECT_RESPONSE: Final = Layout(ConnectResponse, INT, INT, LONG, BUFFER)
CREATE_FIELDS: Final = Layout(CreateFields, STRING, BUFFER, ACLS, INT)
GET_CHILDREN_FIELDS: Final = Layout(GetChildrenFields, STRING, BOOL)
MULTI_HEADER: Final = Layout(MultiHeader, INT, BOOL, INT)
MULTI_END: Final = MultiHeader(-1, True, -1)

REQUESTS: Final[Mapping[Op, Layout[Any]]] = {
    Op.DELETE: Layout(Delete, STRING, INT),
    Op.EXISTS: Layout(Exists, STRING, BOOL),
    Op.GET_DATA: Layout(GetData, STRING, BOOL),
    Op.SET_DATA: Layout(SetData, STRING, BUFFER, INT),
    Op.GET_ACL: Layout(GetAcl, STRING),
    Op.SET_ACL: Layout(SetAcl, STRING, ACLS, INT),
    Op.SYNC: Layout(Sync, STRING),
    Op.PING: Layout(Ping),
    Op.CHECK: Layout(Check, STRING, INT),
    Op.AUTH: Layout(Auth, INT, STRING, BUFFER),
    Op.SET_WATCHES: Layout(SetWatches, LONG, STRINGS, STRINGS, STRINGS),
    Op.CLOSE_SESSION: Layout(CloseSession),
}
"""Of all but create, getChildren and multi, which `frames` reads itself."""

ANSWERS: Final[Mapping[Op, Layout[Any]]] = {
    Op.CREATE: Layout(Created, STRING),
    Op.CREATE2: Layout(CreatedWithStat, STRING, STAT),
    Op.DELETE: Layout(Deleted),
    Op.EXISTS: Layout(StatOf, STAT),
    Op.GET_DATA: Layout(Data, BUFFER, STAT),
    Op.SET_DATA: Layout(StatOf, STAT),
    Op.GET_ACL: Layout(AclOf, ACLS, STAT),
    Op.SET_ACL: Layout(StatOf, STAT),
    Op.GET_CHILDREN: Layout(Children, STRINGS),
    Op.GET_CHILDREN2: Layout(ChildrenWithStat, STRINGS, STAT),
    Op.SYNC: Layout(Synced, STRING),
    Op.PING: Layout(Done),
    Op.CHECK: Layout(Checked),
    Op.AUTH: Layout(Done),
    Op.SET_WATCHES: Layout(Done),
    Op.CLOSE_SESSION: Layout(Done),
}


def op_of(request: Request) -> int:
    """The number that asks for it."""
    match request:
        case Create():
            return Op.CREATE2 if request.with_stat else Op.CREATE
        case GetChildren():
            return Op.GET_CHILDREN2 if request.with_stat else Op.GET_CHILDREN
        case Multi():
            return Op.MULTI
        case Unserved():
            return request.number
        case _:
            return _OPS[type(request)]


_OPS: Final[Mapping[type, Op]] = {layout.kind: op for op, layout in REQUESTS.items()}
