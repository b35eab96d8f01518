"""Ratios as a picture: a dot and its interval per figure on a logarithmic axis, written as SVG by hand.

Role.   `ratio_plot` draws `broker_figures.Figure`s that have a ratio. No library, so that the page can be made anywhere.
Rules.  * The line at 1 is Kafka. A target is a tick; green dots meet theirs, red ones miss it, grey ones have none.
"""

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from semel.bench.broker_figures import Figure
from semel.bench.report import number_text

_WIDTH: Final = 1020
_LEFT: Final = 460
_RIGHT: Final = 90
_ROW: Final = 22
_TOP: Final = 58
_BOTTOM: Final = 30
_REACHED, _MISSED, _PLAIN = "#1a7f37", "#cf222e", "#6e7781"
_TICKS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def ratio_plot(figures: Sequence[Figure], title: str) -> str:
    """The picture, as the text of an SVG file."""
    drawn = [one for one in figures if one.ratio is not None and one.ratio.low > 0]
    low = min([0.1, *(one.ratio.low for one in drawn if one.ratio)])
    high = max([2.0, *(one.ratio.high for one in drawn if one.ratio)])
    scale = _Scale(low / 1.15, high * 1.15)
    height = _TOP + _ROW * len(drawn) + _BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        '<g font-family="sans-serif" font-size="12">',
        f'<text x="12" y="20" font-size="15" font-weight="bold">{escape(title)}</text>',
        '<text x="12" y="38" fill="#57606a">dot: median, bar: interval, black tick: target, line at 1: Kafka</text>',
    ]
    for value in _TICKS:
        if scale.low <= value <= scale.high:
            x = scale.x(value)
            color, width = ("#24292f", 1.5) if value == 1 else ("#d0d7de", 1)
            parts.append(_line(x, _TOP - 8, x, height - _BOTTOM + 4, color, width))
            parts.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle">{value:g}</text>')
    for index, one in enumerate(drawn):
        parts += _row(one, scale, _TOP + _ROW * index + _ROW / 2)
    return "\n".join([*parts, "</g>", "</svg>\n"])


class _Scale:
    """Ratios to places, logarithmically."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self._pixels = (_WIDTH - _LEFT - _RIGHT) / math.log(high / low)

    def x(self, value: float) -> float:
        return _LEFT + math.log(value / self.low) * self._pixels


def _row(one: Figure, scale: _Scale, y: float) -> list[str]:
    assert one.ratio is not None
    targets = [target for target in one.targets if not target.absolute]
    color = _PLAIN
    if targets:
        color = _REACHED if all(target.meets(one.ratio.median) for target in targets) else _MISSED
    parts = [
        f'<text x="{_LEFT - 10}" y="{y + 4:.1f}" text-anchor="end">{escape(f"{one.work}: {one.quantity}")}</text>',
        _line(scale.x(one.ratio.low), y, scale.x(one.ratio.high), y, color, 3),
        f'<circle cx="{scale.x(one.ratio.median):.1f}" cy="{y:.1f}" r="5" fill="{color}"/>',
        f'<text x="{_WIDTH - _RIGHT + 12}" y="{y + 4:.1f}">{number_text(one.ratio.median)}</text>',
    ]
    for target in targets:
        if scale.low <= target.limit <= scale.high:
            x = scale.x(target.limit)
            parts.append(_line(x, y - 8, x, y + 8, "#000000", 2))
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, color: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width}"/>'
