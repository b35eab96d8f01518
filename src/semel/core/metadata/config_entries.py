"""Settings as they are shown: each with its value, its source, and its synonyms, which would hold without it.

Role.   The answer to DescribeConfigs, as values. Pure.
Flow.   The handler hands in the layers a broker's settings come from and gets entries, by name.
Rules.  * Layers from strong to weak: the topic's own, this broker's while running, every broker's while running, what the
          broker was started with, the default. Synonyms of a setting follow each other within a layer.
        * Synonyms before the setting itself in that list are dropped, as Kafka does: `log.retention.minutes` says nothing of
          `log.retention.ms`.
        * A secret has no value, nowhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile
from typing import Final, NamedTuple

from semel.core.metadata.broker_configs import (
    BROKER_CONFIGS,
    broker_key,
    broker_synonyms,
    changes_while_running,
)
from semel.core.metadata.config_types import ConfigKey, ConfigSource, ConfigType, Value
from semel.core.metadata.topic_configs import TOPIC_CONFIGS

_DEFAULTS: Final[Mapping[str, str]] = {
    name: key.default for name, key in BROKER_CONFIGS.items() if key.default is not None
}


class Synonym(NamedTuple):
    """One of the settings that lead to a value."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting as it is."""

    name: str
    value: str | None
    source: ConfigSource
    type: ConfigType
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    documentation: str | None


@dataclass(frozen=True, slots=True)
class Layers:
    """The settings of a broker, by their source."""

    own: Mapping[str, str]
    """While running, for this broker."""
    every: Mapping[str, str]
    """While running, for every broker."""
    static: Mapping[str, str]
    """When it was started."""

    def synonyms(self, key: ConfigKey) -> tuple[Synonym, ...]:
        """The settings that lead to the value of this one of the broker's, strongest first."""
        names = broker_synonyms(key.name)
        layers = (
            (self.own, ConfigSource.DYNAMIC_BROKER),
            (self.every, ConfigSource.DYNAMIC_DEFAULT_BROKER),
            (self.static, ConfigSource.STATIC_BROKER),
            (_DEFAULTS, ConfigSource.DEFAULT),
        )
        found = [
            Synonym(name, None if key.sensitive else layer[name], source)
            for layer, source in layers
            for name in names
            if name in layer
        ]
        return tuple(dropwhile(lambda synonym: synonym.name != key.name, found))


def topic_entries(values: Mapping[str, Value], own: Mapping[str, str], layers: Layers) -> list[Entry]:
    """Every setting of a topic that was given `own` and is governed by `values`."""
    entries = []
    for name in sorted(TOPIC_CONFIGS):
        key = TOPIC_CONFIGS[name]
        if key.internal and name not in own:
            continue
        value = key.text(values[name])
        synonyms: tuple[Synonym, ...] = ()
        if key.synonyms:
            synonyms = layers.synonyms(BROKER_CONFIGS[key.synonyms[0]])
        if name in own:
            synonyms = (Synonym(name, value, ConfigSource.DYNAMIC_TOPIC), *synonyms)
        entries.append(_entry(key, value, synonyms, read_only=False))
    return entries


def broker_entries(values: Mapping[str, Value], layers: Layers) -> list[Entry]:
    """Every setting of a broker that runs with `values`."""
    shown = {name for name, key in BROKER_CONFIGS.items() if not key.internal}
    return [
        _entry(key, key.text(values[name]), layers.synonyms(key), read_only=not changes_while_running(key))
        for name in sorted(shown.union(layers.own, layers.every, layers.static))
        if (key := broker_key(name)) is not None
    ]


def every_broker_entries(layers: Layers) -> list[Entry]:
    """The settings made for every broker while they run."""
    entries = []
    for name in sorted(layers.every):
        if (key := broker_key(name)) is not None:
            value = None if key.sensitive else layers.every[name]
            synonyms = (Synonym(name, value, ConfigSource.DYNAMIC_DEFAULT_BROKER),)
            entries.append(_entry(key, value, synonyms, read_only=not changes_while_running(key)))
    return entries


def _entry(key: ConfigKey, value: str | None, synonyms: tuple[Synonym, ...], *, read_only: bool) -> Entry:
    return Entry(
        name=key.name,
        value=value,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        type=key.type,
        read_only=read_only,
        sensitive=key.sensitive,
        synonyms=synonyms,
        documentation=key.documentation,
    )
