"""Values to places on an axis, and the values that deserve a tick.

Role.   `Linear` and `Logarithmic` are the two kinds of axis; `times` are the ticks of an axis of time.
Rules.  * Ticks are round numbers and few. Nothing outside of the scale has a place: `at` keeps it at the edge.
"""

import math
from dataclasses import dataclass
from typing import Final, Protocol

_ROUND: Final = (1, 2, 2.5, 5, 10)
_STEPS_SECONDS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21_600, 86_400)
_EDGE: Final = 1 + 1e-9


class Scale(Protocol):
    """From the lowest value at `start` to the highest at `stop`."""

    def at(self, value: float) -> float: ...

    def ticks(self) -> list[float]: ...


@dataclass(frozen=True, slots=True)
class Linear:
    """Equal differences are equal lengths."""

    low: float
    high: float
    start: float
    stop: float
    count: int = 4

    def at(self, value: float) -> float:
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + (self.stop - self.start) * share

    def ticks(self) -> list[float]:
        step = _round_step((self.high - self.low) / self.count)
        first = math.ceil(self.low / step - 1e-9)
        return [step * place for place in range(first, int(self.high / step * _EDGE) + 1)]


@dataclass(frozen=True, slots=True)
class Logarithmic:
    """Equal ratios are equal lengths."""

    low: float
    high: float
    start: float
    stop: float

    def at(self, value: float) -> float:
        share = math.log(min(max(value, self.low), self.high) / self.low) / math.log(self.high / self.low)
        return self.start + (self.stop - self.start) * share

    def ticks(self) -> list[float]:
        """Powers of ten; with few of them 2 and 5 as well."""
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1, 2, 5) if len(powers) <= 4 else (1,)
        values = [factor * 10.0**power for power in powers for factor in factors]
        return [value for value in values if self.low / _EDGE <= value <= self.high * _EDGE]


def up_from_zero(highest: float, start: float, stop: float, count: int = 4) -> Linear:
    """An axis from nothing to the first tick that is not below the highest value."""
    step = _round_step(max(highest, 1e-9) / count)
    return Linear(0.0, step * max(1, math.ceil(highest / step / _EDGE)), start, stop, count)


def times(end: float, most: int) -> list[float]:
    """Moments from the beginning to the end, at round distances."""
    step = next((one for one in _STEPS_SECONDS if end / one <= most), _STEPS_SECONDS[-1])
    return [float(step * place) for place in range(int(end / step) + 1)]


def _round_step(least: float) -> float:
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in _ROUND if factor * power >= least / _EDGE)
