"""The metrics' port answers scrapers and nobody else, and whatever is done to it the broker goes on.

Method: a listener with a page of its own in a simulation and on loopback, and clients of bytes that do what no honest scraper
would; then a real broker with many partitions, whose clients must not wait for a page that is being written.
"""

import asyncio

import pytest

from metrics_kit import METRICS_PORT, Watched, watched
from net_worlds import WORLDS, World, in_simulation, raw_client
from semel.broker import metrics_listener
from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.metrics_listener import CONNECTIONS_MAX, HEAD_BYTES_MAX, MetricsListener, address_of
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.errors import ConfigError
from semel.runtime.bundle import Runtime

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
            (b"GET / HTTP/1.1\r\n\r\n", ("HTTP/1.1 404 Not Found", b"metrics are at /metrics\n")),
            (
                b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
                ("HTTP/1.1 405 Method Not Allowed", b"only GET is answered\n"),
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


def test_scrapers_that_say_nothing_are_few_and_do_not_stay(caplog: pytest.LogCaptureFixture) -> None:
    async def story(runtime: Runtime) -> None:
        listener = MetricsListener(runtime, _page)
        address = await listener.start("127.0.0.1", 80)
        silent = [await raw_client(runtime, address) for _ in range(CONNECTIONS_MAX)]
        await runtime.tasks.sleep(1)
        status, _body = await _asked(runtime, address, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert status == "", "one too many"
        await runtime.tasks.sleep(metrics_listener.LIFE_SECONDS + 1)
        assert all(one.lost.is_set() for one in silent)
        status, body = await _asked(runtime, address, b"GET /metrics HTTP/1.1\r\n\r\n")
        assert (status, body) == ("HTTP/1.1 200 OK", PAGE)
        listener.close()

    in_simulation(story)
    assert "turning a scraper away" in caplog.text


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
