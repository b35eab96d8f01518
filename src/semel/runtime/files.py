"""The file interface of the log: explicit positions, explicit durability.

Role.   The only access to the disk. `RealFiles` is the operating system; `memory_files.MemoryDisk` is the same
        interface on a disk that can lose, tear and delay writes and crash.
Flow.   `log/` opens files through its `Files` and never uses `os` itself.
Rules.  * A write is in the page cache when the call returns and on disk when `sync` returns, not before.
        * A file's bytes are durable after `File.sync`; its name is durable after `sync_directory` of its folder. A
          power cut may undo a rename, create or remove without it.
        * `sync` and `sync_directory` block: call them on the event loop's thread only when no task waits.
        * A file closes when its last reference is gone. A reader or a sync with a deleted segment's file is not
          disturbed, and its descriptor is not reused meanwhile.
        * A failed write may leave any part of its bytes: the caller truncates the file to its known size.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Sequence
from typing import ClassVar, Protocol

from semel.errors import LogDirLockedError
from semel.types import BytesLike


class File(Protocol):
    """One open file."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """The current length in bytes."""

    def write_at(self, position: int, data: BytesLike) -> None:
        """Write all of `data` at `position`, extending the file if needed."""

    def write_all_at(self, position: int, buffers: Sequence[BytesLike]) -> None:
        """Write the buffers one after the other from `position`, in as few calls as possible."""

    def read_at(self, position: int, size: int) -> bytes:
        """Up to `size` bytes from `position`; fewer only where the file ends."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Return once all bytes written so far survive a power cut. Blocks."""

    def fileno(self) -> int:
        """The descriptor, for sendfile. A simulated file has none and raises `OSError`."""

    def close(self) -> None:
        """Close without syncing. Closing twice is harmless."""


class Lock(Protocol):
    """A held lock on a directory."""

    def release(self) -> None: ...


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> File:
        """Open for reading and writing. A missing file is made with `create`, and else raises `FileNotFoundError`."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int:
        """Time of the last change of its bytes, in milliseconds since 1970."""

    def list_directory(self, path: str) -> list[str]:
        """Names of the entries, sorted."""

    def make_directory(self, path: str) -> None:
        """Make a directory and its parents; no error if it exists."""

    def remove(self, path: str) -> None:
        """Remove a file; no error if it is gone."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory with all below; no error if it is gone."""

    def rename(self, source: str, target: str) -> None:
        """Atomically give `source` the name `target`, replacing a file of that name."""

    def sync_directory(self, path: str) -> None:
        """Return once the names in this directory survive a power cut. Blocks."""

    def lock(self, path: str) -> Lock:
        """Hold an exclusive lock on the file `path`; raises `LogDirLockedError` if another process does."""

    def free_bytes(self, path: str) -> int: ...

    def total_bytes(self, path: str) -> int:
        """The size of the volume the path is on."""


def join(*parts: str) -> str:
    """The path of the parts, in the only form the project uses."""
    return "/".join(
        part.rstrip("/") if index == 0 and part != "/" else part.strip("/")
        for index, part in enumerate(parts)
    )


def read_whole(files: Files, path: str) -> bytes:
    """All bytes of a file."""
    file = files.open(path, read_only=True)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def write_atomically(files: Files, path: str, data: BytesLike) -> None:
    """Replace a file so that after a crash at any point it is the old or the new one, whole."""
    temporary = path + ".tmp"
    file = files.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write_at(0, data)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
    files.sync_directory(path.rpartition("/")[0] or "/")


_WRITEV_MAX = 1024  # IOV_MAX on Linux; more buffers than this go in several calls.


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write_at(self, position: int, data: BytesLike) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_rest(position + written, memoryview(data)[written:])

    def write_all_at(self, position: int, buffers: Sequence[BytesLike]) -> None:
        for start in range(0, len(buffers), _WRITEV_MAX):
            chunk = buffers[start : start + _WRITEV_MAX]
            written = os.pwritev(self._descriptor, chunk, position)
            total = sum(map(len, chunk))
            if written != total:
                self._write_rest(position + written, memoryview(b"".join(chunk))[written:])
            position += total

    def _write_rest(self, position: int, data: memoryview) -> None:
        """Continue after a short write: the next call writes more or raises."""
        while data:
            written = os.pwrite(self._descriptor, data, position)
            if written == 0:
                raise OSError(errno.ENOSPC, "the disk took no more bytes", self.path)
            position += written
            data = data[written:]

    def read_at(self, position: int, size: int) -> bytes:
        data = os.pread(self._descriptor, size, position)
        if len(data) == size or not data:
            return data
        parts = [data]  # A short read: the end of the file or a signal, which only another read can tell.
        got = len(data)
        while got < size and (data := os.pread(self._descriptor, size - got, position + got)):
            parts.append(data)
            got += len(data)
        return b"".join(parts)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        os.fdatasync(self._descriptor) if hasattr(os, "fdatasync") else os.fsync(self._descriptor)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


class RealLock:
    """A record lock, as Kafka takes on the same file, released by the system when the process dies.

    Record locks belong to a process and do not exclude two brokers in one process, so the process also remembers its
    locked files.
    """

    held: ClassVar[set[str]] = set()

    def __init__(self, path: str, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            self.held.discard(self._path)
            os.close(descriptor)


class RealFiles:
    """The file system of this machine."""

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        flags = os.O_RDONLY if read_only else os.O_RDWR
        if create:
            flags |= os.O_CREAT
        return RealFile(path, os.open(path, flags | os.O_CLOEXEC, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.lexists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except FileNotFoundError:
            return

    def remove_tree(self, path: str) -> None:
        if os.path.lexists(path):
            shutil.rmtree(path)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def lock(self, path: str) -> RealLock:
        path = os.path.realpath(path)
        if path in RealLock.held:
            raise LogDirLockedError(f"{path} is locked: another broker in this process uses this directory")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise LogDirLockedError(
                f"{path} is locked: another broker uses this directory; stop it or choose another one"
            ) from None
        RealLock.held.add(path)
        return RealLock(path, descriptor)

    def free_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).free

    def total_bytes(self, path: str) -> int:
        return shutil.disk_usage(path).total
