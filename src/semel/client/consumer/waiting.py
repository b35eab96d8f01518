"""How a consumer's user waits: for news, for an answer, until `wakeup`, and for no longer than he said.

Role.   `Waiting` holds what ends a wait: something happened, somebody called `wakeup`, something failed beside the user's calls.
Rules.  * `wakeup` ends the call that waits, or else the next one; once.
        * A failure is raised by the next call that looks; the same failure, met again and again, once per look.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from semel.errors import DisconnectedError, RefusedError
from semel.exceptions import KafkaException, TimeoutException, WakeupException, as_exception

T = TypeVar("T")


class Waiting:
    """One consumer's."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._woken = asyncio.Event()
        self.failures: deque[KafkaException] = deque()

    def tell(self) -> None:
        """Something happened."""
        self._news.set()

    def fail(self, error: KafkaException) -> None:
        """Something failed that the user must hear of."""
        if str(error) not in map(str, self.failures):
            self.failures.append(error)
        self.tell()

    def wakeup(self) -> None:
        """End what the user waits for, or will wait for next. On the loop."""
        self._woken.set()
        self.tell()

    def begin(self) -> None:
        """Look at everything now: events from here on are news."""
        self._news.clear()

    def check(self) -> None:
        """Raise what the user must hear of."""
        if self._woken.is_set():
            self._woken.clear()
            raise _woken()
        if self.failures:
            raise self.failures.popleft()

    async def news(self, wait_ms: int) -> None:
        """Return when something has happened since `begin`, or time is over."""
        try:
            async with asyncio.timeout(wait_ms / 1000):
                await self._news.wait()
        except TimeoutError:
            return

    async def until_woken(self, work: Coroutine[Any, Any, T]) -> T:
        """The work's result, unless `wakeup` comes first."""
        if self._woken.is_set():
            self._woken.clear()
            work.close()
            raise _woken()
        task = asyncio.ensure_future(work)
        waker = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((task, waker), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            self._woken.clear()
            raise _woken()
        finally:
            for one in (task, waker):
                one.cancel()


async def in_time(work: Callable[[], Awaitable[T]], timeout_ms: int, *, last: Callable[[], str]) -> T:
    """The work's result; raises `TimeoutException` if it takes too long, or ends with an error that might have passed.

    `last` gives the last error as the end of a sentence.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await work()
    except TimeoutError:
        raise TimeoutException(f"no answer within {timeout_ms} ms{last()}") from None
    except (DisconnectedError, RefusedError) as error:
        public = as_exception(error)
        if public.retriable:
            raise TimeoutException(f"not done within {timeout_ms} ms: {error}") from error
        raise public from error


def _woken() -> WakeupException:
    return WakeupException("wakeup() was called")
