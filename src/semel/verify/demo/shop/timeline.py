"""The story in time: samples of the counts, and the faults with the time it took to recover.

Pure: the story writes it, the display and the picture read it. Times are seconds since the beginning.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

BROKER: Final = "broker"
DRIVER: Final = "driver"
TILL: Final = "till"
NAMES: Final = {BROKER: "the broker", DRIVER: "the pipeline's driver", TILL: "the till"}


@dataclass(frozen=True, slots=True)
class Sample:
    """The counts at one moment, each of them since the beginning."""

    seconds: float
    sent: int = 0
    """Order events that the till has committed."""
    counted: int = 0
    """Order events whose rows the pipeline has committed."""
    cuts: int = 0
    """Connections cut."""
    delays: int = 0
    """Answers that came late."""
    copies: int = 0
    """Requests delivered twice."""


@dataclass(slots=True)
class Fault:
    """A process that ended before its time."""

    who: str
    seconds: float
    on_purpose: bool = True
    back_seconds: float | None = None
    """When its work went on."""


@dataclass(slots=True)
class Timeline:
    """All of it."""

    total: int
    """Order events there will be."""
    samples: list[Sample] = field(default_factory=lambda: [Sample(0.0)])
    faults: list[Fault] = field(default_factory=list)
    happenings: list[tuple[float, str]] = field(default_factory=list)
    """For people."""

    @property
    def last(self) -> Sample:
        return self.samples[-1]

    def kills(self, who: str) -> int:
        return sum(fault.who == who and fault.on_purpose for fault in self.faults)

    def rates(self, name: str, width_seconds: float) -> list[float]:
        """Of a count, how much was added per second, in slices of equal width; the last one may be a part of one."""
        end = self.last.seconds
        slices = max(1, int(end / width_seconds + 1))
        edges = [min(end, index * width_seconds) for index in range(slices + 1)]
        values = [self._at(name, edge) for edge in edges]
        return [
            (after - before) / max(1e-9, late - early)
            for before, after, early, late in zip(values, values[1:], edges, edges[1:], strict=False)
            if late > early
        ]

    def rate_now(self, name: str, over_seconds: float = 3.0) -> float:
        since = max(0.0, self.last.seconds - over_seconds)
        spent = self.last.seconds - since
        return (self._at(name, self.last.seconds) - self._at(name, since)) / spent if spent else 0.0

    def _at(self, name: str, seconds: float) -> float:
        """A count at any moment, on a straight line between the samples around it."""
        low, high = 0, len(self.samples) - 1
        while low < high:  # The first sample that is not before.
            middle = (low + high) // 2
            low, high = (middle + 1, high) if self.samples[middle].seconds < seconds else (low, middle)
        after = self.samples[low]
        before = self.samples[max(0, low - 1)]
        value, earlier = float(getattr(after, name)), float(getattr(before, name))
        if after.seconds <= seconds or after.seconds == before.seconds:
            return value
        share = (seconds - before.seconds) / (after.seconds - before.seconds)
        return earlier + (value - earlier) * max(0.0, share)

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of_data(cls, document: Mapping[str, Any]) -> "Timeline":
        """What `as_data` made."""
        return cls(
            total=document["total"],
            samples=[Sample(**one) for one in document["samples"]],
            faults=[Fault(**one) for one in document["faults"]],
            happenings=[(seconds, what) for seconds, what in document["happenings"]],
        )
