"""Names beside samples, in as many rows as they need.

Role.   `legend` draws entries from left to right and says how high they became. An `Entry` draws its own sample.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from semel.drawing import palette
from semel.drawing.canvas import SIZE, Canvas
from semel.drawing.text import width

_SAMPLE: Final = 24
_GAP: Final = 8
_BETWEEN: Final = 22
_ROW: Final = 20


class Entry(NamedTuple):
    """One name; `sample` draws at the left edge and the middle height that it is given."""

    name: str
    sample: Callable[[Canvas, float, float], None]


def line(name: str, color: str, dash: str = "") -> Entry:
    return Entry(name, lambda canvas, x, y: canvas.line(x, y, x + _SAMPLE, y, color, 2.5, dash))


def area(name: str, pattern: str, color: str) -> Entry:
    def sample(canvas: Canvas, x: float, y: float) -> None:
        canvas.rect(x, y - 7, _SAMPLE, 14, fill=canvas.pattern(pattern, color), edge=color)

    return Entry(name, sample)


def dot(name: str, color: str) -> Entry:
    return Entry(name, lambda canvas, x, y: canvas.dot(x + _SAMPLE / 2, y, color))


def diamond(name: str, color: str) -> Entry:
    return Entry(name, lambda canvas, x, y: canvas.diamond(x + _SAMPLE / 2, y, color))


def tick(name: str) -> Entry:
    return Entry(
        name,
        lambda canvas, x, y: canvas.line(x + _SAMPLE / 2, y - 7, x + _SAMPLE / 2, y + 7, palette.INK, 2),
    )


def legend(canvas: Canvas, left: float, top: float, room: float, entries: Sequence[Entry]) -> float:
    """Draws them; the height that they took."""
    x, y = left, top + _ROW / 2
    for entry in entries:
        takes = _SAMPLE + _GAP + width(entry.name, SIZE)
        if x > left and x + takes > left + room:
            x, y = left, y + _ROW
        entry.sample(canvas, x, y)
        canvas.text(x + _SAMPLE + _GAP, y + 4, entry.name)
        x += takes + _BETWEEN
    return y + _ROW / 2 - top
