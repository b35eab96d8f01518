"""A login over a connection: what is said in which order, who is believed for how long, and what a refusal leads to.

Method: a broker played by a function, in a simulation with its own clock. Logins at a real Kafka: tests/compat/test_security.py.
"""

import logging
from typing import Any

import pytest

from semel.client.cluster import Cluster
from semel.core.wire.api_versions import advertised
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import MetadataRequest
from semel.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from semel.core.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, RefusedError
from support.broker.fake_broker import FakeBroker, metadata, told

SETTINGS = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "me",
    "sasl_password": "secret",
}


class Doorkeeper:
    """Believes whoever knows the password, for so long."""

    def __init__(self, lifetime_ms: int = 0, password: str = "secret") -> None:
        self.lifetime_ms = lifetime_ms
        self.wanted = f"\0me\0{password}".encode()
        self.logins = 0

    def __call__(self, request: Request[Any]) -> Response:
        match request:
            case SaslHandshakeRequest():
                return SaslHandshakeResponse(mechanisms=["PLAIN"])
            case SaslAuthenticateRequest():
                self.logins += 1
                if request.auth_bytes != self.wanted:
                    return SaslAuthenticateResponse(
                        error_code=ErrorCode.SASL_AUTHENTICATION_FAILED,
                        error_message="Invalid username or password",
                    )
                return SaslAuthenticateResponse(session_lifetime_ms=self.lifetime_ms)
        assert isinstance(request, MetadataRequest)
        return metadata()


def test_a_login_comes_before_everything_but_the_versions() -> None:
    door = Doorkeeper()
    broker = FakeBroker(door)

    async def story(cluster: Cluster) -> None:
        await cluster.metadata([])
        await cluster.metadata([])

    told(broker, story, **SETTINGS)
    keys = [ApiKey(key) for key, _ in broker.versions]
    assert keys == [
        ApiKey.API_VERSIONS,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.API_VERSIONS,  # It may tell those it knows more.
        ApiKey.METADATA,
        ApiKey.METADATA,
    ]


def test_a_login_is_made_anew_before_it_is_too_old() -> None:
    door = Doorkeeper(lifetime_ms=10_000)

    async def story(cluster: Cluster) -> None:
        for pause_s, logins in ((0, 1), (8, 1), (1, 2), (8, 2), (1, 3)):  # Made anew after 8.5 s.
            await cluster.runtime.tasks.sleep(pause_s)
            await cluster.metadata([])
            assert door.logins == logins
            assert cluster.connections == 1

    told(FakeBroker(door), story, **SETTINGS)


def test_who_is_refused_hears_it_at_once_and_only_once() -> None:
    door = Doorkeeper(password="another")

    async def story(cluster: Cluster) -> None:
        with pytest.raises(
            RefusedError, match="refuses the login of 'me' by PLAIN: Invalid username"
        ) as caught:
            await cluster.patiently(lambda: cluster.metadata([]))
        assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
        assert "secret" not in str(caught.value)

    told(FakeBroker(door), story, **SETTINGS)
    assert door.logins == 1


def test_a_broker_without_sasl_is_named() -> None:
    async def story(cluster: Cluster) -> None:
        with pytest.raises(RefusedError, match=r"knows no SASL: set security\.protocol to PLAINTEXT or SSL"):
            await cluster.metadata([])

    served = tuple(
        one for one in advertised() if one.key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
    )
    told(FakeBroker(Doorkeeper(), served), story, **SETTINGS)


def test_whoever_tries_a_refused_login_again_and_again_reads_why_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(cluster: Cluster) -> None:
        for _ in range(20):
            with pytest.raises(RefusedError):
                await cluster.metadata([])
            await cluster.runtime.tasks.sleep(0.1)

    with caplog.at_level(logging.WARNING, "semel"):
        told(FakeBroker(Doorkeeper(password="another")), story, **SETTINGS)
    first, second = caplog.messages
    assert "refuses the login of 'me' by PLAIN: Invalid username" in first
    assert "set security.protocol, and the ssl.* or sasl.* settings" in first
    assert second == f"{first} [for 1 s now]"
