"""Growth as a picture: for each thing that grows, start-up, memory and latency over its number, written as SVG by hand.

Role.   `growth_plot` draws the figures of `scale`: a row per axis, a small plot per quantity, Semel's line and Kafka's.
Rules.  * Both axes are logarithmic: a straight line that rises by one square is growth in proportion, a flat one is none.
        * The number that leads a figure's work ("10,000 partitions") is its place.
"""

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from semel.bench.broker_figures import Figure
from semel.bench.measure import Estimate
from semel.bench.report import number_text

_SHOWN: Final = ("s to start after kill -9", "s to start after that", "MB resident", "ack p50, µs")
_TITLES: Final = {
    "s to start after kill -9": "start after kill -9, s",
    "s to start after that": "start after a clean stop, s",
}
_SEMEL, _KAFKA = "#1a7f37", "#57606a"
_CELL_WIDTH: Final = 240
_CELL_HEIGHT: Final = 170
_TOP: Final = 50
_LEFT: Final = 20
_INNER: Final = (46, 30, 16, 34)
"""Left, top, right, bottom margins inside a cell."""
_POINTS_MIN: Final = 2
_LEGEND: Final = (
    f'<text x="12" y="38"><tspan fill="{_SEMEL}" font-weight="bold">Semel</tspan>'
    f'<tspan dx="12" fill="{_KAFKA}" font-weight="bold">Apache Kafka</tspan>'
    '<tspan dx="12" fill="#57606a">both axes logarithmic</tspan></text>'
)


def growth_plot(figures: Sequence[Figure]) -> str:
    """The picture, as the text of an SVG file."""
    rows = [
        cells
        for group in dict.fromkeys(one.group for one in figures)
        if (cells := _cells([one for one in figures if one.group == group]))
    ]
    width = 2 * _LEFT + _CELL_WIDTH * max([1, *map(len, rows)])
    height = _TOP + _CELL_HEIGHT * len(rows)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<g font-family="sans-serif" font-size="11">',
        '<text x="12" y="20" font-size="15" font-weight="bold">How cost grows</text>',
        _LEGEND,
    ]
    for index, cells in enumerate(rows):
        for number, (title, members) in enumerate(cells):
            parts += _cell(_LEFT + number * _CELL_WIDTH, _TOP + index * _CELL_HEIGHT, title, members)
    return "\n".join([*parts, "</g>", "</svg>\n"])


def _cells(figures: Sequence[Figure]) -> list[tuple[str, list[Figure]]]:
    """The plots of one axis: a title and the figures along it."""
    made: list[tuple[str, list[Figure]]] = []
    for quantity in _SHOWN:
        members = [one for one in figures if one.quantity == quantity]
        if len(members) >= _POINTS_MIN:
            made.append((f"{members[0].group}: {_TITLES.get(quantity, quantity)}", members))
    return made


def place(one: Figure) -> float:
    """Where on its axis a figure stands."""
    return float(one.work.split()[0].replace(",", ""))


def _cell(left: float, top: float, title: str, figures: Sequence[Figure]) -> list[str]:
    margin_left, margin_top, margin_right, margin_bottom = _INNER
    x0, x1 = left + margin_left, left + _CELL_WIDTH - margin_right
    y0, y1 = top + margin_top, top + _CELL_HEIGHT - margin_bottom
    lines = {
        _KAFKA: [(place(one), one.kafka) for one in figures if one.kafka is not None],
        _SEMEL: [(place(one), one.semel) for one in figures],
    }
    values = [value.median for points in lines.values() for _at, value in points if value.median > 0]
    low, high = min(values, default=1.0) / 1.3, max(values, default=1.0) * 1.3
    first, last = place(figures[0]), place(figures[-1])

    def x(at: float) -> float:
        return x0 + (x1 - x0) * math.log(at / first) / math.log(last / first)

    def y(value: float) -> float:
        return y1 - (y1 - y0) * math.log(value / low) / math.log(high / low)

    parts = [
        f'<text x="{x0:.0f}" y="{top + 18:.0f}" font-weight="bold">{escape(title)}</text>',
        f'<rect x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" fill="none" stroke="#d0d7de"/>',
    ]
    parts += [
        f'<text x="{x(at):.1f}" y="{y1 + 16:.1f}" text-anchor="middle">{at:,g}</text>' for at in (first, last)
    ]
    parts += [
        f'<text x="{x0 - 5:.1f}" y="{y(value) + 4:.1f}" text-anchor="end">{number_text(value)}</text>'
        for value in (low * 1.3, high / 1.3)
    ]
    for color, points in lines.items():
        parts += _line([(x(at), y(value.median)) for at, value in _positive(points)], color)
    return parts


def _positive(points: Sequence[tuple[float, Estimate]]) -> list[tuple[float, Estimate]]:
    return [(at, value) for at, value in points if value.median > 0]


def _line(points: Sequence[tuple[float, float]], color: str) -> list[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2"/>', *dots]
