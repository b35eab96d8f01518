"""Errors of a simulated world that cannot continue, with its running or waiting tasks.

Role.   The errors of the simulated runtime, `deadlock_story`, and `Standstill`: the last steps of a world without
        progress of time.
Flow.   `simulated_loop` counts its steps since time moved, and passes surplus ones to a `Standstill`.
Rules.  * Watching is free in normal runs: only after too many steps are the next ones recorded, and the error names
          them.
        * A task is named with the calls that lead to where it stands, outermost first.
"""

import asyncio
import types
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from semel.errors import SemelError

STANDSTILL_STEPS_MAX: Final = 20_000
"""Steps without virtual time (but for the microsecond of each turn) after which the run counts as a livelock.

Measured over 184 seeds of all stories with a broker: at most 197 (`client_matrix`). The limit is a hundred times that.
"""
_STEPS_WRITTEN_DOWN: Final = 500
_STEPS_SHOWN_MAX: Final = 10
_WAITING_SHOWN_MAX: Final = 20


class SimulationError(SemelError):
    """The simulated world cannot go on."""


class SimulationDeadlockError(SimulationError):
    """All tasks wait, and no event is scheduled."""


class SimulationLivelockError(SimulationError):
    """Callbacks keep running without virtual time passing."""


class SimulationLimitError(SimulationError):
    """More steps or more virtual time than the bound allows."""


class Standstill:
    """Recorder of the surplus steps."""

    def __init__(self) -> None:
        self._written_down: list[str] = []

    def step(self, now: float, too_many: int, process_name: str, callback: object) -> None:
        """Record a step before it runs, and raise when enough are recorded."""
        if too_many == 1:
            self._written_down.clear()  # The recorded steps belong to an earlier time, after which the world made progress.
        name = described(callback)
        self._written_down.append(f"{process_name} {name}" if process_name else name)
        if len(self._written_down) == _STEPS_WRITTEN_DOWN:
            counted = Counter(self._written_down).most_common()
            shown = "\n  ".join(f"{count} x {name}" for name, count in counted[:_STEPS_SHOWN_MAX])
            raise SimulationLivelockError(
                f"livelock: {STANDSTILL_STEPS_MAX + too_many} steps, and virtual time stands still at {now} s: callbacks "
                f"make callbacks, and nobody waits. Of the last {_STEPS_WRITTEN_DOWN} steps:\n  "
                f"{shown}{_and_more(len(counted) - _STEPS_SHOWN_MAX)}"
            )


def deadlock_story(now: float, waiting: Iterable[asyncio.Task[Any]]) -> str:
    """The text of a deadlock: the waiting tasks and their positions."""
    described_tasks = [_task_described(task) for task in waiting]
    shown = "\n  ".join(described_tasks[:_WAITING_SHOWN_MAX])
    more = _and_more(len(described_tasks) - _WAITING_SHOWN_MAX)
    return f"deadlock at {now} s: nothing is ready or scheduled, and these tasks wait:\n  {shown}{more}"


def callback_name(callback: object) -> str:
    """A task's name, or a function's."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return owner.get_name()
    return str(getattr(callback, "__qualname__", type(callback).__qualname__))


def described(callback: object) -> str:
    """The callback's name; for a task also its position."""
    owner = getattr(callback, "__self__", None)
    return _task_described(owner) if isinstance(owner, asyncio.Task) else callback_name(callback)


def _task_described(task: asyncio.Task[Any]) -> str:
    """A task's name and the calls that lead to where it waits, outermost first."""
    awaited: object = task.get_coro()
    calls = []
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if isinstance(frame, types.FrameType):
            file_name = frame.f_code.co_filename.rpartition("/")[2]
            calls.append(f"{frame.f_code.co_qualname} ({file_name}:{frame.f_lineno})")
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return f"{task.get_name()}: {' > '.join(calls)}"


def _and_more(count: int) -> str:
    return f"\n  and {count} more" if count > 0 else ""
