"""Concurrency: owned tasks, timers, and blocking calls on threads.

Role.   `Tasks` is the only way to start a task that outlives its caller, and the only access to threads. `RealTasks`
        has a bounded pool of threads; `simulated_tasks.SimulatedTasks` fakes them on virtual time.
Flow.   A broker or client owns one `Tasks` and closes it last. Inside a coroutine, `asyncio.TaskGroup` and
        `asyncio.timeout` work unchanged, on the real loop and on the simulated one.
Rules.  * A spawned task belongs to its `Tasks` until it is done; `drain` cancels the remaining tasks and waits for
          them.
        * An unexpected error of a task is reported at once: to `on_failure`, else to the log.
        * Calls with the same `order` run one after the other, in the order they were made: two syncs of one file stay
          in order. Calls without an `order`, or with different ones, may end in any order.
        * Cancelling the caller does not stop a running call; a call that has not begun is dropped.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

T = TypeVar("T")
_Ts = TypeVarTuple("_Ts")
Failure = Callable[[str, BaseException], None]
_log: Final = logging.getLogger(__name__)


class Tasks(Protocol):
    """Tasks, timers and threads of one owner."""

    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, on_failure: Failure | None = None
    ) -> asyncio.Task[T]:
        """Start a task that this owner keeps. `on_failure(name, error)` is called for an unexpected error."""

    async def sleep(self, seconds: float) -> None: ...

    def call_later(
        self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts
    ) -> asyncio.TimerHandle:
        """Call back after `seconds`, unless the handle is cancelled first."""

    def remind(
        self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts
    ) -> asyncio.TimerHandle | None:
        """The same for a callback that only writes to the log. None in a simulation, where a timer would change the
        run."""

    def call_soon(self, callback: Callable[[*_Ts], object], *args: *_Ts) -> asyncio.Handle:
        """Call back in the next turn of the loop, before it looks at its sockets and timers."""

    async def in_thread(self, function: Callable[[*_Ts], T], *args: *_Ts, order: Hashable | None = None) -> T:
        """Run a blocking call on a thread and return what it returns."""

    async def drain(self) -> None:
        """Cancel the remaining tasks and wait for them and for every call on a thread. New calls may follow."""

    async def close(self) -> None:
        """The same, and end the threads."""


class OwnedTasks(ABC):
    """The common part of real and simulated tasks: everything but the threads."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], Failure | None] = {}
        self._lanes: dict[Hashable, deque[Call]] = {}
        self._calls = 0  # Calls on threads, or waiting for one.
        self._no_calls = asyncio.Event()

    def spawn(
        self, coroutine: Coroutine[Any, Any, T], *, name: str, on_failure: Failure | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = on_failure
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        on_failure = self._tasks.pop(task)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if on_failure is None:
            _log.error("task %s failed", task.get_name(), exc_info=error)
        else:
            on_failure(task.get_name(), error)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(
        self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts
    ) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    def call_soon(self, callback: Callable[[*_Ts], object], *args: *_Ts) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(callback, *args)

    async def in_thread(self, function: Callable[[*_Ts], T], *args: *_Ts, order: Hashable | None = None) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        call = Call(lambda: function(*args), future, order)
        self._calls += 1
        if order is None:
            self.start_thread(call)
        else:
            lane = self._lanes.setdefault(order, deque())
            lane.append(call)
            if len(lane) == 1:
                self.start_thread(call)
        return await future

    @abstractmethod
    def start_thread(self, call: "Call") -> None:
        """Run `call.run` on a thread, then pass the outcome to `finish`, on the loop."""

    def finish(self, call: "Call", result: object, error: BaseException | None) -> None:
        """Pass the outcome to the caller and start the next call of the same order."""
        if not call.future.done():
            if error is None:
                call.future.set_result(result)
            else:
                call.future.set_exception(error)
        elif error is not None:
            _log.error("a call on a thread failed after its caller had left", exc_info=error)
        if call.order is not None:
            self._start_next(self._lanes[call.order], call.order)
        self._calls -= 1
        if not self._calls:
            self._no_calls.set()

    def _start_next(self, lane: "deque[Call]", order: Hashable) -> None:
        lane.popleft()
        while lane and lane[0].future.cancelled():
            lane.popleft()
            self._calls -= 1
        if lane:
            self.start_thread(lane[0])
        else:
            del self._lanes[order]

    async def drain(self) -> None:
        draining = asyncio.current_task()
        while tasks := [task for task in self._tasks if task is not draining]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        while self._calls:
            self._no_calls.clear()
            await self._no_calls.wait()

    async def close(self) -> None:
        await self.drain()


class Call:
    """One blocking call and its waiting caller."""

    __slots__ = ("function", "future", "order")

    def __init__(
        self, function: Callable[[], object], future: asyncio.Future[Any], order: Hashable | None
    ) -> None:
        self.function = function
        self.future = future
        self.order = order

    def run(self) -> object:
        """Run the call on its real or simulated thread, unless its caller was cancelled."""
        return None if self.future.cancelled() else self.function()


class RealTasks(OwnedTasks):
    """Threads of this process, at most `threads_max` of them."""

    def __init__(self, *, threads_max: int = 8) -> None:
        super().__init__()
        self._pool = ThreadPoolExecutor(max_workers=threads_max, thread_name_prefix="semel")
        self._is_closed = False

    def start_thread(self, call: Call) -> None:
        loop = asyncio.get_running_loop()

        def done(outcome: Future[object]) -> None:
            loop.call_soon_threadsafe(self.finish, call, *_outcome(outcome))

        try:
            made = self._pool.submit(call.run)
        except RuntimeError:
            if self._is_closed:
                raise
            made = _made_here(call)
        made.add_done_callback(done)

    def remind(
        self, seconds: float, callback: Callable[[*_Ts], object], *args: *_Ts
    ) -> asyncio.TimerHandle | None:
        return self.call_later(seconds, callback, *args)

    async def close(self) -> None:
        await super().close()
        self._is_closed = True
        try:
            await asyncio.to_thread(self._pool.shutdown)
        except RuntimeError:  # The interpreter is ending and has stopped its thread pools.
            self._pool.shutdown()


def _made_here(call: Call) -> Future[object]:
    """Run the call on this thread: an ending interpreter starts no other, and `atexit` may still close a broker or
    client."""
    made: Future[object] = Future()
    try:
        made.set_result(call.run())
    except Exception as error:
        made.set_exception(error)
    return made


def _outcome(future: Future[object]) -> tuple[object, BaseException | None]:
    error = future.exception()
    return (None, error) if error is not None else (future.result(), None)
