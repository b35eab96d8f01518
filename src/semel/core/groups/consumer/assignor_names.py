"""The names of the broker's assignors, apart from what they compute: a start reads settings and divides nothing yet.

Role.   `group.consumer.assignors` is held against these names; `assignors` has a function for each.
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
    """The assignors `group.consumer.assignors` names, by name or by Kafka's class; one we do not have is an error."""
    names = [_BY_CLASS.get(name, name) for name in configured]
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise ConfigError(
            f"group.consumer.assignors: {unknown[0]} is no assignor of this broker; it has {', '.join(NAMES)}"
        )
    return tuple(names)
