"""Whoever waits at a partition is woken when it moves, once, and leaves nothing behind.

Method: waiters and timeouts on virtual time.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from semel.broker.waiting import WOKEN_AT_ONCE, Waiters, Waiting
from semel.runtime.simulation import Simulation

T = TypeVar("T")


class Line:
    """A connection as far as a waiter looks at it."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []

    def on_end(self, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def not_on_end(self, callback: Callable[[], None]) -> None:
        if callback in self.callbacks:
            self.callbacks.remove(callback)

    def end(self) -> None:
        for callback in list(self.callbacks):
            callback()


def play(story: Coroutine[Any, Any, T]) -> T:
    return Simulation(1).run(story)


def test_the_first_that_moves_wakes() -> None:
    async def story() -> None:
        here, there = Waiters(), Waiters()
        waiting = asyncio.create_task(Waiting([here, there], Line()).woken(10))
        await asyncio.sleep(1)
        assert here
        assert there
        there.wake()
        assert await waiting
        assert asyncio.get_running_loop().time() < 1.1
        assert not here, "it waits nowhere any more"
        assert not there

    play(story())


def test_what_moves_before_the_waiter_runs_wakes_it() -> None:
    """A request looks, and its task begins to wait in the next turn: what comes between must not wait for its patience to end."""

    async def story() -> None:
        here = Waiters()
        waiting = asyncio.create_task(Waiting([here], Line()).woken(10))
        here.wake()
        assert await waiting
        assert asyncio.get_running_loop().time() < 0.1

    play(story())


def test_patience_ends() -> None:
    async def story() -> None:
        here = Waiters()
        assert not await Waiting([here], Line()).woken(2.5)
        assert 2.5 <= asyncio.get_running_loop().time() < 2.6
        assert not here

    play(story())


def test_nowhere_to_wait_is_only_time() -> None:
    async def story() -> None:
        assert not await Waiting([], Line()).woken(3)
        assert asyncio.get_running_loop().time() >= 3

    play(story())


def test_everybody_is_woken_and_only_once() -> None:
    async def story() -> list[int]:
        here, woken = Waiters(), list[int]()

        async def wait(number: int) -> None:
            assert await Waiting([here], Line()).woken(10)
            woken.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(3)]
        await asyncio.sleep(1)
        here.wake()
        here.wake()  # Nobody is left to hear this.
        await asyncio.gather(*tasks)
        return woken

    assert play(story()) == [0, 1, 2]


def test_two_places_that_move_at_once_wake_once() -> None:
    async def story() -> None:
        here, there = Waiters(), Waiters()
        waiting = asyncio.create_task(Waiting([here, there], Line()).woken(10))
        await asyncio.sleep(1)
        here.wake()
        there.wake()
        assert await waiting

    play(story())


def test_a_request_that_is_given_up_leaves_no_waiter() -> None:
    async def story() -> None:
        here, there = Waiters(), Waiters()
        waiting = asyncio.create_task(Waiting([here, there], Line()).woken(10))
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert not here
        assert not there
        here.wake()

    play(story())


def test_waking_where_nobody_waits_is_nothing() -> None:
    waiters = Waiters()
    assert not waiters
    waiters.wake()


def test_a_connection_that_ends_takes_its_waiters_along() -> None:
    async def story() -> None:
        here, line = Waiters(), Line()
        waiting = asyncio.create_task(Waiting([here], line).woken(10))
        await asyncio.sleep(1)
        line.end()
        assert await waiting
        assert asyncio.get_running_loop().time() < 1.1
        assert not here
        assert line.callbacks == []

    play(story())


def test_a_waiter_that_is_done_leaves_nothing_at_its_connection() -> None:
    """A consumer polls for days on one connection."""

    async def story() -> None:
        here, line = Waiters(), Line()
        for _ in range(3):
            assert not await Waiting([here], line).woken(1)
        assert line.callbacks == []

    play(story())


def test_a_crowd_is_woken_some_at_a_time() -> None:
    """Between them the loop serves others: who asks to be called next is called before the last of them."""

    async def story() -> None:
        here, woken = Waiters(), list[int]()

        async def wait(number: int) -> None:
            assert await Waiting([here], Line()).woken(10)
            woken.append(number)

        tasks = [asyncio.create_task(wait(number)) for number in range(3 * WOKEN_AT_ONCE)]
        await asyncio.sleep(1)
        here.wake()
        for turn in range(1, 4):
            while len(woken) < turn * WOKEN_AT_ONCE:
                await asyncio.sleep(0)
            assert len(woken) == turn * WOKEN_AT_ONCE
        await asyncio.gather(*tasks)
        assert woken == list(range(3 * WOKEN_AT_ONCE))

    play(story())
