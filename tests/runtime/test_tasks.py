"""Owned tasks and real threads: nothing is lost in silence, and order holds where it was asked for.

Method: the same stories as for the simulated ones, on this machine's threads, with events instead of waiting.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.runtime.bundle import Runtime, real_runtime
from semel.runtime.randomness import random_uuid, seeded_dice, system_dice
from semel.runtime.simulation import simulated_runtime

Story = Callable[[Runtime], Coroutine[Any, Any, None]]


def really(story: Story) -> None:
    async def main() -> None:
        runtime = real_runtime(threads_max=2)
        try:
            await story(runtime)
        finally:
            await runtime.tasks.close()

    asyncio.run(main())


def simulated(story: Story) -> None:
    simulation, runtime = simulated_runtime(1)
    simulation.run(story(runtime))


both = pytest.mark.parametrize("run", [really, simulated])


@both
def test_a_failing_task_is_heard_of(run: Callable[[Story], None], caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ZeroDivisionError("nobody awaits me")

    async def story(runtime: Runtime) -> None:
        heard: list[str] = []
        runtime.tasks.spawn(
            fail(), name="first", on_failure=lambda name, error: heard.append(f"{name} {error}")
        )
        runtime.tasks.spawn(fail(), name="second")
        await runtime.tasks.sleep(0)
        await runtime.tasks.sleep(0)
        assert heard == ["first nobody awaits me"]

    run(story)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.getMessage() == "task second failed"
    assert record.exc_info is not None


@both
def test_closing_cancels_and_waits(run: Callable[[Story], None]) -> None:
    async def story(runtime: Runtime) -> None:
        ended: list[str] = []

        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append("stubborn")

        runtime.tasks.spawn(stubborn(), name="stubborn")
        await asyncio.sleep(0)
        await runtime.tasks.close()
        assert ended == ["stubborn"]

    run(story)


@both
def test_draining_waits_for_calls_on_threads_whose_callers_left_and_leaves_the_threads(
    run: Callable[[Story], None],
) -> None:
    async def story(runtime: Runtime) -> None:
        began, ended = asyncio.Event(), list[str]()
        loop = asyncio.get_running_loop()

        def call(name: str) -> None:
            loop.call_soon_threadsafe(began.set)
            ended.append(name)

        async def ask() -> None:
            await asyncio.gather(
                *(runtime.tasks.in_thread(call, name, order="one after the other") for name in "abc")
            )

        runtime.tasks.spawn(ask(), name="asks")
        await began.wait()
        await runtime.tasks.drain()
        at_the_end = list(ended)
        assert at_the_end[0] == "a"
        assert await runtime.tasks.in_thread(divmod, 7, 2) == (3, 1)
        assert ended == at_the_end, "nothing of what was drained came later"

    run(story)


@both
def test_errors_of_calls_on_threads_reach_their_callers(run: Callable[[Story], None]) -> None:
    async def story(runtime: Runtime) -> None:
        with pytest.raises(ZeroDivisionError):
            await runtime.tasks.in_thread(divmod, 1, 0)
        with pytest.raises(ZeroDivisionError):
            await runtime.tasks.in_thread(divmod, 1, 0, order="x")
        assert await runtime.tasks.in_thread(divmod, 7, 2, order="x") == (3, 1)

    run(story)


def test_calls_of_one_order_never_overlap_even_when_their_callers_leave() -> None:
    async def story(runtime: Runtime) -> None:
        running, overlaps, ran = threading.Lock(), list[int](), list[int]()
        gate, entered = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def call(number: int) -> None:
            if not running.acquire(blocking=False):
                overlaps.append(number)
                return
            ran.append(number)
            loop.call_soon_threadsafe(entered.set)
            gate.wait()
            running.release()

        calls = [
            asyncio.create_task(runtime.tasks.in_thread(call, number, order="/log")) for number in range(5)
        ]
        await entered.wait()
        calls[0].cancel()  # It runs already, and goes on.
        calls[2].cancel()  # It has not begun, and never will.
        await asyncio.sleep(0)
        gate.set()
        await asyncio.gather(*calls, return_exceptions=True)
        assert overlaps == []
        assert ran == [0, 1, 3, 4]

    really(story)


def test_a_late_error_of_a_call_whose_caller_left_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def story(runtime: Runtime) -> None:
        gate, entered = threading.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()

        def call() -> None:
            loop.call_soon_threadsafe(entered.set)
            gate.wait()
            raise OSError("the disk is gone")

        task = asyncio.create_task(runtime.tasks.in_thread(call))
        await entered.wait()
        task.cancel()
        await asyncio.sleep(0)
        gate.set()

    really(story)
    assert any("after its caller had left" in record.getMessage() for record in caplog.records)


def test_dice_depend_on_their_names_and_on_nothing_else() -> None:
    assert seeded_dice(1, "disk").random() == seeded_dice(1, "disk").random()
    assert seeded_dice(1, "disk").random() != seeded_dice(1, "network").random()
    assert seeded_dice(1, "disk").random() == 0.9369978955786548, "the same on every machine and Python"
    assert system_dice().random() != system_dice().random()


def test_ids_are_random_uuids() -> None:
    first = random_uuid(seeded_dice(1))
    assert first == random_uuid(seeded_dice(1))
    assert (first.version, first.variant) == (4, "specified in RFC 4122")
    assert random_uuid(system_dice()) != random_uuid(system_dice())
