"""A client's settings: Kafka's names, checked, with the nearest right one for a wrong one.

Method: tables of what is given and what it becomes, or why not.
"""

import re

import pytest

from semel.client.config import ClientConfig
from semel.errors import ConfigError
from semel.types import Address


def test_defaults_are_kafkas_except_isolation() -> None:
    config = ClientConfig.of({})
    assert config.request_timeout_ms == 30_000
    assert config.retries == 2**31 - 1
    assert config.isolation_level == "read_committed"


def test_dots_and_underscores_mean_the_same() -> None:
    assert ClientConfig.of({"request.timeout.ms": "5"}) == ClientConfig.of({"request_timeout_ms": "5"})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("localhost:9092", (Address("localhost", 9092),)),
        ("a:1, b:2", (Address("a", 1), Address("b", 2))),
        ("[::1]:9092", (Address("::1", 9092),)),
    ],
)
def test_bootstrap_servers(given: str, expected: tuple[Address, ...]) -> None:
    servers = ClientConfig.of({"bootstrap.servers": given}).bootstrap_servers
    assert servers == expected


def test_an_address_is_written_as_it_is_read() -> None:
    assert [str(Address("::1", 1)), str(Address("host", 2))] == ["[::1]:1", "host:2"]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "request.timeout",
            "1",
            "request.timeout is not a setting of a client: did you mean request.timeout.ms?",
        ),
        ("zzz", "1", "zzz is not a setting of a client; help(semel.AdminConfig) lists them all"),
        (
            "request.timeout.ms",
            "-1",
            "Invalid value -1 for configuration request.timeout.ms: Value must be at least 0",
        ),
        ("retries", "many", "Invalid value many for configuration retries: Not a number of type INT"),
        ("acks", "2", "Invalid value 2 for configuration acks: String must be one of: all, -1, 0, 1"),
        ("compression.type", "brotli", "String must be one of: none, gzip, snappy, lz4, zstd"),
        ("isolation.level", "none", "String must be one of: read_committed, read_uncommitted"),
        (
            "security.protocol",
            "SASL_SSL",
            "sasl.mechanism=GSSAPI: not there; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
        ),
        ("bootstrap.servers", "", "name at least one broker as HOST:PORT"),
        ("bootstrap.servers", "localhost", "'localhost' is not an address of a broker: use HOST:PORT"),
        ("bootstrap.servers", "host:0", "'host:0' is not an address of a broker"),
        ("bootstrap.servers", "::1:9092", "'::1:9092' is not an address of a broker"),
    ],
)
def test_what_cannot_be(name: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        ClientConfig.of({name: value})


def test_choices_are_taken_in_any_case() -> None:
    assert ClientConfig.of({"isolation.level": "READ_UNCOMMITTED"}).isolation_level == "read_uncommitted"
