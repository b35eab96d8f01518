"""Requests that wait for a partition to move: long polls.

Role.   A fetch that found too little leaves a waiter at each of its partitions; whatever makes records visible there
        wakes it.
Rules.  * A waiter is woken at most once, and taken out everywhere when its request goes on.
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


async def wait_for_any(waiters: Iterable[Waiters], seconds: float) -> bool:
    """Wait until one of them is woken, or for `seconds`; whether one was."""
    places = list(waiters)
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    for place in places:
        place.add(future)
    try:
        async with asyncio.timeout(seconds):
            await future
    except TimeoutError:
        return False
    finally:
        for place in places:
            place.remove(future)
    return True
