"""The broker's configuration: Kafka's keys, checked once at the edge.

Role.   `BrokerConfig.of` takes what a user gave (command line, file, keywords) and gives typed values; a topic's settings
        on top of them become the `LogConfig` of its partitions.
Flow.   The CLI and `semel.Broker` build one; the broker holds it and replaces it by `with_dynamic` when settings are
        changed while it runs.
Rules.  * Every key of Kafka 4.3 (and of 3.9's ZooKeeper) is known, typed and bounded; keys without effect yet are
          found under `value`. An unknown key is refused with the one that was probably meant.
        * A topic's key stands for the broker's default of it: `retention.ms` is `log.retention.ms`.
        * Underscores may stand for dots: `num_partitions` is `num.partitions`.
        * `zookeeper.connect` makes the broker a member of a cluster: its only listener is then the brokers' as well.
        * A setting that would silently promise something Semel does not keep (TLS, an authorizer, a second listener or directory)
          is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, NamedTuple

from semel.core.metadata.broker_configs import (
    BROKER_CONFIGS,
    UNLISTED_CONFIGS,
    broker_key,
    broker_synonyms,
    changes_while_running,
)
from semel.core.metadata.config_types import ConfigKey, Value, invalid, text
from semel.core.metadata.configs import check_together, nearest, topic_defaults, topic_values
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.core.records.batch import TimestampType
from semel.core.records.codecs import NAMES, Compression
from semel.core.security.identity import ListenerName
from semel.errors import ConfigError
from semel.log.config import LogConfig
from semel.net.listener import ListenerConfig
from semel.runtime.network import Listening

_NO_OVERRIDES: Final[Mapping[str, str]] = {}
_PORT_MAX: Final = 65535
_LONG_MAX: Final = 2**63 - 1
_CODECS: Final[Mapping[str, int | None]] = {
    "producer": None,
    "uncompressed": Compression.NONE,
    **dict(zip(NAMES[1:], tuple(Compression)[1:], strict=True)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """The settings a broker runs with. Attributes are Kafka's keys with underscores for dots."""

    node_id: int
    listener: ListenerName
    """From `listeners`: the name under which this broker listens."""
    zookeeper_connect: str | None
    """`zookeeper.connect`: the cluster that this broker is a member of; None for a broker alone."""
    host: str
    """From `listeners`: where to listen; empty means on every interface."""
    port: int
    """From `listeners`; 0 picks a free one."""
    advertised_host: str | None
    """From `advertised.listeners`: what clients are told, if it differs."""
    advertised_port: int | None
    data_dir: str
    """`log.dirs`, or `log.dir`."""
    auto_create_topics_enable: bool
    num_partitions: int
    default_replication_factor: int
    delete_topic_enable: bool
    min_insync_replicas: int
    message_max_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    queued_max_requests: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    log_retention_check_interval_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_initial_task_delay_ms: int
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    request_timeout_ms: int
    static: Mapping[str, str] = field(repr=False)
    """The settings given at the start, under Kafka's names."""
    dynamic: Mapping[str, str] = field(repr=False)
    """The settings changed since then."""
    values: Mapping[str, Value] = field(repr=False)
    """The value of every key of Kafka's, and of older ones that were set."""
    _topic_defaults: Mapping[str, Value] = field(repr=False)

    @classmethod
    def of(cls, settings: Mapping[str, str | int | bool] = _NO_OVERRIDES) -> "BrokerConfig":
        """The configuration a user gave; raises `ConfigError` with the key, the value and the way out."""
        return cls._build(_named(settings), _NO_OVERRIDES)

    def with_dynamic(self, dynamic: Mapping[str, str]) -> "BrokerConfig":
        """This configuration with what was changed while running, instead of what was before."""
        for name in dynamic:
            if not changes_while_running(_known(name)):
                raise ConfigError(
                    f"{name} cannot be changed while the broker runs: set it when it is started"
                )
        return self._build(self.static, dynamic)

    @classmethod
    def _build(cls, static: Mapping[str, str], dynamic: Mapping[str, str]) -> "BrokerConfig":
        # A setting changed while running replaces its synonyms too: minutes given at the start yield to milliseconds.
        replaced = {synonym for name in dynamic for synonym in broker_synonyms(name) if synonym != name}
        given = {**{name: static[name] for name in static if name not in replaced}, **dynamic}
        values = {**_defaults(), **{name: _known(name).parse(content) for name, content in given.items()}}
        _check(values, static)
        attributes: dict[str, Any] = {
            one.name: values[dotted]
            for one in fields(cls)
            if (dotted := one.name.replace("_", ".")) in values
        }
        listener, host, port = _listener(values)
        advertised_host, advertised_port = _advertised(values)
        is_member = values.get("zookeeper.connect") is not None
        attributes.setdefault("zookeeper_connect", None)
        return cls(
            **attributes,
            listener=ListenerName(listener, is_inter_broker=is_member),
            host=host,
            port=port,
            advertised_host=advertised_host,
            advertised_port=advertised_port,
            data_dir=_data_dir(values),
            static=static,
            dynamic=dynamic,
            values=values,
            _topic_defaults=topic_defaults(values),
        )

    def value(self, key: str) -> Value:
        """The value of any of Kafka's keys."""
        return self.values[key] if key in self.values else _known(key).default_value

    def topic_values(
        self, overrides: Mapping[str, str] = _NO_OVERRIDES, *, checked: bool = False
    ) -> Mapping[str, Value]:
        """Everything that governs a topic with these settings of its own.

        Raises `ConfigError` if they cannot be. Settings that are in force were `checked` when they were made: that the
        broker's have changed since then, and contradict them now, must not stop it.
        """
        if not overrides:
            return self._topic_defaults
        values = topic_values(self._topic_defaults, overrides, as_kafka_3=self.zookeeper_connect is not None)
        if not checked:
            check_together(values)
        return values

    def log_config(self, overrides: Mapping[str, str] = _NO_OVERRIDES, *, checked: bool = False) -> LogConfig:
        """The rules for logs of a topic with these own settings; raises as `topic_values` does."""
        values: Mapping[str, Any] = self.topic_values(overrides, checked=checked)
        policy = values["cleanup.policy"]
        return LogConfig(
            segment_bytes=values["internal.segment.bytes"] or values["segment.bytes"],
            # A record that must be compacted within some time must not wait for its segment to be closed.
            segment_ms=min(
                values["segment.ms"], values["max.compaction.lag.ms"] if "compact" in policy else _LONG_MAX
            ),
            segment_jitter_ms=values["segment.jitter.ms"],
            segment_index_bytes=values["segment.index.bytes"],
            index_interval_bytes=values["index.interval.bytes"],
            retention_ms=values["retention.ms"],
            retention_bytes=values["retention.bytes"],
            flush_messages=values["flush.messages"],
            flush_ms=values["flush.ms"],
            min_insync_replicas=values["min.insync.replicas"],
            file_delete_delay_ms=values["file.delete.delay.ms"],
            max_message_bytes=values["max.message.bytes"],
            message_timestamp_type=(
                TimestampType.LOG_APPEND_TIME
                if values["message.timestamp.type"] == "LogAppendTime"
                else TimestampType.CREATE_TIME
            ),
            message_timestamp_before_max_ms=values["message.timestamp.before.max.ms"],
            message_timestamp_after_max_ms=values["message.timestamp.after.max.ms"],
            compression_type=_CODECS[values["compression.type"]],
            compression_level=_level(values),
            cleanup_delete="delete" in policy,
            cleanup_compact="compact" in policy,
            min_cleanable_dirty_ratio=values["min.cleanable.dirty.ratio"],
            min_compaction_lag_ms=values["min.compaction.lag.ms"],
            max_compaction_lag_ms=values["max.compaction.lag.ms"],
            delete_retention_ms=values["delete.retention.ms"],
            producer_id_expiration_ms=self.producer_id_expiration_ms,
        )


@cache
def _defaults() -> Mapping[str, Value]:
    return {name: key.default_value for name, key in BROKER_CONFIGS.items()}


def _named(settings: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Settings under Kafka's own names for a broker's."""
    static: dict[str, str] = {}
    given: dict[str, str] = {}
    for name, value in settings.items():
        own = _own_name(name)
        content = text(value)
        if own in static and static[own] != content:
            raise ConfigError(
                f"{name}={content} and {given[own]}={static[own]} say different things: keep one"
            )
        static[own] = content
        given[own] = name
    node_id = static.get("node.id", static.get("broker.id"))
    if node_id is not None:
        if static.setdefault("broker.id", node_id) != node_id:
            raise ConfigError(
                f"node.id={node_id} and broker.id={static['broker.id']} name one thing: keep one"
            )
        static["node.id"] = node_id
    return static


def _own_name(name: str) -> str:
    if broker_key(name) is None and broker_key(name.replace("_", ".")) is not None:
        return name.replace("_", ".")
    topic = TOPIC_CONFIGS.get(name) or TOPIC_CONFIGS.get(name.replace("_", "."))
    if broker_key(name) is None and topic is not None and topic.synonyms:
        return topic.synonyms[0]
    return _known(name).name


def _known(name: str) -> ConfigKey:
    key = broker_key(name)
    if key is not None:
        return key
    near = nearest(name.replace("_", "."), [*BROKER_CONFIGS, *UNLISTED_CONFIGS])
    raise ConfigError(
        f"{name} is not a setting of a broker"
        + (f": did you mean {near}?" if near else "; see Kafka's broker configs")
    )


def _check(values: Mapping[str, Value], static: Mapping[str, str]) -> None:
    """Refuse what contradicts itself, and what would promise something that is not kept."""
    defaults = topic_defaults(values)
    if defaults["retention.ms"] == 0:
        raise ConfigError("log.retention.ms must be unlimited (-1) or, greater than or equal to 1")
    for name, least in (("segment.ms", 1), ("segment.jitter.ms", 0)):
        value = defaults[name]
        if isinstance(value, int) and value < least:
            synonym = TOPIC_CONFIGS[name].synonyms[0]
            raise ConfigError(f"{synonym} must be greater than or equal to {least}")
    check_together(defaults)
    _per_ip(values)
    if values["authorizer.class.name"]:
        raise ConfigError(
            f"authorizer.class.name={values['authorizer.class.name']}: authorizers are not served; leave it empty"
        )
    if values["remote.log.storage.system.enable"]:
        raise ConfigError(
            "remote.log.storage.system.enable=true: tiered storage is not served; leave it false"
        )
    if "zookeeper.connect" in static:
        _check_member(values, static)
    if "process.roles" in static and "broker" not in _items(values, "process.roles"):
        raise ConfigError(f"process.roles={static['process.roles']}: this is a broker; name that role")


def _check_member(values: Mapping[str, Value], static: Mapping[str, str]) -> None:
    """Refuse what a member of a cluster under ZooKeeper cannot be."""
    if "process.roles" in static:
        raise ConfigError(
            f"process.roles={static['process.roles']} is of a cluster without ZooKeeper, and zookeeper.connect is set: keep one"
        )
    if values.get("control.plane.listener.name"):
        raise ConfigError(
            f"control.plane.listener.name={values['control.plane.listener.name']}: one listener is served; leave it out, and let the "
            "controller use it"
        )
    name, listener = values["inter.broker.listener.name"], _listener(values).listener
    if name is not None and str(name).upper() != listener:
        raise ConfigError(
            f"inter.broker.listener.name={name}: one listener is served, which is {listener}; name that one, or leave it out"
        )
    protocol = values.get("security.inter.broker.protocol")
    if name is None and protocol not in (None, "PLAINTEXT"):
        raise ConfigError(
            f"security.inter.broker.protocol={protocol}: brokers are called over PLAINTEXT only; leave it out"
        )


def _items(values: Mapping[str, Value], name: str) -> tuple[str, ...]:
    value = values[name]
    return value if isinstance(value, tuple) else ()


def _level(values: Mapping[str, Value]) -> int | None:
    """The level of the codec batches are stored in; None is the codec's own, which Kafka's defaults stand for."""
    name = f"compression.{values['compression.type']}.level"
    level = values.get(name)
    return level if isinstance(level, int) and level != TOPIC_CONFIGS[name].default_value else None


def listener_config(config: BrokerConfig) -> ListenerConfig:
    """What governs connections. Buffers nobody asked for are the system's to tune: Kafka's default would fix them."""

    def buffer(name: str) -> int | None:
        size = config.value(name)
        return size if name in config.static and isinstance(size, int) and size > 0 else None

    return ListenerConfig(
        name=config.listener,
        request_max_bytes=config.socket_request_max_bytes,
        connections_max=config.max_connections,
        connections_per_ip_max=config.max_connections_per_ip,
        connections_per_ip_overrides=_per_ip(config.values),
        idle_max_ms=config.connections_max_idle_ms,
        listening=Listening(
            backlog=config.socket_listen_backlog_size,
            send_buffer_bytes=buffer("socket.send.buffer.bytes"),
            receive_buffer_bytes=buffer("socket.receive.buffer.bytes"),
        ),
    )


def _per_ip(values: Mapping[str, Value]) -> dict[str, int]:
    """Address -> limit, from ADDRESS:COUNT,…"""
    name = "max.connections.per.ip.overrides"
    limits: dict[str, int] = {}
    for pair in str(values[name] or "").split(","):
        host, _, count = pair.strip().rpartition(":")
        if pair.strip() and not (host and count.isdecimal()):
            raise ConfigError(invalid(name, pair.strip(), "expected ADDRESS:COUNT"))
        if host:
            limits[host.strip("[]")] = int(count)
    return limits


def _data_dir(values: Mapping[str, Value]) -> str:
    directories = _items(values, "log.dirs") or _items(values, "log.dir")
    if len(directories) != 1:
        raise ConfigError(f"log.dirs={','.join(directories)}: one directory is served; name one")
    return directories[0]


def _listener(values: Mapping[str, Value]) -> "_Endpoint":
    """The one listener of the broker; a controller's, as in Kafka's own files, is passed over."""
    controllers = _items(values, "controller.listener.names")
    listeners = [
        _endpoint("listeners", one, values)
        for one in _items(values, "listeners")
        if one.partition("://")[0] not in controllers
    ]
    if len(listeners) != 1:
        content = ",".join(_items(values, "listeners"))
        raise ConfigError(f"listeners={content}: one listener is served; name one, as PLAINTEXT://HOST:PORT")
    return listeners[0]


def _advertised(values: Mapping[str, Value]) -> tuple[str | None, int | None]:
    controllers = _items(values, "controller.listener.names")
    advertised = [
        one for one in _items(values, "advertised.listeners") if one.partition("://")[0] not in controllers
    ]
    if not advertised:
        return None, None
    if len(advertised) > 1:
        raise ConfigError(f"advertised.listeners={','.join(advertised)}: one listener is served; name one")
    _name, host, port = _endpoint("advertised.listeners", advertised[0], values)
    if is_wildcard(host):
        raise ConfigError(
            f"advertised.listeners={advertised[0]}: clients cannot connect to that; name a host"
        )
    return host, port


def is_wildcard(host: str) -> bool:
    """Whether this stands for every address of the machine."""
    if not host:
        return True
    import ipaddress  # Few are configured this way: a start stays fast without it.

    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False  # A name.


class _Endpoint(NamedTuple):
    """One entry of `listeners` or `advertised.listeners`."""

    listener: str
    host: str
    port: int


def _endpoint(name: str, content: str, values: Mapping[str, Value]) -> _Endpoint:
    """The parts of NAME://HOST:PORT; IPv6 hosts stand in brackets."""
    listener, _, address = content.partition("://")
    host, _, port = address.rpartition(":")
    if (
        not listener
        or not port.isdecimal()
        or int(port) > _PORT_MAX
        or (":" in host and not host.startswith("["))
    ):
        raise ConfigError(
            invalid(name, content, "expected PLAINTEXT://HOST:PORT with a port from 0 to 65535")
        )
    protocols = dict(
        pair.rpartition(":")[::2] for pair in str(values["listener.security.protocol.map"]).split(",")
    )
    protocol = protocols.get(listener.upper(), "")
    if protocol != "PLAINTEXT":
        missing = "it has no security protocol in listener.security.protocol.map"
        known = f"its protocol {protocol} is not served" if protocol else missing
        raise ConfigError(invalid(name, content, f"{known}; use PLAINTEXT://"))
    return _Endpoint(listener.upper(), host.strip("[]"), int(port))
