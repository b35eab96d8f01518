"""Simulated threads: blocking calls on virtual time, in an order the seed decides.

Role.   `SimulatedTasks` is `tasks.Tasks` on a `SimulatedLoop`.
Flow.   `in_thread` schedules the call a little later. The call runs at one moment, and its caller resumes after the
        reported duration. A slow disk reports its duration through `block`.
Rules.  * At most `threads_max` calls run at a time; the others wait for a thread, as in a real pool.
        * A call may start and end after a later one; calls with the same `order` keep the order of `in_thread`.
        * `block` outside of such a call stops the loop itself: only virtual time passes.
"""

import random
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVarTuple

from semel.runtime.simulated_loop import SimulatedLoop
from semel.runtime.tasks import Call, OwnedTasks

_Ts = TypeVarTuple("_Ts")
START_SECONDS_MAX: Final = 0.002
END_SECONDS_MAX: Final = 0.002


class SimulatedTasks(OwnedTasks):
    """Tasks, timers and fake threads of one simulated process."""

    def __init__(self, loop: SimulatedLoop, dice: random.Random, *, threads_max: int = 8) -> None:
        super().__init__()
        self._loop = loop
        self._dice = dice
        self._threads_free = threads_max
        self._waiting: deque[Call] = deque()
        self._blocked_seconds: float | None = None  # Time the current call has blocked.

    def block(self, seconds: float) -> None:
        """Block the caller's thread for `seconds`."""
        if self._blocked_seconds is None:
            self._loop.block(seconds)
        else:
            self._blocked_seconds += seconds

    def remind(self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Do nothing: a simulation's log is not read, and a timer would draw from the dice."""

    def start_thread(self, call: Call) -> None:
        if self._threads_free == 0:
            self._waiting.append(call)
            return
        self._threads_free -= 1
        self._loop.call_later(self._dice.uniform(0, START_SECONDS_MAX), self._run, call)

    def _run(self, call: Call) -> None:
        result: object = None
        error: BaseException | None = None
        self._blocked_seconds = 0.0
        try:
            result = call.run()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # Passed to the caller, as from a real thread.
            error = raised
        blocked_seconds, self._blocked_seconds = self._blocked_seconds, None
        delay = blocked_seconds + self._dice.uniform(0, END_SECONDS_MAX)
        self._loop.call_later(delay, self._end, call, result, error)

    def _end(self, call: Call, result: object, error: BaseException | None) -> None:
        self._threads_free += 1
        self.finish(call, result, error)
        while self._waiting and self._threads_free:
            self.start_thread(self._waiting.popleft())
