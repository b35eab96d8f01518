"""Growth as a picture: start-up, memory and latency over the number of each thing that grows.

Role.   `growth_plot` draws the figures of `scale`: a row per axis, a small plot per quantity, Semel's line and Kafka's.
Rules.  * Both axes are logarithmic: a straight line that rises by one square is growth in proportion, a flat one is none.
        * The number that leads a figure's work ("10,000 partitions") is its place.
"""

from collections.abc import Sequence
from typing import Final

from semel.bench.broker_figures import Figure
from semel.bench.measure import Estimate
from semel.bench.report import number_text
from semel.drawing import legend, palette
from semel.drawing.canvas import Canvas
from semel.drawing.frame import Frame
from semel.drawing.scales import Logarithmic
from semel.drawing.text import number, width

_SHOWN: Final = ("s to start after kill -9", "s to start after that", "MB resident", "ack p50, µs")
_TITLES: Final = {
    "s to start after kill -9": "Start after kill -9, s",
    "s to start after that": "Start after a clean stop, s",
    "MB resident": "Resident memory, MB",
    "ack p50, µs": "Median ack, µs",
}
_MARGIN: Final = 16
_CELL_WIDTH: Final = 246
_PLOT_LEFT: Final = 58
_PLOT_RIGHT: Final = 22
_PLOT_HEIGHT: Final = 96
_HEAD: Final = 30
_FOOT: Final = 34
_POINTS_MIN: Final = 2


def growth_plot(figures: Sequence[Figure]) -> str:
    """The picture, as the text of an SVG file."""
    rows = [
        (group, cells)
        for group in dict.fromkeys(one.group for one in figures)
        if (cells := _cells([one for one in figures if one.group == group]))
    ]
    across = _CELL_WIDTH * max([2, *(len(cells) for _, cells in rows)])
    grown = ", ".join(group for group, _ in rows)
    canvas = Canvas(
        "semel-growth",
        across + 2 * _MARGIN,
        "How cost grows",
        f"Time to start, memory and latency of Semel and Apache Kafka over a growing number of: {grown}. Both axes are logarithmic.",
    )
    canvas.text(_MARGIN, 30, "How cost grows", size=17, bold=True)
    canvas.text(_MARGIN, 48, "Less is better. Both axes are logarithmic.", color=palette.MUTED)
    entries = (legend.line("Semel", palette.BLUE), legend.line("Apache Kafka", palette.ORANGE, "6 3"))
    top = 58 + legend.legend(canvas, _MARGIN, 58, across, entries) + 6
    for group, cells in rows:
        canvas.text(_MARGIN, top + 16, group, size=13, bold=True)
        for place, (title, members) in enumerate(cells):
            _cell(canvas, _MARGIN + place * _CELL_WIDTH, top + 20, title, members)
        top += 20 + _HEAD + _PLOT_HEIGHT + _FOOT
    canvas.height = round(top + 8)
    return canvas.svg()


def _cells(figures: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    """The plots of one axis: a title and the figures along it."""
    made: list[tuple[str, list[Figure]]] = []
    for quantity in _SHOWN:
        members = [one for one in figures if one.quantity == quantity]
        if len(members) >= _POINTS_MIN:
            made.append((_TITLES[quantity], members))
    return made


def place(one: Figure) -> float:
    """Where on its axis a figure stands."""
    return float(one.work.split()[0].replace(",", ""))


def _cell(canvas: Canvas, left: float, top: float, title: str, figures: Sequence[Figure]) -> None:
    lines = (
        (palette.ORANGE, "6 3", [(place(one), one.kafka) for one in figures if one.kafka is not None]),
        (palette.BLUE, "", [(place(one), one.semel) for one in figures]),
    )
    values = [value.median for _, _, points in lines for _, value in points if value.median > 0]
    low, high = min(values, default=1.0), max(values, default=1.0)
    x0, x1 = left + _PLOT_LEFT, left + _CELL_WIDTH - _PLOT_RIGHT
    y0 = top + _HEAD
    y1 = y0 + _PLOT_HEIGHT
    first, last = place(figures[0]), place(figures[-1])
    along = Logarithmic(first, last, x0 + 6, x1 - 6)
    upright = Logarithmic(low / 1.3, high * 1.3, y1, y0)
    frame = Frame(canvas, x0, y0, x1 - x0, _PLOT_HEIGHT, along, upright)
    canvas.text(x0, top + 18, title)
    canvas.rect(x0, y0, x1 - x0, _PLOT_HEIGHT, edge=palette.GRID)
    shown = [low, high] if upright.at(low) - upright.at(high) > 16 else [high]
    frame.rules(number_text, shown)
    unit = figures[0].work.split(" ", 1)[-1]
    said = (number(first), f"{number(last)} {unit}")
    canvas.text(x0, y1 + 16, said[0], color=palette.MUTED, size=11)
    if width(said[1], 11) < x1 - x0 - width(said[0], 11) - 10:
        canvas.text(x1, y1 + 16, said[1], color=palette.MUTED, size=11, anchor="end")
    else:
        canvas.text(x1, y1 + 16, number(last), color=palette.MUTED, size=11, anchor="end")
    for color, dash, points in lines:
        seen = _positive(points)
        frame.line(seen, color, dash)
        for at, value in seen:
            canvas.dot(along.at(at), upright.at(value), color, 3)


def _positive(points: Sequence[tuple[float, Estimate]]) -> list[tuple[float, float]]:
    return [(at, value.median) for at, value in points if value.median > 0]
