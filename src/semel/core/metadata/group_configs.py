"""The settings of a group: Kafka's names, types and bounds, and the broker's settings behind each.

Role.   The table `GROUP_CONFIGS`, what governs a group, and how its settings are shown. Pure.
Flow.   AlterConfigs checks with `check`; DescribeConfigs shows `group_entries`; the group coordinator asks `group_values`
        with what the metadata image keeps for a group.
Rules.  * Facts of Apache Kafka 4.3.1; the differential test compares them with its answers.
        * A group's own setting wins over the broker's default; the broker's bounds hold for it.
        * A setting with a sentence of documentation is one Semel acts on.
"""

from collections.abc import Mapping
from typing import Final

from semel.core.metadata.broker_configs import BROKER_CONFIGS
from semel.core.metadata.config_entries import Entry, Layers, Synonym
from semel.core.metadata.config_types import (
    BOOLEAN,
    INT,
    MEDIUM,
    STRING,
    ConfigKey,
    ConfigSource,
    OneOf,
    Range,
    Value,
)
from semel.errors import ConfigError

_HEARTBEAT: Final = "heartbeat.interval.ms"
_SESSION: Final = "session.timeout.ms"


def _behind(name: str, low: int, documentation: str | None = None) -> ConfigKey:
    """A number whose default is the broker's setting of that name."""
    synonym = f"group.{name}"
    default = BROKER_CONFIGS[synonym].default
    return ConfigKey(name, INT, default, Range(low), MEDIUM, synonyms=(synonym,), documentation=documentation)


_ROWS: Final = (
    _behind(
        "consumer.assignment.interval.ms",
        0,
        "How long the group's assignment stays at least before a new one is made.",
    ),
    _behind("consumer.heartbeat.interval.ms", 1, "How often members of the group send a heartbeat."),
    _behind("consumer.session.timeout.ms", 1, "A member without a heartbeat for so long is removed."),
    _behind("share.assignment.interval.ms", 0),
    ConfigKey("share.auto.offset.reset", STRING, "latest", None, MEDIUM),
    _behind("share.delivery.count.limit", 2),
    _behind("share.heartbeat.interval.ms", 1),
    ConfigKey(
        "share.isolation.level",
        STRING,
        "read_uncommitted",
        OneOf(("read_committed", "read_uncommitted")),
        MEDIUM,
    ),
    _behind("share.partition.max.record.locks", 100),
    _behind("share.record.lock.duration.ms", 1000),
    ConfigKey("share.renew.acknowledge.enable", BOOLEAN, "true", None, MEDIUM),
    _behind("share.session.timeout.ms", 1),
    _behind("streams.assignment.interval.ms", 0),
    _behind("streams.heartbeat.interval.ms", 1),
    _behind("streams.initial.rebalance.delay.ms", 0),
    _behind("streams.num.standby.replicas", 0),
    _behind("streams.session.timeout.ms", 1),
)
GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = {row.name: row for row in _ROWS}


def group_values(broker: Mapping[str, Value], own: Mapping[str, str]) -> dict[str, Value]:
    """The values that govern a group with these settings of its own; raises `ConfigError` on one that cannot be."""
    values: dict[str, Value] = {}
    for key in GROUP_CONFIGS.values():
        values[key.name] = broker[key.synonyms[0]] if key.synonyms else key.default_value
    for name, content in own.items():
        if name not in GROUP_CONFIGS:
            raise ConfigError(f"Unknown group config name: {name}")
        values[name] = GROUP_CONFIGS[name].parse(content)
    return values


def check(broker: Mapping[str, Value], own: Mapping[str, str]) -> None:
    """Raise `ConfigError` if a group may not have these settings under this broker's bounds."""
    values = group_values(broker, own)
    for name in own:
        value = values[name]
        kind, _, rest = name.partition(".")
        for bound, word in (("min", "greater"), ("max", "less")):
            synonym = f"group.{kind}.{bound}.{rest.removeprefix('num.')}"
            limit = broker.get(synonym)
            if not isinstance(value, int) or not isinstance(limit, int):
                continue
            if value < limit if bound == "min" else value > limit:
                raise ConfigError(f"{name} must be {word} than or equal to {synonym}")
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = values[f"{kind}.{_SESSION}"], values[f"{kind}.{_HEARTBEAT}"]
        if isinstance(session, int) and isinstance(heartbeat, int) and session <= heartbeat:
            raise ConfigError(f"{kind}.{_SESSION} must be greater than {kind}.{_HEARTBEAT}")


def group_entries(broker: Mapping[str, Value], own: Mapping[str, str], layers: Layers) -> list[Entry]:
    """Every setting of a group that was given `own`."""
    values = group_values(broker, own)
    entries = []
    for name in sorted(GROUP_CONFIGS):
        key = GROUP_CONFIGS[name]
        value = key.text(values[name])
        synonyms: tuple[Synonym, ...]
        if key.synonyms:
            synonyms = layers.synonyms(BROKER_CONFIGS[key.synonyms[0]])
        else:
            synonyms = (Synonym(name, key.default, ConfigSource.DEFAULT),)
        if name in own:
            synonyms = (Synonym(name, value, ConfigSource.DYNAMIC_GROUP), *synonyms)
        entries.append(
            Entry(
                name=name,
                value=value,
                source=synonyms[0].source,
                type=key.type,
                read_only=False,
                sensitive=False,
                synonyms=synonyms,
                documentation=key.documentation,
            )
        )
    return entries
