"""How commands speak: the sentences of `semel doctor`, good or bad, and counts with their words everywhere."""

from typing import Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]


class Sentence(NamedTuple):
    """What a check has to say."""

    level: Level
    text: str


def several(count: int, one: str, many: str | None = None) -> str:
    """A count with its word."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def some(names: list[str]) -> str:
    """The first few of them, and how many there are beyond."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
