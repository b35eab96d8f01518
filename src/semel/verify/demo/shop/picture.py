"""The picture of a performance: throughput over time with the faults marked, and the proof below it.

Role.   `svg` draws a `Timeline` by the common hand; `html` is a page around it that needs nothing else.
Rules.  * Pure: text in, text out.
        * A band is the time from a kill until the work goes on; the last lane has the connections that were cut.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict
from html import escape
from typing import Any, Final

from semel.drawing import page as pages
from semel.drawing import palette
from semel.drawing.frame import steps
from semel.drawing.page import Cells, Tile
from semel.drawing.timeline import Band, Kind, Panel, Series, Story
from semel.drawing.timeline import timeline as drawn
from semel.verify.demo.shop.judgement import Line, Verdict
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Fault, Timeline

_LABELS: Final = {BROKER: "broker", DRIVER: "driver", TILL: "till"}
_KINDS: Final = {
    BROKER: Kind("without the broker", palette.HATCHED, palette.ORANGE),
    DRIVER: Kind("without the driver", palette.DOTTED, palette.PURPLE),
    TILL: Kind("without the till", palette.CROSSED, palette.BLUE),
}
_CUT: Final = Kind("connections cut", palette.STRIPED, palette.GREY)
_RATES_HEIGHT: Final = 190
_TOTALS_HEIGHT: Final = 130
_SLICES_MAX: Final = 160
_TITLE: Final = "A shop's orders through kills and cut connections, each counted once"


def svg(timeline: Timeline, verdict: Verdict) -> str:
    """The picture, as the text of an SVG file."""
    end = max(1.0, timeline.last.seconds)
    slice_seconds = max(1.0, math.ceil(end / _SLICES_MAX))
    sent, counted = (
        steps(timeline.rates(name, slice_seconds), slice_seconds, end) for name in ("sent", "counted")
    )
    summary = _summary(timeline, verdict)
    return drawn(
        Story(
            name="semel-demo",
            title=_TITLE if verdict.kept else "A shop's orders through kills and cut connections",
            subtitle=summary,
            description=f"Two plots over {end:.0f} s: order events per second and in all, sent by the till and written back by the "
            f"pipeline, with the time that each kill cost. {summary}.",
            end=end,
            panels=(
                Panel(
                    "Order events",
                    f"per second, in slices of {slice_seconds:.0f} s",
                    (
                        Series("written back by the pipeline", counted, palette.TEAL, filled=True),
                        Series("sent by the till", sent, palette.BLUE, dash="7 3"),
                    ),
                    _RATES_HEIGHT,
                ),
                Panel(
                    "Order events in all",
                    "since the beginning",
                    (
                        Series("written back by the pipeline", _totals(timeline, "counted"), palette.TEAL),
                        Series("sent by the till", _totals(timeline, "sent"), palette.BLUE, dash="7 3"),
                    ),
                    _TOTALS_HEIGHT,
                ),
            ),
            bands=[*(_band(fault, end) for fault in timeline.faults), *_cuts(timeline)],
            numbered=False,
        )
    )


def html(timeline: Timeline, verdict: Verdict, command: str) -> str:
    """A page of its own: the picture, the proof as a table, and what happened."""
    said = "Every order was counted once" if verdict.kept else "The promise was not kept"
    shown = [
        Tile(f"{timeline.total:,}", "order events"),
        *(
            Tile(f"{number:,}", name, bad=number > 0)
            for name, number in (
                ("lost", verdict.lost),
                ("duplicated", verdict.duplicated),
                ("torn", verdict.torn),
                ("wrong", verdict.wrong),
            )
        ),
    ]
    heads = ("", "expected", "found", "lost", "duplicated", "torn", "wrong")
    proof = pages.table(
        "Expected is computed from the seed alone; found is read back, committed rows only, from every topic.",
        heads,
        [_row(line) for line in verdict.lines],
        range(1, len(heads)),
    )
    happened = [Cells((f"{seconds:.1f} s", what)) for seconds, what in timeline.happenings]
    body = [
        pages.tiles(shown),
        pages.figure(svg(timeline, verdict)),
        pages.section("The proof", proof),
        pages.section("What happened", pages.table("", ("after", "event"), happened, (0,))),
    ]
    lead = "A till, a PySpark pipeline and a broker, killed and cut off on the way; every topic read back and compared."
    return pages.page(
        f"Semel: {said}", said, lead, body, f"Again: <code>{escape(command)}</code>", good=verdict.kept
    )


def as_data(timeline: Timeline, verdict: Verdict) -> dict[str, Any]:
    """For JSON: what `svg` and `html` are made of."""
    return {"timeline": timeline.as_data(), "verdict": [asdict(line) for line in verdict.lines]}


def of_data(document: Mapping[str, Any]) -> tuple[Timeline, Verdict]:
    """What `as_data` made."""
    return Timeline.of_data(document["timeline"]), Verdict(tuple(Line(**one) for one in document["verdict"]))


def _summary(timeline: Timeline, verdict: Verdict) -> str:
    kills = ", ".join(f"{_LABELS[who]} {timeline.kills(who)}×" for who in (BROKER, DRIVER, TILL))
    last = timeline.last
    return (
        f"{timeline.total:,} order events; kill -9: {kills}; {last.cuts} connections cut, {last.delays} answers late, "
        f"{last.copies} requests twice: {verdict.lost} lost, {verdict.duplicated} duplicated, {verdict.torn} torn"
    )


def _band(fault: Fault, end: float) -> Band:
    what = f"kill -9 {_LABELS[fault.who]}" if fault.on_purpose else f"{_LABELS[fault.who]} ended"
    back = end if fault.back_seconds is None else min(end, fault.back_seconds)
    tip = what if fault.back_seconds is None else f"{what}, at work again after {back - fault.seconds:.1f} s"
    return Band(what, fault.seconds, back, _KINDS[fault.who], tip)


def _cuts(timeline: Timeline) -> list[Band]:
    """Where connections were cut, between two looks."""
    return [
        Band(
            _CUT.name,
            before.seconds,
            after.seconds,
            _CUT,
            f"{after.cuts - before.cuts} connections cut",
            across=False,
        )
        for before, after in zip(timeline.samples, timeline.samples[1:], strict=False)
        if after.cuts > before.cuts
    ]


def _totals(timeline: Timeline, name: str) -> list[tuple[float, float]]:
    return [(sample.seconds, float(getattr(sample, name))) for sample in timeline.samples]


def _row(line: Line) -> Cells:
    unit = f" {line.unit}" if line.unit else ""
    counted = [f"{count:,}" for count in (line.lost, line.duplicated, line.torn, line.wrong)]
    return Cells(
        (line.name, f"{line.expected:,}{unit}", f"{line.found:,}{unit}", *counted), bad=not line.kept
    )
