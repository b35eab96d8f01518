"""The base of the blocking clients: a loop on a thread of its own, and the rules of using it from anywhere.

Role.   `Shell` is the base of `semel.Producer`, `semel.Consumer` and `semel.Admin`. They hold the asynchronous core and
        hand its coroutines to `_run`.
Flow.   A subclass reads its settings first (a wrong one starts no thread), calls `super().__init__()`, builds its core on
        `self._runtime`, and closes it through `_shut`.
Rules.  * Every call may come from any thread, from a notebook and from inside a running event loop: the client's loop is
          never the caller's. (Inside a loop `semel.aio` does not block it.)
        * Errors leave under Java's names.
        * Ctrl-C ends a blocking call with KeyboardInterrupt; the call is cancelled, the client goes on.
        * After a fork the child has neither the thread nor a right to the connections: every call but `close` raises, and
          says that a new client is needed.
        * A call from the client's own callbacks would wait for itself and is refused.
        * A client that was not closed is reported by a ResourceWarning. Its records are stored all the same: beside the program
          if it goes on, and within `EXIT_SECONDS` when it ends. The log names records that could not be.
"""

import concurrent.futures
import logging
import os
import time
import warnings
import weakref
from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Final, TypeVar

from semel.errors import SemelError
from semel.exceptions import IllegalStateException, as_exception
from semel.runtime.at_exit import Stage, at_exit, cover_child
from semel.runtime.bundle import Runtime, real_runtime
from semel.runtime.closing import Closing
from semel.runtime.loop_thread import LoopThread

logger = logging.getLogger(__name__)

T = TypeVar("T")
EXIT_SECONDS: Final = 10.0
"""So long the end of a process waits for what clients were given, all of them together."""
_GRACE_SECONDS: Final = 2.0
_AT_THE_END: Final = "when the process ended"
_DROPPED: Final = "when nobody held its client any more"
_LEFT_MAX: Final = 16
"""So many clients that were dropped go on at a time: each has a thread."""


class Shell(Closing):
    """A client on a private loop's thread; to be closed, or used as a context."""

    KIND: ClassVar[str] = "client"
    """The client in an error's words."""
    CLOSED: ClassVar[str] = "This client has already been closed: make a new one."
    """The message for a caller who comes too late."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._is_closed = True  # Until all of it is there: before that there is nothing to report.
        self._runtime = real_runtime(threads_max=1)
        self._thread = LoopThread(f"semel-{self.KIND}")
        self._is_closed = False
        _OPEN.add(self)
        cover_child()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine on the client's loop; return or raise its result."""
        try:
            self._check()
        except IllegalStateException:
            coroutine.close()
            raise
        return self._awaited(coroutine)

    def _check(self) -> None:
        """Raise if a blocking call cannot be made from here."""
        if self._pid != os.getpid():
            raise IllegalStateException(
                f"this {self.KIND} was made in process {self._pid} and does not survive a fork into {os.getpid()}: "
                f"make a new {self.KIND} in this process"
            )
        if self._is_closed:
            raise IllegalStateException(self.CLOSED)
        if self._thread.is_here:
            raise IllegalStateException(
                f"a callback of this {self.KIND} called it and would wait for itself: hand the work to another thread"
            )

    def _awaited(
        self, coroutine: Coroutine[Any, Any, T], *, on_interrupt: Callable[[], object] | None = None
    ) -> T:
        try:
            return self._thread.run(coroutine, on_interrupt=on_interrupt)
        except SemelError as error:
            public = as_exception(error)
            if public is error:
                raise
            raise public from error

    def _shut(self, last: Coroutine[Any, Any, T]) -> None:
        """Run the last coroutine of the core, then end the loop. Closing twice, or after a fork, is harmless."""
        if self._is_closed or self._pid != os.getpid():
            self._is_closed = True
            last.close()
            return
        try:
            self._check()
        except IllegalStateException:
            last.close()
            raise
        self._is_closed = True
        try:
            # Given up before it is cancelled: else what is left would fail as by a close that was done.
            self._awaited(self._ended(last), on_interrupt=self._give_up)
        except BaseException:  # Interrupted, perhaps before it began: nobody is left waiting for the core.
            self._thread.call_soon(self._give_up)
            raise
        finally:
            self._thread.close()
            _OPEN.discard(self)

    async def _ended(self, last: Coroutine[Any, Any, T]) -> None:
        try:
            await last
        finally:
            await self._runtime.tasks.close()

    def _abandon(self) -> None:
        """End the loop of a client whose constructor failed, that nobody closed, or whose process ends."""
        self._is_closed = True
        if self._thread.is_open:
            self._thread.call_soon(self._give_up)
        self._thread.close()
        _OPEN.discard(self)

    @abstractmethod
    def _give_up(self) -> None:
        """On the loop, of a client that is abandoned, or whose `close` failed: end its connections. A loop does not end well
        with open ones."""

    def _last_work(self, _timeout: float | None, _when: str, /) -> Coroutine[Any, Any, None] | None:
        """The last work of a client that nobody closed, for so many seconds at most; it logs undone work, with the moment."""
        return None

    @abstractmethod
    def close(self) -> None:
        """End the client. Closing twice is harmless."""

    def __del__(self) -> None:
        # A constructor that raised has nothing to report; neither has a fork of the owner.
        if not getattr(self, "_is_closed", True) and self._pid == os.getpid():
            warnings.warn(f"unclosed {self.KIND}: {self!r}", ResourceWarning, stacklevel=2, source=self)
            self._let_go()

    def _let_go(self) -> None:
        """Nobody holds the client any more: its last work is done without it."""
        has_room = sum(one.is_ours for one in _LEFT) < _LEFT_MAX
        work = self._last_work(None if has_room else 0.0, _DROPPED) if self._thread.is_open else None
        if work is not None:
            self._is_closed = True
            _OPEN.discard(self)
            _LEFT.add(_Left(self._thread, self._runtime, work))
        elif not self._thread.is_here:
            self._abandon()


class _Left:
    """The last work of a client that is gone, on its thread."""

    def __init__(self, thread: LoopThread, runtime: Runtime, work: Coroutine[Any, Any, None]) -> None:
        self._thread = thread
        self._runtime = runtime
        self.done: concurrent.futures.Future[None] = thread.submit(self._go(work))

    @property
    def is_ours(self) -> bool:
        """Whether it goes on in this process, and not in the one this was forked from."""
        return self._thread.is_ours

    async def _go(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
            await self._runtime.tasks.close()
        except Exception:
            logger.exception("the last work of a client that was dropped failed")
        finally:
            _LEFT.discard(self)
        self._thread.stop()

    def end(self) -> None:
        """There is no more time: the work is cancelled, and says what it could not do."""
        self._thread.close()


_OPEN: Final[weakref.WeakSet[Shell]] = weakref.WeakSet()
_LEFT: Final[set[_Left]] = set()


def _at_exit() -> None:
    """Let every client of this process do its last work, all at the same time."""
    shells = [one for one in _OPEN if one._pid == os.getpid() and one._thread.is_open]
    left = [one for one in list(_LEFT) if one.is_ours]
    under_way = [one.done for one in left]
    for shell in shells:
        work = shell._last_work(EXIT_SECONDS, _AT_THE_END)
        if work is not None:
            under_way.append(shell._thread.submit(work))
    deadline = time.monotonic() + EXIT_SECONDS + _GRACE_SECONDS
    try:
        for future in under_way:
            concurrent.futures.wait([future], max(0.0, deadline - time.monotonic()))
    finally:
        for shell in shells:
            shell._abandon()
        for one in left:
            one.end()


at_exit(Stage.CLIENTS, _at_exit)
