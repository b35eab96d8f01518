"""A simulated host lives, dies and comes back with exactly what its disk kept.

Method: small programs on hosts that are killed, lose power or meet a planned crash of their disk; what they did is
read from their disks and their peers. Clocks and fake threads are tried beside them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from semel.runtime.bundle import Runtime
from semel.runtime.clock import SIMULATION_START_MS, SimulatedClock
from semel.runtime.files import read_whole
from semel.runtime.memory_faults import DiskCrashed
from semel.runtime.simulated_trouble import SimulationError
from semel.runtime.simulation import SimulatedHost, Simulation


async def writes_for_ever(runtime: Runtime) -> None:
    """Append a byte every second; sync every tenth."""
    file = runtime.files.open("/log", create=True)
    runtime.files.sync_directory("/")
    try:
        while True:
            file.write_at(file.size(), b"x")
            if file.size() % 10 == 0:
                await runtime.tasks.in_thread(file.sync, order=file.path)
            await runtime.tasks.sleep(1)
    finally:
        runtime.files.open("/last words", create=True)


def test_a_program_may_be_killed_while_it_enters_a_context() -> None:
    """The generator of that context waits for ever; a simulation that ends does not close it."""
    simulation = Simulation(1)
    host = simulation.host("a")

    async def enters(runtime: Runtime) -> None:
        @contextlib.asynccontextmanager
        async def slow() -> AsyncIterator[None]:
            await runtime.tasks.sleep(60)
            yield

        async with slow():
            pass

    async def story() -> None:
        host.start(enters)
        await asyncio.sleep(1)
        host.kill()

    simulation.run(story())


def test_a_killed_program_stops_in_the_middle_and_goes_on_from_its_files() -> None:
    simulation = Simulation(1)
    host = simulation.host("a")

    async def story() -> None:
        host.start(writes_for_ever)
        with pytest.raises(SimulationError, match="runs a process already"):
            host.boot()
        await asyncio.sleep(25.5)
        host.kill()
        assert not host.is_alive
        await asyncio.sleep(100)
        assert read_whole(host.disk, "/log") == b"x" * 26
        host.start(writes_for_ever)
        await asyncio.sleep(9.5)
        assert read_whole(host.disk, "/log") == b"x" * 36
        host.kill()
        assert not host.disk.exists("/last words"), "no finally runs in a killed process"

    simulation.run(story())


def test_a_power_cut_takes_at_most_what_was_not_synced() -> None:
    sizes = set()
    for seed in range(40):
        simulation = Simulation(seed)
        host = simulation.host("a")

        async def story(host: SimulatedHost = host) -> None:
            host.start(writes_for_ever)
            await asyncio.sleep(25.5)
            host.cut_power()
            sizes.add(len(read_whole(host.disk, "/log")))

        simulation.run(story())
    assert min(sizes) >= 20
    assert max(sizes) <= 26
    assert len(sizes) > 2


def test_a_crash_planned_on_the_disk_takes_the_host_with_it() -> None:
    simulation = Simulation(1)
    host = simulation.host("a")
    ran: list[str] = []

    async def program(runtime: Runtime) -> None:
        runtime.tasks.call_later(10, ran.append, "timer")
        file = runtime.files.open("/log", create=True)
        file.write_at(0, b"0123456789")
        ran.append("not reached")

    async def story() -> None:
        host.disk.crash_after(4, death="kill")
        task = host.start(program)
        await host.until_dead()
        await host.until_dead()
        with pytest.raises(DiskCrashed):
            await task
        await asyncio.sleep(100)
        assert ran == []
        host.boot()
        assert read_whole(host.disk, "/log") == b"0123"

    simulation.run(story())


def test_a_power_cut_while_a_sync_runs_leaves_it_unsure() -> None:
    outcomes = set()
    for seed in range(60):
        simulation = Simulation(seed)
        host = simulation.host("a")
        synced: list[bool] = []

        async def program(runtime: Runtime, synced: list[bool] = synced) -> None:
            file = runtime.files.open("/log", create=True)
            runtime.files.sync_directory("/")
            file.write_at(0, b"payload")
            await runtime.tasks.in_thread(file.sync)
            synced.append(True)

        async def story(host: SimulatedHost = host, synced: list[bool] = synced) -> None:
            host.disk.sync_delay_seconds = (0.0, 0.004)
            host.start(program)
            await asyncio.sleep(0.004)
            host.cut_power()
            await asyncio.sleep(1)
            outcomes.add((bool(synced), read_whole(host.disk, "/log") == b"payload"))

        simulation.run(story())
    assert outcomes == {(True, True), (False, True), (False, False)}, "told of a sync: never lost"


# Fake threads.


def test_calls_on_threads_end_in_any_order_but_keep_it_where_asked() -> None:
    def ended(seed: int, *, order: str | None) -> tuple[int, ...]:
        simulation = Simulation(seed)
        runtime = simulation.host("a").boot()
        story: list[int] = []

        async def call(number: int) -> None:
            assert await runtime.tasks.in_thread(lambda: number * 2, order=order) == number * 2
            story.append(number)

        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(4):
                    group.create_task(call(number))

        simulation.run(main())
        return tuple(story)

    assert len({ended(seed, order=None) for seed in range(50)}) > 10
    assert {ended(seed, order="/log") for seed in range(50)} == {(0, 1, 2, 3)}


def test_no_more_calls_run_at_a_time_than_there_are_threads() -> None:
    simulation = Simulation(1)
    host = simulation.host("a")

    async def program(runtime: Runtime) -> float:
        host.disk.sync_delay_seconds = (1.0, 1.0)
        file = runtime.files.open("/log", create=True)
        started = runtime.clock.monotonic()
        async with asyncio.TaskGroup() as group:
            for _ in range(24):
                group.create_task(runtime.tasks.in_thread(file.sync))
        return runtime.clock.monotonic() - started

    async def story() -> float:
        return await host.start(program)

    assert 3.0 <= simulation.run(story()) < 3.1  # 24 syncs of a second on 8 threads.


def test_a_sync_on_the_loop_itself_stops_everything() -> None:
    simulation = Simulation(1)
    host = simulation.host("a")

    async def program(runtime: Runtime) -> tuple[float, float]:
        ticked: list[float] = []
        runtime.tasks.call_later(1, lambda: ticked.append(runtime.clock.monotonic()))
        host.disk.sync_delay_seconds = (5.0, 5.0)
        started = runtime.clock.monotonic()
        runtime.files.open("/log", create=True).sync()
        took = runtime.clock.monotonic() - started
        await runtime.tasks.sleep(1)
        return took, ticked[0]

    async def story() -> tuple[float, float]:
        return await host.start(program)

    took, ticked = simulation.run(story())
    assert took == pytest.approx(5)
    assert ticked == pytest.approx(5, abs=0.01), "the timer was due after 1 s, and had to wait"


# Clocks.


def test_the_wall_clock_jumps_and_drifts_and_the_monotonic_one_does_not() -> None:
    seconds = [0.0]
    clock = SimulatedClock(lambda: seconds[0])
    assert clock.now_ms() == SIMULATION_START_MS
    seconds[0] = 1.5
    assert (clock.now_ms(), clock.monotonic_ms()) == (SIMULATION_START_MS + 1500, 1500)
    clock.jump(-10_000)
    assert clock.now_ms() == SIMULATION_START_MS - 8500
    clock.drift(2.0)
    seconds[0] = 2.5
    assert clock.now_ms() == SIMULATION_START_MS - 6500
    assert clock.monotonic() == 2.5
    with pytest.raises(ValueError, match="does not run"):
        clock.drift(0)


def test_a_frozen_process_does_later_what_it_would_have_done_meanwhile() -> None:
    simulation = Simulation(3)
    host = simulation.host("a")
    beats: list[float] = []

    async def beat(runtime: Runtime) -> None:
        while True:
            beats.append(simulation.loop.time())
            await runtime.tasks.sleep(1)

    async def story() -> None:
        host.start(beat)
        await asyncio.sleep(2.5)
        host.freeze(10)
        await asyncio.sleep(5)
        host.freeze(1)  # Shorter than what is left: nothing changes.
        await asyncio.sleep(6.5)
        host.freeze(100)
        await asyncio.sleep(1)
        host.kill()
        await asyncio.sleep(200)

    simulation.run(story())
    assert [round(at, 2) for at in beats] == [0.0, 1.0, 2.0, 12.5, 13.5], "and of a dead one nothing is done"
