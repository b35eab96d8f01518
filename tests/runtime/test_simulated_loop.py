"""Unmodified asyncio code runs on virtual time, the same way every time, and says so when it is stuck.

Method: the tools product code uses (groups, timeouts, queues, locks, events, generators) are run on the simulated
loop and compared with what asyncio documents; whole runs are compared by the digest of every step they took.
"""

import asyncio
import contextvars
import gc
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path

import pytest

from semel.runtime.simulated_loop import PROCESS, SimulatedProcess, new_loop
from semel.runtime.simulated_trouble import (
    STANDSTILL_STEPS_MAX,
    SimulationDeadlockError,
    SimulationError,
    SimulationLimitError,
    SimulationLivelockError,
)
from semel.runtime.simulation import Simulation


def test_an_hour_of_waiting_takes_no_time_and_arrives_on_the_second() -> None:
    simulation = Simulation(1)

    async def main() -> float:
        await asyncio.sleep(3600)
        async with asyncio.timeout(10):
            await asyncio.sleep(9.5)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await asyncio.Event().wait()
        return simulation.loop.time()

    assert simulation.run(main()) == pytest.approx(3610.0, abs=1e-4)


def test_callbacks_keep_their_order_and_timers_their_times() -> None:
    for seed in range(20):
        simulation, ran = Simulation(seed), list[int]()

        async def main(simulation: Simulation = simulation, ran: list[int] = ran) -> None:
            loop = simulation.loop
            for number in (5, 3, 4):
                loop.call_later(number, ran.append, number)
            for number in range(3):
                loop.call_soon(ran.append, number)
            loop.call_later(2, ran.append, 99).cancel()
            await asyncio.sleep(10)

        simulation.run(main())
        assert ran == [0, 1, 2, 3, 4, 5]


def test_timers_of_one_instant_come_in_an_order_the_seed_decides() -> None:
    def order(seed: int) -> tuple[int, ...]:
        ran: list[int] = []

        async def main() -> None:
            when = asyncio.get_running_loop().time() + 1
            for number in range(4):
                asyncio.get_running_loop().call_at(when, ran.append, number)
            await asyncio.sleep(2)

        Simulation(seed).run(main())
        return tuple(ran)

    assert len({order(seed) for seed in range(50)}) > 10
    assert order(3) == order(3)


async def everything() -> list[str]:
    """A little of everything asyncio offers to product code."""
    story: list[str] = []
    queue: asyncio.Queue[int] = asyncio.Queue(maxsize=2)
    lock, ready = asyncio.Lock(), asyncio.Event()

    async def produce() -> None:
        for number in range(5):
            await queue.put(number)
            await asyncio.sleep(0.01)
        ready.set()

    async def consume(name: str) -> None:
        while True:
            number = await queue.get()
            async with lock:
                await asyncio.sleep(0.003)
                story.append(f"{name} {number}")
            queue.task_done()

    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            await asyncio.sleep(0.001)
            yield number

    consumers = [asyncio.create_task(consume(name)) for name in ("a", "b")]
    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        group.create_task(ready.wait())
    await queue.join()
    for consumer in consumers:
        consumer.cancel()
    story += [type(outcome).__name__ for outcome in await asyncio.gather(*consumers, return_exceptions=True)]
    story += [str(number) async for number in numbers()]
    never = asyncio.Event()
    done, pending = await asyncio.wait(
        [asyncio.ensure_future(event.wait()) for event in (never, ready, never)],
        return_when=asyncio.FIRST_COMPLETED,
    )
    story.append(f"{len(done)} {len(pending)}")
    for task in pending:
        task.cancel()
    return story


def test_product_code_gets_from_it_what_it_gets_from_asyncio() -> None:
    assert sorted(Simulation(1).run(everything())) == sorted(asyncio.run(everything()))


async def many_are_cancelled_at_once() -> list[int]:
    """A failing group cancels its tasks in the order of a set: the order asyncio leaves to addresses."""
    order: list[int] = []

    async def wait(number: int) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            order.append(number)

    async def fail() -> None:
        await asyncio.sleep(1)
        raise RuntimeError("enough")

    try:
        async with asyncio.TaskGroup() as group:
            ballast = [bytearray(number) for number in range(50)]
            for number in range(50):
                group.create_task(wait(number))
            ballast.clear()
            group.create_task(fail())
    except* RuntimeError:
        order.append(-1)
    return order


def test_sets_of_tasks_have_the_same_order_in_every_run() -> None:
    garbage = [object() for _ in range(1000)]
    first = Simulation(5).run(many_are_cancelled_at_once())
    del garbage[::3]
    assert Simulation(5).run(many_are_cancelled_at_once()) == first
    assert sorted(first) == list(range(-1, 50))


def test_a_deadlock_names_who_waits_and_where() -> None:
    async def waits_for_ever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(waits_for_ever(), name="the culprit")

    with pytest.raises(SimulationDeadlockError) as caught:
        Simulation(1).run(main())
    assert "the culprit: " in str(caught.value)
    assert "waits_for_ever (test_simulated_loop.py:" in str(caught.value)
    assert any("seed 1" in note for note in caught.value.__notes__)


def test_a_loop_that_never_waits_and_one_that_waits_for_ever_are_stopped() -> None:
    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def idle() -> None:
        while True:
            await asyncio.sleep(60)

    with pytest.raises(SimulationLimitError, match="1000 steps"):
        Simulation(1, steps_max=1000).run(spin())
    with pytest.raises(SimulationLimitError, match=r"passed 100\.0 s"):
        Simulation(1, seconds_max=100.0).run(idle())


def test_a_world_whose_time_stands_still_is_stopped_and_says_who_was_running() -> None:
    """Two that wake each other for ever, with time ahead of them that never comes."""
    tosses = asyncio.Queue[None](), asyncio.Queue[None]()

    async def play(mine: asyncio.Queue[None], other: asyncio.Queue[None]) -> None:
        while True:
            await mine.get()
            other.put_nowait(None)

    async def main() -> None:
        await asyncio.sleep(5)
        context = contextvars.Context()
        context.run(PROCESS.set, SimulatedProcess("court#1"))
        loop, (one, other) = asyncio.get_running_loop(), tosses
        players = [
            loop.create_task(play(one, other), name="first", context=context),
            loop.create_task(play(other, one), name="second"),
        ]
        one.put_nowait(None)
        await asyncio.wait(players, timeout=60)

    with pytest.raises(SimulationLivelockError) as caught:
        Simulation(1).run(main())
    said = str(caught.value)
    assert f"livelock: {STANDSTILL_STEPS_MAX + 500} steps" in said
    assert "virtual time stands still at 5." in said
    assert "court#1 first: " in said
    assert "\n  250 x second: " in said
    assert "play (test_simulated_loop.py:" in said
    assert any("seed 1" in note for note in caught.value.__notes__)


def test_timers_that_wait_for_no_time_are_no_progress() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_later(0, again)

        again()
        await asyncio.Event().wait()

    with pytest.raises(SimulationLivelockError, match=r"500 x .*again"):
        Simulation(1).run(main())


@pytest.mark.parametrize("how", ["wait", "block"])
def test_a_world_that_is_busy_while_time_goes_by_may_go_on(how: str) -> None:
    simulation = Simulation(1)

    async def main() -> None:
        for _ in range(3):
            for _ in range(STANDSTILL_STEPS_MAX - 100):
                await asyncio.sleep(0)
            if how == "wait":
                await asyncio.sleep(0.001)
            else:
                simulation.loop.block(0.001)

    simulation.run(main())
    assert simulation.loop.steps > 2 * STANDSTILL_STEPS_MAX


def test_what_was_written_down_before_time_went_on_is_not_told() -> None:
    """A burst that ends just in time, and then the livelock: the error tells of the second alone."""

    async def burst() -> None:
        for _ in range(STANDSTILL_STEPS_MAX + 400):
            await asyncio.sleep(0)

    async def spin() -> None:
        while True:
            await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.sleep(1)
        await burst()
        await asyncio.sleep(1)
        await asyncio.create_task(spin())

    with pytest.raises(SimulationLivelockError, match=r"500 x .*spin") as caught:
        Simulation(1).run(main())
    assert "burst" not in str(caught.value)


def test_an_error_nobody_handled_fails_the_run(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(1)

    with caplog.at_level(logging.CRITICAL), pytest.raises(SimulationError, match="unhandled") as caught:
        Simulation(1).run(main())
    assert isinstance(caught.value.__cause__, ValueError)


def test_real_threads_are_refused() -> None:
    async def main() -> None:
        await asyncio.get_running_loop().run_in_executor(None, int)

    with pytest.raises(SimulationError, match=r"Tasks\.in_thread"):
        Simulation(1).run(main())


def test_a_dead_process_never_runs_again_not_even_its_finally() -> None:
    loop, ran = new_loop(1), list[str]()
    process = SimulatedProcess("victim")
    context = contextvars.Context()
    context.run(PROCESS.set, process)

    async def victim() -> None:
        asyncio.get_running_loop().call_later(2, ran.append, "timer of the dead")
        async with asyncio.TaskGroup() as group:
            group.create_task(child())

    async def child() -> None:
        try:
            await asyncio.sleep(1.5)
            ran.append("child of the dead")
        finally:
            ran.append("finally of the dead")

    async def main() -> None:
        loop.create_task(victim(), context=context)
        await asyncio.sleep(1)
        loop.bury(process)
        await asyncio.sleep(10)

    loop.run_until_complete(main())
    assert ran == []
    loop.close()


SCENARIO = Path(__file__).with_name("simulated_scenario.py")


def scenario_digest(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, str(SCENARIO), str(seed)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout


def test_the_same_seed_takes_the_same_steps_whatever_the_hash_seed() -> None:
    first = scenario_digest(7, "0")
    assert first.strip()
    assert scenario_digest(7, "12345") == first
    assert scenario_digest(8, "0") != first


def test_what_a_dead_process_had_not_begun_to_wait_for_goes_with_it() -> None:
    """Coroutines it was given, alone, in a list, or deep inside what it waited for: none is left to complain."""
    loop = new_loop(1)
    process = SimulatedProcess("victim")
    context = contextvars.Context()
    context.run(PROCESS.set, process)

    async def wait() -> None:
        await asyncio.Event().wait()

    async def one_by_one(waiting: list[Coroutine[None, None, None]]) -> None:
        for one in waiting:
            await one

    async def outer(inner: Coroutine[None, None, None]) -> None:
        await inner

    async def main() -> None:
        loop.create_task(outer(one_by_one([wait(), wait()])), context=context)
        await asyncio.sleep(1)
        loop.create_task(outer(one_by_one([wait()])), context=context)
        loop.bury(process)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        loop.run_until_complete(main())
        loop.close()
        gc.collect()
    assert [str(one.message) for one in caught] == []
