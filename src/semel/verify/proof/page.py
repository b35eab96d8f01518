"""A proof as a page: the counts, and a picture of operations, faults and the last stable offset over time.

Role.   `html` makes one file that needs nothing else; it opens from a disk and prints.
Rules.  * Pure: text out. Everything that comes from outside is escaped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Final, NamedTuple, TypeAlias

from semel.verify.history.events import Fault
from semel.verify.proof.anomalies import story_of
from semel.verify.proof.judge import counts
from semel.verify.proof.report import as_text, most_telling
from semel.verify.proof.runner import Proof
from semel.verify.proof.timeline import SLICE_SECONDS

_WIDTH: Final = 1000
_LEFT: Final = 80
_RIGHT: Final = 20
_PANEL: Final = 110
_GAP: Final = 34
_TOP: Final = 24
_POINTS_MAX: Final = 240
_SAMPLES_MAX: Final = 600
_MINUTES_FROM: Final = 300
_STORIES_MAX: Final = 20
_INK, _GRID, _FAINT, _BLOCK, _WAY = "#24292f", "#d8dee4", "#57606a", "#cf222e", "#bf8700"
_GREEN, _BLUE, _PURPLE, _BROWN, _GREY = "#1a7f37", "#0969da", "#8250df", "#bc4c00", "#8c959f"

_Points: TypeAlias = Sequence[tuple[float, float]]
"""Seconds and values."""


class _Panel(NamedTuple):
    """One part of the picture: lines over time, each with its color."""

    title: str
    lines: tuple[tuple[str, _Points], ...]


_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;color:#24292f;max-width:1040px;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td{padding:.15rem .8rem .15rem 0}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "pre{background:#f6f8fa;padding:.8rem;overflow:auto;font-size:13px;white-space:pre-wrap}.bad{color:#cf222e;font-weight:600}"
)


def html(proof: Proof, again: str) -> str:
    """The page."""
    told = as_text(proof, again)
    verdict = "Every promise was kept" if not proof.findings else "Promises were broken"
    if proof.error:
        verdict = "Nothing is proved"
    rows = "".join(
        f'<tr{" class=bad" if number else ""}><td>{escape(anomaly.value)}</td><td class="n">{number}</td></tr>'
        for anomaly, number in counts(proof.findings).items()
    )
    looked_for = f"<h2>What was looked for</h2><table>{rows}</table>"
    stories = "".join(
        f"<h3>{escape(finding.anomaly.value)}</h3><pre>{escape(chr(10).join(story_of(finding, proof.history)))}</pre>"
        for finding in most_telling(proof.findings, _STORIES_MAX)
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>semel verify: {verdict}</title>'
        f"<style>{_STYLE}</style><h1>{verdict}</h1><pre>{escape(chr(10).join(told[:-1]))}</pre>"
        f"{svg(proof)}{'' if proof.error else looked_for}{stories}"
        f"<p>Proved on {escape(proof.version)}. Seed {proof.options.seed}; again: <code>{escape(again)}</code></p></html>\n"
    )


def svg(proof: Proof) -> str:
    """The picture."""
    end = max([proof.timeline.end, *(one.at for one in proof.vitals)])
    panels = _panels(proof, max(SLICE_SECONDS, end / _POINTS_MAX), end)
    height = _TOP + len(panels) * (_PANEL + _GAP) + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'aria-label="operations, faults and last stable offset over time">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/><g font-family="sans-serif" font-size="12">',
        f'<text x="{_LEFT}" y="14" fill="{_FAINT}">red: nobody could be served; yellow: something was harmed</text>',
    ]
    parts += _bands(proof.timeline.faults, end, height)
    for number, panel in enumerate(panels):
        parts += _panel(panel, _TOP + number * (_PANEL + _GAP) + 18, end)
    parts += [
        f'<text x="{_x(second, end):.1f}" y="{height - 8}" text-anchor="middle" fill="{_FAINT}">{_clock(second)}</text>'
        for second in _ticks(end)
    ]
    return "".join([*parts, "</g></svg>"])


def _panels(proof: Proof, bucket: float, end: float) -> list[_Panel]:
    """The panels, top to bottom."""
    timeline = proof.timeline
    gap = _latest(timeline.unstable, bucket, end, max)
    panels = [
        _Panel("acknowledged records per second", ((_GREEN, _rate(timeline.acked, bucket, end)),)),
        _Panel("transactions committed per second", ((_BLUE, _rate(timeline.committed, bucket, end)),)),
        _Panel("records read per second", ((_PURPLE, _rate(timeline.read, bucket, end)),)),
        _Panel(
            "last stable offset (brown) and end of the log (grey), all partitions added up",
            (
                (_GREY, _latest(timeline.ends, bucket, end, max)),
                (_BROWN, _latest(timeline.stable, bucket, end, max)),
            ),
        ),
        _Panel("most records above the last stable offset of a partition", ((_BROWN, gap),)),
    ]
    if proof.vitals:
        memory = [(one.at, one.memory_bytes / (1 << 20)) for one in proof.vitals]
        handles = [(one.at, float(one.handles)) for one in proof.vitals]
        panels += [
            _Panel("memory of the broker, MiB", ((_BLUE, _thinned(memory)),)),
            _Panel("open handles of the broker", ((_PURPLE, _thinned(handles)),)),
        ]
    return panels


def _panel(panel: _Panel, top: float, end: float) -> list[str]:
    highest = max([1.0, *(value for _, points in panel.lines for _, value in points)])
    bottom = top + _PANEL
    return [
        f'<text x="{_LEFT}" y="{top - 5}" fill="{_INK}">{escape(panel.title)}</text>',
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}" stroke="{_GRID}"/>',
        f'<text x="{_LEFT - 8}" y="{top + 10}" text-anchor="end" fill="{_FAINT}">{highest:,.0f}</text>',
        f'<text x="{_LEFT - 8}" y="{bottom}" text-anchor="end" fill="{_FAINT}">0</text>',
        *(_line(color, points, highest, bottom, end) for color, points in panel.lines),
    ]


def _line(color: str, points: _Points, highest: float, bottom: float, end: float) -> str:
    places = " ".join(
        f"{_x(min(end, at), end):.1f},{bottom - _PANEL * value / highest:.1f}" for at, value in points
    )
    return f'<polyline points="{places}" fill="none" stroke="{color}" stroke-width="1.5"/>'


def _bands(faults: Iterable[Fault], end: float, height: int) -> list[str]:
    return [
        f'<rect x="{_x(event.at, end):.1f}" width="{max(1.5, _x(event.until, end) - _x(event.at, end)):.1f}" y="{_TOP}" '
        f'height="{height - _TOP - 24}" fill="{_BLOCK if event.blocks else _WAY}" opacity="{0.25 if event.blocks else 0.12}">'
        f"<title>{escape(event.what)}, {event.at:.1f} to {event.until:.1f} s</title></rect>"
        for event in faults
    ]


def _rate(counted: Mapping[int, int], bucket: float, end: float) -> _Points:
    """How many per second, in each bucket of time."""
    sums: Counter[int] = Counter()
    for slice_, number in counted.items():
        sums[int(slice_ * SLICE_SECONDS / bucket)] += number
    return [((index + 0.5) * bucket, sums[index] / bucket) for index in range(int(end / bucket) + 1)]


def _latest(
    sampled: Mapping[int, int], bucket: float, end: float, choose: Callable[[int, int], int]
) -> _Points:
    """The one value chosen of each bucket; the last one known where none was taken."""
    seen: dict[int, int] = {}
    for slice_, number in sampled.items():
        index = int(slice_ * SLICE_SECONDS / bucket)
        seen[index] = choose(seen[index], number) if index in seen else number
    points: list[tuple[float, float]] = []
    for index in range(int(end / bucket) + 1):
        value = seen.get(index, points[-1][1] if points else 0)
        points.append(((index + 0.5) * bucket, float(value)))
    return points


def _thinned(points: Sequence[tuple[float, float]]) -> _Points:
    """At most so many of them: the highest of each stretch."""
    stretch = -(-len(points) // _SAMPLES_MAX)
    return [
        max(points[start : start + stretch], key=lambda one: one[1])
        for start in range(0, len(points), stretch)
    ]


def _clock(second: float) -> str:
    return f"{second:.0f} s" if second < _MINUTES_FROM else f"{second / 60:.0f} min"


def _x(second: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / end


def _ticks(end: float) -> list[float]:
    step = next(
        one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600) if end / one <= 14 or one == 3600
    )
    return [step * number for number in range(int(end / step) + 1)]
