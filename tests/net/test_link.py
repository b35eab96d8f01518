"""A link is opened in order, speaks versions that both ends know, and names its broker in every error.

Method: `open_link` without a client around it, as one broker calls another: against a broker played by a function, in a
simulation. Logins through the client, and their lifetimes: tests/client/test_login.py.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from semel.core.security.login import Login
from semel.core.wire import registry
from semel.core.wire.api_versions import ServedApi
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import MetadataRequest, MetadataResponse
from semel.core.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from semel.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.core.wire.registry import ApiKey
from semel.errors import (
    DisconnectedError,
    ErrorCode,
    RefusedError,
    UnsupportedVersionError,
)
from semel.net.link import Link, open_link
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.types import Address
from support.broker.fake_broker import FakeBroker, metadata
from support.net.net_worlds import in_simulation

WHERE = Address("127.0.0.1", 9092)
NEWEST = registry.api(ApiKey.METADATA).last


@dataclass(frozen=True)
class Config:
    """Of a broker that calls another."""

    client_id: str = "broker-2"
    request_timeout_ms: int = 1000
    socket_connection_setup_timeout_ms: int = 1000
    response_max_bytes: int = 1 << 20
    security: Security = PLAINTEXT


CONFIG = Config()


def linked(broker: FakeBroker, story: Callable[[Link], Awaitable[None]], config: Config = CONFIG) -> None:
    async def run(runtime: Runtime) -> None:
        listener = await broker.listen(runtime)
        link = await open_link(runtime, WHERE, config)
        try:
            await story(link)
        finally:
            link.close()
            await listener.close()

    in_simulation(run)


def served(first: int, last: int) -> FakeBroker:
    return FakeBroker(lambda _request: metadata(), (ServedApi(ApiKey.METADATA, first, last),))


@pytest.mark.parametrize(
    ("theirs", "version_max", "expected"),
    [
        ((0, NEWEST), None, NEWEST),
        ((0, NEWEST + 5), None, NEWEST),
        ((2, 9), None, 9),
        ((2, 9), 7, 7),
        ((2, 9), 12, 9),
        ((2, 9), NEWEST + 5, 9),
        ((9, 9), 9, 9),
    ],
)
def test_the_newest_version_both_ends_know_is_spoken(
    theirs: tuple[int, int], version_max: int | None, expected: int
) -> None:
    broker = served(*theirs)

    async def story(link: Link) -> None:
        assert link.version(ApiKey.METADATA, version_max) == expected
        answer = await link.send(MetadataRequest(topics=[]), version_max=version_max, timeout_ms=1000)
        assert isinstance(answer, MetadataResponse)

    linked(broker, story)
    assert broker.versions[-1] == (ApiKey.METADATA, expected)


@pytest.mark.parametrize(
    ("theirs", "version_max"), [((NEWEST + 1, NEWEST + 5), None), ((5, 9), 4), ((3, 2), None)]
)
def test_without_a_common_version_nothing_is_sent(theirs: tuple[int, int], version_max: int | None) -> None:
    broker = served(*theirs)

    async def story(link: Link) -> None:
        with pytest.raises(
            UnsupportedVersionError, match=rf"{WHERE} serves Metadata in versions {theirs[0]} to {theirs[1]}"
        ):
            await link.send(MetadataRequest(topics=[]), version_max=version_max, timeout_ms=1000)

    linked(broker, story)
    assert broker.asked == []


def test_an_api_that_is_not_served_names_the_broker() -> None:
    async def story(link: Link) -> None:
        with pytest.raises(UnsupportedVersionError, match=rf"{WHERE} does not serve Heartbeat"):
            link.version(ApiKey.HEARTBEAT)

    linked(served(0, 9), story)


def test_a_broker_that_goes_away_is_named() -> None:
    async def run(runtime: Runtime) -> None:
        broker = FakeBroker(lambda _request: metadata())
        listener = await broker.listen(runtime)
        link = await open_link(runtime, WHERE, CONFIG)
        await listener.close()
        with pytest.raises(DisconnectedError, match=str(WHERE)):
            await link.send(MetadataRequest(topics=[]), timeout_ms=1000)
        assert not link.is_open

    in_simulation(run)


def test_nobody_listens() -> None:
    async def run(runtime: Runtime) -> None:
        with pytest.raises(DisconnectedError, match=f"{WHERE}: no connection"):
            await open_link(runtime, WHERE, CONFIG)

    in_simulation(run)


def logging_in(answer: Callable[[Request[Any]], Response | None]) -> tuple[FakeBroker, Config]:
    login = Login("PLAIN", "broker-2", "secret")
    return FakeBroker(answer), Config(security=Security(login=login))


@pytest.mark.parametrize(("lifetime_ms", "stale_after_ms"), [(0, None), (10_000, 8500)])
def test_a_login_is_stale_before_the_broker_forgets_it(lifetime_ms: int, stale_after_ms: int | None) -> None:
    def answer(request: Request[Any]) -> Response:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms)

    broker, config = logging_in(answer)

    async def run(runtime: Runtime) -> None:
        listener = await broker.listen(runtime)
        link = await open_link(runtime, WHERE, config)
        now_ms = runtime.clock.monotonic_ms()
        stale = [link.is_stale(now_ms + passed_ms) for passed_ms in (0, 8400, 8500, 10**9)]
        is_late = stale_after_ms is not None
        assert stale == [False, False, is_late, is_late]
        link.close()
        await listener.close()

    in_simulation(run)
    keys = [key for key, _version in broker.versions]
    assert keys == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,
    ]


def test_a_login_that_is_refused_ends_the_connection() -> None:
    def answer(request: Request[Any]) -> Response:
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(mechanisms=["PLAIN"])
        return SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no")

    broker, config = logging_in(answer)

    async def run(runtime: Runtime) -> None:
        listener = await broker.listen(runtime)
        with pytest.raises(RefusedError, match=rf"{WHERE} refuses the login of 'broker-2' by PLAIN: no"):
            await open_link(runtime, WHERE, config)
        await runtime.tasks.sleep(0.1)
        assert listener.connections == []
        await listener.close()

    in_simulation(run)
