"""A busy simulated world that prints the digest of everything that happened in it.

Run as a program with a seed: three hosts talk, write, sync, die and come back. Two runs in two processes must
print the same, whatever the order of their sets and the addresses of their objects.
"""

import asyncio
import sys

from semel.runtime.bundle import Runtime
from semel.runtime.memory_network import Link
from semel.runtime.randomness import random_uuid
from semel.runtime.simulation import Simulation

PORT = 9092
HOSTS = ("red", "green", "blue")


class Echo(asyncio.Protocol):
    """Writes what it hears to a file and answers with it once it is durable."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.runtime.tasks.spawn(self.store(data), name="store", on_failure=lambda *_: None)

    async def store(self, data: bytes) -> None:
        file = self.runtime.files.open("/log", create=True)
        file.write_at(file.size(), data)
        await self.runtime.tasks.in_thread(file.sync, order="/log")
        if self.transport is not None:
            self.transport.write(data)


class Ear(asyncio.Protocol):
    """Counts what comes back."""

    def __init__(self) -> None:
        self.heard = 0
        self.lost = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.heard += len(data)

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set()


async def program(runtime: Runtime) -> None:
    """Serve, and bother the others."""
    await runtime.network.listen(lambda: Echo(runtime), "", PORT)
    while True:
        other = runtime.dice.choice(HOSTS)
        try:
            async with asyncio.timeout(5):
                transport, ear = await runtime.network.connect(Ear, other, PORT)
                for _ in range(runtime.dice.randint(1, 5)):
                    transport.write(random_uuid(runtime.dice).bytes * runtime.dice.randint(1, 2000))
                    await runtime.tasks.sleep(runtime.dice.uniform(0, 0.1))
                transport.close()
                await ear.lost.wait()
        except OSError:
            await runtime.tasks.sleep(0.2)


async def story(simulation: Simulation) -> None:
    """Start the hosts and make their lives hard."""
    dice = simulation.host("red").boot().dice
    simulation.host("red").kill()
    simulation.network.set_link(Link(stall_probability=0.02, break_probability=0.02))
    for name in HOSTS:
        simulation.host(name).disk.sync_delay_seconds = (0.001, 0.05)
        simulation.host(name).start(program)
    for _ in range(20):
        await asyncio.sleep(dice.uniform(0.1, 3))
        host = simulation.host(dice.choice(HOSTS))
        one, other = dice.sample(HOSTS, 2)
        match dice.randrange(4):
            case 0:
                host.kill()
                host.start(program)
            case 1:
                host.cut_power()
                await asyncio.sleep(dice.uniform(0, 2))
                host.start(program)
            case 2:
                simulation.network.partition(one, other)
                await asyncio.sleep(dice.uniform(0, 5))
                simulation.network.heal()
            case _:
                host.clock.jump(dice.randint(-10_000, 10_000))
    for name in HOSTS:
        simulation.loop.note(f"{name} {simulation.host(name).clock.now_ms()}")


def main(seed: int) -> None:
    simulation = Simulation(seed, traced=True)
    simulation.run(story(simulation))
    print(simulation.loop.trace_digest(), simulation.loop.time(), simulation.loop.steps)


if __name__ == "__main__":
    main(int(sys.argv[1]))
