"""What happened over time: plots above each other on one axis, and every fault in its own lane and across the plots.

Role.   `timeline` draws both reports: the proof of `semel verify` and the performance of `semel demo`.
Rules.  * A fault is named by its lane at the top; across the plots it is a band with the pattern of its `Kind`. The `Kind`s are
          explained below the title.
        * Names and units stand in the column at the left, where no band goes.
        * A band has its number if there is room: the page's table of faults counts the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.drawing import legend, palette
from semel.drawing.canvas import Canvas
from semel.drawing.frame import Frame, Points
from semel.drawing.scales import Linear, times, up_from_zero
from semel.drawing.text import balanced, seconds, width, wrapped

WIDTH: Final = 1000
LEFT: Final = 236
RIGHT: Final = 24
_MARGIN: Final = 16
_COLUMN: Final = LEFT - _MARGIN - 60
"""For names; the rest is for the values of the axis."""
_LANE: Final = 20
_LANE_SIZE: Final = 11.5
_PANEL: Final = 92
_GAP: Final = 24
_NAME_LINE: Final = 15
_TICKS_MAX: Final = 12
_BAND_MIN: Final = 2.0
_NUMBER_SIZE: Final = 10
_ACROSS: Final = 0.5
"""A band must not hide the line that it explains."""
_NARROW: Final = 6


@dataclass(frozen=True, slots=True)
class Kind:
    """What a class of faults meant to those who were there."""

    name: str
    pattern: str
    color: str


@dataclass(frozen=True, slots=True)
class Band:
    """A fault from its beginning to its end."""

    lane: str
    at: float
    until: float
    kind: Kind
    tip: str = ""
    across: bool = True
    """Whether the plots show it, not only its lane."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot."""

    name: str
    points: Points
    color: str
    dash: str = ""
    filled: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot. `unit` is of its upright axis."""

    title: str
    unit: str
    series: Sequence[Series]
    height: float = _PANEL


@dataclass(slots=True)
class Story:
    """All that is drawn."""

    name: str
    title: str
    subtitle: str
    description: str
    end: float
    panels: Sequence[Panel]
    bands: Sequence[Band] = field(default_factory=tuple)
    numbered: bool = True


def timeline(story: Story) -> str:
    """The picture, as the text of an SVG file."""
    canvas = Canvas(story.name, WIDTH, story.title, story.description)
    end = max(story.end, 1e-3)
    along = Linear(0.0, end, LEFT, WIDTH - RIGHT)
    y = 30.0
    canvas.text(_MARGIN, y, story.title, size=17, bold=True)
    for line in wrapped(story.subtitle, 12, WIDTH - 2 * _MARGIN):
        y += 18
        canvas.text(_MARGIN, y, line, color=palette.MUTED)
    y += 10
    y += legend.legend(canvas, _MARGIN, y, WIDTH - 2 * _MARGIN, _entries(story)) + 8
    lanes = list(dict.fromkeys(band.lane for band in story.bands))
    names = {lane: balanced(lane, _LANE_SIZE, LEFT - 8 - _MARGIN) for lane in lanes}
    lanes_top, places = y, dict[str, tuple[float, float]]()
    for lane in lanes:
        height = max(_LANE, 6 + 13 * len(names[lane]))
        places[lane] = (y, height)
        y += height
    y += _GAP if lanes else 4
    frames = []
    for panel in story.panels:
        top = y + 4
        highest = max([1.0, *(value for one in panel.series for _, value in one.points)])
        upright = up_from_zero(highest, top + panel.height, top)
        frames.append(Frame(canvas, LEFT, top, WIDTH - RIGHT - LEFT, panel.height, along, upright))
        y = top + panel.height + _GAP
    bottom = y - _GAP
    _bands(canvas, story, along, frames)
    _lanes(canvas, story, along, names, places)
    for panel, frame in zip(story.panels, frames, strict=True):
        _panel(canvas, panel, frame)
    for second in times(end, _TICKS_MAX):
        x = along.at(second)
        canvas.line(x, lanes_top, x, bottom + 5, palette.GRID, 1, "1 4")
        anchor = "middle" if x + 24 < WIDTH else "end"
        canvas.text(x, bottom + 20, seconds(second, end), color=palette.MUTED, size=11, anchor=anchor)
    canvas.text(_MARGIN, bottom + 20, "time since the beginning", color=palette.MUTED, size=11)
    canvas.height = round(bottom + 34)
    return canvas.svg()


def _entries(story: Story) -> list[legend.Entry]:
    kinds = dict.fromkeys(band.kind for band in story.bands)
    lines = {
        one.name: legend.line(one.name, one.color, one.dash) for panel in story.panels for one in panel.series
        if one.name
    }  # fmt: skip
    return [*lines.values(), *(legend.area(kind.name, kind.pattern, kind.color) for kind in kinds)]


def _bands(canvas: Canvas, story: Story, along: Linear, frames: Sequence[Frame]) -> None:
    """Across every plot."""
    for band in story.bands:
        if band.across:
            left, right = _edges(band, along)
            for frame in frames:
                fill = canvas.pattern(band.kind.pattern, band.kind.color)
                canvas.rect(
                    left, frame.top, right - left, frame.height, fill=fill, tip=band.tip, opacity=_ACROSS
                )


def _lanes(
    canvas: Canvas,
    story: Story,
    along: Linear,
    names: dict[str, list[str]],
    places: dict[str, tuple[float, float]],
) -> None:
    for lane, (top, height) in places.items():
        canvas.line(LEFT, top + height, WIDTH - RIGHT, top + height, palette.GRID)
        first = top + height / 2 + 4 - 13 * (len(names[lane]) - 1) / 2
        for index, line in enumerate(names[lane]):
            canvas.text(LEFT - 8, first + 13 * index, line, size=_LANE_SIZE, anchor="end")
    taken: dict[str, float] = {}
    for number, band in enumerate(story.bands, 1):
        top, height = places[band.lane]
        left, right = _edges(band, along)
        if right - left < _NARROW:
            canvas.rect(left, top + 3, right - left, height - 6, color=band.kind.color, tip=band.tip)
        else:
            fill = canvas.pattern(band.kind.pattern, band.kind.color)
            canvas.rect(
                left, top + 3, right - left, height - 6, fill=fill, edge=band.kind.color, tip=band.tip
            )
        if story.numbered:
            said = f"{number}"
            takes = width(said, _NUMBER_SIZE, bold=True)
            x = right + 3 if right + 3 + takes <= WIDTH - RIGHT else left - 3 - takes
            if x >= taken.get(band.lane, 0.0):
                canvas.text(
                    x, top + height / 2 + 3.5, said, size=_NUMBER_SIZE, bold=True, color=band.kind.color
                )
                taken[band.lane] = x + takes + 2


def _panel(canvas: Canvas, panel: Panel, frame: Frame) -> None:
    y = frame.top + 11
    for line in wrapped(panel.title, 12, _COLUMN, bold=True):
        canvas.text(_MARGIN, y, line, bold=True)
        y += _NAME_LINE
    for line in wrapped(panel.unit, 11, _COLUMN):
        canvas.text(_MARGIN, y, line, color=palette.MUTED, size=11)
        y += _NAME_LINE
    frame.rules()
    for one in panel.series:
        if one.filled:
            frame.area(one.points, one.color)
        else:
            frame.line(one.points, one.color, one.dash)


def _edges(band: Band, along: Linear) -> tuple[float, float]:
    left = along.at(band.at)
    right = along.at(band.until)
    return min(left, WIDTH - RIGHT - _BAND_MIN), max(right, left + _BAND_MIN)
