"""The metrics' port answers scrapers and nobody else, and whatever is done to it the broker goes on.

Method: a listener with a page of its own in a simulation and on loopback, and clients of bytes that do what no honest scraper
would; then a real broker with many partitions, whose clients must not wait for a page that is being written.
"""

import asyncio

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.metrics import listener as metrics_listener
from semel.broker.metrics.listener import CONNECTIONS_MAX, HEAD_BYTES_MAX, MetricsListener, address_of
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.errors import ConfigError
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import simulated_runtime
from support.broker.metrics_kit import METRICS_PORT, Watched, watched
from support.net.net_worlds import WORLDS, RawClient, World, in_simulation, raw_client

PAGE = b"semel_build_info 1\n"


async def _page() -> bytes:
    return PAGE


async def _asked(runtime: Runtime, address: tuple[str, int], request: bytes) -> tuple[str, bytes]:
    """The first line of the answer, and its body."""
    client = await raw_client(runtime, address)
    client.transport.write(request)
    await client.lost.wait()
    head, _, body = bytes(client.received).partition(b"\r\n\r\n")
    return head.partition(b"\r\n")[0].decode(), body


@WORLDS
def test_only_get_metrics_is_answered_with_the_page(world: World) -> None:
    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, _page)
        address = await listener.start("127.0.0.1", 0)
        assert address[1] > 0
        for request, expected in (
            (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", ("HTTP/1.1 200 OK", PAGE)),
            (b"GET /metrics?name=x HTTP/1.0\r\n\r\n", ("HTTP/1.1 200 OK", PAGE)),
            (b"GET / HTTP/1.1\r\n\r\n", ("HTTP/1.1 404 Not Found", b"here are /metrics\n")),
            (
                b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                ("HTTP/1.1 405 Method Not Allowed", b"only GET and HEAD are answered\n"),
            ),
            (b"\x16\x03\x01 nonsense\r\n\r\n", ("HTTP/1.1 400 Bad Request", b"this is no HTTP request\n")),
            (
                b"GET /metrics HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES_MAX,
                ("HTTP/1.1 431 Request Header Fields Too Large", b"the request's head is too long\n"),
            ),
        ):
            assert await _asked(runtime, address, request) == expected, request[:30]
        listener.close()

    world(story)


def test_a_page_that_fails_is_an_answer_and_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def broken() -> bytes:
        raise ZeroDivisionError

    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, broken)
        address = await listener.start("127.0.0.1", 80)
        for _ in range(2):
            status, _body = await _asked(runtime, address, b"GET /metrics HTTP/1.1\r\n\r\n")
            assert status == "HTTP/1.1 500 Internal Server Error"
        listener.close()

    in_simulation(story)
    assert caplog.text.count("the metrics could not be written") == 2


HALF = b"GET /metrics HTTP/1.1\r\nHost: x\r\n"
SCRAPE = b"GET /metrics HTTP/1.1\r\n\r\n"
ANSWERED = ("HTTP/1.1 200 OK", PAGE)


@pytest.mark.parametrize("said", [b"", b"G", HALF], ids=["nothing", "one byte", "half a request"])
@WORLDS
def test_many_connections_that_do_not_ask_starve_no_scraper(world: World, said: bytes) -> None:
    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, _page)
        address = await listener.start("127.0.0.1", 0)
        idle: list[RawClient] = []
        for count in (40, 3 * CONNECTIONS_MAX):
            while len(idle) < count:
                idle.append(await raw_client(runtime, address))
                idle[-1].transport.write(said)
            for _ in range(3):
                assert await _asked(runtime, address, SCRAPE) == ANSWERED, count
        assert idle[0].lost.is_set(), "the oldest made room"
        assert not idle[-1].lost.is_set()
        assert sum(not one.lost.is_set() for one in idle) <= CONNECTIONS_MAX
        idle[-1].transport.write(SCRAPE[len(said) :] if said == b"G" else b"\r\n" if said else SCRAPE)
        await idle[-1].lost.wait()
        assert bytes(idle[-1].received).endswith(PAGE), "a late request is one all the same"
        listener.close()

    world(story)


def test_drops_of_a_request_do_not_keep_a_connection_open() -> None:
    """Each drop restarts no clock: a head is whole within `HEAD_SECONDS` of the connection's first moment."""

    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, _page)
        address = await listener.start("127.0.0.1", 80)
        began = runtime.clock.monotonic()
        slow = [await raw_client(runtime, address) for _ in range(40)]
        for drop in HALF * 100:
            for one in slow:
                one.transport.write(bytes([drop]))
            await runtime.tasks.sleep(0.5)
            if all(one.lost.is_set() for one in slow):
                break
        waited = runtime.clock.monotonic() - began
        assert metrics_listener.HEAD_SECONDS <= waited < metrics_listener.HEAD_SECONDS + 2
        listener.close()

    in_simulation(story)


def test_the_client_with_most_connections_gives_way_and_the_log_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    simulation, _ = simulated_runtime(1)
    runtime, crowd, quiet = (simulation.host(name).boot() for name in ("broker", "crowd", "quiet"))

    async def story() -> None:
        listener = MetricsListener(runtime, _page)
        address = await listener.start("broker", 80)
        patient = await raw_client(quiet, address)
        for _ in range(3 * CONNECTIONS_MAX):
            await raw_client(crowd, address)
        await runtime.tasks.sleep(1)
        assert not patient.lost.is_set(), "the oldest of all, but the only one of its address"
        patient.transport.write(SCRAPE)
        await patient.lost.wait()
        assert bytes(patient.received).endswith(PAGE)
        listener.close()

    simulation.run(story())
    assert [one.getMessage() for one in caplog.records] == [
        f"{CONNECTIONS_MAX} connections to the metrics are open: closed 1 of them since the last such line, last one of crowd (idle)"
    ]


@WORLDS
def test_scrapers_that_do_not_read_their_answer_make_room(world: World) -> None:
    page = b"x" * (8 << 20)  # More than sockets hold.

    async def long_page() -> bytes:
        return page

    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, long_page)
        address = await listener.start("127.0.0.1", 0)
        unread: list[RawClient] = []
        for _ in range(CONNECTIONS_MAX):
            unread.append(await raw_client(runtime, address))
            unread[-1].transport.pause_reading()
            unread[-1].transport.write(SCRAPE)
        status, body = await _asked(runtime, address, SCRAPE)
        assert (status, len(body)) == ("HTTP/1.1 200 OK", len(page))
        for one in unread:
            one.transport.abort()
        listener.close()

    world(story)


def test_scrapers_that_wait_together_share_a_page_and_keep_their_place() -> None:
    async def story(runtime: Runtime) -> None:
        written = 0
        go_on = asyncio.Event()

        async def slow_page() -> bytes:
            nonlocal written
            written += 1
            await go_on.wait()
            return PAGE

        listener = MetricsListener(runtime, slow_page)
        address = await listener.start("127.0.0.1", 80)
        waiting = [asyncio.create_task(_asked(runtime, address, SCRAPE)) for _ in range(CONNECTIONS_MAX - 1)]
        await runtime.tasks.sleep(1)
        for _ in range(CONNECTIONS_MAX):
            await raw_client(runtime, address)
        await runtime.tasks.sleep(1)
        go_on.set()
        assert await asyncio.gather(*waiting) == [ANSWERED] * len(waiting)
        assert written <= 2, "the page of the first, and one of all who came while it was written"
        listener.close()

    in_simulation(story)


def test_clients_have_their_turn_while_a_long_page_is_written() -> None:
    """The page of 500 partitions takes many turns of the loop: requests that come meanwhile are answered in between."""

    async def story(client: Watched) -> None:
        await client.create("wide", partitions=500)
        other = await client.another()
        page = asyncio.create_task(client.page())
        answered = 0
        while not page.done():
            await other.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 4)
            answered += 1
        assert answered > 1
        assert len((await page)["kafka_log_log_size"]) == 500

    watched(story)


def test_a_broker_that_cannot_have_the_port_says_which_and_leaves_its_data_clean() -> None:
    async def story(runtime: Runtime) -> None:
        taken = MetricsListener(runtime, _page)
        await taken.start("127.0.0.1", METRICS_PORT)
        config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data"})
        broker = Broker(config, runtime, metrics=("127.0.0.1", METRICS_PORT))
        with pytest.raises(ConfigError, match=rf"cannot serve metrics on 127\.0\.0\.1:{METRICS_PORT}: "):
            await broker.start()
        taken.close()
        again = Broker(config, runtime, metrics=("127.0.0.1", METRICS_PORT))
        await again.start()
        assert again.metrics_url is not None
        await again.stop()
        with pytest.raises(OSError):  # noqa: PT011  # The network's own words: nobody listens any more.
            await raw_client(runtime, ("127.0.0.1", METRICS_PORT))

    in_simulation(story)


@pytest.mark.parametrize(
    "text", ["9404", "localhost", "localhost:http", "localhost:65536", "::1:9404", "[::1]"]
)
def test_an_address_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        address_of(text)


def test_addresses() -> None:
    assert address_of("[::1]:9404") == ("::1", 9404)
    assert address_of("0.0.0.0:0") == ("0.0.0.0", 0)


def test_a_broker_shows_no_metrics_unless_it_is_told_to() -> None:
    async def story(runtime: Runtime) -> None:
        config = BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:9092", "log.dirs": "data"})
        broker = Broker(config, runtime)
        await broker.start()
        assert broker.metrics_url is None
        await broker.stop()

    in_simulation(story)
