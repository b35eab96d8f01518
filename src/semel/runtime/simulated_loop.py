"""An asyncio event loop with virtual time: one thread, no sockets, the same run from the same seed.

Role.   `SimulatedLoop` runs unmodified asyncio code (tasks, groups, timeouts, events, queues, locks). When
        nothing is ready, the clock jumps to the next timer, so an hour of waiting costs no time.
Flow.   `simulation.Simulation` makes it; `memory_network`, `simulated_tasks` and product code schedule on it.
Rules.  * Callbacks run in the order of `call_soon`, as asyncio promises; timers run in order of time. The seed decides
          the order of timers for the same instant, which asyncio leaves open.
        * Tasks and futures hash by creation order, because asyncio keeps them in sets, whose order must not depend on
          addresses.
        * A turn of the loop with ready callbacks takes a microsecond, so that code that waits by yielding makes
          progress.
        * If no callback is ready or scheduled and the main coroutine is not done, the loop raises a deadlock error that
          names the waiting tasks. Too many steps without virtual time raise a livelock error that names the callbacks.
          Virtual time and steps are bounded.
        * A callback belongs to the process whose context it was scheduled in. Once that process is dead, its callbacks
          never run again: no `finally`, no handler, as after kill -9. Callbacks of a frozen process wait, in order,
          until it resumes; bytes sent to it wait too, as for a stopped process.
"""

import asyncio
import contextvars
import hashlib
import heapq
import inspect
import itertools
import logging
import sys
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from types import AsyncGeneratorType
from typing import Any, Final, TypeVar, TypeVarTuple

from semel.runtime.randomness import seeded_dice
from semel.runtime.simulated_trouble import (
    STANDSTILL_STEPS_MAX,
    SimulationDeadlockError,
    SimulationError,
    SimulationLimitError,
    Standstill,
    callback_name,
    deadlock_story,
)

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")
_log: Final = logging.getLogger(__name__)

TURN_SECONDS: Final = 1e-6
_TASKS_MIN: Final = 64
_CLOSED: Final = "Event loop is closed"


class SimulatedProcess:
    """A process that can be killed (its callbacks stop for good) or frozen (they stop for a while)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.frozen_until = 0.0
        self.held: list[Scheduled] = []
        """Callbacks that came due while it was frozen."""


PROCESS: Final[contextvars.ContextVar[SimulatedProcess | None]] = contextvars.ContextVar(
    "PROCESS", default=None
)


class Scheduled(asyncio.TimerHandle):
    """A scheduled callback. Like asyncio's handle, without its check of the loop's debug mode at every creation."""

    __slots__ = ("arguments", "callback", "context", "is_cancelled", "loop", "process", "time")

    def __init__(
        self,
        loop: "SimulatedLoop",
        time: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: contextvars.Context,
    ) -> None:
        self.loop = loop
        self.time = time
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.context = context
        self.process = context.get(PROCESS)
        self.is_cancelled = False

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.callback = None
            self.arguments = ()
            if self.time >= 0:
                self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time

    def get_context(self) -> contextvars.Context:
        return self.context

    def __repr__(self) -> str:
        return f"<{callback_name(self.callback)} at {self.time}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


_SOON: Final = -1.0
"""The time of callbacks that are ready at once."""


class SimulatedFuture(asyncio.Future[_T]):
    """A future with a hash that is the same in every run."""

    def __init__(self, *, loop: "SimulatedLoop") -> None:
        self._number = loop.next_number()
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[_T]):
    """A task with a hash and a name that are the same in every run."""

    def __init__(self, coroutine: Coroutine[Any, Any, _T], *, loop: "SimulatedLoop", **options: Any) -> None:
        self._number = loop.next_number()
        context = options.get("context")
        self.process = PROCESS.get() if context is None else context.get(PROCESS)
        if options.get("name") is None:
            options["name"] = f"task-{self._number}"
        super().__init__(coroutine, loop=loop, **options)
        loop.remember(self)

    def __hash__(self) -> int:
        return self._number


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop. `seed` decides every order that asyncio leaves open."""

    def __init__(self, seed: int, *, steps_max: int, seconds_max: float, traced: bool) -> None:
        self._dice = seeded_dice(seed, "loop")
        self._steps_max = steps_max
        self._seconds_max = seconds_max
        self._now = 0.0
        self._steps = 0
        self._standstill = Standstill()
        self._steps_end = 0  # The step count at which time must have moved.
        self._time_moved()
        self.next_number: Final[Callable[[], int]] = itertools.count(1).__next__
        self._ready: deque[Scheduled] = deque()
        self._timers: list[tuple[float, float, int, Scheduled]] = []
        self._tasks: dict[int, SimulatedTask[Any]] = {}  # Finished tasks are removed periodically.
        self._tasks_max = _TASKS_MIN
        self._buried: list[SimulatedTask[Any]] = []  # Kept until the end, so that no finalizer runs earlier.
        self._cancelled_timers = 0
        self._generators: weakref.WeakValueDictionary[int, AsyncGenerator[Any, Any]] = (
            weakref.WeakValueDictionary()
        )
        self._running = False
        self._stopping = False
        self._closed = False
        self._exception_handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._trace = hashlib.sha256() if traced else None
        self.is_traced: Final = traced
        self.unhandled: list[dict[str, Any]] = []

    # Time.

    def time(self) -> float:
        return self._now

    def block(self, seconds: float) -> None:
        """Let virtual time pass inside a callback: the whole loop stands still, as in a blocking call."""
        if seconds > 0:
            self._now += seconds
            self._time_moved()

    def _time_moved(self) -> None:
        self._steps_end = min(self._steps + STANDSTILL_STEPS_MAX, self._steps_max)

    @property
    def steps(self) -> int:
        """How many callbacks have run."""
        return self._steps

    def note(self, event: str) -> None:
        """Add an event of the world to the trace."""
        if self._trace is not None:
            self._trace.update(f"{self._now!r} {event}\n".encode())

    def trace_digest(self) -> str:
        """A digest of all callbacks and noted events, in order, with their times."""
        if self._trace is None:
            raise SimulationError("this loop keeps no trace: make it with traced=True")
        return self._trace.hexdigest()

    # Scheduling.

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            raise RuntimeError(_CLOSED)
        handle = Scheduled(
            self, _SOON, callback, args, contextvars.copy_context() if context is None else context
        )
        self._ready.append(handle)
        return handle

    # The simulation has one thread.
    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            raise RuntimeError(_CLOSED)
        timer = Scheduled(
            self, when, callback, args, contextvars.copy_context() if context is None else context
        )
        heapq.heappush(self._timers, (when, self._dice.random(), self.next_number(), timer))
        return timer

    def timer_cancelled(self) -> None:
        """Count a cancelled timer; it is dropped when due, or when most timers are cancelled."""
        self._cancelled_timers += 1
        if self._cancelled_timers > 100 and self._cancelled_timers * 2 > len(self._timers):
            self._timers = [entry for entry in self._timers if not entry[-1].is_cancelled]
            heapq.heapify(self._timers)
            self._cancelled_timers = 0

    # Tasks and futures.

    def remember(self, task: SimulatedTask[Any]) -> None:
        """Keep a task until it is done, so that an error can name it and no collector ends it early."""
        self._tasks[hash(task)] = task
        if len(self._tasks) > self._tasks_max:
            self._forget_done()

    def _forget_done(self) -> None:
        self._tasks = {number: task for number, task in self._tasks.items() if not task.done()}
        self._tasks_max = max(_TASKS_MIN, 2 * len(self._tasks))

    def create_future(self) -> asyncio.Future[Any]:
        return SimulatedFuture(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        self._check_open()
        return SimulatedTask(coro, loop=self, **options)

    def unfinished_tasks(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, oldest first."""
        self._forget_done()
        return list(self._tasks.values())

    def bury(self, process: SimulatedProcess) -> None:
        """Stop all callbacks of `process` for good."""
        process.dead = True
        self._forget_done()
        for number, task in list(self._tasks.items()):
            if task.process is process:
                del self._tasks[number]
                self._buried.append(task)

    def freeze(self, process: SimulatedProcess, seconds: float) -> None:
        """Stop all callbacks of `process` for a while; then it continues with the ones that came due, as after
        SIGCONT."""
        process.frozen_until = max(process.frozen_until, self._now + seconds)
        self.call_at(process.frozen_until, self._thaw, process, context=contextvars.Context())

    def _thaw(self, process: SimulatedProcess) -> None:
        if self._now >= process.frozen_until:
            self._ready.extend(process.held)
            process.held = []

    # Running.

    def run_forever(self) -> None:
        self._check_open()
        if self._running or asyncio._get_running_loop() is not None:
            raise RuntimeError("a loop is running in this thread already")
        old_hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generator_started, finalizer=self._generator_dropped)
        self._running = True
        asyncio._set_running_loop(self)
        try:
            while True:
                self._run_turn()
                if self._stopping:
                    break
        finally:
            self._stopping = self._running = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*old_hooks)

    def run_until_complete(self, future: Any) -> Any:
        self._check_open()
        started = asyncio.ensure_future(future, loop=self)
        started.add_done_callback(self._stop_with)
        try:
            self.run_forever()
        finally:
            started.remove_done_callback(self._stop_with)
        if not started.done():
            raise RuntimeError("the loop was stopped before its main coroutine was done")
        return started.result()

    def _stop_with(self, _: asyncio.Future[Any]) -> None:
        self.stop()

    def _run_turn(self) -> None:
        """Run the ready callbacks; without any, jump to the next timer."""
        ready, timers = self._ready, self._timers
        while timers and (timers[0][-1].is_cancelled or _is_dead(timers[0][-1].process)):
            heapq.heappop(timers)
        if ready:
            self._now += TURN_SECONDS
        elif not self._stopping:
            if not timers:
                raise SimulationDeadlockError(
                    deadlock_story(self._now, [task for task in self._tasks.values() if not task.done()])
                )
            if timers[0][0] > self._now:
                self._now = timers[0][0]
                self._time_moved()
            if self._now > self._seconds_max:
                raise SimulationLimitError(
                    f"virtual time passed {self._seconds_max} s: a loop that waits for ever, or raise seconds_max"
                )
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[-1])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            process = handle.process
            if process is None or (not process.dead and self._now >= process.frozen_until):
                self._run_one(handle)
            elif not process.dead:
                process.held.append(handle)

    def _run_one(self, handle: Scheduled) -> None:
        self._steps += 1
        if self._steps > self._steps_end:
            self._too_many_steps(handle)
        if self._trace is not None:
            process = handle.process
            self.note(f"{'' if process is None else process.name} {callback_name(handle.callback)}")
        try:
            handle.context.run(handle.callback, *handle.arguments)  # type: ignore[arg-type]  # not cancelled: there is one
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self.call_exception_handler(
                {"message": f"Exception in callback {handle!r}", "exception": error, "handle": handle}
            )

    def _too_many_steps(self, handle: Scheduled) -> None:
        if self._steps > self._steps_max:
            raise SimulationLimitError(
                f"{self._steps_max} steps at {self._now} s: a loop that never waits, or raise steps_max"
            )
        process = handle.process
        too_many = self._steps - self._steps_end
        self._standstill.step(self._now, too_many, "" if process is None else process.name, handle.callback)

    def stop(self) -> None:
        self._stopping = True

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        if self._running:
            raise RuntimeError("a running loop cannot be closed")
        self._forget_done()  # Report unretrieved errors while the handler still works.
        self._closed = True
        self._ready.clear()
        self._timers.clear()
        for task in (*self._buried, *self._tasks.values()):  # A failed run leaves tasks.
            coroutine = task.get_coro()
            if coroutine is not None:
                _discard(coroutine)
        self._buried.clear()
        self._tasks.clear()

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError(_CLOSED)

    # Methods asyncio requires of every loop.

    async def shutdown_asyncgens(self) -> None:
        for generator in list(self._generators.values()):
            is_entered = isinstance(generator, AsyncGeneratorType) and generator.ag_running
            if not is_entered:  # Else a process died in it; it goes with its task.
                await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ARG002 - asyncio's signature
        return  # Threads come only from `Tasks.in_thread`.

    def run_in_executor(self, executor: Any, func: Callable[[*_Ts], _T], *args: *_Ts) -> asyncio.Future[_T]:  # noqa: ARG002 - asyncio's signature
        raise SimulationError("threads come from the runtime's Tasks.in_thread, never from the loop")

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        if enabled:
            raise SimulationError("asyncio's debug mode measures real time; a simulated loop has none")

    def get_task_factory(self) -> None:
        return None

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._exception_handler = handler

    def get_exception_handler(self) -> Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None:
        return self._exception_handler

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)
        error = context.get("exception")
        _log.error("%s", context.get("message"), exc_info=error if isinstance(error, BaseException) else None)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._closed:
            return  # Ignore objects collected after the end of their world.
        if self._exception_handler is None:
            self.default_exception_handler(context)
        else:
            self._exception_handler(self, context)

    def _generator_started(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators[self.next_number()] = generator

    def _generator_dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        if not self._closed:
            self.create_task(generator.aclose())


def new_loop(
    seed: int, *, steps_max: int = 20_000_000, seconds_max: float = 366 * 86_400.0, traced: bool = False
) -> SimulatedLoop:
    """A loop for one simulated world."""
    return SimulatedLoop(  # type: ignore[abstract]  # sockets, pipes, signals and subprocesses are not of this world
        seed, steps_max=steps_max, seconds_max=seconds_max, traced=traced
    )


def _discard(coroutine: Any) -> None:
    """Close a coroutine of a dead process or a failed run, and ignore its errors.

    Coroutines it had not started to await are closed too, because no other code will await them.
    """
    waiting = list(_held_by(coroutine))
    try:
        coroutine.close()
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        _log.debug("the last words of a dead process: %r", error)
    for one in waiting:
        if inspect.getcoroutinestate(one) == inspect.CORO_CREATED:
            _discard(one)


def _held_by(coroutine: Any) -> Iterator[Any]:
    """Coroutines in the variables of this one, and of those it waits for; also in lists."""
    while inspect.iscoroutine(coroutine) and coroutine.cr_frame is not None:
        for value in coroutine.cr_frame.f_locals.values():
            yield from (
                one for one in (value if isinstance(value, list) else [value]) if inspect.iscoroutine(one)
            )
        coroutine = coroutine.cr_await


def _is_dead(process: SimulatedProcess | None) -> bool:
    return process is not None and process.dead
