"""ZooKeeper's vocabulary: error codes, permissions, access lists, what a node's Stat says, what a watch is told.

Role.   The values that the machine and the wire share. The numbers are ZooKeeper's.
"""

from dataclasses import dataclass
from enum import IntEnum, IntFlag
from typing import Final

from semel.errors import SemelError


class ZooKeeperCode(IntEnum):
    """The codes of a reply's header, or of one result of a multi."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    DATA_INCONSISTENCY = -3
    CONNECTION_LOSS = -4
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    OPERATION_TIMEOUT = -7
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_CALLBACK = -113
    INVALID_ACL = -114
    AUTH_FAILED = -115
    SESSION_MOVED = -118


class RefusedError(SemelError):
    """An operation that ZooKeeper refuses, and nothing of it happens."""

    def __init__(self, reason: ZooKeeperCode, path: str = "") -> None:
        super().__init__(f"{reason.name} for {path!r}" if path else reason.name)
        self.reason = reason


class Permission(IntFlag):
    """The permissions an access list gives."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16


ALL_PERMISSIONS: Final = 31


@dataclass(frozen=True, slots=True)
class Acl:
    """Permissions for one identity."""

    permissions: int
    scheme: str
    identity: str


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom a connection has shown itself to be."""

    scheme: str
    name: str


OPEN_ACL: Final = (Acl(ALL_PERMISSIONS, "world", "anyone"),)


@dataclass(frozen=True, slots=True)
class Stat:
    """ZooKeeper's facts about a node; the fields are in the order of the wire."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class EventType(IntEnum):
    """The events a watch is told."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


SYNC_CONNECTED: Final = 3
"""The state of the connection, as every event of a server says it."""

EPHEMERAL: Final = 1
SEQUENTIAL: Final = 2
"""Flags of a create; containers and nodes with a time to live are not served: Kafka makes none."""
