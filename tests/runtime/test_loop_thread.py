"""A loop on a thread of its own: results and errors come back, misuse is refused and never hangs.

Method: small coroutines, run from here.
"""

import asyncio
import threading

import pytest

from semel.errors import InvariantError
from semel.runtime.loop_thread import LoopThread


async def _where() -> tuple[str, int]:
    return threading.current_thread().name, id(asyncio.get_running_loop())


async def _fail() -> None:
    raise ValueError("as it must")


def test_results_and_errors_come_back_from_one_thread_and_one_loop() -> None:
    thread = LoopThread("work")
    try:
        first, second = thread.run(_where()), thread.run(_where())
        assert first == second
        assert first[0] == "work"
        with pytest.raises(ValueError, match="as it must"):
            thread.run(_fail())
    finally:
        thread.close()


def test_what_is_left_is_cancelled_when_it_closes() -> None:
    thread = LoopThread("work")
    ended = threading.Event()

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    kept: list[asyncio.Task[None]] = []

    async def leave_behind() -> None:
        kept.append(asyncio.ensure_future(wait_for_ever()))
        await asyncio.sleep(0)

    thread.run(leave_behind())
    thread.close()
    assert ended.is_set()
    thread.close()  # Once more does no harm.


def test_a_closed_loop_and_its_own_thread_are_refused() -> None:
    thread = LoopThread("work")

    async def call_itself() -> None:
        thread.run(_where())

    with pytest.raises(InvariantError, match="work cannot wait for itself"):
        thread.run(call_itself())
    was_open = thread.is_open
    thread.close()
    assert (was_open, thread.is_open) == (True, False)
    with pytest.raises(InvariantError, match="work is closed"):
        thread.run(_where())
