"""Settings at work: the values that govern a topic.

Role.   Pure functions over the tables: from a broker's values to a topic's defaults, and with a topic's own settings to
        what governs it.
Flow.   `broker.config` calls them, once for the broker and once for every topic that has settings of its own.
Rules.  * A topic's own setting wins over the broker's; of the broker's synonyms the first one that is set wins.
        * Minutes and hours become milliseconds; anything negative is "for ever" and becomes -1.
Elsewhere. How settings are shown: `config_entries`. How they change: `config_changes`.
"""

import difflib
from collections.abc import Collection, Mapping
from typing import Final

from semel.core.metadata.config_types import Value
from semel.core.metadata.topic_configs import TOPIC_CONFIGS
from semel.errors import ConfigError

_MS: Final = {".minutes": 60_000, ".hours": 3_600_000}
_NEAR: Final = 0.6


def nearest(name: str, names: Collection[str]) -> str | None:
    """The name that was probably meant."""
    close = difflib.get_close_matches(name, names, n=1, cutoff=_NEAR)
    return close[0] if close else None


def topic_defaults(broker: Mapping[str, Value]) -> dict[str, Value]:
    """The values every topic gets from the broker's settings."""
    values: dict[str, Value] = {}
    for key in TOPIC_CONFIGS.values():
        found = (_in_topic_unit(name, broker[name]) for name in key.synonyms)
        values[key.name] = next((value for value in found if value is not None), key.default_value)
    return values


def _in_topic_unit(name: str, value: Value) -> Value:
    for unit, milliseconds in _MS.items():
        if name.endswith(unit) and isinstance(value, int):
            return -1 if value < 0 else value * milliseconds
    return value


def topic_values(
    defaults: Mapping[str, Value], overrides: Mapping[str, str], *, as_kafka_3: bool = False
) -> dict[str, Value]:
    """The values that govern a topic; raises `ConfigError` on a setting that cannot be."""
    for name in overrides:
        if name not in TOPIC_CONFIGS:
            close = nearest(name, TOPIC_CONFIGS)
            raise ConfigError(
                f"Unknown topic config name: {name}" + (f", did you mean {close}?" if close else "")
            )
    own = {name: TOPIC_CONFIGS[name].parse(text, as_kafka_3=as_kafka_3) for name, text in overrides.items()}
    return {**defaults, **own}


def check_together(values: Mapping[str, Value]) -> None:
    """Raise `ConfigError` if a topic's settings contradict each other."""
    lag_min, lag_max = values["min.compaction.lag.ms"], values["max.compaction.lag.ms"]
    if isinstance(lag_min, int) and isinstance(lag_max, int) and lag_min > lag_max:
        raise ConfigError(
            f"conflict topic config setting min.compaction.lag.ms ({lag_min}) > max.compaction.lag.ms ({lag_max})"
        )
    if values["remote.storage.enable"]:
        raise ConfigError(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
