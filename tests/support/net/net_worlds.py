"""Worlds for tests of the network: this machine's loopback on asyncio and, if installed, on uvloop; a simulation.

A test of the listener is a coroutine that takes a `Runtime`; `WORLDS` runs it in each. `RawClient` speaks
bytes, so that it can say what no honest client would.
"""

import asyncio
import importlib.util
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar, cast

import pytest

from semel.runtime.bundle import Runtime, real_runtime
from semel.runtime.memory_network import Link
from semel.runtime.simulation import simulated_runtime

T = TypeVar("T")
Story = Callable[[Runtime], Coroutine[Any, Any, T]]
PATIENCE_SECONDS = 60.0  # Far more than anything takes; a test that needs it hangs, and then says where.


class World(Protocol):
    def __call__(self, story: Story[T]) -> T: ...


def in_reality(story: Story[T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None) -> T:
    async def main() -> T:
        runtime = real_runtime(threads_max=2)
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await story(runtime)
        finally:
            await runtime.tasks.close()
            assert not unhandled, unhandled

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(main())


def in_reality_on_uvloop(story: Story[T]) -> T:
    return in_reality(story, loop_factory=importlib.import_module("uvloop").new_event_loop)


def in_simulation(story: Story[T], *, seed: int = 1, link: Link | None = None) -> T:
    simulation, runtime = simulated_runtime(seed)
    if link is not None:
        simulation.network.set_link(link)
    return simulation.run(story(runtime))


_worlds = [pytest.param(in_reality, id="loopback"), pytest.param(in_simulation, id="simulation")]
if importlib.util.find_spec("uvloop") is not None:
    _worlds.append(pytest.param(in_reality_on_uvloop, id="uvloop"))
WORLDS = pytest.mark.parametrize("world", _worlds)


class RawClient(asyncio.Protocol):
    """A client of bytes."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost = asyncio.Event()
        self._changed = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._changed.set()

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set()
        self._changed.set()

    async def take(self, size: int) -> bytes:
        """The next `size` bytes, or what came of them before the connection ended."""
        while len(self.received) < size and not self.lost.is_set():
            self._changed.clear()
            await self._changed.wait()
        taken = bytes(self.received[:size])
        del self.received[:size]
        return taken

    async def take_frame(self) -> bytes:
        return await self.take(int.from_bytes(await self.take(4), "big"))


async def raw_client(runtime: Runtime, address: tuple[str, int]) -> RawClient:
    _, client = await runtime.network.connect(RawClient, *address)
    return client


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body
