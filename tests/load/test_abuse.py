"""Clients that misbehave cost others nothing: who never reads, sends noise, half a frame, one byte at a time, or too much at once.

Method: a real broker process and a bystander who goes on producing and reading beside the abuse; afterwards it must have been served
right and in time, and the broker must hold little more memory than before.
"""

import random
import socket
import threading
from collections.abc import Callable
from functools import partial

import pytest

from semel.bench.abuse_requests import ABUSES, BOMB_BYTES, Abuse
from semel.bench.broker_load import (
    FETCH_VERSION,
    LoadError,
    ProduceFrame,
    Wire,
    fetch_request,
    frame,
    produce_large,
    produced,
    records_of,
)
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.peers.processes import SemelProcess
from support.broker.load_kit import (
    PATIENCE_SECONDS,
    Bystander,
    Memory,
    Peak,
    answered,
    connections,
    open_files,
)

MEGABYTE = 1 << 20
LONGEST_SECONDS = 2.0
"""How long one request may keep another client waiting here, where other tests run beside it: what it may alone is measured by
`semel bench abuse`. Before requests were handled in turns these took from one second to 28."""
CAMPAIGN = pytest.mark.campaign
GONE = {
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
}


@pytest.mark.parametrize("count", [10, pytest.param(200, marks=CAMPAIGN)])
def test_who_never_reads_holds_up_only_themselves(broker: SemelProcess, count: int) -> None:
    with Wire(broker.bootstrap) as wire:
        wire.create_topic(f"unread-{count}")
        records = records_of(1000, batch_bytes=MEGABYTE)
        produce_large(wire, ProduceFrame.of(f"unread-{count}", records), 32, in_flight=5)
    asked = {
        "records": frame(ApiKey.FETCH, fetch_request(f"unread-{count}", 32 * MEGABYTE, 0), FETCH_VERSION, 1),
        "topics": frame(ApiKey.METADATA, MetadataRequest(topics=None), 9, 1),
    }
    memory = Memory(broker)
    clients = connections(broker, count)
    with Bystander(broker.bootstrap, f"beside-unread-{count}"):
        for number, client in enumerate(clients):
            assert _flooded(client.socket, list(asked.values())[number % 2] * 500), (
                "the broker goes on reading"
            )
    assert memory.grown_bytes < count * MEGABYTE + 16 * MEGABYTE
    for client in clients:
        client.socket.close()


def _flooded(connection: socket.socket, data: bytes) -> bool:
    """Send until the other end takes no more for a while; whether it came to that."""
    connection.setblocking(False)
    left, refused = memoryview(data), 0
    for _ in range(100_000):
        try:
            left = left[connection.send(left) :] or memoryview(data)
            refused = 0
        except BlockingIOError:
            refused += 1
            if refused > 20:
                return True
            threading.Event().wait(0.01)
    return False


def test_noise_is_refused_and_costs_nothing(broker: SemelProcess) -> None:
    dice = random.Random(7)
    noises = [
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(200),  # As TLS begins.
        b"\xff\xff\xff\xff" + dice.randbytes(100),
        *(_framed_noise(dice) for _ in range(60)),
    ]
    memory = Memory(broker)
    refused = 0
    with Bystander(broker.bootstrap, "beside-noise"):
        for noise in noises:
            with Wire(broker.bootstrap) as client:
                client.socket.sendall(noise)
                client.socket.shutdown(socket.SHUT_WR)
                try:
                    refused += client.socket.recv(4096) == b""
                except ConnectionResetError:
                    refused += 1
    assert refused >= 3  # What is no frame at all; what reads like one may have been answered.
    assert memory.grown_bytes < 16 * MEGABYTE


def _framed_noise(dice: random.Random) -> bytes:
    """A small length, and bytes behind it that may be fewer or more."""
    return b"\0\0" + dice.randbytes(2) + dice.randbytes(dice.randrange(4, 2000))


@pytest.mark.parametrize("count", [300, pytest.param(2_000, marks=CAMPAIGN)])
def test_half_frames_cost_what_was_sent_not_what_was_announced(broker: SemelProcess, count: int) -> None:
    """Each announces 100 MB: together 30 GB, or 200."""
    memory = Memory(broker)
    with Bystander(broker.bootstrap, f"beside-halves-{count}"), Wire(broker.bootstrap) as wire:
        clients = connections(broker, count)
        for client in clients:
            client.socket.sendall((100 * MEGABYTE).to_bytes(4, "big") + b"0123456789")
        answered(wire)
        assert memory.grown_bytes < 96 * MEGABYTE
        for client in clients:
            client.socket.close()


@pytest.mark.parametrize("count", [100, pytest.param(1_000, marks=CAMPAIGN)])
def test_one_byte_at_a_time_is_waited_for_and_answered(broker: SemelProcess, count: int) -> None:
    request = frame(ApiKey.API_VERSIONS, ApiVersionsRequest(), 2, 7)
    memory = Memory(broker)
    clients = connections(broker, count)
    with Bystander(broker.bootstrap, f"beside-slow-{count}"):
        for position in range(len(request)):
            for client in clients:
                client.socket.sendall(request[position : position + 1])
        for client in clients:
            assert client.receive()[:4] == (7).to_bytes(4, "big")
    assert memory.grown_bytes < 32 * MEGABYTE
    for client in clients:
        client.socket.close()


@pytest.mark.parametrize("rounds", [4, pytest.param(200, marks=CAMPAIGN)])
def test_a_topic_may_be_deleted_under_load(broker: SemelProcess, rounds: int) -> None:
    """Writers and readers of the topic are told that it is gone, and go on when it is back; nothing is left of the old ones."""
    topic, stop = f"doomed-{rounds}", threading.Event()
    stored, failures = [0, 0], list[BaseException]()

    def write(number: int) -> None:
        try:
            with Wire(broker.bootstrap) as wire:
                request = ProduceFrame.of(topic, records_of(1000, count=20), number)
                request.identify(-1)
                while not stop.is_set():
                    wire.socket.sendall(request.data)
                    code = produced(wire.receive()).error_code
                    assert code in GONE, ErrorCode(code).name
                    stored[number] += code == 0
        except BaseException as error:
            failures.append(error)

    def read(number: int) -> None:
        try:
            with Wire(broker.bootstrap) as wire:
                while not stop.is_set():
                    answer = wire.ask(ApiKey.FETCH, fetch_request(topic, MEGABYTE, 0, number), FETCH_VERSION)
                    for part in (part for one in answer.responses for part in one.partitions):
                        assert part.error_code in GONE, ErrorCode(part.error_code).name
        except BaseException as error:
            failures.append(error)

    with Wire(broker.bootstrap) as wire, Bystander(broker.bootstrap, f"beside-doomed-{rounds}"):
        files = open_files(broker)
        memory = Memory(broker)
        wire.create_topic(topic, 2)
        threads = [threading.Thread(target=one, args=(number,)) for one in (write, read) for number in (0, 1)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(rounds):
                before = tuple(stored)
                _until(partial(_have_grown, stored, before), failures)
                wire.delete_topic(topic)
                wire.create_topic(topic, 2)
        finally:
            stop.set()
            for thread in threads:
                thread.join(PATIENCE_SECONDS)
        wire.delete_topic(topic)
        assert failures == []
        # Files of deleted partitions are closed and removed: what is open is what was, but for a few of ours.
        _until(lambda: open_files(broker) <= files + 8, failures)
        _until(lambda: not list(broker.directory.glob(f"data/{topic}-*")), failures)
        assert memory.grown_bytes < 64 * MEGABYTE


def _have_grown(now: list[int], before: tuple[int, ...]) -> bool:
    return all(one > other for one, other in zip(now, before, strict=True))


def _until(is_true: Callable[[], bool], failures: list[BaseException]) -> None:
    deadline = PATIENCE_SECONDS
    while not is_true():
        assert not failures, failures
        assert deadline > 0, "it did not come to that"
        threading.Event().wait(0.02)
        deadline -= 0.02


def test_many_requests_at_once_do_not_keep_others_waiting(broker: SemelProcess) -> None:
    """A thousand dear requests in one write: others get their turn between them."""
    with Wire(broker.bootstrap) as wire:
        wire.create_topic("wide", 300)
        request = frame(ApiKey.METADATA, MetadataRequest(topics=None), 9, 1)
        with Bystander(broker.bootstrap, "beside-many-requests") as beside:
            wire.socket.sendall(request * 1000)
            taken: list[int] = []
            for _ in range(1000):
                wire.receive()
                taken.append(len(beside.disturbed))
        # It was served all along, not behind the last of them.
        assert len(set(taken)) >= 5, taken[-1]


@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.name)
def test_one_request_does_not_stop_the_broker(broker: SemelProcess, abuse: Abuse) -> None:
    """Whatever a request says, others are served beside it, and the memory it takes is bounded."""
    with Wire(broker.bootstrap) as wire:
        wire.socket.settimeout(PATIENCE_SECONDS)
        topic = abuse.prepare(wire)
        frames = abuse.frames(topic)
        memory = Peak(broker)
        with Bystander(broker.bootstrap, f"beside-{topic}") as beside:
            for one in frames:
                wire.socket.sendall(one)
                if abuse.is_answered:
                    assert len(wire.receive()) < 3 * MEGABYTE
                else:
                    with pytest.raises((LoadError, ConnectionError)):
                        wire.receive()
        assert max(beside.disturbed) < LONGEST_SECONDS
        assert memory.grown_bytes < 2 * BOMB_BYTES + 64 * MEGABYTE


def test_long_polls_of_clients_that_are_gone_are_forgotten(broker: SemelProcess) -> None:
    """So many that the broker does not even read from these clients any more: their end is noticed all the same."""
    with Wire(broker.bootstrap) as wire:
        wire.create_topic("awaited-by-nobody")
        poll = frame(
            ApiKey.FETCH,
            fetch_request("awaited-by-nobody", MEGABYTE, 0, max_wait_ms=600_000),
            FETCH_VERSION,
            1,
        )
        files = open_files(broker)
        clients = connections(broker, 50)
        for client in clients:
            client.socket.sendall(poll * 200)
        answered(wire)
        _until(lambda: open_files(broker) >= files + len(clients), [])
        for client in clients:
            client.socket.close()
        _until(lambda: open_files(broker) <= files + 8, [])  # But for a few of the broker's own.
        record = ProduceFrame.of("awaited-by-nobody", records_of(100, count=1))
        record.identify(-1)
        wire.socket.sendall(record.data)
        assert produced(wire.receive()).error_code == 0


def test_a_broker_takes_as_many_files_as_it_may(broker: SemelProcess) -> None:
    assert broker.process is not None
    with open(f"/proc/{broker.process.pid}/limits", encoding="ascii") as limits:
        (line,) = [line for line in limits if line.startswith("Max open files")]
    soft, hard = line.split()[3:5]
    assert soft == hard


def test_the_bystander_notices(broker: SemelProcess) -> None:
    """Who judges others is judged: a broker that answers nobody any more is not found well."""
    beside = Bystander(broker.bootstrap, "beside-nothing")
    beside.__enter__()
    beside._wire.socket.shutdown(socket.SHUT_RDWR)
    _until(lambda: beside._error is not None, [])
    with pytest.raises(AssertionError, match="was not served"):
        beside.__exit__(None)
    assert isinstance(beside._error, (LoadError, OSError))
