"""The settings of a registry's client: Confluent's names, checked once at the edge.

Role.   `RegistryConfig.of` takes a user's mapping, or a URL alone, and gives typed values.
Rules.  * `url` (confluent-kafka) and `schema.registry.url` (Java) name one setting; every key may have the prefix `schema.registry.`.
        * TLS is `net.tls`'s: PEM, under Kafka's names (`ssl.truststore.location`), librdkafka's (`ssl.ca.location`) stand for them.
        * A name and a password may stand in the URL or in `basic.auth.user.info`. No secret is in an error or a repr.
        * An unknown key is refused with the names there are.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from semel.exceptions import ConfigException
from semel.net.tls import client_context
from semel.words import shown

_PREFIX: Final = "schema.registry."
_TLS: Final = (
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
_LIBRDKAFKA: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
_OWN: Final = (
    "url",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "bearer.auth.token",
    "cache.capacity",
    "cache.latest.ttl.sec",
    "max.retries",
    "timeout",
)
_TIMEOUT_SECONDS: Final = 10.0
_CACHE_CAPACITY: Final = 1000
_LATEST_TTL_SECONDS: Final = 60.0
_RETRIES: Final = 2
_URLS_MAX: Final = 32


class RegistryUrl(NamedTuple):
    """One address of a registry."""

    is_tls: bool
    host: str
    port: int
    path: str
    """The beginning of every path of the registry, as `/apis/ccompat/v7`; without a slash at its end."""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.is_tls else 'http'}://{host}:{self.port}{self.path}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    """Where a registry is, and how patiently it is asked."""

    urls: tuple[RegistryUrl, ...]
    """One registry's addresses; the next one is asked where one does not answer."""
    authorization: str | None = field(default=None, repr=False)
    """The header that logs in."""
    tls: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    timeout_seconds: float = _TIMEOUT_SECONDS
    """How long one answer of one address is waited for."""
    retries: int = _RETRIES
    """So many more rounds over all addresses, if none answered."""
    cache_capacity: int = _CACHE_CAPACITY
    """So many schemas are kept by id, and so many ids by schema."""
    latest_ttl_seconds: float = _LATEST_TTL_SECONDS
    """So long the latest version of a subject is believed to be the latest."""

    @classmethod
    def of(cls, given: "RegistrySettings") -> "RegistryConfig":
        """The settings a user gave; raises `ConfigException` with the key, the value and the way out."""
        if isinstance(given, RegistryConfig):
            return given
        values = _known({"url": given} if isinstance(given, str) else given)
        urls, users = _urls(values.get("url"))
        tls_keys = {key: value for key, value in values.items() if key in _TLS or key in _LIBRDKAFKA}
        is_tls = any(url.is_tls for url in urls)
        if tls_keys and not is_tls:
            raise ConfigException(
                f"{min(tls_keys)}: no URL of {', '.join(map(str, urls))} begins with https://"
            )
        return cls(
            urls=urls,
            authorization=_authorization(values, users),
            tls=client_context(_tls(tls_keys)) if is_tls else None,
            timeout_seconds=_number(values, "timeout", _TIMEOUT_SECONDS, least=0.001, most=600),
            retries=int(_number(values, "max.retries", _RETRIES, least=0, most=100)),
            cache_capacity=int(_number(values, "cache.capacity", _CACHE_CAPACITY, least=1, most=10_000_000)),
            latest_ttl_seconds=_number(
                values, "cache.latest.ttl.sec", _LATEST_TTL_SECONDS, least=0, most=86_400 * 365
            ),
        )


RegistrySettings = Mapping[str, Any] | RegistryConfig | str
"""Settings by name, or the URL alone."""


def _known(given: object) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ConfigException(
            f'{shown(given)} are no settings of a schema registry: give its URL, or {{"url": "http://localhost:8081"}}'
        )
    values = {str(name).replace("_", ".").removeprefix(_PREFIX): value for name, value in given.items()}
    known = {*_OWN, *_TLS, *_LIBRDKAFKA}
    for name in values:
        if name not in known:
            raise ConfigException(
                f"{name}: a schema registry's client has no such setting; it has {', '.join(sorted(known))}"
            )
    return values


def _urls(given: object) -> tuple[tuple[RegistryUrl, ...], set[str]]:
    texts = (
        given.split(",") if isinstance(given, str) else list(given) if isinstance(given, list | tuple) else []
    )
    texts = [str(one).strip() for one in texts if str(one).strip()]
    if not texts:
        raise ConfigException(
            "schema.registry.url is missing: give the registry's address, as http://localhost:8081"
        )
    if len(texts) > _URLS_MAX:
        raise ConfigException(f"schema.registry.url: {len(texts)} addresses, at most {_URLS_MAX}")
    users: set[str] = set()
    urls = tuple(_url(one, users) for one in texts)
    return urls, users


def _url(text: str, users: set[str]) -> RegistryUrl:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigException(f"schema.registry.url={_without_user(text)}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ConfigException(
            f"schema.registry.url={_without_user(text)}: use http://HOST:PORT or https://HOST:PORT, with a path if the "
            "registry has one"
        )
    if parts.username is not None:
        users.add(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
    is_tls = parts.scheme == "https"
    return RegistryUrl(is_tls, parts.hostname, port or (443 if is_tls else 80), parts.path.rstrip("/"))


def _without_user(text: str) -> str:
    scheme, separator, rest = text.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else text.rpartition("@")[2]


def _authorization(values: Mapping[str, Any], users: set[str]) -> str | None:
    source = str(values.get("basic.auth.credentials.source") or "").upper()
    if source not in ("", "URL", "USER_INFO"):
        raise ConfigException(f"basic.auth.credentials.source={source}: use USER_INFO or URL")
    info, token = values.get("basic.auth.user.info"), values.get("bearer.auth.token")
    if info and users:
        raise ConfigException("basic.auth.user.info is given beside a name in schema.registry.url: keep one")
    if token and (info or users):
        raise ConfigException("bearer.auth.token is given beside a name and a password: keep one")
    if len(users) > 1:
        raise ConfigException(
            "schema.registry.url: its addresses name different users; one registry has one login"
        )
    if source == "USER_INFO" and not info:
        raise ConfigException(
            "basic.auth.user.info is missing: basic.auth.credentials.source=USER_INFO asks for NAME:PASSWORD"
        )
    found = str(info) if info else next(iter(users), None)
    if token:
        return f"Bearer {_one_line('bearer.auth.token', str(token))}"
    if found is None:
        return None
    if ":" not in found:
        raise ConfigException("basic.auth.user.info: a colon is missing; give NAME:PASSWORD")
    import base64

    return f"Basic {base64.b64encode(found.encode()).decode()}"


def _one_line(name: str, secret: str) -> str:
    if not secret.isascii() or not secret.isprintable():
        raise ConfigException(f"{name}: it has characters that no HTTP header can have")
    return secret


def _tls(values: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in values.items() if key in _TLS}
    protocols = found.get("ssl.enabled.protocols")
    if isinstance(protocols, str):
        found["ssl.enabled.protocols"] = tuple(one.strip() for one in protocols.split(","))
    if authority := values.get("ssl.ca.location"):
        found["ssl.truststore.location"] = authority
    certificate, key = values.get("ssl.certificate.location"), values.get("ssl.key.location")
    if certificate:
        found["ssl.keystore.certificate.chain"] = _pem("ssl.certificate.location", certificate)
    if key:
        found["ssl.keystore.key"] = _pem("ssl.key.location", key)
    return found


def _pem(name: str, location: object) -> str:
    try:
        with open(str(location), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise ConfigException(f"{name}={location}: cannot be read: {error.strerror}") from None


def _number(values: Mapping[str, Any], name: str, default: float, *, least: float, most: float) -> float:
    given = values.get(name)
    if given is None:
        return default
    try:
        found = float(given)
    except (TypeError, ValueError):
        found = float("nan")
    if isinstance(given, bool) or not least <= found <= most:
        raise ConfigException(f"{name}={shown(given)}: use a number from {least:g} to {most:g}")
    return found
