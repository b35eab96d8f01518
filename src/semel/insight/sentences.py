"""How insight is put into words: sentences, good or bad; counts, times and sizes in one spelling."""

from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple

Level = Literal["ok", "warning", "problem"]
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")
_STEP: Final = 1024


class Sentence(NamedTuple):
    """The finding of a check."""

    level: Level
    text: str


def several(count: int, one: str, many: str | None = None) -> str:
    """A count with its word."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def some(names: list[str]) -> str:
    """The first few of them, and how many there are beyond."""
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def time_text(timestamp_ms: int | None) -> str | None:
    """A moment in UTC, to the millisecond."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):  # A client may stamp its records with anything.
        return f"@{timestamp_ms}"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def size_text(size_bytes: int) -> str:
    """A size in the unit that keeps it short."""
    size = float(size_bytes)
    for unit in _UNITS[:-1]:
        if size < _STEP:
            return f"{size:.0f} {unit}" if unit == _UNITS[0] else f"{size:.1f} {unit}"
        size /= _STEP
    return f"{size:.1f} {_UNITS[-1]}"
