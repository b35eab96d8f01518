"""ZooKeeper's tree: the judgement of writes, their application, and reads.

Role.   `Draft` judges the operations of one write against the tree and against each other, and gives `Change`s or refuses; `Tree`
        applies changes and answers reads.
Flow.   `machine` makes a draft per write -> `judge` for each operation -> if none is refused, `Tree.apply` for each change, in
        order; the occurrences that follow are told to the watches.
Rules.  * Judging changes nothing. Applying cannot fail. All changes of a write have its zxid.
        * The order of the checks is ZooKeeper's, for it decides which error is answered. The parent comes before the node, the
          node's existence before the parent's kind, permissions before versions.
        * A node's `creates` counts the children it ever had: it numbers sequential nodes. The `cversion` that a Stat shows counts
          creations and deletions; of "/" and "/zookeeper", born with children, it begins below 0.
        * A node below an ephemeral one is refused; a session's ephemeral nodes go with it, under one zxid.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from semel.core.zookeeper import access
from semel.core.zookeeper.paths import SPECIAL, is_valid, name_of, parent_of
from semel.core.zookeeper.wire.messages import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    MultiOperation,
    SetAcl,
    SetData,
)
from semel.core.zookeeper.words import (
    EPHEMERAL,
    OPEN_ACL,
    SEQUENTIAL,
    Acl,
    EventType,
    Identity,
    Permission,
    RefusedError,
    Stat,
    ZooKeeperCode,
)

_CONFIG_ACL: Final = (Acl(Permission.READ, "world", "anyone"),)


@dataclass(slots=True)
class Node:
    """One node, as it is."""

    data: bytes | None
    acl: tuple[Acl, ...]
    ephemeral_owner: int = 0
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime: int = 0
    mtime: int = 0
    version: int = 0
    aversion: int = 0
    creates: int = 0
    children: set[str] = field(default_factory=set)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime=self.ctime,
            mtime=self.mtime,
            version=self.version,
            cversion=self.creates * 2 - len(self.children),
            aversion=self.aversion,
            ephemeral_owner=self.ephemeral_owner,
            data_length=len(self.data or b""),
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


# The changes of a write


@dataclass(frozen=True, slots=True)
class Created:
    path: str
    data: bytes | None
    acl: tuple[Acl, ...]
    ephemeral_owner: int


@dataclass(frozen=True, slots=True)
class Deleted:
    path: str


@dataclass(frozen=True, slots=True)
class DataSet:
    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class AclSet:
    path: str
    acl: tuple[Acl, ...]
    aversion: int


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A check that held."""

    path: str


Change: TypeAlias = Created | Deleted | DataSet | AclSet | Unchanged


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An event a watch may be waiting for, and the access list of its node."""

    type: EventType
    path: str
    acl: tuple[Acl, ...]


class Tree:
    """All nodes."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {
            "/": Node(b"", OPEN_ACL, children={"zookeeper"}),
            "/zookeeper": Node(b"", OPEN_ACL, children={"quota", "config"}),
            "/zookeeper/quota": Node(b"", OPEN_ACL),
            "/zookeeper/config": Node(b"", _CONFIG_ACL),
        }
        self._ephemerals: dict[int, dict[str, None]] = {}

    def get(self, path: str) -> Node | None:
        return self._nodes.get(path)

    def node(self, path: str) -> Node:
        """The node; raises NO_NODE."""
        node = self._nodes.get(path)
        if node is None:
            raise RefusedError(ZooKeeperCode.NO_NODE, path)
        return node

    def ephemerals(self, session_id: int) -> list[str]:
        """The nodes that go when this session ends, in the order they were made."""
        return list(self._ephemerals.get(session_id, ()))

    def apply(self, change: Change, zxid: int, wall_ms: int) -> list[Occurrence]:
        """Do it; gives the events watches may wait for, in the order they are told."""
        match change:
            case Created():
                return self._create(change, zxid, wall_ms)
            case Deleted():
                return self._delete(change.path, zxid)
            case DataSet():
                node = self._nodes[change.path]
                node.data, node.version, node.mzxid, node.mtime = change.data, change.version, zxid, wall_ms
                return [Occurrence(EventType.NODE_DATA_CHANGED, change.path, node.acl)]
            case AclSet():
                node = self._nodes[change.path]
                node.acl, node.aversion = change.acl, change.aversion
                return []
            case Unchanged():
                return []

    def _create(self, change: Created, zxid: int, wall_ms: int) -> list[Occurrence]:
        path, parent_path = change.path, parent_of(change.path)
        parent = self._nodes[parent_path]
        parent.children.add(name_of(path))
        parent.creates += 1
        parent.pzxid = zxid
        self._nodes[path] = Node(
            change.data,
            change.acl,
            change.ephemeral_owner,
            czxid=zxid,
            mzxid=zxid,
            pzxid=zxid,
            ctime=wall_ms,
            mtime=wall_ms,
        )
        if change.ephemeral_owner:
            self._ephemerals.setdefault(change.ephemeral_owner, {})[path] = None
        return [
            Occurrence(EventType.NODE_CREATED, path, change.acl),
            Occurrence(EventType.NODE_CHILDREN_CHANGED, parent_path, parent.acl),
        ]

    def _delete(self, path: str, zxid: int) -> list[Occurrence]:
        parent_path = parent_of(path)
        parent, node = self._nodes[parent_path], self._nodes.pop(path)
        parent.children.discard(name_of(path))
        parent.pzxid = zxid
        if node.ephemeral_owner:
            owned = self._ephemerals[node.ephemeral_owner]
            del owned[path]
            if not owned:
                del self._ephemerals[node.ephemeral_owner]
        return [
            Occurrence(EventType.NODE_DELETED, path, node.acl),
            Occurrence(EventType.NODE_CHILDREN_CHANGED, parent_path, parent.acl),
        ]


@dataclass(frozen=True, slots=True)
class _Known:
    """A draft's knowledge of a node, to judge the next operations."""

    acl: tuple[Acl, ...]
    version: int
    aversion: int
    creates: int
    children: int
    ephemeral_owner: int


class Draft:
    """The operations of one write, judged one after the other."""

    def __init__(self, tree: Tree, session_id: int, identities: Sequence[Identity]) -> None:
        self._tree = tree
        self._session_id = session_id
        self._identities = identities
        self._drafted: dict[str, _Known | None] = {}

    def judge(self, operation: MultiOperation | SetAcl) -> Change:
        """The change of an operation, after the operations before it; raises `RefusedError`."""
        match operation:
            case Create():
                return self._create(operation)
            case Delete():
                return self._delete(operation)
            case SetData():
                return self._set_data(operation)
            case SetAcl():
                return self._set_acl(operation)
            case Check():
                _must_be_valid(operation.path)
                known = self._known(operation.path)
                self._must_be_permitted(known, Permission.READ, operation.path)
                _must_match(known.version, operation.version, operation.path)
                return Unchanged(operation.path)

    def _create(self, asked: Create) -> Created:
        path = asked.path
        if asked.flags not in (0, EPHEMERAL, SEQUENTIAL, EPHEMERAL | SEQUENTIAL):
            raise RefusedError(ZooKeeperCode.BAD_ARGUMENTS, path)
        if "/" not in path or "\0" in path:
            raise RefusedError(ZooKeeperCode.BAD_ARGUMENTS, path)
        acl = access.checked(path, asked.acl, self._identities)
        parent_path = parent_of(path)
        parent = self._known(parent_path)
        self._must_be_permitted(parent, Permission.CREATE, path)
        if asked.flags & SEQUENTIAL:
            path += f"{parent.creates:010d}"
        _must_be_valid(path)
        if self._find(path) is not None:
            raise RefusedError(ZooKeeperCode.NODE_EXISTS, path)
        if parent.ephemeral_owner:
            raise RefusedError(ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS, path)
        owner = self._session_id if asked.flags & EPHEMERAL else 0
        self._drafted[parent_path] = replace(parent, creates=parent.creates + 1, children=parent.children + 1)
        self._drafted[path] = _Known(acl, version=0, aversion=0, creates=0, children=0, ephemeral_owner=owner)
        return Created(path, asked.data, acl, owner)

    def _delete(self, asked: Delete) -> Deleted:
        path = asked.path
        if "/" not in path or "\0" in path or path in SPECIAL:
            raise RefusedError(ZooKeeperCode.BAD_ARGUMENTS, path)
        parent_path = parent_of(path)
        parent = self._known(parent_path)
        self._must_be_permitted(parent, Permission.DELETE, path)
        known = self._known(path)
        _must_match(known.version, asked.version, path)
        if known.children:
            raise RefusedError(ZooKeeperCode.NOT_EMPTY, path)
        self._drafted[parent_path] = replace(parent, children=parent.children - 1)
        self._drafted[path] = None
        return Deleted(path)

    def _set_data(self, asked: SetData) -> DataSet:
        _must_be_valid(asked.path)
        known = self._known(asked.path)
        self._must_be_permitted(known, Permission.WRITE, asked.path)
        _must_match(known.version, asked.version, asked.path)
        self._drafted[asked.path] = replace(known, version=known.version + 1)
        return DataSet(asked.path, asked.data, known.version + 1)

    def _set_acl(self, asked: SetAcl) -> AclSet:
        _must_be_valid(asked.path)
        acl = access.checked(asked.path, asked.acl, self._identities)
        known = self._known(asked.path)
        self._must_be_permitted(known, Permission.ADMIN, asked.path)
        _must_match(known.aversion, asked.version, asked.path)
        self._drafted[asked.path] = replace(known, acl=acl, aversion=known.aversion + 1)
        return AclSet(asked.path, acl, known.aversion + 1)

    def _find(self, path: str) -> _Known | None:
        if path in self._drafted:
            return self._drafted[path]
        node = self._tree.get(path)
        if node is None:
            return None
        return _Known(
            node.acl, node.version, node.aversion, node.creates, len(node.children), node.ephemeral_owner
        )

    def _known(self, path: str) -> _Known:
        known = self._find(path)
        if known is None:
            raise RefusedError(ZooKeeperCode.NO_NODE, path)
        return known

    def _must_be_permitted(self, known: _Known, permission: Permission, path: str) -> None:
        if not access.permits(known.acl, permission, self._identities):
            raise RefusedError(ZooKeeperCode.NO_AUTH, path)


def _must_be_valid(path: str) -> None:
    if not is_valid(path):
        raise RefusedError(ZooKeeperCode.BAD_ARGUMENTS, path)


def _must_match(version: int, expected: int, path: str) -> None:
    if expected not in (ANY_VERSION, version):
        raise RefusedError(ZooKeeperCode.BAD_VERSION, path)
