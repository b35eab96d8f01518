"""`zookeeper.*`: how a broker reaches its cluster's ZooKeeper, from its settings.

Role.   `settings_of` checks Kafka's keys once, and makes the client's `Settings` of them.
Rules.  * A setting that would promise something that is not kept, as TLS, is refused: no connection is less safe than was asked.
        * Without `zookeeper.connection.timeout.ms` the session's timeout counts, as in Kafka.
"""

from collections.abc import Callable
from typing import Final

from semel.cluster.zookeeper.client import Settings
from semel.cluster.zookeeper.connect_string import parse
from semel.core.metadata.config_types import Value
from semel.errors import ConfigError

CONNECT: Final = "zookeeper.connect"
SESSION_TIMEOUT: Final = "zookeeper.session.timeout.ms"
CONNECTION_TIMEOUT: Final = "zookeeper.connection.timeout.ms"
IN_FLIGHT: Final = "zookeeper.max.in.flight.requests"
_SET_ACL: Final = "zookeeper.set.acl"
_MIGRATION: Final = "zookeeper.metadata.migration.enable"
_DIGEST: Final = "semel.zookeeper.digest"
_TLS: Final = "zookeeper.ssl.client.enable"
_SOCKET: Final = "zookeeper.clientCnxnSocket"


def settings_of(value: Callable[[str], Value]) -> Settings:
    """The client's settings, from a broker's by their names. Raises `ConfigError`."""
    if value(_TLS):
        raise ConfigError(
            f"{_TLS}=true: TLS to ZooKeeper is not served; leave it false, and let the brokers reach ZooKeeper over a network of "
            "their own"
        )
    if socket := value(_SOCKET):
        raise ConfigError(f"{_SOCKET}={socket}: it is a class of Java's client; leave it out")
    if value(_SET_ACL):
        raise ConfigError(
            f"{_SET_ACL}=true: this broker gives its nodes no access lists of their own; leave it false, and let the owner of the "
            f"chroot set them (with {_DIGEST}=USER:PASSWORD this broker logs in)"
        )
    if value(_MIGRATION):
        raise ConfigError(
            f"{_MIGRATION}=true: this broker has no part in a migration to KRaft; leave it false, and migrate with Kafka's brokers "
            "alone"
        )
    session = _milliseconds(value, SESSION_TIMEOUT)
    connection = session if value(CONNECTION_TIMEOUT) is None else _milliseconds(value, CONNECTION_TIMEOUT)
    in_flight, digest = value(IN_FLIGHT), value(_DIGEST)
    if digest is not None and ":" not in str(digest):
        raise ConfigError(f"{_DIGEST} is no USER:PASSWORD: it lacks the colon")
    return Settings(
        parse(str(value(CONNECT) or "")),
        session_timeout_ms=session,
        connection_timeout_ms=connection,
        max_in_flight_requests=in_flight if isinstance(in_flight, int) else 1,
        credentials=() if digest is None else (("digest", str(digest).encode()),),
    )


def _milliseconds(value: Callable[[str], Value], name: str) -> int:
    number = value(name)
    if not isinstance(number, int) or number <= 0:
        raise ConfigError(f"{name}={number}: a number of milliseconds is expected, from 1")
    return number
