"""Times and durations as users write them."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

import click

OFFSET_MAX: Final = 2**63 - 1
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ISO_DURATION: Final = re.compile(
    r"P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)
_ISO_UNITS_MS: Final = (604_800_000, 86_400_000, 3_600_000, 60_000, 1_000)
_SHORT_DURATION: Final = re.compile(r"(\d+)(ms|s|m|h|d|w)", re.ASCII)
_SHORT_UNITS_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, or a time in ISO 8601; without a zone it is UTC, as in Kafka's tools."""
    if text.isdecimal() and int(text) <= OFFSET_MAX:
        return int(text)
    try:
        given = datetime.fromisoformat(text)
        moment = given.replace(tzinfo=UTC) if given.utcoffset() is None else given
        found = (moment - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        found = -1
    if found < 0:  # Also of times before 1970: to a broker they are the end, or the beginning.
        raise click.BadParameter(
            f"{'@' + text!r}: use milliseconds since 1970 or a time like @2026-01-31T12:00:00Z."
        )
    return found


def duration_ms(text: str) -> int:
    """A length of time: `90m`, or ISO 8601 as `PT1H30M`."""
    if short := _SHORT_DURATION.fullmatch(text):
        return int(short[1]) * _SHORT_UNITS_MS[short[2]]
    if iso := _ISO_DURATION.fullmatch(text):
        parts = zip(iso.groups(), _ISO_UNITS_MS, strict=True)
        return int(sum(float(part) * unit_ms for part, unit_ms in parts if part))
    raise click.BadParameter(f"{text!r} is not a duration: use 90m, 12h, 7d or ISO 8601 as PT1H30M.")
