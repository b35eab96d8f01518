"""A disk in memory that loses, tears and delays writes, fills up, fails and crashes, all from one seed.

Role.   `MemoryDisk` is `files.Files` for simulations and crash tests.
Flow.   A test makes a disk from a `random.Random`, hands it to the code under test, plans faults, and after
        `crash` or `kill` opens it again with new code. The page cache is in `memory_platter`, the names and
        their journal in `memory_names`, the plan of faults in `memory_faults`.
Rules.  * Without faults it behaves as `files.RealFiles` does (a property test compares the two).
        * After `crash` (power cut) or `kill` (of the process) every file opened before raises `DiskCrashed`.
        * A planned crash raises `DiskCrashed` in the middle of the operation; from then on everything raises it
          until `restart`.
        * `on_death` is called at a planned crash, so that the host dies with its disk.
        * `block` is called with the duration of a slow sync: the simulated task runtime makes its caller wait.
"""

import errno
import os
import random
from collections.abc import Callable, Sequence

from semel.errors import LogDirLockedError
from semel.runtime.memory_faults import Counters, Death, DiskCrashed, DiskFaults, Operation
from semel.runtime.memory_names import (
    Create,
    Directory,
    MakeDirectory,
    NameChange,
    Names,
    Remove,
    Rename,
    normalize,
)
from semel.runtime.memory_platter import Inode
from semel.types import BytesLike

_NO_LIMIT_BYTES = 1 << 50


class MemoryDisk:
    """One machine's disk. All randomness comes from `dice`."""

    def __init__(
        self,
        dice: random.Random,
        *,
        capacity_bytes: int = _NO_LIMIT_BYTES,
        block: Callable[[float], None] | None = None,
        on_death: Callable[[Death], None] | None = None,
        now_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        self._dice = dice
        self._capacity_bytes = capacity_bytes
        self._names = Names()
        self._inodes_made = 0
        self._used_bytes = 0
        self._dirty: dict[int, Inode] = {}  # By number: a power cut must visit them in a fixed order.
        self._locks: set[Inode] = set()
        self._life = 0  # Rises with every death; handles of an earlier life are dead.
        self._dead = False
        self._faults = DiskFaults()
        self.block = block
        self.on_death = on_death
        self._now_ms = now_ms
        self.sync_delay_seconds: tuple[float, float] = (0.0, 0.0)

    # Deaths.

    def crash(self) -> None:
        """Cut the power: lose what a disk may lose. The disk can be opened again at once."""
        self._die("power cut")
        self._dead = False

    def kill(self) -> None:
        """Kill the process that used this disk: its writes stay, its open files and locks are closed."""
        self._die("kill")
        self._dead = False

    def crash_after(self, size: int, *, death: Death = "power cut") -> None:
        """Die inside a write, `size` bytes from now; the write that gets there is cut at that byte."""
        self._faults.crash_after(size, death)

    def crash_at_operation(self, number: int, *, death: Death = "power cut") -> None:
        """Die at the change `number` from now (0: the next one): a write half done, a sync or name unsure."""
        self._faults.crash_at_operation(number, death)

    def restart(self) -> None:
        """Restart after a planned crash, with the surviving data and an empty fault plan."""
        if self._dead:
            self._faults.clear()
            self._dead = False

    # Non-fatal faults.

    def fail(
        self,
        operation: Operation,
        code: int = errno.EIO,
        *,
        skip: int = 0,
        times: int = 1,
        path_part: str = "",
    ) -> None:
        """Make an operation fail with an error code, after letting `skip` of its kind pass.

        A failing write leaves any part of its bytes. A failing sync leaves any part of them durable, and no
        later sync tries the rest again.
        """
        self._faults.fail(operation, code, skip=skip, times=times, path_part=path_part)

    def fill_after(self, size: int) -> None:
        """Refuse with ENOSPC what is written more than `size` bytes from now, until `clear_faults`."""
        self._faults.fill_after(size)

    def clear_faults(self) -> None:
        self._faults.clear()

    @property
    def counters(self) -> Counters:
        return self._faults.counters

    # Files.

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> "MemoryFile":
        full = normalize(path)
        self._check("open", path)
        node = self._names.visible.find(full)
        if isinstance(node, Directory):
            raise _error(errno.EISDIR, path)
        if node is None:
            self._names.visible.parent(full)  # Raises for an impossible path.
            if not create:
                raise _error(errno.ENOENT, path)
            node = self._create(full)
        return MemoryFile(self, path, node, self._life, writable=not read_only)

    def exists(self, path: str) -> bool:
        self._check_alive()
        return self._names.visible.find(normalize(path)) is not None

    def is_directory(self, path: str) -> bool:
        self._check_alive()
        return isinstance(self._names.visible.find(normalize(path)), Directory)

    def size(self, path: str) -> int:
        self._check_alive()
        node = self._find(path)
        return 0 if isinstance(node, Directory) else len(node.visible)

    def modified_ms(self, path: str) -> int:
        self._check_alive()
        node = self._find(path)
        return 0 if isinstance(node, Directory) else node.modified_ms

    def list_directory(self, path: str) -> list[str]:
        self._check("read", path)
        node = self._find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        return sorted(node.entries)

    def make_directory(self, path: str) -> None:
        self._check_alive()
        made = ""
        for name in normalize(path).split("/")[1:]:
            made += "/" + name
            node = self._names.visible.find(made)
            if isinstance(node, Inode):
                raise _error(errno.EEXIST if made == normalize(path) else errno.ENOTDIR, path)
            if node is None:
                self._change("make_directory", MakeDirectory(made))

    def remove(self, path: str) -> None:
        self._check_alive()
        full = normalize(path)
        try:
            directory, name = self._names.visible.parent(full)
        except FileNotFoundError:
            return
        if isinstance(directory.entries.get(name), Directory):
            raise _error(errno.EISDIR, path)
        if name in directory.entries:
            self._change("remove", Remove(full))

    def remove_tree(self, path: str) -> None:
        self._check_alive()
        full = normalize(path)
        node = self._names.visible.find(full)
        if isinstance(node, Inode):
            raise _error(errno.ENOTDIR, path)
        if node is not None:
            self._remove_below(full, node)
            self._change("remove", Remove(full))

    def rename(self, source: str, target: str) -> None:
        self._change("rename", Rename(normalize(source), normalize(target)))

    def sync_directory(self, path: str) -> None:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOTDIR, path)
        self._check("sync_directory", path)
        self._start_change()
        self._wait_for_sync()
        self.counters.directory_syncs += 1
        self._names.sync(normalize(path))

    def lock(self, path: str) -> "MemoryLock":
        file = self.open(path, create=True)
        if file.inode in self._locks:
            raise LogDirLockedError(
                f"{path} is locked: another broker uses this directory; stop it or choose another one"
            )
        self._locks.add(file.inode)
        return MemoryLock(self, file.inode, self._life)

    def free_bytes(self, path: str) -> int:
        self._check_alive()
        self._find(path)
        free = max(0, self._capacity_bytes - self._used_bytes)
        until_full = self._faults.bytes_until_full()
        return free if until_full is None else min(free, until_full)

    def total_bytes(self, path: str) -> int:
        self._check_alive()
        self._find(path)
        return self._capacity_bytes

    # Operations of open files.

    def check_handle(self, life: int) -> None:
        if self._dead or life != self._life:
            raise DiskCrashed("this file was opened before the disk's process or machine died")

    def release(self, inode: Inode, life: int) -> None:
        if life == self._life:
            self._locks.discard(inode)

    def read(self, inode: Inode, path: str, position: int, size: int) -> bytes:
        self._check("read", path)
        if position < 0:
            raise _error(errno.EINVAL, path)
        data = bytes(inode.visible[position : position + size])
        self.counters.reads += 1
        self.counters.read_bytes += len(data)
        return data

    def write(self, inode: Inode, path: str, position: int, data: bytes) -> None:
        if position < 0:
            raise _error(errno.EINVAL, path)
        death = self._faults.starts_change()
        if death is not None:
            self._write_part(inode, position, data[: self._dice.randint(0, len(data))])
            raise self._planned_death(death, f"writing {path}")
        try:
            self._check("write", path)
        except OSError:
            self._write_part(inode, position, data[: self._dice.randint(0, len(data))])
            raise
        until_crash = self._faults.bytes_until_crash()
        room = self._room(inode, position)
        if until_crash is not None and until_crash <= min(len(data), room):
            self._write_part(inode, position, data[:until_crash])
            raise self._planned_death(self._faults.death, f"writing {path}")
        self._write_part(inode, position, data[:room])
        if room < len(data):
            raise _error(errno.ENOSPC, path)

    def truncate(self, inode: Inode, path: str, size: int) -> None:
        if size < 0:
            raise _error(errno.EINVAL, path)
        self._check("truncate", path)
        self._start_change()
        if inode.linked:
            self._used_bytes += size - len(inode.visible)
        inode.truncate(size)
        inode.modified_ms = self._now_ms()
        self._dirty[inode.number] = inode

    def sync(self, inode: Inode, path: str) -> None:
        self._start_change()
        self._wait_for_sync()
        self.counters.syncs += 1
        self._dirty.pop(inode.number, None)
        try:
            self._check("sync", path)
        except OSError:
            inode.fail_sync(self._dice)
            raise
        inode.sync()

    # Inside.

    def _create(self, full: str) -> Inode:
        inode = Inode(self._inodes_made, self._now_ms())
        self._inodes_made += 1
        self._change("create", Create(full, inode))
        return inode

    def _change(self, operation: Operation, change: NameChange) -> None:
        """Change a name. At a planned crash it is unsure whether it happened."""
        self._check(operation, change.source if isinstance(change, Rename) else change.path)
        death = self._faults.starts_change()
        if death is None or self._dice.random() < 0.5:
            unnamed = self._names.change(change)
            if unnamed is not None:
                unnamed.linked = False
                self._used_bytes -= len(unnamed.visible)
        if death is not None:
            raise self._planned_death(death, f"at {change}")

    def _start_change(self) -> None:
        """Count a change that either happens or does not; at a planned crash it does not."""
        self._check_alive()
        death = self._faults.starts_change()
        if death is not None:
            raise self._planned_death(death, "at a sync or truncation")

    def _write_part(self, inode: Inode, position: int, data: bytes) -> None:
        if inode.linked:
            self._used_bytes += max(0, position + len(data) - len(inode.visible)) if data else 0
        inode.write(position, data)
        inode.modified_ms = self._now_ms()
        self._dirty[inode.number] = inode
        self.counters.writes += 1
        self.counters.written_bytes += len(data)

    def _room(self, inode: Inode, position: int) -> int:
        """How many bytes may be written at `position` before the disk is full."""
        inside = max(0, len(inode.visible) - position)
        gap = max(0, position - len(inode.visible))
        room = inside + max(0, self._capacity_bytes - self._used_bytes - gap)
        until_full = self._faults.bytes_until_full()
        return room if until_full is None else min(room, until_full)

    def _remove_below(self, full: str, directory: Directory) -> None:
        for name in sorted(directory.entries):
            node = directory.entries[name]
            if isinstance(node, Directory):
                self._remove_below(f"{full}/{name}", node)
            self._change("remove", Remove(f"{full}/{name}"))

    def _find(self, path: str) -> Directory | Inode:
        self._check_alive()
        full = normalize(path)
        node = self._names.visible.find(full)
        if node is None:
            self._names.visible.parent(full)  # Raises ENOTDIR if a parent is a file.
            raise _error(errno.ENOENT, path)
        return node

    def _wait_for_sync(self) -> None:
        low, high = self.sync_delay_seconds
        if high > 0 and self.block is not None:
            self.block(self._dice.uniform(low, high))
            self._check_alive()

    def _check(self, operation: Operation, path: str) -> None:
        self._check_alive()
        self._faults.check(operation, path)

    def _check_alive(self) -> None:
        if self._dead:
            raise DiskCrashed("the machine is down; restart() brings it back")

    def _planned_death(self, death: Death, where: str) -> DiskCrashed:
        self._die(death)
        if self.on_death is not None:
            self.on_death(death)
        return DiskCrashed(f"{death} {where}")

    def _die(self, death: Death) -> None:
        self._life += 1
        self._locks.clear()
        if death == "power cut":
            self._names.cut_power(self._dice)
            for number in sorted(self._dirty):
                self._dirty[number].cut_power(self._dice)
            self._dirty.clear()
            self._used_bytes = 0
            for inode in self._names.visible.inodes():
                inode.visible = bytearray(inode.durable)  # Also drops cached bytes of a failed sync.
                inode.linked = True
                self._used_bytes += len(inode.visible)
        self._dead = True


class MemoryFile:
    """An open file of a `MemoryDisk`."""

    __slots__ = ("_closed", "_disk", "_life", "_writable", "inode", "path")

    def __init__(self, disk: MemoryDisk, path: str, inode: Inode, life: int, *, writable: bool) -> None:
        self.path = path
        self.inode = inode
        self._disk = disk
        self._life = life
        self._writable = writable
        self._closed = False

    def size(self) -> int:
        self._check()
        return len(self.inode.visible)

    def write_at(self, position: int, data: BytesLike) -> None:
        self._check(writing=True)
        self._disk.write(self.inode, self.path, position, bytes(data))

    def write_all_at(self, position: int, buffers: Sequence[BytesLike]) -> None:
        self._check(writing=True)
        self._disk.write(self.inode, self.path, position, b"".join(buffers))

    def read_at(self, position: int, size: int) -> bytes:
        self._check()
        return self._disk.read(self.inode, self.path, position, size)

    def truncate(self, size: int) -> None:
        self._check()
        if not self._writable:
            raise _error(errno.EINVAL, self.path)
        self._disk.truncate(self.inode, self.path, size)

    def sync(self) -> None:
        self._check()
        self._disk.sync(self.inode, self.path)

    def fileno(self) -> int:
        raise OSError(errno.ENOTSUP, "a file of a simulated disk has no descriptor", self.path)

    def close(self) -> None:
        self._closed = True

    def _check(self, *, writing: bool = False) -> None:
        self._disk.check_handle(self._life)
        if self._closed or (writing and not self._writable):
            raise _error(errno.EBADF, self.path)


class MemoryLock:
    """A held lock on a `MemoryDisk`."""

    def __init__(self, disk: MemoryDisk, inode: Inode, life: int) -> None:
        self._disk = disk
        self._inode = inode
        self._life = life

    def release(self) -> None:
        self._disk.release(self._inode, self._life)


def _error(code: int, path: str) -> OSError:
    """The operating system's own error; the constructor picks FileNotFoundError and kin by the code."""
    return OSError(code, os.strerror(code), path)
