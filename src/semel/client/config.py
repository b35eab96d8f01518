"""The settings with which every client reaches a cluster, and those of the command line.

Role.   `ReachConfig` is what `Cluster` runs on, whoever configured it. `ClientConfig.of` takes what a user gave with
        `-X key=value` and `--bootstrap` and gives typed values.
Rules.  * Kafka's dotted names one to one; underscores may stand for dots. An unknown key is refused with the nearest one.
        * Defaults are Kafka 4's, except `isolation.level`, which is `read_committed`.
Elsewhere. The keys: `config_keys`. TLS and SASL: `net.security`. The settings of the public clients: `settings`.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

from semel.client.config_keys import ALL_KEYS, read
from semel.client.security_keys import is_security
from semel.errors import ConfigError, InvariantError
from semel.net.link import LinkConfig
from semel.net.security import PLAINTEXT, Security
from semel.types import Address
from semel.words import kind

logger = logging.getLogger(__name__)

_INT_MAX: Final = 2**31 - 1
_PORT_MAX: Final = 65535
_RESPONSE_MAX: Final = 100 * 1024 * 1024
READ_COMMITTED: Final = "read_committed"
ISOLATION_LEVELS: Final = ("read_uncommitted", READ_COMMITTED)


class ReachConfig(LinkConfig, Protocol):
    """The settings to find a cluster and to talk to it."""

    @property
    def bootstrap_servers(self) -> tuple[Address, ...]: ...
    @property
    def default_api_timeout_ms(self) -> int: ...
    @property
    def retries(self) -> int: ...
    @property
    def retry_backoff_ms(self) -> int: ...
    @property
    def retry_backoff_max_ms(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """The settings of a command. Attributes are Kafka's keys with underscores for dots."""

    bootstrap_servers: tuple[Address, ...] = (Address("localhost", 9092),)
    client_id: str = "semel"
    security: Security = PLAINTEXT
    request_timeout_ms: int = 30_000
    """How long one answer is waited for."""
    socket_connection_setup_timeout_ms: int = 10_000
    default_api_timeout_ms: int = 60_000
    """How long a call is tried again, all attempts together."""
    retries: int = _INT_MAX
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    isolation_level: str = "read_committed"

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "ClientConfig":
        """The configuration a user gave; raises `ConfigError` with the key, the value and the way out."""
        given = read(ALL_KEYS, settings, of_a="client")
        names = {one.name for one in fields(cls)}
        values: dict[str, Any] = {}
        for dotted, value in given.items():
            name = dotted.replace(".", "_")
            if name in names:
                values[name] = value
            elif not is_security(dotted):
                logger.warning("%s=%s changes nothing in this command", dotted, value)
        if "bootstrap_servers" in values:
            values["bootstrap_servers"] = parse_addresses(",".join(values["bootstrap_servers"]))
        return cls(**values, security=Security.of(given))

    @property
    def response_max_bytes(self) -> int:
        """A longer answer closes its connection."""
        return _RESPONSE_MAX


def command_config(config: ReachConfig) -> ClientConfig:
    """The settings of a cluster that a command opened."""
    if not isinstance(config, ClientConfig):
        raise InvariantError(f"a command runs on a ClientConfig, not on {kind(config)}")
    return config


def parse_addresses(content: str) -> tuple[Address, ...]:
    """`host:port[,host:port…]`; IPv6 hosts stand in brackets."""
    addresses = tuple(_address(one.strip()) for one in content.split(",") if one.strip())
    if not addresses:
        raise ConfigError(f"bootstrap.servers={content!r}: name at least one broker as HOST:PORT")
    return addresses


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if (
        not colon
        or not port.isdecimal()
        or not 0 < int(port) <= _PORT_MAX
        or not host
        or (":" in host and not bracketed)
    ):
        raise ConfigError(f"{text!r} is not an address of a broker: use HOST:PORT, as localhost:9092")
    return Address(host.strip("[]"), int(port))
