"""The names of the broker's assignors, separate from their code: settings need only the names, so the broker starts
faster.

Role.   `group.consumer.assignors` is checked against these names; `assignors` has a function for each.
"""

from collections.abc import Iterable
from typing import Final

from semel.errors import ConfigError

UNIFORM: Final = "uniform"
RANGE: Final = "range"
NAMES: Final = (UNIFORM, RANGE)
_CLASSES: Final = "org.apache.kafka.coordinator.group.assignor."
_BY_CLASS: Final = {f"{_CLASSES}UniformAssignor": UNIFORM, f"{_CLASSES}RangeAssignor": RANGE}


def assignor_names(configured: Iterable[str]) -> tuple[str, ...]:
    """The assignors in `group.consumer.assignors`, by name or by Kafka's class name; an unknown one raises
    `ConfigError`."""
    names = [_BY_CLASS.get(name, name) for name in configured]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ConfigError(
            f"group.consumer.assignors: {unknown[0]} is not an assignor of this broker; it has {', '.join(NAMES)}"
        )
    return tuple(names)
