"""Requests that wait for a partition to move: long polls.

Role.   A fetch that found too little leaves a waiter at each of its partitions; whatever makes records visible there
        wakes it.
Rules.  * A waiter is woken at most once, and taken out everywhere when its request goes on.
        * It is there from the moment the request has looked: what is shown before its task begins to run wakes it too.
        * Waking costs nothing where nobody waits: the append path asks only whether there is a waiter.
"""

import asyncio
from collections.abc import Iterable


class Waiters:
    """Who waits at one partition."""

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
        futures, self._futures = self._futures, {}
        for future in futures:
            if not future.done():
                future.set_result(None)


class Waiting:
    """Somebody who waits at some places since this was made."""

    __slots__ = ("_future", "_places")

    def __init__(self, waiters: Iterable[Waiters]) -> None:
        self._places = list(waiters)
        self._future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for place in self._places:
            place.add(self._future)

    async def woken(self, seconds: float) -> bool:
        """Wait until one of them is woken, or for `seconds`; whether one was. The waiting is over then."""
        try:
            async with asyncio.timeout(seconds):
                await self._future
        except TimeoutError:
            return False
        finally:
            for place in self._places:
                place.remove(self._future)
        return True
