"""`--log-level` and `--log-format`: which lines a broker's log has, and how they look.

Role.   The two options, and `LogOutput`, which they become.
Rules.  * Levels have Kafka's names, and Python's where these differ.
        * A level may be of one logger, which is a module or a package of ours: a name that is none is refused, because it would
          have no effect.
"""

import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib.util import find_spec
from typing import Any, Final, TypeVar

import click

from semel.runtime.log_lines import LogFormat, write_log

LEVELS: Final[Mapping[str, int]] = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "CRITICAL": logging.CRITICAL,
}
_SHOWN: Final = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")
F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class LogOutput:
    """The log of this process, on standard error."""

    form: LogFormat = "text"
    level: int = logging.INFO
    levels: Mapping[str, int] = field(default_factory=dict)
    """Levels of single loggers."""

    def begin(self) -> None:
        """From now on."""
        write_log(self.form, self.levels, sys.stderr, level=self.level)


def log_options(command: F) -> F:
    """`--log-level` and `--log-format`."""
    level = click.option(
        "--log-level",
        "log_levels",
        multiple=True,
        metavar="LEVEL|LOGGER=LEVEL",
        envvar="SEMEL_LOG_LEVEL",
        show_envvar=True,
        callback=_levels,
        help=f"{', '.join(_SHOWN)}; of all loggers or of one, as semel.net=DEBUG; may be repeated.  [default: INFO]",
    )
    form = click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        envvar="SEMEL_LOG_FORMAT",
        show_envvar=True,
        help="Lines of the log for people, or a JSON object per line.",
    )
    return level(form(command))


def _levels(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> dict[str, int]:
    """Levels by logger; the name of all others is empty."""
    levels: dict[str, int] = {}
    for given in values:
        name, _, word = given.rpartition("=")
        level = LEVELS.get(word.upper())
        if level is None:
            close = get_close_matches(word.upper(), LEVELS, n=1)
            hint = f": did you mean {close[0]}?" if close else f"; levels are {', '.join(_SHOWN)}."
            raise click.BadParameter(f"{word!r} is no level{hint}")
        if name and not _is_ours(name):
            raise click.BadParameter(
                f"{name!r} is no logger: loggers are modules and packages of semel, as semel.net or semel.log.recovery."
            )
        if levels.setdefault(name, level) != level:
            raise click.BadParameter(f"{f'{name}' if name else 'the level of all loggers'} is given twice.")
    return levels


def _is_ours(name: str) -> bool:
    if name.partition(".")[0] != "semel":
        return False
    try:
        return find_spec(name) is not None
    except (ImportError, ValueError):
        return False
