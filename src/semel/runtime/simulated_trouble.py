"""What a simulated world says when it cannot go on: the errors, and who was running or waiting.

Role.   The errors of the simulated runtime, and `Rush`, which notices a world that is busy for ever while its time stands still.
Flow.   `simulated_loop` asks a `Rush` for the step up to which all is well, and shows it every step beyond.
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

RUSH_SECONDS: Final = 1.0
RUSH_STEPS_MAX: Final = 100_000
"""So many steps within a second of virtual time: nobody waits any more.

Measured over 184 seeds of all stories with a broker: at most 4,684 within a second (`wide_transactions`), and 197 at one instant.
This is twenty times as much. A livelock comes to it within seconds, because a turn of the loop takes a microsecond of virtual time.
"""
_RUSH_WRITTEN_DOWN: Final = 500
_RUSH_SHOWN_MAX: Final = 10
_WAITING_SHOWN_MAX: Final = 20


class SimulationError(SemelError):
    """The simulated world cannot go on."""


class SimulationDeadlockError(SimulationError):
    """Everybody waits and nothing will ever happen."""


class SimulationLivelockError(SimulationError):
    """Everybody is busy and no time goes by."""


class SimulationLimitError(SimulationError):
    """More steps or more virtual time than the bound allows."""


class Rush:
    """Counts the steps of a loop within a second of its time."""

    def __init__(self) -> None:
        self.until = 0.0
        """When counting begins anew."""
        self._since = 0.0
        self._first_step = 0
        self._written_down: list[str] = []

    def begin(self, now: float, steps: int) -> int:
        """Count anew; the number of the last step that is none too many."""
        self._since, self._first_step = now, steps
        self.until = now + RUSH_SECONDS
        self._written_down.clear()
        return steps + RUSH_STEPS_MAX

    def step(self, now: float, steps: int, process_name: str, callback: object) -> None:
        """A step too many is about to be made: write it down, and raise when enough of them are known."""
        name = described(callback)
        self._written_down.append(f"{process_name} {name}" if process_name else name)
        if len(self._written_down) == _RUSH_WRITTEN_DOWN:
            raise SimulationLivelockError(
                f"livelock: {steps - self._first_step} steps, and virtual time came from {self._since} s to {now} s only: "
                f"callbacks make callbacks and nobody waits. Of the last {_RUSH_WRITTEN_DOWN} steps:\n  {self._shown()}"
            )

    def _shown(self) -> str:
        counted = Counter(self._written_down).most_common()
        shown = "\n  ".join(f"{count} x {name}" for name, count in counted[:_RUSH_SHOWN_MAX])
        return shown + _and_more(len(counted) - _RUSH_SHOWN_MAX)


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
