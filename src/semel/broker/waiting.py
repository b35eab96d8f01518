"""Requests that wait for a partition to move: long polls.

Role.   A fetch that found too little leaves a waiter at each of its partitions; whatever makes records visible there
        wakes it.
Rules.  * A waiter is woken at most once, and taken out everywhere when its request goes on.
        * It is there from the moment the request has looked: what is shown before its task begins to run wakes it too.
        * Waking costs nothing where nobody waits: the append path asks only whether there is a waiter.
        * Many waiters are woken some at a time: each looks at its partitions again, and others want their turns between.
        * A waiter whose connection ends is woken and taken out: it holds nothing for a client that is gone.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Protocol

WOKEN_AT_ONCE: Final = 200
"""Waiters that look again in one turn of the loop: some ten milliseconds."""


class Waiters:
    """The long polls that wait at one partition."""

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: dict[asyncio.Future[None], None] = {}  # A dict keeps the order, a set would not.

    def __bool__(self) -> bool:
        return bool(self._futures)

    def add(self, future: asyncio.Future[None]) -> None:
        self._futures[future] = None

    def remove(self, future: asyncio.Future[None]) -> None:
        self._futures.pop(future, None)

    def wake(self) -> None:
        """Let everyone who waits here look again."""
        futures, self._futures = deque(self._futures), {}
        _wake_some(futures)


def _wake_some(futures: "deque[asyncio.Future[None]]") -> None:
    woken = 0
    while futures:
        future = futures.popleft()
        if future.done():
            continue
        if woken == WOKEN_AT_ONCE:
            futures.appendleft(future)
            asyncio.get_running_loop().call_soon(_wake_some, futures)
            return
        future.set_result(None)
        woken += 1


class Lifetime(Protocol):
    """A connection, as far as it matters here."""

    def on_end(self, callback: Callable[[], None]) -> None: ...

    def not_on_end(self, callback: Callable[[], None]) -> None: ...


class Waiting:
    """Somebody who waits at some places since this was made, for as long as a connection lasts."""

    __slots__ = ("_connection", "_future", "_places")

    def __init__(self, waiters: Iterable[Waiters], connection: Lifetime) -> None:
        self._places = list(waiters)
        self._connection = connection
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for place in self._places:
            place.add(self._future)
        connection.on_end(self._wake)

    def _wake(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    async def woken(self, seconds: float) -> bool:
        """Wait until one of them is woken, or for `seconds`; whether one was. The waiting is over then."""
        try:
            async with asyncio.timeout(seconds):
                await self._future
        except TimeoutError:
            return False
        finally:
            self.end()
        return True

    def end(self) -> None:
        """Wait no more. Ending twice is harmless."""
        for place in self._places:
            place.remove(self._future)
        self._connection.not_on_end(self._wake)
