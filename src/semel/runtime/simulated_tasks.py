"""Threads that are none: blocking calls on virtual time, in an order the seed decides.

Role.   `SimulatedTasks` is `tasks.Tasks` on a `SimulatedLoop`.
Flow.   `in_thread` schedules the call a little later; the call runs whole, at one moment; its caller hears of it
        after the time the call says it took. A slow disk reports that time through `block`.
Rules.  * At most `threads_max` calls run at a time; the others wait for a thread, as in a real pool.
        * A call may start, and end, after one that was made later; the order of `in_thread` holds within `order`.
        * `block` outside of such a call stops the loop itself: virtual time passes and nothing else happens.
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
        self._blocked_seconds: float | None = None  # How long the call that runs now has blocked.

    def block(self, seconds: float) -> None:
        """Let the caller's thread stand still for `seconds`."""
        if self._blocked_seconds is None:
            self._loop.block(seconds)
        else:
            self._blocked_seconds += seconds

    def remind(self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts) -> None:
        """Nobody reads a simulation's log, and every timer takes a number from its dice."""

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
        except BaseException as raised:  # The caller gets it, as from a real thread.
            error = raised
        blocked_seconds, self._blocked_seconds = self._blocked_seconds, None
        delay = blocked_seconds + self._dice.uniform(0, END_SECONDS_MAX)
        self._loop.call_later(delay, self._end, call, result, error)

    def _end(self, call: Call, result: object, error: BaseException | None) -> None:
        self._threads_free += 1
        self.finish(call, result, error)
        while self._waiting and self._threads_free:
            self.start_thread(self._waiting.popleft())
