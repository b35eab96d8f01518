"""Files leave through real sockets by the kernel, which waits for a slow reader; simulated ones go through memory.

Method: a server that sends ranges of a file to a reading and to a sleeping client over loopback; which way the
bytes went is seen by counting reads of the file.
"""

import asyncio
import ipaddress
import os
import random
import socket
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from semel.runtime.bundle import Runtime
from semel.runtime.files import File, RealFile
from semel.runtime.loop_thread import fastest_loop
from semel.runtime.network import FullSocket, Listening, RealNetwork
from support.net.net_worlds import RawClient, in_reality, in_simulation

CONTENT = random.Random(1).randbytes(4_000_000)


def open_descriptors() -> int:
    """How many this process has, where the system tells."""
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.exists() else 0


class CountedFile(RealFile):
    """A file that counts the bytes read into memory."""

    read_bytes = 0

    def read_at(self, position: int, size: int) -> bytes:
        data = super().read_at(position, size)
        self.read_bytes += len(data)
        return data


class Sender(asyncio.Protocol):
    """Sends the whole file, going on whenever the transport has drained."""

    def __init__(self, runtime: Runtime, file: File) -> None:
        self.runtime = runtime
        self.file = file
        self.position = 0
        self.paused = False
        self.pauses = 0
        self.full: list[FullSocket] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=0)
        self.send()

    def send(self) -> None:
        while self.position < self.file.size() and not self.paused:
            left = self.file.size() - self.position
            sent = self.runtime.network.send_file(
                self.transport, self.file, self.position, left, self.resume_writing
            )
            if isinstance(sent, FullSocket):
                self.full.append(sent)
                self.pause_writing()
                return
            assert 0 < sent <= left
            self.position += sent

    def pause_writing(self) -> None:
        self.paused = True
        self.pauses += 1

    def resume_writing(self) -> None:
        self.paused = False
        self.send()


async def transfer(runtime: Runtime, file: File) -> tuple[bytes, Sender]:
    senders: list[Sender] = []

    def accept() -> Sender:
        senders.append(Sender(runtime, file))
        return senders[-1]

    server = await runtime.network.listen(accept, "127.0.0.1", 0)
    _, client = await runtime.network.connect(RawClient, *server.addresses[0])
    client.transport.pause_reading()
    await asyncio.sleep(0.01)
    client.transport.resume_reading()
    received = await client.take(len(CONTENT))
    client.transport.close()
    server.close()
    return received, senders[0]


def test_the_kernel_sends_real_files_and_waits_where_it_would_block(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(CONTENT)

    async def story(runtime: Runtime) -> None:
        path = str(tmp_path / "f")
        file = CountedFile(path, os.open(path, os.O_RDONLY))
        received, _sender = await transfer(runtime, file)
        assert received == CONTENT
        assert file.read_bytes == 0, "all went by the kernel"
        file.close()

    in_reality(story)


def test_simulated_files_go_through_memory_on_either_network() -> None:
    async def story(runtime: Runtime) -> None:
        file = runtime.files.open("/f", create=True)
        file.write_at(0, CONTENT)
        received, sender = await transfer(runtime, file)
        assert received == CONTENT
        assert sender.pauses > 0

    in_simulation(story)


def test_a_file_that_ends_too_early_is_said(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"short")

    async def story(runtime: Runtime) -> None:
        file = runtime.files.open(str(tmp_path / "f"))
        server = await runtime.network.listen(RawClient, "127.0.0.1", 0)
        transport, _ = await runtime.network.connect(RawClient, *server.addresses[0])
        with pytest.raises(EOFError, match="ends at 5: 10 bytes from 5 cannot be sent"):
            runtime.network.send_file(transport, file, 5, 10, lambda: None)
        transport.close()
        server.close()
        file.close()

    in_reality(story)


def test_a_full_socket_goes_on_when_it_can_and_costs_no_descriptor_when_its_client_leaves(
    tmp_path: Path,
) -> None:
    """Else the socket would stay open, and its client would never hear that the broker is done with it."""
    with (tmp_path / "f").open("wb") as sparse:
        sparse.truncate(1 << 30)  # More than any socket holds.

    async def story(runtime: Runtime) -> None:
        file = runtime.files.open(str(tmp_path / "f"))
        senders: list[Sender] = []

        def accept() -> Sender:
            senders.append(Sender(runtime, file))
            return senders[-1]

        server = await runtime.network.listen(accept, "127.0.0.1", 0)
        before = open_descriptors()
        _, client = await runtime.network.connect(RawClient, *server.addresses[0])
        client.transport.pause_reading()
        while not senders or not senders[0].full:
            await asyncio.sleep(0)
        reached = senders[0].position
        client.transport.resume_reading()
        while senders[0].position == reached:  # The socket takes more, and the sender is told.
            await asyncio.sleep(0)
        client.transport.pause_reading()
        while not senders[0].paused:
            await asyncio.sleep(0)
        senders[0].full[-1].cancel()
        senders[0].full[-1].cancel()
        senders[0].transport.abort()
        client.transport.resume_reading()
        await client.lost.wait()
        assert open_descriptors() <= before
        server.close()
        file.close()

    in_reality(story)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, fastest_loop()])
def test_connections_get_the_buffers_that_were_asked_for(
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """The system doubles what it is asked for, for its own bookkeeping; what was not asked for it tunes."""

    async def sizes(options: Listening) -> tuple[int, int]:
        network = RealNetwork()
        made: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()

        class Accepting(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as copy:
                    send, receive = (
                        copy.getsockopt(socket.SOL_SOCKET, option)
                        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
                    )
                    made.set_result((send, receive))

        server = await network.listen(Accepting, "127.0.0.1", 0, options)
        transport, _protocol = await network.connect(asyncio.Protocol, *server.addresses[0])
        found = await made
        transport.close()
        server.close()
        return found

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        asked = runner.run(sizes(Listening(send_buffer_bytes=20_000, receive_buffer_bytes=30_000)))
        unasked = runner.run(sizes(Listening()))
    assert asked in ((20_000, 30_000), (40_000, 60_000))
    assert unasked != asked


def test_a_host_knows_an_address_others_reach_it_under() -> None:
    address = ipaddress.ip_address(RealNetwork().own_address())
    assert not address.is_unspecified
