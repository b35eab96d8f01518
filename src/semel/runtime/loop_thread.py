"""An event loop on its own thread, for synchronous callers.

Role.   `LoopThread.run` runs a coroutine on the loop's thread and returns its result. The embedded broker and the
        blocking client each own one.
Flow.   made -> `run` from any thread, any number of times -> `close`.
Rules.  * uvloop where it is installed, asyncio's own loop elsewhere.
        * The thread is a daemon: a process that forgets `close` still ends.
        * A call from the loop's own thread would deadlock and is refused. So is a call after `close`, or in a forked
          process, where the thread does not exist.
"""

import asyncio
import concurrent.futures
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from semel.errors import InvariantError

T = TypeVar("T")

_GLANCE_S: Final = 0.5


def fastest_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the fastest installed event loop."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _result(future: "concurrent.futures.Future[T]") -> T:
    """Wait in short steps: a signal just before a wait is handled only when that wait ends."""
    while True:
        try:
            return future.result(timeout=_GLANCE_S)
        except TimeoutError:
            if future.done():  # The coroutine's own error, or a result that came at this moment.
                return future.result()


class LoopClosedError(InvariantError):
    """The loop's thread has ended."""


class LoopThread:
    """A running loop and its thread."""

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        self._loop = fastest_loop()()
        self._stopping = threading.Lock()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_ours(self) -> bool:
        """Whether the thread runs in this process."""
        return self._pid == os.getpid()

    @property
    def is_open(self) -> bool:
        """Whether `run` can be called from here."""
        return self.is_ours and self._thread.is_alive()

    def run(
        self, coroutine: Coroutine[Any, Any, T], *, on_interrupt: Callable[[], object] | None = None
    ) -> T:
        """Run `coroutine` on the loop's thread and return its result. Blocks; an interrupt cancels it.

        `on_interrupt` is called on the loop before that: the coroutine finds it done.
        """
        if self.is_here:
            coroutine.close()
            raise InvariantError(f"{self._thread.name} cannot wait for itself: await the coroutine instead")
        return self.result(self.submit(coroutine), on_interrupt=on_interrupt)

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Start the coroutine on the loop's thread and do not wait; `result` does."""
        try:
            self._check()
        except InvariantError:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def result(
        self, future: "concurrent.futures.Future[T]", *, on_interrupt: Callable[[], object] | None = None
    ) -> T:
        """The result of a submitted coroutine. Blocks; an interrupt cancels it, after `on_interrupt` as in `run`."""
        try:
            return _result(future)
        except (KeyboardInterrupt, concurrent.futures.CancelledError):
            if on_interrupt is not None:
                with contextlib.suppress(LoopClosedError):
                    self.call_soon(on_interrupt)
            future.cancel()
            raise

    def call_soon(self, callback: Callable[..., object], *args: object) -> None:
        """Schedule a callback on the loop without waiting, from any thread."""
        if not self.is_ours:
            raise InvariantError(f"{self._thread.name} runs in process {self._pid}, not in this fork of it")
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError as error:  # Its thread is ending or has ended.
            raise LoopClosedError(f"{self._thread.name} is closed") from error

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop's thread."""
        return threading.current_thread() is self._thread

    def close(self) -> None:
        """Stop the loop and wait for its thread. Closing twice is harmless."""
        self.stop()
        if self.is_ours:
            self._thread.join()

    def stop(self) -> None:
        """Stop the loop and do not wait for its thread; also from a callback of the loop."""
        if not self.is_ours:
            return
        with self._stopping:
            is_first, self._is_stopped = not self._is_stopped, True
        if is_first and self._thread.is_alive():  # A second one would interrupt the loop's cleanup.
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _check(self) -> None:
        if not self.is_ours:
            raise InvariantError(f"{self._thread.name} runs in process {self._pid}, not in this fork of it")
        if not self._thread.is_alive():
            raise LoopClosedError(f"{self._thread.name} is closed")

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._end()

    def _end(self) -> None:
        """The cleanup of `asyncio.run`."""
        left = asyncio.all_tasks(self._loop)
        for task in left:
            task.cancel()
        if left:
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        self._loop.close()
