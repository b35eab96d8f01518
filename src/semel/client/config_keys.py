"""The settings of Kafka's clients: names, types, defaults and bounds of Apache Kafka 4.3.1.

Role.   The tables `PRODUCER_KEYS`, `CONSUMER_KEYS` and `ADMIN_KEYS`, and `read`: a user's settings, under Kafka's names, as typed
        values.
Flow.   `settings` and `config` call `read` and then look at what contradicts each other.
Rules.  * Facts of Kafka's classes; a test holds every row against them and lists what is meant to differ:
          `isolation.level` is `read_committed`, and `sequence.error.policy` is ours.
        * Kafka's dotted names; underscores may stand for dots. An unknown name is refused with the one that was probably meant.
Elsewhere. The settings of TLS and SASL: `security_keys`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from semel.client.security_keys import SECURITY_KEYS, is_security, why_refused
from semel.core.metadata.config_types import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ConfigKey,
    Items,
    NonEmpty,
    OneOf,
    Range,
    RangeOr,
    Value,
    invalid,
    text,
)
from semel.core.metadata.configs import nearest
from semel.core.records import codecs
from semel.errors import ConfigError
from semel.exceptions import ConfigException
from semel.words import a

Given: TypeAlias = Value | Callable[..., Any] | list[Any] | tuple[Any, ...]
"""A user's value: text, a number, a flag, a list of texts, and callables where Java takes classes."""
Read: TypeAlias = Value | Callable[..., Any] | tuple[Any, ...]
"""A value that `read` has typed."""

DEFAULT_ASSIGNORS: Final = "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_DURATION: Final = re.compile(
    r"by_duration:\+?[Pp](?=.)(\d+[Dd])?([Tt](?=\d)(\d+[Hh])?(\d+[Mm])?(\d+([.,]\d{0,9})?[Ss])?)?"
)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """Where to start without a position: a word, or an age."""

    def flaw(self, name: str, value: Value) -> str | None:
        if value in ("earliest", "latest", "none") or _DURATION.fullmatch(str(value)):
            return None
        return invalid(
            name,
            value,
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest', 'none' "
            "or of the format 'by_duration:<PnDTnHnMn.nS.>'.",
        )


_SHARED: Final = (
    *SECURITY_KEYS,
    ConfigKey(
        "client.dns.lookup",
        STRING,
        "use_all_dns_ips",
        OneOf(("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
        MEDIUM,
    ),
    ConfigKey("config.providers", LIST, "", Items(), LOW),
    ConfigKey("metadata.max.age.ms", LONG, "300000", Range(0), LOW),
    ConfigKey("metadata.recovery.rebootstrap.trigger.ms", LONG, "300000", Range(0), LOW),
    ConfigKey(
        "metadata.recovery.strategy",
        STRING,
        "rebootstrap",
        OneOf(("REBOOTSTRAP", "NONE"), any_case=True),
        LOW,
    ),
    ConfigKey("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", Items(), LOW),
    ConfigKey("metrics.num.samples", INT, "2", Range(1), LOW),
    ConfigKey("metrics.recording.level", STRING, "INFO", OneOf(("INFO", "DEBUG", "TRACE")), LOW),
    ConfigKey("metrics.sample.window.ms", LONG, "30000", Range(0), LOW),
    ConfigKey("reconnect.backoff.max.ms", LONG, "1000", Range(0), LOW),
    ConfigKey("reconnect.backoff.ms", LONG, "50", Range(0), LOW),
    ConfigKey("request.timeout.ms", INT, "30000", Range(0), MEDIUM),
    ConfigKey("retry.backoff.max.ms", LONG, "1000", Range(0), LOW),
    ConfigKey("retry.backoff.ms", LONG, "100", Range(0), LOW),
    ConfigKey("send.buffer.bytes", INT, "131072", Range(-1), MEDIUM),
    ConfigKey("socket.connection.setup.timeout.max.ms", LONG, "30000", None, MEDIUM),
    ConfigKey("socket.connection.setup.timeout.ms", LONG, "10000", None, MEDIUM),
)
_PRODUCER: Final = (
    ConfigKey("acks", STRING, "all", OneOf(("all", "-1", "0", "1")), LOW),
    ConfigKey("batch.size", INT, "16384", Range(0), MEDIUM),
    ConfigKey("bootstrap.servers", LIST, None, Items(), HIGH),
    ConfigKey("buffer.memory", LONG, "33554432", Range(0), HIGH),
    ConfigKey("client.id", STRING, "", None, MEDIUM),
    ConfigKey("compression.gzip.level", INT, "-1", RangeOr(1, 9, -1), MEDIUM),
    ConfigKey("compression.lz4.level", INT, "9", Range(1, 17), MEDIUM),
    ConfigKey("compression.type", STRING, "none", OneOf(codecs.NAMES), HIGH),
    ConfigKey("compression.zstd.level", INT, "3", Range(-131072, 22), MEDIUM),
    ConfigKey("connections.max.idle.ms", LONG, "540000", None, MEDIUM),
    ConfigKey("delivery.timeout.ms", INT, "120000", Range(0), MEDIUM),
    ConfigKey("enable.idempotence", BOOLEAN, "true", None, LOW),
    ConfigKey("enable.metrics.push", BOOLEAN, "true", None, LOW),
    ConfigKey("interceptor.classes", LIST, "", Items(), LOW),
    ConfigKey("key.serializer", CLASS, None, None, HIGH),
    ConfigKey("linger.ms", LONG, "5", Range(0), MEDIUM),
    ConfigKey("max.block.ms", LONG, "60000", Range(0), MEDIUM),
    ConfigKey("max.in.flight.requests.per.connection", INT, "5", Range(1), LOW),
    ConfigKey("max.request.size", INT, "1048576", Range(0), MEDIUM),
    ConfigKey("metadata.max.idle.ms", LONG, "300000", Range(5000), LOW),
    ConfigKey("partitioner.adaptive.partitioning.enable", BOOLEAN, "true", None, LOW),
    ConfigKey("partitioner.availability.timeout.ms", LONG, "0", Range(0), LOW),
    ConfigKey("partitioner.class", CLASS, None, None, MEDIUM),
    ConfigKey("partitioner.ignore.keys", BOOLEAN, "false", None, MEDIUM),
    ConfigKey("receive.buffer.bytes", INT, "32768", Range(-1), MEDIUM),
    ConfigKey("retries", INT, "2147483647", Range(0, 2147483647), HIGH),
    ConfigKey("transaction.timeout.ms", INT, "60000", None, LOW),
    ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, "false", None, LOW),
    ConfigKey("transactional.id", STRING, None, NonEmpty(), LOW),
    ConfigKey("value.serializer", CLASS, None, None, HIGH),
    ConfigKey("sequence.error.policy", STRING, "recover", OneOf(("recover", "fatal")), LOW),
)
_CONSUMER: Final = (
    ConfigKey("allow.auto.create.topics", BOOLEAN, "true", None, MEDIUM),
    ConfigKey("auto.commit.interval.ms", INT, "5000", Range(0), LOW),
    ConfigKey("auto.offset.reset", STRING, "latest", OffsetReset(), MEDIUM),
    ConfigKey("bootstrap.servers", LIST, None, Items(), HIGH),
    ConfigKey("check.crcs", BOOLEAN, "true", None, LOW),
    ConfigKey("client.id", STRING, "", None, LOW),
    ConfigKey("client.rack", STRING, "", None, LOW),
    ConfigKey("connections.max.idle.ms", LONG, "540000", None, MEDIUM),
    ConfigKey("default.api.timeout.ms", INT, "60000", Range(0), MEDIUM),
    ConfigKey("enable.auto.commit", BOOLEAN, "true", None, MEDIUM),
    ConfigKey("enable.metrics.push", BOOLEAN, "true", None, LOW),
    ConfigKey("exclude.internal.topics", BOOLEAN, "true", None, MEDIUM),
    ConfigKey("fetch.max.bytes", INT, "52428800", Range(0), MEDIUM),
    ConfigKey("fetch.max.wait.ms", INT, "500", Range(0), LOW),
    ConfigKey("fetch.min.bytes", INT, "1", Range(0), HIGH),
    ConfigKey("group.id", STRING, None, None, HIGH),
    ConfigKey("group.instance.id", STRING, None, NonEmpty(), MEDIUM),
    ConfigKey("group.protocol", STRING, "classic", OneOf(("CONSUMER", "CLASSIC"), any_case=True), HIGH),
    ConfigKey("group.remote.assignor", STRING, None, None, MEDIUM),
    ConfigKey("heartbeat.interval.ms", INT, "3000", None, HIGH),
    ConfigKey("interceptor.classes", LIST, "", Items(), LOW),
    ConfigKey(
        "internal.throw.on.fetch.stable.offset.unsupported", BOOLEAN, "false", None, LOW, internal=True
    ),
    ConfigKey(
        "isolation.level", STRING, "read_committed", OneOf(("read_committed", "read_uncommitted")), MEDIUM
    ),
    ConfigKey("key.deserializer", CLASS, None, None, HIGH),
    ConfigKey("max.partition.fetch.bytes", INT, "1048576", Range(0), HIGH),
    ConfigKey("max.poll.interval.ms", INT, "300000", Range(1), MEDIUM),
    ConfigKey("max.poll.records", INT, "500", Range(1), MEDIUM),
    ConfigKey("partition.assignment.strategy", LIST, DEFAULT_ASSIGNORS, Items(), MEDIUM),
    ConfigKey("receive.buffer.bytes", INT, "65536", Range(-1), MEDIUM),
    ConfigKey("session.timeout.ms", INT, "45000", None, HIGH),
    ConfigKey("share.acknowledgement.mode", STRING, "implicit", OneOf(("implicit", "explicit")), MEDIUM),
    ConfigKey(
        "share.acquire.mode",
        STRING,
        "BATCH_OPTIMIZED",
        OneOf(("BATCH_OPTIMIZED", "RECORD_LIMIT"), any_case=True),
        MEDIUM,
    ),
    ConfigKey("value.deserializer", CLASS, None, None, HIGH),
)
_ADMIN: Final = (
    ConfigKey("bootstrap.controllers", LIST, "", Items(), HIGH),
    ConfigKey("bootstrap.servers", LIST, "", Items(), HIGH),
    ConfigKey("client.id", STRING, "", None, MEDIUM),
    ConfigKey("connections.max.idle.ms", LONG, "300000", None, MEDIUM),
    ConfigKey("default.api.timeout.ms", INT, "60000", Range(0), MEDIUM),
    ConfigKey("enable.metrics.push", BOOLEAN, "false", None, LOW),
    ConfigKey("receive.buffer.bytes", INT, "65536", Range(-1), MEDIUM),
    ConfigKey("retries", INT, "2147483647", Range(0, 2147483647), LOW),
)


def _table(*parts: tuple[ConfigKey, ...]) -> dict[str, ConfigKey]:
    return {key.name: key for part in parts for key in part}


PRODUCER_KEYS: Final[Mapping[str, ConfigKey]] = _table(_SHARED, _PRODUCER)
CONSUMER_KEYS: Final[Mapping[str, ConfigKey]] = _table(_SHARED, _CONSUMER)
ADMIN_KEYS: Final[Mapping[str, ConfigKey]] = _table(_SHARED, _ADMIN)
ALL_KEYS: Final[Mapping[str, ConfigKey]] = {**ADMIN_KEYS, **CONSUMER_KEYS, **PRODUCER_KEYS}

_MEANT: Final = {
    "transaction.id": "transactional.id",
    "transation.id": "transactional.id",
    "transaction id": "transactional.id",
    "auto.commit": "enable.auto.commit",
    "auto.commit.commit": "enable.auto.commit",
    "auto.commit.enable": "enable.auto.commit",
    "max.inflight.requests": "max.in.flight.requests.per.connection",
    "max.in.flight.requests": "max.in.flight.requests.per.connection",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "idempotence": "enable.idempotence",
    "compression.codec": "compression.type",
}
"""Spellings that are met, and the right ones."""
_CALLABLE: Final = frozenset(
    {
        "key.serializer",
        "value.serializer",
        "key.deserializer",
        "value.deserializer",
        "partitioner.class",
        "metric.reporters",
    }
)
_ANY_CASE: Final = frozenset({"acks", "compression.type", "isolation.level", "group.protocol"})
REFUSED: Final = {
    "config.providers": "settings come from Python here",
    "interceptor.classes": "wrap send or poll instead",
    "bootstrap.controllers": "name brokers in bootstrap.servers",
}
"""Settings that must be empty, and the way out."""


def read(keys: Mapping[str, ConfigKey], settings: Mapping[str, Given], *, of_a: str) -> dict[str, Read]:
    """The given settings, by Kafka's names, typed; None stands for a setting that was not given. Raises `ConfigException`."""
    values: dict[str, Read] = {}
    spelled: dict[str, str] = {}
    for name, given in settings.items():
        if given is None:
            continue
        key = _known(keys, name, of_a)
        value = _parsed(key, given)
        if key.name in values and values[key.name] != value:
            raise ConfigException(
                f"{name}={given} and {spelled[key.name]}={values[key.name]} say different things: keep one"
            )
        values[key.name], spelled[key.name] = value, name
    return values


def defaults(keys: Mapping[str, ConfigKey]) -> dict[str, Read]:
    """The value of every setting nobody gave."""
    return {name: key.default_value for name, key in keys.items()}


def _known(keys: Mapping[str, ConfigKey], name: str, of_a: str) -> ConfigKey:
    dotted = name.replace("_", ".")
    key = keys.get(name) or keys.get(dotted)
    if key is not None:
        return key
    if is_security(dotted):
        raise ConfigException(why_refused(name, dotted))
    if dotted in ALL_KEYS:
        owner = (
            "producer"
            if dotted in PRODUCER_KEYS
            else "consumer"
            if dotted in CONSUMER_KEYS
            else "admin client"
        )
        raise ConfigException(f"{name} is a setting of {a(owner)}, not of {a(of_a)}: leave it out")
    meant = _MEANT.get(dotted)
    near = meant if meant in keys else nearest(dotted, keys)
    listing = {"producer": "ProducerConfig", "consumer": "ConsumerConfig"}.get(of_a, "AdminConfig")
    hint = f": did you mean {near}?" if near else f"; help(semel.{listing}) lists them all"
    raise ConfigException(f"{name} is not a setting of {a(of_a)}{hint}")


def _parsed(key: ConfigKey, given: Given) -> Read:
    if callable(given):
        if key.name not in _CALLABLE:
            raise ConfigException(invalid(key.name, given, "a callable cannot be the value of this setting"))
        return (given,) if key.type is LIST else given
    if isinstance(given, list | tuple):
        if key.type is not LIST:
            raise ConfigException(invalid(key.name, given, "a list cannot be the value of this setting"))
        if key.name in _CALLABLE and any(map(callable, given)):
            return tuple(given)
        given = ",".join(map(str, given))
    content = text(given) if isinstance(given, bool | int | float | str) else str(given)
    try:
        value = key.parse(content.lower() if key.name in _ANY_CASE else content)
    except ConfigError as error:
        raise ConfigException(str(error)) from None
    if value and key.name in REFUSED:
        raise ConfigException(f"{key.name}={content}: not there; {REFUSED[key.name]}")
    return value
