"""The simulated network does to connections what a real one may do, and nothing a real one could not.

Method: two or three hosts, protocols that write down what they see, and one story per rule, over many seeds where
the rule speaks of what may happen: bytes in order or a broken connection, overtaking across connections, lost
replies, half-open ends, black holes, hosts that die with and without a word.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.runtime.memory_network import Link
from semel.runtime.memory_transport import Break, MemoryTransport
from semel.runtime.simulation import Simulation

PORT = 9092
T = TypeVar("T")


class Ear(asyncio.Protocol):
    """Writes down what it hears, and when the connection ends."""

    transport: MemoryTransport

    def __init__(self, name: str = "", story: list[str] | None = None) -> None:
        self.name = name
        self.story = [] if story is None else story
        self.heard = bytearray()
        self.has_ended = False
        self.keep_open = False
        self.lost = asyncio.Event()
        self.error: Exception | None = None
        self.pauses: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, MemoryTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        assert data
        assert not self.has_ended
        self.heard += data
        self.story.append(f"{self.name} {data[:20].decode('latin-1')}")

    def eof_received(self) -> bool:
        self.has_ended = True
        return self.keep_open

    def connection_lost(self, exc: Exception | None) -> None:
        assert not self.lost.is_set(), "told once"
        self.error = exc
        self.lost.set()

    def pause_writing(self) -> None:
        self.pauses.append(True)

    def resume_writing(self) -> None:
        self.pauses.append(False)


class World:
    """Two hosts, `a` and `b`; `b` listens."""

    def __init__(self, seed: int, link: Link | None = None) -> None:
        self.simulation = Simulation(seed)
        self.network = self.simulation.network
        if link is not None:
            self.network.set_link(link)
        self.a, self.b = self.network.at("a"), self.network.at("b")
        self.accepted: list[Ear] = []
        self.story: list[str] = []

    def accept(self) -> Ear:
        self.accepted.append(Ear(f"b{len(self.accepted)}", self.story))
        return self.accepted[-1]

    async def listen(self) -> None:
        await self.b.listen(self.accept, "", PORT)

    async def connect(self) -> Ear:
        _, ear = await self.a.connect(lambda: Ear("a", self.story), "b", PORT)
        return ear

    def run(self, story: Callable[["World"], Any]) -> Any:
        async def main() -> Any:
            await self.listen()
            return await story(self)

        return self.simulation.run(main())


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(0, 200_000), max_size=8),
    window=st.sampled_from((1, 1000, 128 * 1024)),
)
def test_bytes_arrive_once_and_in_order_in_pieces_of_any_size(
    seed: int, sizes: list[int], window: int
) -> None:
    if window == 1:
        sizes = [size % 300 for size in sizes]
    content = random.Random(seed).randbytes(sum(sizes))
    link = Link(window_bytes=window, stall_probability=0.01, bytes_per_second=1e7)

    async def story(world: World) -> None:
        ear = await world.connect()
        position = 0
        for size in sizes:
            ear.transport.write(content[position : position + size])
            position += size
        ear.transport.close()
        await ear.lost.wait()
        (server,) = world.accepted
        await server.lost.wait()
        assert bytes(server.heard) == content
        assert server.has_ended
        assert server.error is None

    World(seed, link).run(story)


def test_latency_and_bandwidth_take_time() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        loop = world.simulation.loop
        started = loop.time()
        ear.transport.write(bytes(100_000))
        while not world.accepted or len(world.accepted[0].heard) < 100_000:
            await asyncio.sleep(0.01)
        assert 0.5 + 1.0 <= loop.time() - started < 0.5 + 1.1

    World(1, Link(latency_seconds=(0.5, 0.5), bytes_per_second=100_000)).run(story)


def test_a_reader_that_pauses_stops_the_writer_at_the_water_marks() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        await asyncio.sleep(1)
        (server,) = world.accepted
        server.transport.pause_reading()
        ear.transport.set_write_buffer_limits(high=1000, low=100)
        assert ear.transport.get_write_buffer_limits() == (100, 1000)
        ear.transport.write(bytes(5000))
        assert ear.pauses == [], "the window takes it"
        await asyncio.sleep(1)
        ear.transport.write(bytes(1000))
        assert ear.pauses == [], "at the mark is not above it"
        ear.transport.write(b"x")
        assert ear.pauses == [True]
        await asyncio.sleep(10)
        assert server.heard == b""
        assert ear.transport.get_write_buffer_size() == 1001
        server.transport.resume_reading()
        await asyncio.sleep(1)
        assert len(server.heard) == 6001
        assert ear.pauses == [True, False]

    World(1, Link(window_bytes=5000)).run(story)


def test_half_a_connection_can_be_closed() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        await asyncio.sleep(1)
        (server,) = world.accepted
        server.keep_open = True
        ear.transport.write(b"question")
        ear.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            ear.transport.write(b"more")
        await asyncio.sleep(1)
        assert (bytes(server.heard), server.has_ended) == (b"question", True)
        server.transport.write(b"answer")
        server.transport.close()
        await ear.lost.wait()
        assert (bytes(ear.heard), ear.error) == (b"answer", None)

    World(1).run(story)


def test_an_abort_resets_the_other_end() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        ear.transport.write(b"last words")
        ear.transport.abort()
        await ear.lost.wait()
        assert ear.error is None
        (server,) = world.accepted
        await server.lost.wait()
        assert isinstance(server.error, ConnectionResetError)
        assert b"last words".startswith(server.heard)

    for seed in range(20):
        World(seed).run(story)


def test_a_protocol_that_raises_loses_its_connection_and_is_reported() -> None:
    async def story(world: World) -> list[str]:
        seen: list[str] = []
        world.simulation.loop.set_exception_handler(
            lambda _, context: seen.append(repr(context["exception"]))
        )
        ear = await world.connect()
        await asyncio.sleep(1)
        world.accepted[0].has_ended = True  # Hearing anything now fails its own assertion.
        ear.transport.write(b"boom")
        await ear.lost.wait()
        await world.accepted[0].lost.wait()
        return seen

    (error,) = World(1).run(story)
    assert "AssertionError" in error


# Who can be reached.


def test_nobody_there_is_said_at_once() -> None:
    async def story(world: World) -> None:
        with pytest.raises(ConnectionRefusedError, match="nobody listens on port 1 of b"):
            await world.a.connect(Ear, "b", 1)
        with pytest.raises(OSError, match="no host is called 'c'; known: a, b"):
            await world.a.connect(Ear, "c", PORT)
        with pytest.raises(OSError, match="port 9092 of b is in use"):
            await world.listen()
        with pytest.raises(OSError, match="b cannot listen as a"):
            await world.b.listen(Ear, "a", 5)
        server = await world.b.listen(Ear, "localhost", 0)
        _, own = await world.b.connect(Ear, *server.addresses[0])
        own.transport.close()
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await world.b.connect(Ear, *server.addresses[0])

    World(1).run(story)


def test_an_attempt_that_is_given_up_may_have_been_accepted() -> None:
    accepted = 0
    for seed in range(40):
        world = World(seed, Link(latency_seconds=(0.1, 1.0)))

        async def story(world: World) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await world.connect()
            await asyncio.sleep(5)
            for ear in world.accepted:
                assert not ear.lost.is_set() or isinstance(ear.error, ConnectionResetError)

        world.run(story)
        accepted += len(world.accepted)
    assert 0 < accepted < 40


def test_a_black_hole_delays_and_healing_delivers() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        world.network.partition("a", "b")
        ear.transport.write(b"one")
        await asyncio.sleep(60)
        (server,) = world.accepted
        assert server.heard == b""
        ear.transport.write(b"two")
        world.network.heal("a", "b")
        await asyncio.sleep(2)
        assert server.heard == b"onetwo"
        assert not ear.lost.is_set()

    World(1).run(story)


def test_a_sender_gives_up_after_a_while_and_the_receiver_learns_it_when_it_sends() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        world.network.partition("a", "b", both_ways=False)
        ear.transport.write(b"into the void")
        await ear.lost.wait()
        assert isinstance(ear.error, TimeoutError)
        assert 119 < world.simulation.loop.time() < 122
        world.network.heal()
        await asyncio.sleep(1000)
        (server,) = world.accepted
        assert server.heard == b"", "what was given up never comes"
        assert not server.lost.is_set(), "half open: nobody told it"
        server.transport.write(b"hello?")
        await server.lost.wait()
        assert isinstance(server.error, ConnectionResetError)

    World(1).run(story)


def test_connecting_into_a_black_hole_takes_its_time_to_fail() -> None:
    async def story(world: World) -> None:
        world.network.partition("a", "b")
        with pytest.raises(TimeoutError, match="b does not answer"):
            await world.connect()
        assert 127 <= world.simulation.loop.time() < 128
        world.simulation.loop.call_later(5, world.network.heal)
        ear = await world.connect()
        ear.transport.close()

    World(1).run(story)


def test_a_reset_partition_breaks_and_refuses() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        await asyncio.sleep(1)
        world.network.partition("a", "b", how="reset")
        await ear.lost.wait()
        await world.accepted[0].lost.wait()
        assert isinstance(ear.error, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError, match="b refuses"):
            await world.connect()
        world.network.heal("a")
        (await world.connect()).transport.close()

    World(1).run(story)


# What makes a retry dangerous.


def test_a_retry_on_a_new_connection_may_overtake_what_it_repeats() -> None:
    orders = set()
    for seed in range(60):
        world = World(seed, Link(stall_probability=0.3, stall_seconds=(0.5, 3.0)))

        async def story(world: World) -> None:
            first = await world.connect()
            first.transport.write(b"first try")
            await asyncio.sleep(1)  # No answer: give up on this connection, and try on another.
            first.transport.abort()
            second = await world.connect()
            second.transport.write(b"second try")
            await asyncio.sleep(20)

        world.run(story)
        joined = [event.partition(" ")[0] for event in world.story]
        orders.add(tuple(dict.fromkeys(joined)))
    assert {("b0", "b1"), ("b1", "b0")} <= orders, "the server hears both, in either order"


def test_a_reply_may_be_lost_after_its_request_was_delivered() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        await asyncio.sleep(1)
        ear.transport.write(b"append this")
        assert world.network.break_connections("a", "b", how=Break.DELIVERED) == 1
        await ear.lost.wait()
        assert isinstance(ear.error, ConnectionResetError)
        (server,) = world.accepted
        await server.lost.wait()
        delivered.append(bytes(server.heard))
        assert ear.heard == b""

    delivered: list[bytes] = []
    for seed in range(20):
        World(seed, Link(split_probability=0)).run(story)
    assert b"append this" in delivered


def test_a_half_open_end_believes_until_it_sends() -> None:
    async def story(world: World) -> None:
        ear = await world.connect()
        await asyncio.sleep(1)
        ear.transport.write(b"request")
        world.network.break_connections("a", how=Break.HALF_OPEN)
        await ear.lost.wait()
        await asyncio.sleep(10_000)
        (server,) = world.accepted
        assert server.heard == b"request", "it came although its sender is gone"
        assert not server.lost.is_set()
        server.transport.write(b"reply")
        await server.lost.wait()
        assert isinstance(server.error, ConnectionResetError)

    World(1).run(story)


def test_breaking_links_break_in_every_way() -> None:
    outcomes = set()
    for seed in range(100):
        world = World(seed, Link(break_probability=0.5, split_probability=0))

        async def story(world: World) -> None:
            ear = await world.connect()
            ear.transport.write(b"x")
            await asyncio.sleep(5)
            (server,) = world.accepted
            outcomes.add((bool(server.heard), ear.lost.is_set(), server.lost.is_set()))

        world.run(story)
    assert outcomes == {
        (True, False, False),  # It held.
        (False, True, True),  # Lost, and both know.
        (True, True, True),  # Delivered, then broken.
        (True, True, False),  # Delivered, and only the sender knows.
    }


# Hosts that die.


def test_a_killed_process_resets_and_a_dark_host_says_nothing() -> None:
    async def story(world: World) -> None:
        first, second = await world.connect(), await world.connect()
        await asyncio.sleep(1)
        world.network.kill_host("b")
        await first.lost.wait()
        await second.lost.wait()
        assert isinstance(first.error, ConnectionResetError)
        with pytest.raises(ConnectionRefusedError):
            await world.connect()

        await world.listen()
        third = await world.connect()
        world.network.cut_power("b")
        await asyncio.sleep(1000)
        assert not third.lost.is_set(), "silence tells nothing"
        third.transport.write(b"still there?")
        await asyncio.sleep(60)
        assert not third.lost.is_set()
        world.network.power_on("b")
        await third.lost.wait()
        assert isinstance(third.error, ConnectionResetError), (
            "a host that is up again knows of no such connection"
        )

    World(1).run(story)
