"""`auto.offset.reset`: where a consumer starts without a committed offset.

Role.   `parse_reset` reads the setting, `Reset.timestamp` says what to ask ListOffsets for.
Rules.  As Kafka 4.3: earliest, latest, none, or by_duration:P…, an ISO 8601 duration before now, parsed as Java does.
        If no record is that young, the consumer starts at the end.
"""

import re
from enum import StrEnum
from typing import Final, NamedTuple

from semel.errors import ConfigError

LATEST_TIMESTAMP: Final = -1
EARLIEST_TIMESTAMP: Final = -2
_BY_DURATION: Final = "by_duration:"
_DURATION: Final = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?"
    r"(?:T(?=[0-9])(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+)(?:[.,](?P<fraction>[0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


class ResetKind(StrEnum):
    """The four strategies."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"
    BY_DURATION = "by_duration"


class Reset(NamedTuple):
    """Where to begin; `duration_ms` before now with BY_DURATION."""

    kind: ResetKind
    duration_ms: int = 0

    def timestamp(self, now_ms: int) -> int:
        """The timestamp to send in ListOffsets."""
        match self.kind:
            case ResetKind.EARLIEST:
                return EARLIEST_TIMESTAMP
            case ResetKind.BY_DURATION:
                return max(0, now_ms - self.duration_ms)
            case ResetKind.LATEST | ResetKind.NONE:
                return LATEST_TIMESTAMP


EARLIEST: Final = Reset(ResetKind.EARLIEST)
LATEST: Final = Reset(ResetKind.LATEST)
NONE: Final = Reset(ResetKind.NONE)


def parse_reset(text: str) -> Reset:
    """The strategy behind a value of `auto.offset.reset`; raises `ConfigError`."""
    lowered = text.strip().lower()
    if lowered in (ResetKind.EARLIEST, ResetKind.LATEST, ResetKind.NONE):
        return Reset(ResetKind(lowered))
    if lowered.startswith(_BY_DURATION):
        duration_ms = _milliseconds(text.strip()[len(_BY_DURATION) :])
        if duration_ms is not None:
            return Reset(ResetKind.BY_DURATION, duration_ms)
    raise ConfigError(
        f"auto.offset.reset={text}: use earliest, latest, none, or by_duration:<PnDTnHnMn.nS>, "
        "for example by_duration:PT1H"
    )


def _milliseconds(text: str) -> int | None:
    """Milliseconds of a non-negative ISO 8601 duration; None if the text is invalid."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found[name] for name in _SECONDS):
        return None
    whole = sum(int(found[name] or 0) * seconds for name, seconds in _SECONDS.items())
    return whole * 1000 + int((found["fraction"] or "").ljust(9, "0")) // 1_000_000
