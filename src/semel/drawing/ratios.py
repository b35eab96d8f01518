"""Rows of points on one logarithmic axis: how many times better something is than its peer, with the interval and the target.

Role.   `ratios` draws the benchmarks' pictures. A `Row` comes with its better direction settled: right is better everywhere.
Rules.  * A filled dot reaches its target, a hollow diamond misses it: the shape says so without color. The value stands at the right.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from semel.drawing import legend, palette
from semel.drawing.canvas import Canvas
from semel.drawing.scales import Logarithmic
from semel.drawing.text import shortened, width, wrapped

_WIDTH: Final = 1000
_MARGIN: Final = 16
_ROW: Final = 22
_GROUP: Final = 30
_VALUE: Final = 62
_LABEL_MAX: Final = 520.0
_SIZE: Final = 12
_LOW, _HIGH = 0.5, 2.0
"""The axis shows these at least."""


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison. `kept` is whether the target is reached; None without one."""

    group: str
    label: str
    low: float
    median: float
    high: float
    target: float | None = None
    kept: bool | None = None


def ratios(name: str, title: str, subtitle: str, rows: Sequence[Row], peer: str) -> str:
    """The picture, as the text of an SVG file."""
    canvas = Canvas(name, _WIDTH, title, _described(title, rows, peer))
    y = 30.0
    canvas.text(_MARGIN, y, title, size=17, bold=True)
    for line in wrapped(subtitle, 12, _WIDTH - 2 * _MARGIN):
        y += 18
        canvas.text(_MARGIN, y, line, color=palette.MUTED)
    y += 10
    y += legend.legend(canvas, _MARGIN, y, _WIDTH - 2 * _MARGIN, _entries(rows)) + 10
    room = min(_LABEL_MAX, max([120.0, *(width(row.label, _SIZE) for row in rows)]))
    left, right = _MARGIN + room + 14, _WIDTH - _MARGIN - _VALUE
    values = [value for row in rows for value in (row.low, row.high)]
    along = Logarithmic(min([_LOW, *values]) / 1.1, max([_HIGH, *values]) * 1.1, left, right)
    one = along.at(1)
    canvas.text(one - 10, y + 12, f"← worse than {peer}", size=11, color=palette.MUTED, anchor="end")
    canvas.text(one + 10, y + 12, f"better than {peer} →", size=11, color=palette.MUTED)
    top = y + 20
    places = list[float]()
    headings = list[tuple[float, str]]()
    y, group = top, ""
    for row in rows:
        if row.group and row.group != group:
            headings.append((y + _GROUP - 10, row.group))
            y += _GROUP
        group = row.group
        places.append(y + _ROW / 2)
        y += _ROW
    bottom = y + 6
    canvas.rect(one, top, right - one, bottom - top, color=palette.PANEL)
    shown = 0.0
    for value in along.ticks():
        x, said = along.at(value), f"{value:g}×"
        canvas.line(x, top, x, bottom, palette.INK if value == 1 else palette.GRID, 1.5 if value == 1 else 1)
        half = width(said, 11) / 2
        if value == 1 or (x - half > shown + 6 and not (abs(x - one) < 2 * half + 10)):
            canvas.text(x, bottom + 16, said, size=11, color=palette.MUTED, anchor="middle")
            shown = x + half
    for at, said in headings:
        canvas.text(_MARGIN, at, shortened(said, _SIZE, _WIDTH - 2 * _MARGIN, bold=True), bold=True)
    for row, at in zip(rows, places, strict=True):
        _row(canvas, row, along, at, room)
    canvas.height = round(bottom + 30)
    return canvas.svg()


def _entries(rows: Sequence[Row]) -> list[legend.Entry]:
    made = []
    if any(row.kept for row in rows):
        made.append(legend.dot("median, target reached", palette.BLUE))
    if any(row.kept is False for row in rows):
        made.append(legend.diamond("median, target missed", palette.ORANGE))
    if any(row.kept is None for row in rows):
        made.append(legend.dot("median, no target", palette.GREY))
    made.append(legend.line("interval of the rounds", palette.MUTED))
    if any(row.target is not None for row in rows):
        made.append(legend.tick("target"))
    return made


def _row(canvas: Canvas, row: Row, along: Logarithmic, y: float, room: float) -> None:
    color = palette.GREY if row.kept is None else palette.BLUE if row.kept else palette.ORANGE
    label = shortened(row.label, _SIZE, room)
    canvas.text(_MARGIN + room, y + 4, label, anchor="end")
    canvas.line(along.at(row.low), y, along.at(row.high), y, color, 3)
    if row.target is not None:
        x = along.at(row.target)
        canvas.line(x, y - 8, x, y + 8, palette.INK, 2)
    if row.kept is False:
        canvas.diamond(along.at(row.median), y, color)
    else:
        canvas.dot(along.at(row.median), y, color)
    canvas.text(_WIDTH - _MARGIN, y + 4, times_said(row.median), anchor="end", bold=row.kept is False)


def times_said(value: float) -> str:
    """14×, 2.3×, 1.0×, 0.70×, 0.08×."""
    digits = 0 if value >= 10 else 1 if value >= 1 else 2
    return f"{value:.{digits}f}×"


def _described(title: str, rows: Sequence[Row], peer: str) -> str:
    better = sum(row.median > 1 for row in rows)
    judged = [row.kept for row in rows if row.kept is not None]
    said = f"{title}. Of {len(rows)} comparisons {better} are better than {peer}."
    if judged:
        said += f" {sum(judged)} of {len(judged)} targets are reached."
    worst = sorted(rows, key=lambda row: row.median)
    if rows:
        said += f" Best: {worst[-1].label}, {times_said(worst[-1].median)}. Worst: {worst[0].label}, {times_said(worst[0].median)}."
    return said
