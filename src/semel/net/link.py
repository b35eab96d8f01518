"""A link: a connection to a broker that is encrypted, logged in, and knows which requests the broker serves.

Role.   `open_link` connects, agrees on versions with ApiVersions and logs in where a login is asked for. `Link.send` chooses
        each request's version. Clients call brokers over links, and brokers call each other.
Flow.   `open_link` -> TLS -> ApiVersions -> SASL, then ApiVersions again -> `Link`.
Rules.  * The newest version that both sides have is used; an API that the broker does not have raises before anything is sent.
        * ApiVersions is asked again after a login, because a broker may serve more to those it knows.
        * Brokers of a cluster under ZooKeeper know of each other what is served: on most of their links ApiVersions is not asked.
          Where they ask, it is in version 4; clients ask in version 3. A broker that has neither answers in version 0, and is
          asked lower.
        * A refused login is final. A broker may believe a login for a limited time: the link is stale a little before that
          time is over, unless requests are under way; its owner opens another.
        * Every error names the broker's address.
Elsewhere. Frames, requests in flight and timeouts: `connection`. Which broker to call, and when again: the owner.
"""

import ssl
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from semel._version import __version__
from semel.core.wire import registry
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.api_versions import ApiVersionsRequest
from semel.errors import DisconnectedError, HandshakeError, UnsupportedVersionError, WireError, refused
from semel.net.connection import Connection, connect
from semel.net.sasl import authenticate
from semel.net.security import Security
from semel.runtime.bundle import Runtime
from semel.types import Address

R = TypeVar("R", bound=Response)

ASKED_BY_CLIENTS: Final = (3, 0)
ASKED_BY_BROKERS: Final = (4, 3, 0)
"""Versions of ApiVersions, each asked once a broker did not know the one before."""
_SOFTWARE_SINCE: Final = 3
_LIFETIME_PERCENT: Final = 85  # Of the time a broker believes a login: Java makes it anew at 85 to 95.


class LinkConfig(Protocol):
    """The settings of links, of a client or of a broker."""

    @property
    def client_id(self) -> str: ...
    @property
    def request_timeout_ms(self) -> int: ...
    @property
    def socket_connection_setup_timeout_ms(self) -> int: ...
    @property
    def response_max_bytes(self) -> int: ...
    @property
    def security(self) -> Security: ...


class Link:
    """A connection and what the broker behind it serves. Made by `open_link`."""

    __slots__ = ("_connection", "_trusted_until_ms", "address", "features", "served")

    def __init__(
        self,
        address: Address,
        connection: Connection,
        served: Mapping[int, tuple[int, int]],
        features: Mapping[str, int],
        trusted_until_ms: int | None = None,
    ) -> None:
        self.address = address
        self.served = served
        """API key -> first and last version."""
        self.features = features
        """The features the cluster agreed on, with their levels."""
        self._connection = connection
        self._trusted_until_ms = trusted_until_ms
        """When the login should be made anew; None: never."""

    def send(
        self, request: Request[R], *, timeout_ms: int, version_max: int | None = None
    ) -> Coroutine[Any, Any, R]:
        """The broker's answer. Raises `DisconnectedError`, or `RequestTimedOutError` after `timeout_ms`."""
        version = self.version(request.schema.api_key, version_max)
        return self._connection.send(request, version, timeout_ms=timeout_ms)

    def send_unanswered(
        self, request: Request[R], *, version_max: int | None = None
    ) -> Coroutine[Any, Any, None]:
        """Send a request that the broker will not answer (acks=0)."""
        version = self.version(request.schema.api_key, version_max)
        return self._connection.send_unanswered(request, version)

    def version(self, key: int, version_max: int | None = None) -> int:
        """The version of an API to speak here, `version_max` at most; raises `UnsupportedVersionError` if there is none."""
        api = registry.api(key)
        if key not in self.served:
            raise UnsupportedVersionError(f"{self.address} does not serve {api.name}: use a newer broker")
        first, last = self.served[key]
        ours = api.last - api.unstable if version_max is None else min(version_max, api.last)
        version = min(ours, last)
        if version < max(api.first, first):
            raise UnsupportedVersionError(
                f"{self.address} serves {api.name} in versions {first} to {last}, this client speaks {api.first} to {ours}"
            )
        return version

    @property
    def is_open(self) -> bool:
        return self._connection.is_open

    def is_stale(self, now_ms: int) -> bool:
        """Whether the broker will not believe the login for much longer, and nothing is under way that a new link would cut."""
        until_ms = self._trusted_until_ms
        return until_ms is not None and now_ms >= until_ms and not self._connection.in_flight

    def close(self) -> None:
        """End the link. Requests without an answer raise `DisconnectedError`."""
        self._connection.close()

    async def finish(self) -> None:
        """End the link once everything written has left."""
        await self._connection.finish()


async def open_link(
    runtime: Runtime,
    address: Address,
    config: LinkConfig,
    *,
    served: Mapping[int, tuple[int, int]] | None = None,
    asked: Sequence[int] = ASKED_BY_CLIENTS,
) -> Link:
    """A link to the broker at this address. With `served` it is not asked what it serves: both know it beforehand.
    `asked`: the versions of ApiVersions to ask in.

    Raises `DisconnectedError` if the broker does not answer in time, `HandshakeError` if TLS fails, `RefusedError` if the login
    does, `WireError` if what listens there does not speak the protocol.
    """
    connection = await connect(
        runtime,
        address.host,
        address.port,
        client_id=config.client_id,
        response_max_bytes=config.response_max_bytes,
        timeout_ms=config.socket_connection_setup_timeout_ms,
        tls=config.security.tls,
    )
    try:
        return await _introduced(runtime, connection, address, config, served, asked)
    except BaseException:
        connection.close()
        raise


async def _introduced(
    runtime: Runtime,
    connection: Connection,
    address: Address,
    config: LinkConfig,
    known: Mapping[int, tuple[int, int]] | None,
    asked: Sequence[int],
) -> Link:
    """The APIs the broker serves, after a login where the settings ask for one."""
    timeout_ms = config.request_timeout_ms
    served: Mapping[int, tuple[int, int]]
    features: Mapping[str, int]
    try:
        served, features = (
            (known, {}) if known is not None else await _negotiated(connection, address, asked, timeout_ms)
        )
    except DisconnectedError as error:
        # Since TLS 1.3 a broker looks at the client's certificate after the client took the handshake for done.
        if isinstance(error.__cause__, ssl.SSLError):
            raise HandshakeError(f"{address}: no TLS: {error.__cause__.reason or error}") from error
        raise
    login, until_ms = config.security.login, None
    if login is not None:
        lifetime_ms = await authenticate(
            connection, login, served, broker=str(address), timeout_ms=timeout_ms
        )
        if lifetime_ms is not None:
            until_ms = runtime.clock.monotonic_ms() + lifetime_ms * _LIFETIME_PERCENT // 100
        if known is None:
            served, features = await _negotiated(connection, address, asked, timeout_ms)
    return Link(address, connection, served, features, until_ms)


async def _negotiated(
    connection: Connection, address: Address, asked: Sequence[int], timeout_ms: int
) -> tuple[dict[int, tuple[int, int]], dict[str, int]]:
    """The APIs the broker serves, and the features that are switched on."""
    version, *lower = asked
    try:
        answer = await connection.send(_introduction(version), version, timeout_ms=timeout_ms)
    except WireError:  # A broker that does not know the version answers in version 0.
        if not lower:
            raise
        return await _negotiated(connection, address, lower, timeout_ms)
    if answer.error_code:
        raise refused(answer.error_code, f"to say what it serves at {address}", by=str(address))
    served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
    return served, {one.name: one.max_version_level for one in answer.finalized_features}


def _introduction(version: int) -> ApiVersionsRequest:
    if version < _SOFTWARE_SINCE:
        return ApiVersionsRequest()
    return ApiVersionsRequest(client_software_name="semel", client_software_version=__version__)
