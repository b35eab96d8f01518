"""What a simulated world says when it cannot go on: the errors, and who was running or waiting.

Role.   The errors of the simulated runtime, `deadlock_story`, and `Standstill`: the last steps of a world in which no time goes by.
Flow.   `simulated_loop` counts its steps since time moved, and shows a `Standstill` those that are too many.
Rules.  * Watching costs nothing while all is well: only when there were too many steps are the next ones written down, and then
          the error names them.
        * A task is named with the calls that lead to where it stands, outermost first.
"""

import asyncio
import types
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from semel.errors import SemelError

STANDSTILL_STEPS_MAX: Final = 20_000
"""So many steps while time stands still, but for the microsecond of each turn, and nobody waits for anything any more.

Measured over 184 seeds of all stories with a broker: at most 197 (`client_matrix`). This is a hundred times as much.
"""
_STEPS_WRITTEN_DOWN: Final = 500
_STEPS_SHOWN_MAX: Final = 10
_WAITING_SHOWN_MAX: Final = 20


class SimulationError(SemelError):
    """The simulated world cannot go on."""


class SimulationDeadlockError(SimulationError):
    """Everybody waits and nothing will ever happen."""


class SimulationLivelockError(SimulationError):
    """Everybody is busy and no time goes by."""


class SimulationLimitError(SimulationError):
    """More steps or more virtual time than the bound allows."""


class Standstill:
    """The steps that were too many."""

    def __init__(self) -> None:
        self._written_down: list[str] = []

    def step(self, now: float, too_many: int, process_name: str, callback: object) -> None:
        """One of them is about to be made: write it down, and raise when enough of them are known."""
        if too_many == 1:
            self._written_down.clear()  # What it holds is of another time, at which the world went on after all.
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
    """Who waits where."""
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
    """Its name; of a task also where it stands."""
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
