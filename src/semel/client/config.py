"""A client's settings: Kafka's keys, checked once at the edge.

Role.   `ClientConfig.of` takes what a user gave with `-X key=value` and `--bootstrap` and gives typed values.
Rules.  * Kafka's dotted names one to one; underscores may stand for dots. An unknown key is refused with the nearest one.
        * Defaults are Kafka 4's, except `isolation.level`, which is `read_committed`.
        * What would promise something that is not kept (TLS, SASL) is refused.
"""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple

from semel.errors import ConfigError

_INT_MAX: Final = 2**31 - 1
_PORT_MAX: Final = 65535
COMPRESSION_TYPES: Final = ("none", "gzip", "snappy", "lz4", "zstd")
ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
_ACKS: Final = {"all": -1, "-1": -1, "0": 0, "1": 1}


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What a client runs with. Attributes are Kafka's keys with underscores for dots."""

    bootstrap_servers: tuple[Address, ...] = (Address("localhost", 9092),)
    client_id: str = "semel"
    security_protocol: str = field(default="PLAINTEXT", metadata={"one of": ("PLAINTEXT",)})
    request_timeout_ms: int = field(default=30_000, metadata={"least": 1})
    """How long one answer is waited for."""
    socket_connection_setup_timeout_ms: int = field(default=10_000, metadata={"least": 1})
    default_api_timeout_ms: int = field(default=60_000, metadata={"least": 1})
    """How long a call is tried again, all attempts together."""
    delivery_timeout_ms: int = field(default=120_000, metadata={"least": 1})
    """The same for records on their way."""
    retries: int = field(default=_INT_MAX, metadata={"least": 0})
    retry_backoff_ms: int = field(default=100, metadata={"least": 0})
    retry_backoff_max_ms: int = field(default=1_000, metadata={"least": 0})
    acks: int = -1
    compression_type: str = field(default="none", metadata={"one of": COMPRESSION_TYPES})
    isolation_level: str = field(default="read_committed", metadata={"one of": ISOLATION_LEVELS})
    fetch_max_bytes: int = field(default=50 * 1024 * 1024, metadata={"least": 1})
    max_partition_fetch_bytes: int = field(default=1024 * 1024, metadata={"least": 1})
    fetch_max_wait_ms: int = field(default=500, metadata={"least": 0})
    partition_assignment_strategy: str = "range,cooperative-sticky"
    """Assignors of a classic group's members, by preference."""
    group_instance_id: str = ""
    client_rack: str = ""
    session_timeout_ms: int = field(default=45_000, metadata={"least": 1})
    heartbeat_interval_ms: int = field(default=3_000, metadata={"least": 1})
    max_poll_interval_ms: int = field(default=300_000, metadata={"least": 1})
    auto_commit_interval_ms: int = field(default=5_000, metadata={"least": 0})

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> "ClientConfig":
        """The configuration a user gave; raises `ConfigError` with the key, the value and the way out."""
        known = {one.name.replace("_", "."): one for one in fields(cls)}
        values: dict[str, Any] = {}
        for name, content in settings.items():
            dotted = name if name in known else name.replace("_", ".")
            if dotted not in known:
                near = difflib.get_close_matches(dotted, known, n=1)
                hint = f": did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known))}"
                raise ConfigError(f"{name} is no setting of a client{hint}")
            one = known[dotted]
            values[one.name] = _parsed(dotted, content.strip(), one.metadata)
        return cls(**values)


def _parsed(name: str, content: str, rules: Mapping[str, Any]) -> object:
    if name == "bootstrap.servers":
        return parse_addresses(content)
    if name == "acks":
        if content not in _ACKS:
            raise ConfigError(f"acks={content}: use all, 1 or 0")
        return _ACKS[content]
    if choices := rules.get("one of"):
        chosen = next((one for one in choices if one.lower() == content.lower()), None)
        if chosen is None:
            raise ConfigError(f"{name}={content}: use {' or '.join(choices)}")
        return chosen
    if "least" in rules:
        least: int = rules["least"]
        if not content.isdecimal() or not least <= int(content) <= _INT_MAX:
            raise ConfigError(f"{name}={content}: use a whole number from {least} to {_INT_MAX}")
        return int(content)
    return content


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
        raise ConfigError(f"{text!r} is no address of a broker: use HOST:PORT, as localhost:9092")
    return Address(host.strip("[]"), int(port))
