"""Ranges of offsets and times as users write them: where `semel consume` begins and ends.

Role.   `start_and_end` reads `--offset`, `until` reads `--until`; `resolved` finds the offsets of one partition.
Rules.  Pure. An end is not part of its range. `-100` counts back from the end of each partition, in offsets: markers of
        transactions take offsets as well.
"""

from enum import Enum
from typing import Final, NamedTuple

import click

from semel.cli.times import OFFSET_MAX, timestamp_ms


class Kind(Enum):
    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    BACK = "back"
    TIME = "time"


class Point(NamedTuple):
    """A place in every partition."""

    kind: Kind
    value: int = 0


BEGINNING: Final = Point(Kind.EARLIEST)
END: Final = Point(Kind.LATEST)
_WORDS: Final = {"earliest": BEGINNING, "start": BEGINNING, "latest": END, "end": END}


def start_and_end(text: str) -> tuple[Point, Point | None]:
    """`earliest`, `latest`, `96`, `-100`, `@TIME`, or a range of offsets, as `96:120`, `-100:end` and `:120`."""
    if text.startswith("@"):
        return Point(Kind.TIME, timestamp_ms(text[1:])), None
    first, colon, last = text.partition(":")
    start = BEGINNING if colon and not first else _point(first)
    end = (END if not last else _point(last)) if colon else None
    if start is None or (colon and (end is None or end.kind is Kind.EARLIEST)):
        raise click.BadParameter(
            f"{text!r} is neither earliest, latest, an offset, -N for the last N, @TIME, nor a range as 96:120."
        )
    if end is not None and start.kind is end.kind is Kind.OFFSET and end.value < start.value:
        raise click.BadParameter(f"{text!r} ends before it begins: write {end.value}:{start.value}.")
    return start, end


def until(text: str) -> Point:
    """An offset, `@TIME`, or `latest`."""
    point = Point(Kind.TIME, timestamp_ms(text[1:])) if text.startswith("@") else _point(text)
    if point is None or point.kind not in (Kind.OFFSET, Kind.TIME, Kind.LATEST):
        raise click.BadParameter(f"{text!r} is neither an offset nor @TIME nor latest.")
    return point


def _point(text: str) -> Point | None:
    if text in _WORDS:
        return _WORDS[text]
    digits = text.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or int(digits) > OFFSET_MAX:
        return None
    return Point(Kind.BACK if text.startswith("-") else Kind.OFFSET, int(digits))


def resolved(point: Point, begin: int, end: int, at_time: int | None) -> int:
    """The offset in a partition that begins and ends there; `at_time` is the first record at or after the point's time."""
    match point.kind:
        case Kind.EARLIEST:
            return begin
        case Kind.LATEST:
            return end
        case Kind.OFFSET:
            return point.value
        case Kind.BACK:
            return max(begin, end - point.value)
        case Kind.TIME:
            return end if at_time is None else at_time
