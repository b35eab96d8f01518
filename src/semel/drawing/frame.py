"""One plot: a rectangle with its axes, and lines, steps and areas in it.

Role.   `timeline` stacks frames, `bench.growth_plot` sets them side by side.
Rules.  * A value outside of its scale is drawn at the edge, never outside of the plot.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from semel.drawing import palette
from semel.drawing.canvas import Canvas
from semel.drawing.scales import Scale
from semel.drawing.text import number

Points: TypeAlias = Sequence[tuple[float, float]]
"""Values along both axes."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A plot on a canvas. The scales know where its edges are."""

    canvas: Canvas
    left: float
    top: float
    width: float
    height: float
    x: Scale
    y: Scale

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def rules(self, said: Callable[[float], str] = number, ticks: Sequence[float] | None = None) -> None:
        """A line across at every tick of the upright axis, with its value at the left."""
        for value in self.y.ticks() if ticks is None else ticks:
            y = self.y.at(value)
            self.canvas.line(self.left, y, self.right, y, palette.GRID)
            self.canvas.text(self.left - 8, y + 4, said(value), color=palette.MUTED, size=11, anchor="end")

    def line(self, points: Points, color: str, dash: str = "") -> None:
        self.canvas.polyline(_bends(self._places(points)), color, dash=dash)

    def area(self, points: Points, color: str) -> None:
        """Filled down to the lower edge, with its line."""
        if places := _bends(self._places(points)):
            around = [(places[0][0], self.bottom), *places, (places[-1][0], self.bottom)]
            self.canvas.polygon(around, color, 0.22)
            self.canvas.polyline(places, color, 1.2)

    def _places(self, points: Points) -> list[tuple[float, float]]:
        return [(self.x.at(x), self.y.at(y)) for x, y in points]


def steps(values: Sequence[float], width: float, end: float) -> list[tuple[float, float]]:
    """Equal slices as the corners of stairs; the last slice may be a part of one."""
    return [
        (at, value)
        for index, value in enumerate(values)
        for at in (index * width, min(end, (index + 1) * width))
    ]


def _bends(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the points inside of level stretches."""
    inner = [
        place
        for before, place, after in zip(places, places[1:], places[2:], strict=False)
        if not before[1] == place[1] == after[1]
    ]
    return [*places[:1], *inner, *places[1:][-1:]]
