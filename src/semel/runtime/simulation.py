"""A simulated world: hosts with clocks, disks and processes on one network, from one integer seed.

Role.   `Simulation` owns the loop and the network; `SimulatedHost` is a machine on which a program runs, is killed,
        loses power and restarts with the surviving data of its disk.
Flow.   A test makes a `Simulation(seed)`, asks it for hosts, starts a program on each, and lets `run` drive a coroutine
        that controls the scenario from outside. `simulated_runtime` is the shortcut for one host.
Rules.  * The same seed and the same program give the same run, byte for byte and step for step.
        * A host's death stops its code at once: its callbacks never run again, and its files and connections are dead.
        * An unhandled error fails the run, except the death of a process.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from semel.runtime.bundle import Runtime
from semel.runtime.clock import SimulatedClock
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.runtime.memory_files import MemoryDisk
from semel.runtime.memory_network import MemoryNetwork
from semel.runtime.randomness import seeded_dice
from semel.runtime.simulated_loop import PROCESS, SimulatedProcess, new_loop
from semel.runtime.simulated_tasks import SimulatedTasks
from semel.runtime.simulated_trouble import SimulationError

T = TypeVar("T")


class Simulation:
    """One world. It runs once."""

    def __init__(
        self,
        seed: int,
        *,
        traced: bool = False,
        steps_max: int = 20_000_000,
        seconds_max: float = 366 * 86_400.0,
    ) -> None:
        self.seed = seed
        self.loop = new_loop(seed, traced=traced, steps_max=steps_max, seconds_max=seconds_max)
        self.network = MemoryNetwork(self.loop, seeded_dice(seed, "network"))
        self._hosts: dict[str, SimulatedHost] = {}

    def host(self, name: str) -> "SimulatedHost":
        """The host of that name, made at the first call."""
        if name not in self._hosts:
            self._hosts[name] = SimulatedHost(self, name)
        return self._hosts[name]

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run the world until `main` is done, then end the remaining tasks."""
        try:
            result: T = self.loop.run_until_complete(main)
            self._end_tasks()
        except BaseException as error:
            error.add_note(f"seed {self.seed}, {self.loop.time()} s of virtual time, {self.loop.steps} steps")
            raise
        finally:
            self.loop.close()
        self._check_unhandled()
        return result

    def _end_tasks(self) -> None:
        while tasks := self.loop.unfinished_tasks():
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.wait(tasks))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())

    def _check_unhandled(self) -> None:
        for context in self.loop.unhandled:
            error = context.get("exception")
            if not isinstance(error, DiskCrashed):
                raise SimulationError(f"seed {self.seed}: unhandled: {context.get('message')}") from error


class SimulatedHost:
    """A machine: a disk and a clock that stay, and one process at a time."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.name = name
        self.clock = SimulatedClock(simulation.loop.time)
        self.disk = MemoryDisk(
            seeded_dice(simulation.seed, name, "disk"),
            on_death=self._disk_died,
            now_ms=self.clock.now_ms,
        )
        self._simulation = simulation
        self._loop = simulation.loop
        self._network = simulation.network.at(name)
        self._boots = 0
        self._has_power = True
        self._process: SimulatedProcess | None = None
        self._deaths: asyncio.Future[None] | None = None
        self.last_death: Death | None = None
        """How its last process died, if it did not end normally."""

    @property
    def is_alive(self) -> bool:
        return self._process is not None

    def start(self, program: Callable[[Runtime], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Start a program in a new process, with the disk's data."""
        context = contextvars.Context()
        runtime = self.boot(context)
        coroutine = program(runtime)
        return self._loop.create_task(coroutine, name=f"{self.name} main", context=context)

    def boot(self, context: contextvars.Context | None = None) -> Runtime:
        """The runtime of a new process; callbacks scheduled in `context` belong to it."""
        if self._process is not None:
            raise SimulationError(f"{self.name} runs a process already: kill it first")
        if not self._has_power:
            self._has_power = True
            self._simulation.network.power_on(self.name)
        self.disk.restart()
        self._boots += 1
        self._process = SimulatedProcess(f"{self.name}#{self._boots}")
        if context is not None:
            context.run(PROCESS.set, self._process)
        dice = seeded_dice(self._simulation.seed, self.name, str(self._boots))
        tasks = SimulatedTasks(
            self._loop, seeded_dice(self._simulation.seed, self.name, str(self._boots), "threads")
        )
        self.disk.block = tasks.block
        return Runtime(clock=self.clock, files=self.disk, network=self._network, tasks=tasks, dice=dice)

    def kill(self) -> None:
        """Kill the process: its writes stay, its connections are reset."""
        self.disk.kill()
        self._end_process("kill")

    def cut_power(self) -> None:
        """Cut the power: the seed decides about unsynced writes, and no peer is told."""
        self.disk.crash()
        self._end_process("power cut")

    def freeze(self, seconds: float) -> None:
        """Stop the process for a while, as SIGSTOP does: connections stay open, and requests are answered after it
        resumes."""
        if self._process is not None:
            self._loop.freeze(self._process, seconds)

    async def until_dead(self) -> None:
        """Return once the process of this host has died, also by a crash planned on its disk."""
        if self._process is not None:
            if self._deaths is None:
                self._deaths = self._loop.create_future()
            await asyncio.shield(self._deaths)

    def _disk_died(self, death: Death) -> None:
        self._end_process(death)

    def _end_process(self, death: Death) -> None:
        process, self._process = self._process, None
        if process is not None:
            self.last_death = death
            self._loop.bury(process)
        if death == "kill":
            self._simulation.network.kill_host(self.name)
        else:
            self._has_power = False
            self._simulation.network.cut_power(self.name)
        if self._deaths is not None:
            self._deaths.set_result(None)
            self._deaths = None


def simulated_runtime(seed: int, *, traced: bool = False) -> tuple[Simulation, Runtime]:
    """A world of one host, and its runtime: `simulation.run(main(runtime))`."""
    simulation = Simulation(seed, traced=traced)
    return simulation, simulation.host("localhost").boot()
