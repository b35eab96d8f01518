"""How a process does: the memory it holds and the handles it has open, looked at from outside.

Role.   `Watch` samples the broker of a proof beside everything else; the report compares the beginning with the end.
Rules.  * From /proc: where there is none, nothing is sampled and the report says nothing of it.
        * A process that is gone, or not there yet, has no sample.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

_PROC: Final = Path("/proc")
_SAMPLE_SECONDS: Final = 1.0
_KIB: Final = 1024


@dataclass(frozen=True, slots=True)
class Vitals:
    """One look at a process."""

    at: float
    pid: int
    memory_bytes: int
    """The resident memory."""
    handles: int
    """Open files and sockets."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The median of the first and of the last quarter, and the most there was."""

    first: float
    last: float
    most: float


def look(pid: int, at: float, proc: Path = _PROC) -> Vitals | None:
    """How this process does now; None if it cannot be seen."""
    try:
        lines = (proc / str(pid) / "status").read_text(encoding="utf-8").splitlines()
        handles = sum(1 for _ in (proc / str(pid) / "fd").iterdir())
    except OSError:
        return None
    resident = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return Vitals(at, pid, int(resident[0]) * _KIB, handles) if resident else None


def trend(values: Sequence[float]) -> Trend | None:
    """None without values."""
    if not values:
        return None
    quarter = max(1, len(values) // 4)
    return Trend(median(values[:quarter]), median(values[-quarter:]), max(values))


@dataclass(slots=True)
class Watch:
    """Looks at a process again and again."""

    pid: Callable[[], int | None]
    now: Callable[[], float]
    samples: list[Vitals] = field(default_factory=list)

    async def run(self) -> None:
        while True:
            pid = self.pid()
            if pid is not None and (seen := look(pid, self.now())) is not None:
                self.samples.append(seen)
            await asyncio.sleep(_SAMPLE_SECONDS)
