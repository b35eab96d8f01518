"""The picture of a performance: throughput over time with the faults marked, and the proof below it.

Role.   `svg` draws a `Timeline`, written by hand and without a library; `html` is a page around it that needs nothing else.
Rules.  * Pure: text in, text out. Everything that comes from outside is escaped.
        * A band is the time from a kill until the work goes on; ticks at the bottom are connections that were cut.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from semel.verify.demo.shop.judgement import Line, Verdict
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Fault, Timeline

_WIDTH: Final = 1000
_LEFT: Final = 74
_RIGHT: Final = 20
_SENT, _COUNTED, _INK, _GRID, _FAINT = "#0969da", "#1a7f37", "#24292f", "#d8dee4", "#57606a"
_COLORS: Final = {BROKER: "#cf222e", DRIVER: "#bc4c00", TILL: "#8250df"}
_LABELS: Final = {BROKER: "broker", DRIVER: "driver", TILL: "till"}
_LABELS_TOP: Final = 88
_LABEL_ROW: Final = 15
_LABEL_ROWS: Final = 3
_LABEL_WIDTH: Final = 96
_RATES_TOP: Final = 146
_RATES_HEIGHT: Final = 210
_CUTS_HEIGHT: Final = 26
_TOTALS_HEIGHT: Final = 150
_GAP: Final = 44
_SLICES_MAX: Final = 160
_SECONDS: Final = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600)
_MARKS_MAX: Final = 14


@dataclass(frozen=True, slots=True)
class _Axes:
    """Where a value stands."""

    top: float
    height: float
    x_max: float
    y_max: float

    def x(self, seconds: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / self.x_max

    def y(self, value: float) -> float:
        return self.top + self.height * (1 - value / self.y_max)


def svg(timeline: Timeline, verdict: Verdict) -> str:
    """The picture, as the text of an SVG file."""
    end = max(1.0, timeline.last.seconds)
    slice_seconds = max(1.0, math.ceil(end / _SLICES_MAX))
    sent, counted = (timeline.rates(name, slice_seconds) for name in ("sent", "counted"))
    rates = _Axes(_RATES_TOP, _RATES_HEIGHT, end, _nice(max([1.0, *sent, *counted])))
    cuts_top = _RATES_TOP + _RATES_HEIGHT + 6
    totals_top = cuts_top + _CUTS_HEIGHT + _GAP
    totals = _Axes(totals_top, _TOTALS_HEIGHT, end, _nice(max(1, timeline.total)))
    height = totals_top + _TOTALS_HEIGHT + 34
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height:.0f}" fill="white"/>',
        _text(
            12, 24, "A shop's orders through kills and cut connections, each counted once", size=17, bold=True
        ),
        _text(12, 44, _summary(timeline, verdict), color=_FAINT),
        *_bands(timeline.faults, rates, totals),
        *_grid(rates, f"order events per second (slices of {slice_seconds:.0f} s)"),
        _area(counted, slice_seconds, rates, end),
        _steps(sent, slice_seconds, rates, end),
        *_cuts(timeline, rates, cuts_top),
        *_grid(totals, "order events in all"),
        *_curves(timeline, totals),
        *_seconds(totals, totals_top + _TOTALS_HEIGHT + 16),
        *_legend(),
    ]
    return "\n".join([*parts, "</svg>\n"])


def html(timeline: Timeline, verdict: Verdict, command: str) -> str:
    """A page of its own: the picture, the proof as a table, and what happened."""
    rows = "\n".join(_row(line) for line in verdict.lines)
    happened = "\n".join(
        f"<li><b>{seconds:.1f} s</b> {escape(what)}</li>" for seconds, what in timeline.happenings
    )
    said = "Every order was counted once." if verdict.kept else "The promise was not kept."
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Semel: the demonstration</title>
<style>
body {{ font: 15px/1.5 sans-serif; color: {_INK}; background: white; max-width: 1000px; margin: 2em auto; padding: 0 1em; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .25em .9em; border-bottom: 1px solid {_GRID}; text-align: right; }}
td:first-child, th:first-child {{ text-align: left; }} .bad {{ color: {_COLORS[BROKER]}; font-weight: bold; }}
li {{ list-style: none; }} ul {{ padding: 0; }}
</style></head><body>
{svg(timeline, verdict)}
<h2>{said}</h2>
<table><tr><th></th><th>expected</th><th>found</th><th>lost</th><th>duplicated</th><th>torn</th><th>wrong</th></tr>
{rows}
</table>
<p>Expected is computed from the seed alone; found is read back, committed rows only, from every topic.</p>
<h2>What happened</h2>
<ul>
{happened}
</ul>
<p>Again: <code>{escape(command)}</code></p>
</body></html>
"""


def _summary(timeline: Timeline, verdict: Verdict) -> str:
    kills = ", ".join(f"{_LABELS[who]} {timeline.kills(who)}x" for who in (BROKER, DRIVER, TILL))
    last = timeline.last
    return (
        f"{timeline.total:,} order events; kill -9: {kills}; {last.cuts} connections cut, {last.delays} answers late, "
        f"{last.copies} requests twice: {verdict.lost} lost, {verdict.duplicated} duplicated, {verdict.torn} torn"
    )


def _bands(faults: Sequence[Fault], rates: _Axes, totals: _Axes) -> list[str]:
    parts, taken = list[str](), list[tuple[int, float]]()
    for fault in faults:
        color = _COLORS[fault.who]
        left = rates.x(fault.seconds)
        right = rates.x(min(rates.x_max, rates.x_max if fault.back_seconds is None else fault.back_seconds))
        what = f"kill -9 {_LABELS[fault.who]}" if fault.on_purpose else f"{_LABELS[fault.who]} ended"
        spent = (
            ""
            if fault.back_seconds is None
            else f", at work again after {fault.back_seconds - fault.seconds:.1f} s"
        )
        for axes in (rates, totals):
            parts.append(
                f'<rect x="{left:.1f}" y="{axes.top:.1f}" width="{max(1.0, right - left):.1f}" height="{axes.height:.1f}" '
                f'fill="{color}" fill-opacity="0.13"><title>{escape(what + spent)}</title></rect>'
            )
            parts.append(_line(left, axes.top, left, axes.top + axes.height, color, 1.5))
        start = left if left + _LABEL_WIDTH <= _WIDTH else left - _LABEL_WIDTH
        row = _free_row(start, taken)
        taken.append((row, start))
        y = _LABELS_TOP + _LABEL_ROW * row
        parts.append(_line(left, y - 6, left, rates.top, color, 1))
        anchor, beside = ("start", 4) if start == left else ("end", -4)
        parts.append(_text(left + beside, y + 4, what, color=color, anchor=anchor))
    return parts


def _free_row(start: float, taken: Sequence[tuple[int, float]]) -> int:
    """The first row in which a label can stand here without touching another; the last one if there is none."""
    for row in range(_LABEL_ROWS - 1):
        if all(abs(start - other) >= _LABEL_WIDTH for at, other in taken if at == row):
            return row
    return _LABEL_ROWS - 1


def _area(values: Sequence[float], width: float, axes: _Axes, end: float) -> str:
    """Steps, filled down to the axis."""
    points = _corners(values, width, axes, end)
    floor = axes.y(0)
    around = " ".join(f"{x:.1f},{y:.1f}" for x, y in [(points[0][0], floor), *points, (points[-1][0], floor)])
    return f'<polygon points="{around}" fill="{_COUNTED}" fill-opacity="0.35" stroke="{_COUNTED}" stroke-width="1"/>'


def _steps(values: Sequence[float], width: float, axes: _Axes, end: float) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _corners(values, width, axes, end))
    return f'<polyline points="{points}" fill="none" stroke="{_SENT}" stroke-width="2"/>'


def _corners(values: Sequence[float], width: float, axes: _Axes, end: float) -> list[tuple[float, float]]:
    corners = [
        (axes.x(seconds), axes.y(value))
        for index, value in enumerate(values)
        for seconds in (index * width, min(end, (index + 1) * width))
    ]
    return corners or [(axes.x(0), axes.y(0))]


def _cuts(timeline: Timeline, axes: _Axes, top: float) -> list[str]:
    """A tick where connections were cut; the more, the longer."""
    parts = [_text(_LEFT - 8, top + 17, "cuts", color=_FAINT, anchor="end")]
    for before, after in zip(timeline.samples, timeline.samples[1:], strict=False):
        if (count := after.cuts - before.cuts) > 0:
            x, length = axes.x(after.seconds), min(_CUTS_HEIGHT, 5 + 5 * count)
            parts.append(_line(x, top, x, top + length, _INK, 1))
    return parts


def _curves(timeline: Timeline, axes: _Axes) -> list[str]:
    parts = []
    for name, color in (("sent", _SENT), ("counted", _COUNTED)):
        places = [(axes.x(sample.seconds), axes.y(getattr(sample, name))) for sample in timeline.samples]
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _bends(places))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="2"/>')
    return parts


def _bends(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without the points inside of level stretches."""
    inner = [
        place
        for before, place, after in zip(places, places[1:], places[2:], strict=False)
        if not before[1] == place[1] == after[1]
    ]
    return [*places[:1], *inner, *places[1:][-1:]]


def _grid(axes: _Axes, title: str) -> list[str]:
    parts = [_text(_LEFT, axes.top - 6, title, color=_FAINT)]
    for part in range(5):
        value = axes.y_max * part / 4
        y = axes.y(value)
        parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, _GRID, 1))
        parts.append(_text(_LEFT - 8, y + 4, f"{value:,.0f}", color=_FAINT, anchor="end"))
    return parts


def _seconds(axes: _Axes, y: float) -> list[str]:
    step = next((step for step in _SECONDS if axes.x_max / step <= _MARKS_MAX), _SECONDS[-1])
    marks = range(int(axes.x_max / step) + 1)
    return [
        _text(axes.x(mark * step), y, f"{mark * step:.0f} s", color=_FAINT, anchor="middle") for mark in marks
    ]


def _legend() -> list[str]:
    parts = []
    for place, (color, what) in enumerate(
        ((_SENT, "sent by the till"), (_COUNTED, "written back by the pipeline"))
    ):
        x = _WIDTH - 390 + 150 * place
        parts.append(_line(x, 62, x + 22, 62, color, 3))
        parts.append(_text(x + 28, 66, what))
    return parts


def _row(line: Line) -> str:
    unit = f" {escape(line.unit)}" if line.unit else ""
    counts = "".join(
        f"<td{' class=bad' if count else ''}>{count:,}</td>"
        for count in (line.lost, line.duplicated, line.torn, line.wrong)
    )
    bad = "" if line.expected == line.found else " class=bad"
    return f"<tr><td>{escape(line.name)}</td><td>{line.expected:,}{unit}</td><td{bad}>{line.found:,}{unit}</td>{counts}</tr>"


def _line(x1: float, y1: float, x2: float, y2: float, color: str, width: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" stroke-width="{width:g}"/>'


def _text(
    x: float,
    y: float,
    text: str,
    *,
    color: str = _INK,
    size: int = 12,
    bold: bool = False,
    anchor: str = "start",
) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{color}" text-anchor="{anchor}"{weight}>'
        f"{escape(text)}</text>"
    )


def _nice(value: float) -> float:
    """The next number that is a small one times a power of ten."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(
        factor * power for factor in (1, 2, 3, 4, 5, 6, 8, 10) if factor * power >= value * (1 - 1e-9)
    )
