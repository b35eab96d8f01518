"""A proof as a page: the counts, and a picture of operations, faults and the last stable offset over time.

Role.   `html` makes one file that needs nothing else; it opens from a disk and prints.
Rules.  * Pure: text out. Everything that comes from outside is escaped.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from semel.verify.proof.anomalies import story_of
from semel.verify.proof.events import Acked, Ended, Event, Fault, Polled, Stable
from semel.verify.proof.judge import counts
from semel.verify.proof.report import as_text
from semel.verify.proof.runner import Proof

_WIDTH: Final = 1000
_LEFT: Final = 80
_RIGHT: Final = 20
_PANEL: Final = 110
_GAP: Final = 34
_TOP: Final = 24
_BUCKETS_MAX: Final = 240
_STORIES_MAX: Final = 20
_GOOD, _BAD, _INK, _GRID, _FAINT, _BLOCK, _WAY = (
    "#1a7f37",
    "#cf222e",
    "#24292f",
    "#d8dee4",
    "#57606a",
    "#cf222e",
    "#bf8700",
)

_STYLE: Final = (
    "body{font:15px/1.45 system-ui,sans-serif;color:#24292f;max-width:1040px;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}td{padding:.15rem .8rem .15rem 0}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "pre{background:#f6f8fa;padding:.8rem;overflow:auto;font-size:13px}.bad{color:#cf222e;font-weight:600}"
)


def html(proof: Proof, again: str) -> str:
    """The page."""
    told = as_text(proof, again)
    verdict = "Every promise was kept" if not proof.findings else "Promises were broken"
    rows = "".join(
        f'<tr{" class=bad" if number else ""}><td>{escape(anomaly.value)}</td><td class="n">{number}</td></tr>'
        for anomaly, number in counts(proof.findings).items()
    )
    stories = "".join(
        f"<h3>{escape(finding.anomaly.value)}</h3><pre>{escape(chr(10).join(story_of(finding, proof.history)))}</pre>"
        for finding in proof.findings[:_STORIES_MAX]
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>semel verify: {verdict}</title>'
        f"<style>{_STYLE}</style><h1>{verdict}</h1><pre>{escape(chr(10).join(told[:-1]))}</pre>"
        f"{svg(proof)}<h2>What was looked for</h2><table>{rows}</table>{stories}"
        f"<p>Proved on {escape(proof.version)}. Seed {proof.options.seed}; again: <code>{escape(again)}</code></p></html>\n"
    )


def svg(proof: Proof) -> str:
    """The picture."""
    end = max([1.0, *(event.at for event in proof.history)])
    bucket = max(0.25, end / _BUCKETS_MAX)
    panels: list[tuple[str, str, list[float]]] = [
        ("acknowledged records per second", _GOOD, _rate(proof.history, _acked, end, bucket)),
        ("transactions committed per second", "#0969da", _rate(proof.history, _committed, end, bucket)),
        ("records read per second", "#8250df", _rate(proof.history, _read, end, bucket)),
        ("records above the last stable offset", "#bc4c00", _unstable(proof.history, end, bucket)),
    ]
    height = _TOP + len(panels) * (_PANEL + _GAP) + 20
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" '
            f'aria-label="operations, faults and last stable offset over time">'
        ),
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/><g font-family="sans-serif" font-size="12">',
        f'<text x="{_LEFT}" y="14" fill="{_FAINT}">red: broker killed or frozen; yellow: requests lost, late or repeated</text>',
    ]
    parts += _bands(proof.history, end, height)
    for number, (title, color, values) in enumerate(panels):
        parts += _panel(title, color, values, _TOP + number * (_PANEL + _GAP) + 18, end, bucket)
    parts += [
        f'<text x="{_x(second, end):.1f}" y="{height - 8}" text-anchor="middle" fill="{_FAINT}">{second:.0f} s</text>'
        for second in _ticks(end)
    ]
    return "".join([*parts, "</g></svg>"])


def _panel(
    title: str, color: str, values: Sequence[float], top: float, end: float, bucket: float
) -> list[str]:
    highest = max([1.0, *values])
    bottom = top + _PANEL
    points = " ".join(
        f"{_x(min(end, (index + 0.5) * bucket), end):.1f},{bottom - _PANEL * value / highest:.1f}"
        for index, value in enumerate(values)
    )
    return [
        f'<text x="{_LEFT}" y="{top - 5}" fill="{_INK}">{escape(title)}</text>',
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{bottom}" y2="{bottom}" stroke="{_GRID}"/>',
        f'<text x="{_LEFT - 8}" y="{top + 10}" text-anchor="end" fill="{_FAINT}">{highest:,.0f}</text>',
        f'<text x="{_LEFT - 8}" y="{bottom}" text-anchor="end" fill="{_FAINT}">0</text>',
        f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.5"/>',
    ]


def _bands(history: Iterable[Event], end: float, height: int) -> list[str]:
    return [
        f'<rect x="{_x(event.at, end):.1f}" width="{max(1.5, _x(event.until, end) - _x(event.at, end)):.1f}" y="{_TOP}" '
        f'height="{height - _TOP - 24}" fill="{_BLOCK if event.blocks else _WAY}" opacity="{0.25 if event.blocks else 0.12}">'
        f"<title>{escape(event.what)}, {event.at:.1f} to {event.until:.1f} s</title></rect>"
        for event in history
        if isinstance(event, Fault)
    ]


def _rate(history: Iterable[Event], weight: Callable[[Event], int], end: float, bucket: float) -> list[float]:
    sums: Counter[int] = Counter()
    for event in history:
        if number := weight(event):
            sums[int(event.at / bucket)] += number
    return [sums[index] / bucket for index in range(int(end / bucket) + 1)]


def _unstable(history: Iterable[Event], end: float, bucket: float) -> list[float]:
    """The most that lay above the last stable offset of any partition, in each bucket; the last one known where none was taken."""
    seen: dict[int, int] = {}
    for event in history:
        if isinstance(event, Stable):
            index = int(event.at / bucket)
            seen[index] = max(seen.get(index, 0), event.end - event.stable)
    values: list[float] = []
    for index in range(int(end / bucket) + 1):
        values.append(float(seen.get(index, values[-1] if values else 0)))
    return values


def _acked(event: Event) -> int:
    return int(isinstance(event, Acked))


def _committed(event: Event) -> int:
    return int(isinstance(event, Ended) and event.outcome == "committed")


def _read(event: Event) -> int:
    return len(event.records) if isinstance(event, Polled) else 0


def _x(second: float, end: float) -> float:
    return _LEFT + (_WIDTH - _LEFT - _RIGHT) * second / end


def _ticks(end: float) -> list[float]:
    step = next(
        one for one in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600) if end / one <= 14 or one == 3600
    )
    return [step * number for number in range(int(end / step) + 1)]
