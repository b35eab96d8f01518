"""The levels of this broker's log, read and set while it runs: Kafka's broker loggers.

Role.   Levels of broker loggers, for DescribeConfigs and IncrementalAlterConfigs. The loggers are Python's, below `semel`.
Rules.  * Levels have Kafka's names: TRACE is as much as DEBUG, FATAL is CRITICAL.
        * They hold until the broker stops, as in Kafka.
        * A logger that was never used does not exist, and cannot be set.
"""

import logging
from collections.abc import Sequence
from typing import Final

from semel.core.metadata.config_changes import Change, Operation
from semel.core.metadata.config_entries import Entry
from semel.core.metadata.config_types import ConfigSource, ConfigType
from semel.errors import ErrorCode, Refuse

_ROOT: Final = "root"
_OURS: Final = "semel"
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES: Final = {level: name for name, level in _LEVELS.items()}


def entries() -> list[Entry]:
    """Every logger with its level."""
    return [
        Entry(
            name=name,
            value=_name(found.getEffectiveLevel()),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER,
            type=ConfigType.UNKNOWN,
            read_only=False,
            sensitive=False,
            synonyms=(),
            documentation=None,
        )
        for name, found in sorted(_loggers().items())
    ]


def flaw(changes: Sequence[Change]) -> Refuse | None:
    """Why the levels may not be changed so."""
    known = _loggers()
    for change in changes:
        if change.operation not in (Operation.SET, Operation.DELETE):
            word = Operation(change.operation).name
            return Refuse(
                ErrorCode.INVALID_REQUEST, f"{word} operation is not allowed for the BROKER_LOGGER resource"
            )
        if change.name not in known:
            return Refuse(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
        if change.operation == Operation.DELETE and change.name == _ROOT:
            return Refuse(
                ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"
            )
        if change.operation == Operation.SET and change.value not in _LEVELS:
            levels = ", ".join(sorted(_LEVELS))
            return Refuse(
                ErrorCode.INVALID_CONFIG,
                f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                f"Valid log levels are {levels}",
            )
    return None


def change(changes: Sequence[Change]) -> None:
    """Set levels; a deleted one is its parent's again. The changes have no flaw."""
    known = _loggers()
    for one in changes:
        level = _LEVELS[one.value or ""] if one.operation == Operation.SET else logging.NOTSET
        known[one.name].setLevel(level)


def _loggers() -> dict[str, logging.Logger]:
    """The root's logger and ours, without the placeholders Python keeps between them."""
    ours = {
        name: logger
        for name, logger in logging.root.manager.loggerDict.items()
        if isinstance(logger, logging.Logger) and (name == _OURS or name.startswith(_OURS + "."))
    }
    return {_ROOT: logging.getLogger(), **ours}


def _name(level: int) -> str:
    """Kafka's name of the level, or of the next more talkative one."""
    return _NAMES[max((known for known in _NAMES if known <= level), default=logging.DEBUG)]
