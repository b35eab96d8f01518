"""The fault plan of a simulated disk.

Role.   `DiskFaults` counts the operations of one disk and decides for each whether it works, fails or crashes the
        machine. Tests set the plan; `memory_files.MemoryDisk` checks it before every operation.
Rules.  * An operation's number counts changes only (writes, truncations, syncs, names), from 0, so that a dry run
          counts the possible crash points.
        * Planned errors fire in the order they were planned and once each, unless `times` says otherwise.
        * `DiskCrashed` is not an `Exception`, so that code under test cannot swallow it.
"""

import errno
import os
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Operation: TypeAlias = Literal[
    "open",
    "read",
    "write",
    "truncate",
    "sync",
    "create",
    "make_directory",
    "remove",
    "rename",
    "sync_directory",
]
Death: TypeAlias = Literal["power cut", "kill"]


class DiskCrashed(BaseException):
    """The machine or the process died; no code of it may continue."""


@dataclass(slots=True)
class Counters:
    """Counts of a disk's operations since it was made."""

    operations: int = 0
    reads: int = 0
    read_bytes: int = 0
    writes: int = 0
    written_bytes: int = 0
    syncs: int = 0
    directory_syncs: int = 0


@dataclass(slots=True)
class _PlannedError:
    operation: Operation
    code: int
    skip: int
    times: int
    path_part: str


@dataclass(slots=True)
class DiskFaults:
    """The planned faults of one disk."""

    counters: Counters = field(default_factory=Counters)
    _errors: list[_PlannedError] = field(default_factory=list)
    _crash_at_operation: int | None = None
    _crash_at_byte: int | None = None
    _death: Death = "power cut"
    _full_at_byte: int | None = None

    def fail(
        self,
        operation: Operation,
        code: int = errno.EIO,
        *,
        skip: int = 0,
        times: int = 1,
        path_part: str = "",
    ) -> None:
        """Make `operation` fail with `code`, after letting `skip` of them pass, on paths with `path_part`."""
        self._errors.append(_PlannedError(operation, code, skip, times, path_part))

    def crash_at_operation(self, number: int, death: Death) -> None:
        self._crash_at_operation, self._death = self.counters.operations + number, death

    def crash_after(self, size: int, death: Death) -> None:
        self._crash_at_byte, self._death = self.counters.written_bytes + size, death

    def fill_after(self, size: int) -> None:
        self._full_at_byte = self.counters.written_bytes + size

    def clear(self) -> None:
        """Forget the plan; the counters stay."""
        self._errors.clear()
        self._crash_at_operation = self._crash_at_byte = self._full_at_byte = None

    def check(self, operation: Operation, path: str) -> None:
        """Raise the error planned for this operation, if it is due."""
        for planned in self._errors:
            if planned.operation != operation or planned.path_part not in path:
                continue
            if planned.skip > 0:
                planned.skip -= 1
                continue
            planned.times -= 1
            if planned.times <= 0:
                self._errors.remove(planned)
            raise OSError(planned.code, os.strerror(planned.code), path)

    def starts_change(self) -> Death | None:
        """Count one change; returns the kind of death planned for it, or None."""
        number = self.counters.operations
        self.counters.operations += 1
        return self._death if number == self._crash_at_operation else None

    def bytes_until_crash(self) -> int | None:
        """Bytes that can still be written before the planned crash."""
        return None if self._crash_at_byte is None else self._crash_at_byte - self.counters.written_bytes

    def bytes_until_full(self) -> int | None:
        return (
            None if self._full_at_byte is None else max(0, self._full_at_byte - self.counters.written_bytes)
        )

    @property
    def death(self) -> Death:
        return self._death
