"""The listener answers every frame once and in order, whatever its clients do, and no client costs another.

Method: clients that speak bytes (whole, cut anywhere, false, too slow, never reading) against a listener with plain
handlers, each story on this machine's loopback and in a simulation; idle time only in the simulation.
"""

import asyncio
import logging
import random
import time
import tracemalloc
from collections.abc import Awaitable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.errors import ConfigError, UnsupportedVersionError, WireError
from semel.net.inbound import Handler, InboundConnection
from semel.net.listener import Listener, ListenerConfig
from semel.net.reply import FileSlice, Piece, Reply
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import simulated_runtime
from support.net.net_worlds import WORLDS, RawClient, World, frame, in_reality, in_simulation, raw_client

HOST = "127.0.0.1"


def echo(request: bytearray, _: InboundConnection) -> Reply:
    return frame(bytes(request))


async def listening(
    runtime: Runtime, handler: Handler = echo, config: ListenerConfig | None = None
) -> tuple[Listener, tuple[str, int]]:
    listener = Listener(runtime, handler, config)
    return listener, await listener.start(HOST, 0)


# Order.


@WORLDS
def test_frames_are_answered_in_order_however_the_stream_is_cut(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        listener, address = await listening(runtime)
        dice = random.Random(5)
        bodies = [dice.randbytes(dice.choice((0, 1, 3, 100, 20_000, 300_000))) for _ in range(60)]
        stream = b"".join(map(frame, bodies))
        client = await raw_client(runtime, address)
        while stream:
            size = dice.choice((1, 2, 5, 1000, 70_000, 500_000))
            client.transport.write(stream[:size])
            stream = stream[size:]
            if dice.random() < 0.3:
                await asyncio.sleep(0)
        assert [await client.take_frame() for _ in bodies] == bodies
        await listener.close()
        assert client.received == b""
        assert listener.counters.requests == len(bodies)

    world(story)


@WORLDS
def test_replies_keep_the_order_of_requests_when_handlers_do_not(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        gates = [asyncio.Event() for _ in range(20)]
        finished: list[int] = []

        def handler(request: bytearray, _: InboundConnection) -> Reply | Awaitable[Reply]:
            number = request[0]
            if number % 5 == 0:
                return frame(bytes([number]))  # Some are answered at once.
            return wait(number)

        async def wait(number: int) -> Reply:
            await gates[number].wait()
            finished.append(number)
            return None if number % 7 == 0 else frame(bytes([number]))  # Some get no reply at all.

        listener, address = await listening(runtime, handler)
        client = await raw_client(runtime, address)
        client.transport.writelines([frame(bytes([number])) for number in range(20)])
        while listener.counters.requests < 20:
            await asyncio.sleep(0)
        for gate in reversed(gates):
            gate.set()
            await asyncio.sleep(0)
        expected = [number for number in range(20) if number % 5 == 0 or number % 7]
        assert [(await client.take_frame())[0] for _ in expected] == expected
        assert finished[0] == 19
        await listener.close()

    world(story)


class RecordingTransport(asyncio.Transport):
    """A transport that only remembers."""

    def __init__(self) -> None:
        super().__init__({"peername": ("10.0.0.1", 5000)})
        self.writes: list[bytes] = []
        self.reading = True
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))

    def writelines(self, list_of_data: object) -> None:
        assert hasattr(list_of_data, "__iter__")
        self.writes.append(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        assert low == 0, "sendfile needs an empty buffer, so resuming must mean empty"

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True


def receive(connection: InboundConnection, data: bytes) -> None:
    while data:
        buffer = memoryview(connection.get_buffer(-1))
        size = min(len(buffer), len(data))
        buffer[:size] = data[:size]
        data = data[size:]
        connection.buffer_updated(size)


def test_replies_that_are_ready_together_leave_in_one_write() -> None:
    async def story(runtime: Runtime) -> None:
        go = asyncio.Event()

        async def wait(number: int) -> Reply:
            await go.wait()
            return frame(bytes([number]))

        connection = InboundConnection(Listener(runtime, lambda request, _: wait(request[0])))
        transport = RecordingTransport()
        connection.connection_made(transport)
        receive(connection, b"".join(frame(bytes([number])) for number in range(10)))
        go.set()
        await asyncio.sleep(0.1)
        assert transport.writes == [b"".join(frame(bytes([number])) for number in range(10))]

        at_once = InboundConnection(Listener(runtime, echo))
        at_once.connection_made(transport)
        transport.writes.clear()
        receive(at_once, frame(b"a") + frame(b"b") + frame(b"c"))
        assert transport.writes == [frame(b"a") + frame(b"b") + frame(b"c")], "without a turn of the loop"

    in_simulation(story)


# Back pressure.


def test_reading_stops_at_the_bounds_and_goes_on_below_them() -> None:
    async def story(runtime: Runtime) -> None:
        gates: list[asyncio.Event] = []

        async def wait() -> Reply:
            gate = asyncio.Event()
            gates.append(gate)
            await gate.wait()
            return b""

        config = ListenerConfig(in_flight_max=3, in_flight_bytes_max=1000)
        connection = InboundConnection(Listener(runtime, lambda *_: wait(), config))
        transport = RecordingTransport()
        connection.connection_made(transport)
        receive(connection, frame(b"x") * 5)
        await asyncio.sleep(0.1)
        assert (len(gates), transport.reading) == (3, False)
        gates[0].set()
        await asyncio.sleep(0.1)
        assert (len(gates), transport.reading) == (4, False)
        for gate in gates:
            gate.set()
        await asyncio.sleep(0.1)
        gates[-1].set()
        await asyncio.sleep(0.1)
        assert (len(gates), transport.reading) == (5, True)
        receive(connection, frame(b"y" * 1000))
        await asyncio.sleep(0.1)
        assert not transport.reading, "one request above the bound of bytes is handled, and no other"

        connection.pause_writing()
        gates[-1].set()
        await asyncio.sleep(0.1)
        assert not transport.reading, "who does not read gets no more requests handled"
        connection.resume_writing()
        assert transport.reading

    in_simulation(story)


@WORLDS
def test_a_client_that_does_not_read_stops_only_itself(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        reply = bytes(64 * 1024)
        listener, address = await listening(runtime, lambda *_: frame(reply))
        slow, quick = await raw_client(runtime, address), await raw_client(runtime, address)
        slow.transport.pause_reading()
        count = 2000  # 128 MB of replies, if it read them.
        slow.transport.write(frame(b"") * count)
        handled = -1
        while handled != listener.counters.requests:
            handled = listener.counters.requests
            for _ in range(3):
                quick.transport.write(frame(b""))
                assert len(await quick.take_frame()) == len(reply)
                handled += 1
        assert 0 < handled < count, "memory is bounded: it was not asked for replies it does not take"
        slow.transport.resume_reading()
        for _ in range(count):
            assert len(await slow.take_frame()) == len(reply)
        await listener.close()

    world(story)


# Clients that say what they should not.


@WORLDS
@pytest.mark.parametrize(
    ("size", "message"),
    [
        (1001, "1001 bytes, socket.request.max.bytes allows 1000"),
        (-1, "-1 bytes"),
        (2**31 - 1, "2147483647 bytes"),
    ],
)
def test_a_false_length_closes_the_connection_with_one_line(
    world: World, size: int, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(runtime: Runtime) -> None:
        listener, address = await listening(runtime, config=ListenerConfig(request_max_bytes=1000))
        client = await raw_client(runtime, address)
        client.transport.write(frame(bytes(1000)))
        assert len(await client.take_frame()) == 1000
        client.transport.write(size.to_bytes(4, "big", signed=True))
        await client.lost.wait()
        assert listener.counters.requests == 1
        assert listener.connections == []
        await listener.close()
        peer = client.transport.get_extra_info("sockname")
        (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
        assert message in line
        assert f"{peer[0]}:{peer[1]}" in line

    world(story)


def test_who_asks_much_at_once_lets_others_have_their_turn() -> None:
    """A thousand requests in one piece, each a while of work: another client is answered long before the last of them."""

    async def story(runtime: Runtime) -> None:
        handled: list[bytes] = []

        def handler(request: bytearray, _: InboundConnection) -> Reply:
            time.sleep(0.001)
            handled.append(bytes(request))
            return frame(b"done")

        listener, address = await listening(runtime, handler)
        greedy, modest = await raw_client(runtime, address), await raw_client(runtime, address)
        greedy.transport.write(frame(b"much") * 1000)
        modest.transport.write(frame(b"little"))
        await modest.take_frame()
        assert handled.count(b"much") < 500
        assert [await greedy.take_frame() for _ in range(1000)] == [b"done"] * 1000
        assert handled.count(b"much") == 1000
        await listener.close()

    in_reality(story)


def test_announcing_much_costs_little() -> None:
    async def story(runtime: Runtime) -> int:
        listener, address = await listening(runtime)
        clients = [await raw_client(runtime, address) for _ in range(20)]
        tracemalloc.start()
        for client in clients:
            client.transport.write((100 << 20).to_bytes(4, "big") + b"0123456789")
        await asyncio.sleep(1)
        assert [connection._reader.pending_bytes for connection in listener.connections] == [14] * 20
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for client in clients:
            client.transport.abort()
        await listener.close()
        return peak

    assert in_simulation(story) < 30 << 20  # 2 GB were announced.


@WORLDS
def test_a_stream_that_ends_inside_a_frame_is_noted_and_forgotten(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(runtime: Runtime) -> None:
        listener, address = await listening(runtime)
        client = await raw_client(runtime, address)
        client.transport.write(frame(b"whole") + (100).to_bytes(4, "big") + b"half")
        client.transport.write_eof()
        assert await client.take_frame() == b"whole"
        await client.lost.wait()
        assert listener.connections == []
        await listener.close()

    with caplog.at_level(logging.DEBUG):
        world(story)
    assert any("closed inside a frame, 8 bytes" in record.getMessage() for record in caplog.records)


@WORLDS
def test_a_client_that_closes_its_half_gets_the_replies_it_is_owed(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        go = asyncio.Event()

        async def wait(request: bytearray) -> Reply:
            await go.wait()
            return frame(bytes(request))

        listener, address = await listening(runtime, lambda request, _: wait(request))
        client = await raw_client(runtime, address)
        client.transport.write(frame(b"one") + frame(b"two"))
        client.transport.write_eof()
        while listener.counters.requests < 2:
            await asyncio.sleep(0)
        go.set()
        assert [await client.take_frame(), await client.take_frame()] == [b"one", b"two"]
        await client.lost.wait()
        await listener.close()

    world(story)


@WORLDS
@pytest.mark.parametrize("later", [False, True])
def test_a_handler_that_fails_closes_only_its_connection(
    world: World, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(runtime: Runtime) -> None:
        def fail(request: bytearray) -> Reply:
            if request == b"bad":
                raise WireError("this is not a request")
            if request == b"odd":
                raise UnsupportedVersionError("nobody knows this API")
            if request == b"bug":
                raise ZeroDivisionError("a bug of ours")
            return frame(bytes(request))

        async def fail_later(request: bytearray) -> Reply:
            await asyncio.sleep(0)
            return fail(request)

        listener, address = await listening(
            runtime, lambda request, _: fail_later(request) if later else fail(request)
        )
        innocent = await raw_client(runtime, address)
        for word in (b"bad", b"odd", b"bug"):
            client = await raw_client(runtime, address)
            client.transport.write(frame(b"before") + frame(word) + frame(b"after"))
            assert await client.take_frame() == b"before", "earlier requests are answered"
            await client.lost.wait()
            assert client.received == b"", "later ones are not"
        innocent.transport.write(frame(b"well"))
        assert await innocent.take_frame() == b"well"
        await listener.close()

    world(story)
    bad, odd, bug = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert "this is not a request" in bad.getMessage()
    assert "nobody knows this API" in odd.getMessage()
    assert (bad.exc_info, odd.exc_info) == (None, None), "it is the client's mistake, and a line says all"
    assert bug.exc_info is not None
    assert isinstance(bug.exc_info[1], ZeroDivisionError)


noise = st.lists(
    st.one_of(
        st.binary(max_size=40),
        st.binary(max_size=300).map(frame),
        st.integers(-(2**31), 2**31 - 1).map(lambda size: size.to_bytes(4, "big", signed=True)),
    ),
    max_size=12,
)


async def shout(runtime: Runtime, pieces: list[bytes], seed: int) -> None:
    """Say anything, cut anywhere, and leave in any way; a well-behaved client beside it must not notice."""
    dice = random.Random(seed)
    listener, address = await listening(runtime, config=ListenerConfig(request_max_bytes=5000))
    good, bad = await raw_client(runtime, address), await raw_client(runtime, address)
    stream = b"".join(pieces)
    while stream and not bad.lost.is_set():
        size = dice.choice((1, 3, 17, 4096))
        bad.transport.write(stream[:size])
        stream = stream[size:]
        good.transport.write(frame(b"ping"))
        assert await good.take_frame() == b"ping"
    (bad.transport.abort if dice.random() < 0.5 else bad.transport.close)()
    await bad.lost.wait()
    await listener.close()
    assert listener.connections == []
    answered = bytes(bad.received)
    assert b"".join(pieces).startswith(answered), "what came back is what was sent, frame by frame, in order"


@settings(max_examples=150)
@given(pieces=noise, seed=st.integers(0, 2**32))
def test_noise_is_answered_or_refused_never_a_crash(pieces: list[bytes], seed: int) -> None:
    logging.disable(logging.CRITICAL)
    try:
        in_simulation(lambda runtime: shout(runtime, pieces, seed), seed=seed)
    finally:
        logging.disable(logging.NOTSET)


@settings(max_examples=15)
@given(pieces=noise, seed=st.integers(0, 2**32))
def test_noise_over_real_sockets_as_well(pieces: list[bytes], seed: int) -> None:
    logging.disable(logging.CRITICAL)
    try:
        in_reality(lambda runtime: shout(runtime, pieces, seed))
    finally:
        logging.disable(logging.NOTSET)


# Limits and the end.


@WORLDS
def test_who_comes_beyond_the_limit_is_turned_away(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def story(runtime: Runtime) -> None:
        listener, address = await listening(runtime, config=ListenerConfig(connections_max=2))
        clients = [await raw_client(runtime, address) for _ in range(2)]
        for client in clients:
            client.transport.write(frame(b"hello"))
            assert await client.take_frame() == b"hello"
        third = await raw_client(runtime, address)
        await third.lost.wait()
        assert listener.counters.turned_away == 1
        clients[0].transport.close()
        while len(listener.connections) == 2:
            await asyncio.sleep(0)
        fourth = await raw_client(runtime, address)
        fourth.transport.write(frame(b"now"))
        assert await fourth.take_frame() == b"now"
        await listener.close()

    world(story)
    assert any("max.connections allows 2" in record.getMessage() for record in caplog.records)


@WORLDS
def test_an_address_has_a_limit_of_its_own_and_limits_change(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(runtime: Runtime) -> None:
        listener, address = await listening(runtime, config=ListenerConfig(connections_per_ip_max=1))
        first = await raw_client(runtime, address)
        first.transport.write(frame(b"hello"))
        assert await first.take_frame() == b"hello"
        second = await raw_client(runtime, address)
        await second.lost.wait()
        [connection] = listener.connections
        here = connection.peer.rpartition(":")[0]
        listener.config = ListenerConfig(
            connections_per_ip_max=1, connections_per_ip_overrides={here: 2, "192.0.2.7": 0}
        )
        third = await raw_client(runtime, address)
        third.transport.write(frame(b"now"))
        assert await third.take_frame() == b"now"
        first.transport.close()
        third.transport.close()
        while listener.connections:
            await asyncio.sleep(0)
        listener.config = ListenerConfig(connections_max=0)
        await (await raw_client(runtime, address)).lost.wait()
        assert listener.counters.turned_away == 2
        await listener.close()

    world(story)
    assert any("max.connections.per.ip allows 1" in record.getMessage() for record in caplog.records)


def test_idle_connections_are_closed_and_busy_ones_are_not() -> None:
    simulation, runtime = simulated_runtime(3)

    async def long_poll(request: bytearray) -> Reply:
        await asyncio.sleep(1000)
        return frame(bytes(request))

    async def drip(client: RawClient) -> None:
        for byte in frame(b"slowly"):
            client.transport.write(bytes([byte]))
            await asyncio.sleep(45)

    async def story() -> None:
        listener, address = await listening(
            runtime,
            lambda request, _: long_poll(request) if request == b"poll" else echo(request, _),
            ListenerConfig(idle_max_ms=60_000),
        )
        idle, half, poll, slow = [await raw_client(runtime, address) for _ in range(4)]
        half.transport.write(frame(b"never completed")[:-1])
        poll.transport.write(frame(b"poll"))
        dripping = asyncio.create_task(drip(slow))
        started = simulation.loop.time()
        for client in (idle, half):
            await client.lost.wait()
            assert 59 < simulation.loop.time() - started < 90
        await dripping
        assert await slow.take_frame() == b"slowly"
        assert listener.counters.idle_closed == 2
        assert await poll.take_frame() == b"poll"
        answered = simulation.loop.time()
        await poll.lost.wait()
        assert 59 < simulation.loop.time() - answered < 90, "a long poll counts from its answer"
        await listener.close()

    simulation.run(story())


def test_a_client_that_never_takes_its_replies_is_closed_as_idle() -> None:
    simulation, runtime = simulated_runtime(4)

    async def story() -> None:
        config = ListenerConfig(idle_max_ms=60_000)
        listener, address = await listening(runtime, lambda *_: frame(bytes(1 << 20)), config)
        client = await raw_client(runtime, address)
        client.transport.pause_reading()
        client.transport.write(frame(b"") * 3)
        await asyncio.sleep(100)
        assert listener.connections == []
        await listener.close()

    simulation.run(story())


@WORLDS
def test_closing_lets_requests_finish_within_the_grace(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        go = asyncio.Event()
        gone: list[str] = []

        async def wait(request: bytearray) -> Reply:
            await go.wait()
            return frame(bytes(request))

        def handler(request: bytearray, connection: InboundConnection) -> Awaitable[Reply]:
            connection.on_end(lambda: gone.append(bytes(request).decode()))
            return wait(request)

        listener, address = await listening(runtime, handler)
        client, never = await raw_client(runtime, address), await raw_client(runtime, address)
        client.transport.write(frame(b"soon"))
        while listener.counters.requests < 1:
            await asyncio.sleep(0)
        closing = asyncio.create_task(listener.close())
        await asyncio.sleep(0)
        go.set()
        assert await client.take_frame() == b"soon"
        await closing
        await never.lost.wait()
        with pytest.raises(OSError, match=r"."):
            await raw_client(runtime, address)

        go.clear()
        second, address = await listening(runtime, handler)
        client = await raw_client(runtime, address)
        client.transport.write(frame(b"never"))
        while second.counters.requests < 1:
            await asyncio.sleep(0)
        await second.close(grace_seconds=0.01)
        await client.lost.wait()
        assert client.received == b""
        assert gone == ["soon", "never"]
        go.set()

    world(story)


def test_a_setting_that_cannot_be_is_refused() -> None:
    with pytest.raises(ConfigError, match="in_flight_max is 0"):
        ListenerConfig(in_flight_max=0)
    with pytest.raises(ConfigError, match="connections_max is -1"):
        ListenerConfig(connections_max=-1)


# Files.


@WORLDS
def test_ranges_of_files_are_sent_between_buffers(world: World, tmp_path: Path) -> None:
    content = random.Random(9).randbytes(3_000_000)

    async def story(runtime: Runtime) -> None:
        path = "/segment" if world is in_simulation else str(tmp_path / "segment")
        file = runtime.files.open(path, create=True)
        file.write_at(0, content)

        def handler(request: bytearray, _: InboundConnection) -> Reply:
            position, size = int(request[:4].hex(), 16), int(request[4:].hex(), 16)
            pieces: list[Piece] = [
                (size + 6).to_bytes(4, "big"),
                b"<",
                FileSlice(file, position, size),
                b"-",
                FileSlice(file, 0, 3),
                b">",
            ]
            assert sum(map(len, pieces)) == 4 + size + 6
            return pieces

        listener, address = await listening(runtime, handler)
        client = await raw_client(runtime, address)
        dice = random.Random(2)
        asked = [(dice.randrange(1_000_000), dice.choice((0, 1, 70_000, 2_000_000))) for _ in range(30)]
        client.transport.pause_reading()
        for position, size in asked:
            client.transport.write(frame(position.to_bytes(4, "big") + size.to_bytes(4, "big")))
        await asyncio.sleep(0.01)
        client.transport.resume_reading()
        for position, size in asked:
            assert (
                await client.take_frame()
                == b"<" + content[position : position + size] + b"-" + content[:3] + b">"
            )
        await listener.close()
        file.close()

    world(story)


@WORLDS
def test_a_file_that_is_shorter_than_promised_ends_the_connection(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(runtime: Runtime) -> None:
        file = runtime.files.open("/f" if world is in_simulation else str(tmp_path / "f"), create=True)
        file.write_at(0, b"short")
        listener, address = await listening(runtime, lambda *_: [b"\0\0\0\x0a", FileSlice(file, 0, 10)])
        client = await raw_client(runtime, address)
        client.transport.write(frame(b""))
        await client.lost.wait()
        await listener.close()
        file.close()

    world(story)
    assert any("cannot be read from disk" in record.getMessage() for record in caplog.records)
