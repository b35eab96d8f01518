"""A disk and a clock that misbehave, under a real broker.

Role.   `Harm` says what is wrong now; `HarmedFiles` and `HarmedClock` are the machine's, with that wrong. `harmed_runtime` is
        what `cli.harmed_broker` runs a broker on, and nothing else: a broker that a user starts has no such thing in it.
Flow.   `semel verify` writes one `Harm` a line to the standard input of the broker it started; from then on it holds.
Rules.  * A slow disk makes writes, reads and syncs wait; sends from the page cache to a socket are not slowed.
        * A full disk takes half of a write, then refuses it (ENOSPC), as a real one may. Nothing new can be made on it; existing
          files can be changed, cut, renamed and removed.
        * A torn write is the last thing a process does: some of its bytes are in the file, then the process is killed.
        * Jumps touch the wall clock only.
"""

import errno
import json
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Final

from semel.errors import SemelError
from semel.runtime.bundle import Runtime, real_runtime
from semel.runtime.clock import RealClock
from semel.runtime.files import RealFile, RealFiles
from semel.types import BytesLike

_DELAY_MAX_SECONDS: Final = 60.0


class HarmError(SemelError):
    """A line that is no `Harm`."""


@dataclass(frozen=True, slots=True)
class Harm:
    """The harm done to a machine; the default is none."""

    write_seconds: float = 0.0
    """How much longer a write or a read takes."""
    sync_seconds: float = 0.0
    full: bool = False
    tear_after: int | None = None
    """How many writes succeed before the one that kills the process."""
    tear_share: float = 0.5
    """How much of that write reaches the file."""
    clock_ms: int = 0
    """How far the wall clock is ahead of the true time; negative: behind."""

    def __post_init__(self) -> None:
        for name in ("write_seconds", "sync_seconds"):
            if not 0 <= getattr(self, name) <= _DELAY_MAX_SECONDS:
                raise HarmError(
                    f"{name} {getattr(self, name)} is not between 0 and {_DELAY_MAX_SECONDS:.0f} s"
                )
        if not 0 <= self.tear_share < 1:
            raise HarmError(f"tear_share {self.tear_share} is not a part of a write: from 0 to below 1")

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str) -> "Harm":
        try:
            return cls(**json.loads(line))
        except (ValueError, TypeError) as error:
            raise HarmError(f"{line[:200]!r} says nothing of a harm: {error}") from error


class Harmed:
    """The present harm, shared by every part of one process."""

    def __init__(self, harm: Harm, die: Callable[[], None] | None = None) -> None:
        self.harm = harm
        self._die = die or _kill_this_process

    def waits(self, seconds: float) -> None:
        if seconds:
            time.sleep(seconds)

    def refuses(self, path: str) -> None:
        """Nothing new is made on a full disk."""
        if self.harm.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def is_torn(self) -> bool:
        """Count a write; whether it is the one that kills."""
        left = self.harm.tear_after
        if left is None:
            return False
        self.harm = replace(self.harm, tear_after=left - 1)
        return left <= 0

    def dies(self) -> None:
        self._die()


class HarmedFile(RealFile):
    """A file on the disk that misbehaves."""

    __slots__ = ("_harmed",)

    def __init__(self, file: RealFile, harmed: Harmed) -> None:
        super().__init__(file.path, os.dup(file.fileno()))
        self._harmed = harmed

    def write_at(self, position: int, data: BytesLike) -> None:
        self._harm(position, data)
        super().write_at(position, data)

    def write_all_at(self, position: int, buffers: Sequence[BytesLike]) -> None:
        self._harm(position, b"".join(buffers))
        super().write_all_at(position, buffers)

    def read_at(self, position: int, size: int) -> bytes:
        self._harmed.waits(self._harmed.harm.write_seconds)
        return super().read_at(position, size)

    def sync(self) -> None:
        self._harmed.waits(self._harmed.harm.sync_seconds)
        super().sync()

    def _harm(self, position: int, data: BytesLike) -> None:
        harmed = self._harmed
        harm = harmed.harm
        harmed.waits(harm.write_seconds)
        if harmed.is_torn():
            super().write_at(position, memoryview(data)[: int(len(data) * harm.tear_share)])
            harmed.dies()
        if harm.full and position + len(data) > self.size():
            super().write_at(position, memoryview(data)[: len(data) // 2])
            harmed.refuses(self.path)


class HarmedFiles(RealFiles):
    """The machine's file system, on a disk that misbehaves."""

    def __init__(self, harmed: Harmed) -> None:
        self._harmed = harmed

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> RealFile:
        if create and not self.exists(path):
            self._harmed.refuses(path)
        return HarmedFile(super().open(path, create=create, read_only=read_only), self._harmed)

    def make_directory(self, path: str) -> None:
        if not self.exists(path):
            self._harmed.refuses(path)
        super().make_directory(path)

    def sync_directory(self, path: str) -> None:
        self._harmed.waits(self._harmed.harm.sync_seconds)
        super().sync_directory(path)

    def free_bytes(self, path: str) -> int:
        return 0 if self._harmed.harm.full else super().free_bytes(path)


class HarmedClock(RealClock):
    """The machine's clocks, the wall clock set wrong."""

    __slots__ = ("_harmed",)

    def __init__(self, harmed: Harmed) -> None:
        self._harmed = harmed

    def now_ms(self) -> int:
        return super().now_ms() + self._harmed.harm.clock_ms


def harmed_runtime(harmed: Harmed) -> Runtime:
    """This machine, with its disk and wall clock as `harmed` says."""
    return replace(real_runtime(), files=HarmedFiles(harmed), clock=HarmedClock(harmed))


def _kill_this_process() -> None:
    """kill -9: nothing of this process runs after it."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()
