"""The names on a simulated disk: a tree, and a journal of the changes that are not durable yet.

Role.   `NameTree` is a directory tree with POSIX rules; `Names` holds two of them, the visible and the durable one,
        with the journal between.
Flow.   `memory_files.MemoryDisk` asks `Names` for every lookup and change; a power cut keeps a prefix of the journal.
Rules.  * Name changes become durable in the order they were made, as in the journal of a file system.
        * `sync` of a directory commits the journal up to the last change that touched that directory.
        * Errors equal those of the operating system for the same call.
"""

import errno
import functools
import os
import posixpath
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from semel.runtime.memory_platter import Inode

_PATHS_KEPT_MAX: Final = 4096


class Directory:
    """Names and their inodes or directories."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: dict[str, Directory | Inode] = {}


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    inode: Inode


@dataclass(frozen=True, slots=True)
class MakeDirectory:
    path: str


@dataclass(frozen=True, slots=True)
class Remove:
    path: str


@dataclass(frozen=True, slots=True)
class Rename:
    source: str
    target: str


NameChange = Create | MakeDirectory | Remove | Rename


@functools.lru_cache(_PATHS_KEPT_MAX)
def normalize(path: str) -> str:
    return posixpath.normpath("/" + path.lstrip("/"))


class NameTree:
    """A directory tree. Paths are normalized."""

    def __init__(self) -> None:
        self.root = Directory()

    def find(self, path: str) -> Directory | Inode | None:
        """The node at `path`; None if a part is missing or not a directory."""
        node: Directory | Inode | None = self.root
        for name in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.entries.get(name)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        """The directory that holds, or would hold, the last part of `path`, and that part."""
        parts = _parts(path)
        if not parts:
            raise _error(errno.EBUSY, path)
        node: Directory | Inode = self.root
        for name in parts[:-1]:
            if not isinstance(node, Directory):
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return node, parts[-1]

    def apply(self, change: NameChange) -> Inode | None:
        """Make the change, or raise as the system would. Returns the inode that lost its name, if one did."""
        match change:
            case Create(path, inode):
                directory, name = self.parent(path)
                if name in directory.entries:
                    raise _error(errno.EEXIST, path)
                directory.entries[name] = inode
                return None
            case MakeDirectory(path):
                directory, name = self.parent(path)
                if name in directory.entries:
                    raise _error(errno.EEXIST, path)
                directory.entries[name] = Directory()
                return None
            case Remove(path):
                directory, name = self.parent(path)
                if name not in directory.entries:
                    raise _error(errno.ENOENT, path)
                node = directory.entries[name]
                if isinstance(node, Directory) and node.entries:
                    raise _error(errno.ENOTEMPTY, path)
                del directory.entries[name]
                return None if isinstance(node, Directory) else node
            case Rename(source, target):
                return self._rename(source, target)

    def _rename(self, source: str, target: str) -> Inode | None:
        old_directory, old_name = self.parent(source)
        if old_name not in old_directory.entries:
            raise _error(errno.ENOENT, source, target)
        new_directory, new_name = self.parent(target)
        node = old_directory.entries[old_name]
        replaced = new_directory.entries.get(new_name)
        if source == target:
            return None
        if isinstance(node, Directory):
            if target.startswith(source + "/"):
                raise _error(errno.EINVAL, source, target)
            if isinstance(replaced, Inode):
                raise _error(errno.ENOTDIR, source, target)
            if isinstance(replaced, Directory) and replaced.entries:
                raise _error(errno.ENOTEMPTY, source, target)
        elif isinstance(replaced, Directory):
            raise _error(errno.EISDIR, source, target)
        del old_directory.entries[old_name]
        new_directory.entries[new_name] = node
        return replaced if isinstance(replaced, Inode) else None

    def copy(self) -> "NameTree":
        tree = NameTree()
        tree.root = _copy(self.root)
        return tree

    def inodes(self) -> Iterator[Inode]:
        """Every inode with a name, in the order of names."""
        pending: list[Directory | Inode] = [self.root]
        while pending:
            node = pending.pop()
            if isinstance(node, Inode):
                yield node
            else:
                pending.extend(node.entries[name] for name in sorted(node.entries, reverse=True))


class Names:
    """The visible names, the durable names, and the changes between."""

    def __init__(self) -> None:
        self.visible = NameTree()
        self.durable = NameTree()
        self.journal: list[NameChange] = []

    def change(self, change: NameChange) -> Inode | None:
        """Make a visible change and note it. Returns the inode that lost its name, if one did."""
        unnamed = self.visible.apply(change)
        self.journal.append(change)
        return unnamed

    def sync(self, path: str) -> None:
        """Commit the journal up to the last change of a name in the directory `path`."""
        for index in reversed(range(len(self.journal))):
            if _touches(self.journal[index], path):
                self._commit(index + 1)
                return

    def cut_power(self, dice: random.Random) -> None:
        self._commit(dice.choice((0, len(self.journal), dice.randint(0, len(self.journal)))))
        self.journal.clear()
        self.visible = self.durable.copy()

    def _commit(self, count: int) -> None:
        for change in self.journal[:count]:
            self.durable.apply(change)
        del self.journal[:count]


def _touches(change: NameChange, directory: str) -> bool:
    match change:
        case Rename(source, target):
            return directory in (posixpath.dirname(source), posixpath.dirname(target))
        case Create(path) | MakeDirectory(path) | Remove(path):
            return posixpath.dirname(path) == directory


def _copy(directory: Directory) -> Directory:
    copied = Directory()
    for name, node in directory.entries.items():
        copied.entries[name] = _copy(node) if isinstance(node, Directory) else node
    return copied


@functools.lru_cache(_PATHS_KEPT_MAX)
def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part)


def _error(code: int, path: str, target: str | None = None) -> OSError:
    """The operating system's own error; the constructor picks FileNotFoundError and kin by the code."""
    if target is None:
        return OSError(code, os.strerror(code), path)
    return OSError(code, os.strerror(code), path, None, target)
