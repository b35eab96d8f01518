"""All access to the outside world in one value.

Role.   `Runtime` is handed to brokers and clients; all use of time, files, sockets, threads and randomness goes through
        it, so that the same code runs on this machine and in a simulation.
Flow.   `real_runtime` for processes; `simulation.simulated_runtime` and `simulation.Simulation` for tests.
"""

import random
from dataclasses import dataclass

from semel.runtime.clock import Clock, RealClock
from semel.runtime.files import Files, RealFiles
from semel.runtime.network import Network, RealNetwork
from semel.runtime.randomness import system_dice
from semel.runtime.tasks import RealTasks, Tasks


@dataclass(frozen=True, slots=True)
class Runtime:
    """A host's clock, files, network, tasks and dice."""

    clock: Clock
    files: Files
    network: Network
    tasks: Tasks
    dice: random.Random


def real_runtime(*, threads_max: int = 8) -> Runtime:
    """The machine this process runs on."""
    return Runtime(
        clock=RealClock(),
        files=RealFiles(),
        network=RealNetwork(),
        tasks=RealTasks(threads_max=threads_max),
        dice=system_dice(),
    )
