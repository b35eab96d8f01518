"""Changes of settings: the new own settings of a topic or broker, or why they may not be.

Role.   The rules of AlterConfigs and IncrementalAlterConfigs, as functions from settings to settings. Pure.
Flow.   The handlers turn a resource of a request into `Change`s and ask `after` for the settings that would follow. The settings
        are checked as a whole, and only then written.
Rules.  * A setting is named once in a change, and has a value unless it is deleted. A value has room in an answer.
        * Append and subtract are for lists; a list that was not set starts from its default.
        * A broker's settings change while it runs only where Kafka's do; some only for one broker, some only for one
          listener.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from semel.core.metadata.broker_configs import (
    BROKER_CONFIGS,
    LISTENER_ONLY,
    UNLISTED_CONFIGS,
    broker_key,
    changes_while_running,
)
from semel.core.metadata.config_types import LIST, ConfigKey, Update
from semel.core.metadata.configs import nearest
from semel.errors import ConfigError, ErrorCode, Refuse


class Operation(IntEnum):
    """The operations on a setting, under the numbers of IncrementalAlterConfigs."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_OPERATIONS: Final = frozenset(Operation)
VALUE_BYTES_MAX: Final = 0x7FFF
"""The longest text that an answer to DescribeConfigs can hold. Appending may make a longer one."""


class Change(NamedTuple):
    """One setting to be changed."""

    name: str
    value: str | None
    operation: int = Operation.SET


def flaw(changes: Sequence[Change]) -> Refuse | None:
    """Why this can be no change at all, whatever it is meant for."""
    if len({change.name for change in changes}) < len(changes):
        return Refuse(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    unknown = [change for change in changes if change.operation not in _OPERATIONS]
    if unknown:
        what = f"{unknown[0].name}: {unknown[0].operation} is not an operation, {min(Operation)} to {max(Operation)} are"
        return Refuse(ErrorCode.INVALID_REQUEST, what)
    missing = [
        change.name for change in changes if change.value is None and change.operation != Operation.DELETE
    ]
    if missing:
        return Refuse(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(missing)}")
    return None


def after(
    own: Mapping[str, str], changes: Sequence[Change], find: Callable[[str], ConfigKey | None]
) -> dict[str, str] | Refuse:
    """The settings that follow from `own` when these changes, which have no flaw, are made."""
    settings = dict(own)
    for name, value, operation in changes:
        if operation == Operation.DELETE or value is None:
            settings.pop(name, None)
        elif operation == Operation.SET:
            settings[name] = value
        else:
            key = find(name)
            if key is None or key.type is not LIST:
                word = Operation(operation).name
                return Refuse(
                    ErrorCode.INVALID_CONFIG, f"Can't {word} to key {name} because its type is not LIST."
                )
            settings[name] = _list_after(settings.get(name, key.default or ""), value, operation)
        if len(settings.get(name, "").encode()) > VALUE_BYTES_MAX:
            return Refuse(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{VALUE_BYTES_MAX} bytes.",
            )
    return settings


def _list_after(content: str, value: str, operation: int) -> str:
    items = [item for item in content.split(",") if item]
    given = value.split(",")
    if operation == Operation.APPEND:
        there = set(items)
        return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in there)])
    left, kept = Counter(given), list[str]()
    for item in items:
        if left[item] > 0:
            left[item] -= 1
        else:
            kept.append(item)
    return ",".join(kept)


def broker_flaw(settings: Mapping[str, str], *, every: bool) -> Refuse | None:
    """Why a broker, or every broker, may not be given these settings while it runs."""
    keys = {name: broker_key(name) for name in settings}
    for name, key in keys.items():
        if key is None:
            near = nearest(name, [*BROKER_CONFIGS, *UNLISTED_CONFIGS])
            hint = f": did you mean {near}?" if near else ""
            return Refuse(ErrorCode.INVALID_CONFIG, f"Unknown broker config name: {name}{hint}")
    known = {name: key for name, key in keys.items() if key is not None}
    refusals = (
        (
            "Cannot update these configs dynamically",
            [name for name, key in known.items() if not changes_while_running(key)],
        ),
        (
            "These security configs can be dynamically updated only per-listener using the listener prefix",
            [name for name in known if name in LISTENER_ONLY],
        ),
        (
            "Cannot update these configs at default cluster level, broker id must be specified",
            [name for name, key in known.items() if every and key.update is Update.PER_BROKER],
        ),
    )
    for reason, names in refusals:
        if names:
            return Refuse(ErrorCode.INVALID_REQUEST, f"{reason}: [{', '.join(names)}]")
    for name, key in known.items():
        try:
            key.parse(settings[name])
        except ConfigError as error:
            return Refuse(ErrorCode.INVALID_REQUEST, str(error))
    return None
