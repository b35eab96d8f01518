"""A registry client's settings: Confluent's names, and what is wrong with others."""

from typing import Any

import pytest

from semel.exceptions import ConfigException
from semel.schema.settings import RegistryConfig, RegistryUrl


@pytest.mark.parametrize(
    "given",
    [
        "http://one:8081,https://two/base/",
        {"url": "http://one:8081, https://two/base/"},
        {"schema.registry.url": ["http://one:8081", "https://two/base"]},
        {"schema_registry_url": "http://one:8081,https://two/base"},
    ],
)
def test_a_registry_s_addresses(given: Any) -> None:
    assert RegistryConfig.of(given).urls == (
        RegistryUrl(False, "one", 8081, ""),
        RegistryUrl(True, "two", 443, "/base"),
    )


def test_an_address_is_shown_whole() -> None:
    assert (
        str(RegistryConfig.of("http://[::1]:8081/apis/ccompat/v7/").urls[0])
        == "http://[::1]:8081/apis/ccompat/v7"
    )


def test_times_and_bounds() -> None:
    config = RegistryConfig.of({"url": "http://one", "timeout": "2.5", "max.retries": 0, "cache.capacity": 7})
    assert (config.timeout_seconds, config.retries, config.cache_capacity) == (2.5, 0, 7)
    assert RegistryConfig.of(config) is config


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (7, "are no settings of a schema registry"),
        ({}, "schema.registry.url is missing"),
        ("localhost:8081", "use http://HOST:PORT"),
        ("http://ann:secret@:8081", "schema.registry.url=http://:8081: use http://HOST:PORT"),
        ("http://one:99999", "Port out of range"),
        ("http://one?x=1", "use http://HOST:PORT"),
        (
            {"url": "http://one", "time.out": 3},
            "time.out: a schema registry's client has no such setting; it has basic",
        ),
        ({"url": "http://one", "timeout": 0}, "timeout=0: use a number from 0.001 to 600"),
        ({"url": "http://one", "timeout": True}, "timeout=True"),
        ({"url": "http://one", "max.retries": "many"}, "max.retries='many'"),
        ({"url": "http://one", "basic.auth.user.info": "ann"}, "give NAME:PASSWORD"),
        ({"url": "http://a:b@one", "basic.auth.user.info": "ann:x"}, "keep one"),
        ({"url": "http://a:b@one,http://c:d@two"}, "different users"),
        (
            {"url": "http://one", "basic.auth.credentials.source": "USER_INFO"},
            "basic.auth.user.info is missing",
        ),
        ({"url": "http://one", "basic.auth.credentials.source": "FILE"}, "use USER_INFO or URL"),
        ({"url": "http://one", "bearer.auth.token": "a\nb"}, "no HTTP header can have"),
        ({"url": "http://one", "bearer.auth.token": "a", "basic.auth.user.info": "a:b"}, "keep one"),
        (
            {"url": "http://one", "ssl.ca.location": "/ca.pem"},
            "ssl.ca.location: no URL of http://one:80 begins with https",
        ),
        (
            {"url": "https://one", "ssl.ca.location": "/nowhere.pem"},
            "ssl.truststore.location=/nowhere.pem: cannot be read",
        ),
        (
            {"url": "https://one", "ssl.key.location": "/nowhere.pem"},
            "ssl.key.location=/nowhere.pem: cannot be read",
        ),
    ],
)
def test_a_wrong_setting_is_refused_with_the_way_out(given: Any, said: str) -> None:
    with pytest.raises(ConfigException) as error:
        RegistryConfig.of(given)
    assert said in str(error.value)
    assert "secret" not in str(error.value)
