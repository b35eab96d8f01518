"""The settings of producers, consumers and admin clients: Kafka's keys, checked once at the edge.

Role.   `ProducerConfig.of`, `ConsumerConfig.of` and `AdminConfig.of` take a user's settings, as a mapping of dotted keys or
        as keywords. They give typed values under Kafka's names with underscores for dots.
Flow.   The public clients build one each; `Cluster` runs on any of them; `effective` shows what came out.
Rules.  * Settings that contradict each other are refused or settled as by Java's client. Idempotence asked for and made
          impossible is an error; idempotence by default yields with a warning.
        * A key of Kafka's that changes nothing here is accepted, and a warning names it.
        * Defaults are Kafka 4.3.1's, except `isolation.level`, which is `read_committed`.
Elsewhere. The tables of keys: `config_keys`. Serializers: `serializers`.
"""

import itertools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Self, TypeAlias

from semel.client.config import parse_addresses
from semel.client.config_keys import (
    ADMIN_KEYS,
    CONSUMER_KEYS,
    PRODUCER_KEYS,
    Given,
    Read,
    defaults,
    read,
)
from semel.client.security_keys import SECURITY_KEYS
from semel.client.serializers import Deserializer, Serializer, deserializer, serializer
from semel.core.groups.assignors import ASSIGNORS
from semel.core.metadata.config_types import ConfigKey
from semel.errors import ConfigError
from semel.exceptions import ConfigException, InvalidGroupIdException
from semel.net.security import Security
from semel.types import Address
from semel.words import kind, shown

logger = logging.getLogger(__name__)

Reporter: TypeAlias = Callable[[Mapping[Any, float]], object]
"""Called with a client's metrics, now and then."""

_INT_MAX: Final = 2**31 - 1
_IN_FLIGHT_MAX: Final = 5
_RESPONSE_MAX: Final = 100 * 1024 * 1024
_JAVA_CONSUMER: Final = "org.apache.kafka.clients.consumer."
_ASSIGNOR_CLASSES: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_ELSEWHERE: Final = frozenset(
    {"compression.gzip.level", "compression.lz4.level", "compression.zstd.level"}
    | {key.name for key in SECURITY_KEYS}
)
"""Keys with an effect that are no attributes: `compression_level` and `security` are made of them."""
_HIDDEN: Final = "[hidden]"  # Java's word.
_JMX: Final = "org.apache.kafka.common.metrics.JmxReporter"


class SettingsTypeError(ConfigException, TypeError):
    """Settings that are no mapping."""


def check_mapping(client: str, given: object) -> None:
    """Raise unless these are settings: an address alone is the mistake made most often."""
    if given is None or isinstance(given, Mapping):
        return
    address = given if isinstance(given, str) and given else "host:9092"
    raise SettingsTypeError(
        f"{client}({shown(given)}): settings are a mapping or keywords, not {kind(given)}. Write "
        f'{client}({{"bootstrap.servers": "{address}"}})'
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(ABC):
    """The settings of every client."""

    KEYS: ClassVar[Mapping[str, ConfigKey]]
    KIND: ClassVar[str]
    CLIENT: ClassVar[str]
    """The class a user makes with these settings."""
    BOOTSTRAP_SERVERS_CONFIG: ClassVar[str] = "bootstrap.servers"
    CLIENT_ID_CONFIG: ClassVar[str] = "client.id"
    REQUEST_TIMEOUT_MS_CONFIG: ClassVar[str] = "request.timeout.ms"

    bootstrap_servers: tuple[Address, ...]
    client_id: str
    request_timeout_ms: int
    """How long one answer is waited for."""
    socket_connection_setup_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metrics_num_samples: int
    metrics_sample_window_ms: int
    metric_reporters: tuple[Reporter, ...]
    """Callables that are given the metrics, now and then."""
    security: Security
    """TLS and the login, where `security.protocol` asks for them."""
    values: Mapping[str, Read] = field(repr=False, compare=False)
    """Every key of Kafka's, with the value that holds."""
    given: frozenset[str] = field(repr=False, compare=False)
    """The keys a user gave."""

    @classmethod
    def of(cls, settings: Mapping[str, Given] | None = None, /, **keywords: Given) -> Self:
        """The settings a user gave; raises `ConfigException` with the key, the value and the way out."""
        check_mapping(cls.CLIENT, settings)
        given = read(cls.KEYS, _together(settings or {}, keywords), of_a=cls.KIND)
        if not given.get("bootstrap.servers"):
            raise ConfigException(
                'Missing required configuration "bootstrap.servers" which has no default value: '
                "set it to a broker's HOST:PORT, as localhost:9092"
            )
        values = {**defaults(cls.KEYS), **given}
        _settle_backoff(values, given)
        cls._settle(values, given)
        attributes = cls._attributes(values)
        _warn_without_effect(given, cls)
        return cls(**attributes, values=values, given=frozenset(given))

    @classmethod
    @abstractmethod
    def _settle(cls, values: dict[str, Read], given: Mapping[str, Read]) -> None:
        """Change `values` where settings decide about each other; raise where they contradict each other."""

    @classmethod
    def _attributes(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {
            one.name: values[dotted]
            for one in fields(cls)
            if (dotted := one.name.replace("_", ".")) in values
        }
        try:
            found["bootstrap_servers"] = parse_addresses(",".join(values["bootstrap.servers"]))
        except ConfigError as error:
            raise ConfigException(str(error)) from None
        found["metric_reporters"] = _reporters(values["metric.reporters"])
        found["security"] = Security.of(values)
        return found

    def effective(self) -> dict[str, Any]:
        """Every key with the value that holds, in Java's words: `acks` is "-1", classes are names, lists are lists, secrets are hidden."""
        return {
            name: _HIDDEN if self.KEYS[name].sensitive and value is not None else _shown(value)
            for name, value in sorted(self.values.items())
        }

    @property
    def response_max_bytes(self) -> int:
        """A longer answer closes its connection."""
        return _RESPONSE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(Settings):
    """The settings of a producer."""

    KEYS: ClassVar[Mapping[str, ConfigKey]] = PRODUCER_KEYS
    KIND: ClassVar[str] = "producer"
    CLIENT: ClassVar[str] = "Producer"
    ENABLE_IDEMPOTENCE_CONFIG: ClassVar[str] = "enable.idempotence"
    TRANSACTIONAL_ID_CONFIG: ClassVar[str] = "transactional.id"
    TRANSACTION_TIMEOUT_CONFIG: ClassVar[str] = "transaction.timeout.ms"
    ACKS_CONFIG: ClassVar[str] = "acks"
    RETRIES_CONFIG: ClassVar[str] = "retries"
    MAX_IN_FLIGHT_REQUESTS_PER_CONNECTION: ClassVar[str] = "max.in.flight.requests.per.connection"
    KEY_SERIALIZER_CLASS_CONFIG: ClassVar[str] = "key.serializer"
    VALUE_SERIALIZER_CLASS_CONFIG: ClassVar[str] = "value.serializer"
    LINGER_MS_CONFIG: ClassVar[str] = "linger.ms"
    BATCH_SIZE_CONFIG: ClassVar[str] = "batch.size"
    BUFFER_MEMORY_CONFIG: ClassVar[str] = "buffer.memory"
    MAX_BLOCK_MS_CONFIG: ClassVar[str] = "max.block.ms"
    COMPRESSION_TYPE_CONFIG: ClassVar[str] = "compression.type"
    DELIVERY_TIMEOUT_MS_CONFIG: ClassVar[str] = "delivery.timeout.ms"

    acks: int
    """-1 is all."""
    batch_size: int
    buffer_memory: int
    compression_type: str
    delivery_timeout_ms: int
    """From `send` to success or failure, retries included."""
    enable_idempotence: bool
    key_serializer: Serializer
    linger_ms: int
    max_block_ms: int
    max_in_flight_requests_per_connection: int
    max_request_size: int
    metadata_max_age_ms: int
    """Age after which metadata is asked for again."""
    metadata_max_idle_ms: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_class: Callable[..., int] | str | None
    partitioner_ignore_keys: bool
    retries: int
    sequence_error_policy: str
    """`recover`: a sequence error fails its batch, and the producer goes on. `fatal`: it is the end of the producer."""
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    transactional_id: str | None
    value_serializer: Serializer

    @classmethod
    def _settle(cls, values: dict[str, Any], given: Mapping[str, Read]) -> None:
        values["acks"] = "-1" if values["acks"] == "all" else values["acks"]
        _settle_idempotence(values, given)
        if values["transaction.two.phase.commit.enable"] and "transaction.timeout.ms" in given:
            raise ConfigException(
                "Cannot set transaction.timeout.ms when transaction.two.phase.commit.enable is set to true. "
                "Transactions will not expire with two-phase commit enabled."
            )
        least = min(values["linger.ms"] + values["request.timeout.ms"], _INT_MAX)
        if values["delivery.timeout.ms"] < least:
            if "delivery.timeout.ms" in given:
                raise ConfigException(
                    "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms: "
                    f"raise {values['delivery.timeout.ms']} to {least} at least, or lower request.timeout.ms"
                )
            logger.warning("delivery.timeout.ms is set to linger.ms + request.timeout.ms = %d", least)
            values["delivery.timeout.ms"] = least
        if not values["client.id"]:
            values["client.id"] = f"producer-{values['transactional.id'] or next(_PRODUCERS)}"

    @classmethod
    def _attributes(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        found = super(ProducerConfig, cls)._attributes(values)
        found["acks"] = int(values["acks"])
        for name in ("key", "value"):
            key = f"{name}.serializer"
            found[f"{name}_serializer"] = serializer(key, values[key])
        return found

    @property
    def compression_level(self) -> int | None:
        """How hard the codec works; None is its own default."""
        name = f"compression.{self.compression_type}.level"
        level = self.values.get(name)
        return level if name in self.given and isinstance(level, int) and level != -1 else None

    @property
    def default_api_timeout_ms(self) -> int:
        """How long a call may take, all attempts together: a producer's bound is `max.block.ms`."""
        return self.max_block_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerConfig(Settings):
    """The settings of a consumer."""

    KEYS: ClassVar[Mapping[str, ConfigKey]] = CONSUMER_KEYS
    KIND: ClassVar[str] = "consumer"
    CLIENT: ClassVar[str] = "Consumer"
    GROUP_ID_CONFIG: ClassVar[str] = "group.id"
    GROUP_INSTANCE_ID_CONFIG: ClassVar[str] = "group.instance.id"
    KEY_DESERIALIZER_CLASS_CONFIG: ClassVar[str] = "key.deserializer"
    VALUE_DESERIALIZER_CLASS_CONFIG: ClassVar[str] = "value.deserializer"
    ENABLE_AUTO_COMMIT_CONFIG: ClassVar[str] = "enable.auto.commit"
    AUTO_COMMIT_INTERVAL_MS_CONFIG: ClassVar[str] = "auto.commit.interval.ms"
    AUTO_OFFSET_RESET_CONFIG: ClassVar[str] = "auto.offset.reset"
    ISOLATION_LEVEL_CONFIG: ClassVar[str] = "isolation.level"
    SESSION_TIMEOUT_MS_CONFIG: ClassVar[str] = "session.timeout.ms"
    HEARTBEAT_INTERVAL_MS_CONFIG: ClassVar[str] = "heartbeat.interval.ms"
    MAX_POLL_RECORDS_CONFIG: ClassVar[str] = "max.poll.records"
    MAX_POLL_INTERVAL_MS_CONFIG: ClassVar[str] = "max.poll.interval.ms"
    PARTITION_ASSIGNMENT_STRATEGY_CONFIG: ClassVar[str] = "partition.assignment.strategy"

    allow_auto_create_topics: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    """earliest, latest, none or by_duration:…"""
    check_crcs: bool
    client_rack: str
    default_api_timeout_ms: int
    enable_auto_commit: bool
    exclude_internal_topics: bool
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    fetch_min_bytes: int
    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    """classic or consumer (KIP-848)."""
    group_remote_assignor: str | None
    heartbeat_interval_ms: int
    isolation_level: str
    key_deserializer: Deserializer
    max_partition_fetch_bytes: int
    max_poll_interval_ms: int
    max_poll_records: int
    metadata_max_age_ms: int
    """Age after which metadata is asked for again."""
    partition_assignment_strategy: tuple[str, ...]
    """Assignors of a classic group by the names members send, by preference: range, roundrobin, sticky, cooperative-sticky."""
    session_timeout_ms: int
    value_deserializer: Deserializer

    @classmethod
    def _settle(cls, values: dict[str, Any], given: Mapping[str, Read]) -> None:
        group_id = values["group.id"]
        if group_id is None:
            if given.get("enable.auto.commit"):
                raise ConfigException(
                    "enable.auto.commit cannot be set to true when default group id (null) is used."
                )
            values["enable.auto.commit"] = False
        elif not group_id.strip():
            raise InvalidGroupIdException(
                "The configured group.id should not be an empty string or whitespace."
            )
        protocol = values["group.protocol"]
        others = (
            ("group.remote.assignor",)
            if protocol == "classic"
            else ("partition.assignment.strategy", "heartbeat.interval.ms", "session.timeout.ms")
        )
        for name in others:
            if name in given:
                raise ConfigException(f"{name} cannot be set when group.protocol={protocol.upper()}")
        if protocol == "classic" and values["heartbeat.interval.ms"] >= values["session.timeout.ms"]:
            raise ConfigException(
                f"heartbeat.interval.ms={values['heartbeat.interval.ms']} must be lower than "
                f"session.timeout.ms={values['session.timeout.ms']}"
            )
        values["partition.assignment.strategy"] = tuple(
            _assignor(one) for one in values["partition.assignment.strategy"]
        )
        if not values["client.id"]:
            who = values["group.instance.id"] or next(_CONSUMERS)
            values["client.id"] = f"consumer-{group_id}-{who}" if group_id else f"consumer-null-{who}"

    @classmethod
    def _attributes(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        found = super(ConsumerConfig, cls)._attributes(values)
        found["partition_assignment_strategy"] = tuple(
            _ASSIGNOR_CLASSES[one.removeprefix(_JAVA_CONSUMER)]
            for one in values["partition.assignment.strategy"]
        )
        for name in ("key", "value"):
            key = f"{name}.deserializer"
            found[f"{name}_deserializer"] = deserializer(key, values[key])
        return found

    @property
    def retries(self) -> int:
        """A consumer's calls are bounded by time alone."""
        return _INT_MAX

    @property
    def response_max_bytes(self) -> int:
        return max(2 * self.fetch_max_bytes, _RESPONSE_MAX)


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminConfig(Settings):
    """The settings of an admin client."""

    KEYS: ClassVar[Mapping[str, ConfigKey]] = ADMIN_KEYS
    KIND: ClassVar[str] = "admin client"
    CLIENT: ClassVar[str] = "Admin"
    DEFAULT_API_TIMEOUT_MS_CONFIG: ClassVar[str] = "default.api.timeout.ms"

    default_api_timeout_ms: int
    """How long a call is tried again, all attempts together."""
    retries: int

    @classmethod
    def _settle(cls, values: dict[str, Any], given: Mapping[str, Read]) -> None:
        if values["default.api.timeout.ms"] < values["request.timeout.ms"]:
            if "default.api.timeout.ms" in given:
                raise ConfigException(
                    "The specified value of default.api.timeout.ms must be no smaller than the value of request.timeout.ms."
                )
            values["default.api.timeout.ms"] = values["request.timeout.ms"]
        if not values["client.id"]:
            values["client.id"] = f"adminclient-{next(_ADMINS)}"


_PRODUCERS: Final[Iterator[int]] = itertools.count(1)
_CONSUMERS: Final[Iterator[int]] = itertools.count(1)
_ADMINS: Final[Iterator[int]] = itertools.count(1)


def _together(settings: Mapping[str, Given], keywords: Mapping[str, Given]) -> dict[str, Given]:
    for name in settings:
        if not isinstance(name, str):
            raise ConfigException(
                f"{shown(name)} is not a setting name: setting names are str, as bootstrap.servers"
            )
    twice = settings.keys() & keywords.keys()
    for name in sorted(twice):
        if settings[name] != keywords[name]:
            raise ConfigException(
                f"{name} is given twice, as {settings[name]!r} and {keywords[name]!r}: keep one"
            )
    return {**settings, **keywords}


def _settle_backoff(values: dict[str, Any], given: Mapping[str, Read]) -> None:
    """One of the pair given alone fixes the pause, as in Java."""
    if "reconnect.backoff.ms" in given and "reconnect.backoff.max.ms" not in given:
        values["reconnect.backoff.max.ms"] = values["reconnect.backoff.ms"]


def _settle_idempotence(values: dict[str, Any], given: Mapping[str, Read]) -> None:
    """A setting against idempotence is an error where idempotence was asked for; else idempotence goes off with a warning."""
    asked = "enable.idempotence" in given
    against: list[str] = []
    if values["enable.idempotence"]:
        if values["retries"] == 0:
            if asked:
                raise ConfigException("Must set retries to non-zero when using the idempotent producer.")
            against.append("retries=0")
        if values["acks"] != "-1":
            if asked:
                raise ConfigException(
                    "Must set acks to all in order to use the idempotent producer. "
                    "Otherwise we cannot guarantee idempotence."
                )
            against.append(f"acks={values['acks']}")
        in_flight = values["max.in.flight.requests.per.connection"]
        # Kafka 3 switches idempotence off here, as for the two settings above; Kafka 4.3 always refuses. Semel does as Kafka 3.
        if in_flight > _IN_FLIGHT_MAX:
            if asked or values["transactional.id"] is not None:
                raise ConfigException(
                    "Must set max.in.flight.requests.per.connection to at most 5 to use the idempotent producer."
                )
            against.append(f"max.in.flight.requests.per.connection={in_flight}")
    if against:
        logger.warning(
            "Idempotence is switched off because of %s: set enable.idempotence=false if that is meant",
            ", ".join(against),
        )
        values["enable.idempotence"] = False
    if not values["enable.idempotence"] and values["transactional.id"] is not None:
        raise ConfigException("Cannot set a transactional.id without also enabling idempotence.")


def _assignor(name: str) -> str:
    """Java's class name of an assignor, given that or the name members send."""
    short = name.removeprefix("class ").removeprefix(_JAVA_CONSUMER)
    for class_name, sent in _ASSIGNOR_CLASSES.items():
        if short in (class_name, sent):
            return _JAVA_CONSUMER + class_name
    raise ConfigException(
        f"partition.assignment.strategy={name}: use {', '.join(ASSIGNORS)}, or Java's names of their classes"
    )


def _reporters(given: tuple[object, ...]) -> tuple[Reporter, ...]:
    found: list[Reporter] = []
    for one in given:
        if callable(one):
            found.append(one)
        elif one != _JMX:  # Java's default, which has no meaning here.
            raise ConfigException(f"metric.reporters={one}: use callables that take a mapping of metrics")
    return tuple(found)


def _warn_without_effect(given: Mapping[str, Read], kind: type[Settings]) -> None:
    for name in without_effect(kind):
        if name in given:
            logger.warning("%s=%s changes nothing in this %s", name, given[name], kind.KIND)


def without_effect(kind: type[Settings]) -> list[str]:
    """The keys of Kafka's that are accepted and change nothing."""
    names = {one.name for one in fields(kind)}
    return sorted(
        name for name in kind.KEYS if name.replace(".", "_") not in names and name not in _ELSEWHERE
    )


def _shown(value: object) -> Any:
    if isinstance(value, tuple):
        return [_shown(one) for one in value]
    if callable(value):
        module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
        return f"{module}.{name}" if module and name else name or repr(value)
    return value
