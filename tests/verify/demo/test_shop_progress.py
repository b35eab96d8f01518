"""What people see: a panel that fits the terminal, lines that read in a log, and a picture that is well-formed.

Method: a made-up performance with faults of all kinds, rendered at many sizes; the picture is parsed as XML and searched for what
must be in it.
"""

import io
import json
from collections.abc import Mapping
from xml.etree import ElementTree as ET

import pytest

from semel.verify.demo.shop import picture
from semel.verify.demo.shop.display import Log, Panel, display_for, panel_lines
from semel.verify.demo.shop.judgement import Line, Verdict
from semel.verify.demo.shop.picture import html, svg
from semel.verify.demo.shop.timeline import BROKER, DRIVER, TILL, Fault, Sample, Timeline

STATES = {BROKER: "up", TILL: "up", DRIVER: "starting"}
KEPT = Verdict((Line("order events", 1000, 1000), Line("revenue", 5000, 5000, unit="cents")))
BROKEN = Verdict((Line("order events", 1000, 1001, duplicated=1),))
_SVG = "{http://www.w3.org/2000/svg}"


def a_performance() -> Timeline:
    timeline = Timeline(total=1000)
    timeline.samples += [
        Sample(
            second / 5, min(1000, 10 * second), min(1000, 8 * second), second // 9, second // 7, second // 11
        )
        for second in range(1, 130)
    ]
    timeline.faults += [
        Fault(BROKER, 5.0, back_seconds=5.8),
        Fault(DRIVER, 5.0, back_seconds=15.0),
        Fault(TILL, 20.0, on_purpose=False, back_seconds=21.0),
        Fault(DRIVER, 25.5),
    ]
    timeline.happenings += [
        (5.0, "kill -9: the broker and the pipeline's driver"),
        (5.8, "the broker has recovered and serves again after 0.8 s"),
        (20.0, "the till ended by itself (code 1): started again <again & again>"),
    ]
    return timeline


class Terminal(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding=encoding, newline="")

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        return self.bytes.getvalue().decode(self.encoding)


def test_rates_are_what_was_added_per_second() -> None:
    timeline = Timeline(
        total=100, samples=[Sample(0.0), Sample(2.0, sent=20), Sample(3.0, sent=20), Sample(3.5, sent=25)]
    )
    assert timeline.rates("sent", 1.0) == pytest.approx([10, 10, 0, 10])
    assert timeline.rates("sent", 2.0) == pytest.approx([10, 5 / 1.5])
    assert timeline.rate_now("sent", 1.5) == pytest.approx(5 / 1.5)
    assert Timeline(total=1).rates("sent", 1.0) == []
    assert Timeline(total=1).rate_now("sent") == 0


def test_kills_are_those_on_purpose() -> None:
    timeline = a_performance()
    assert {who: timeline.kills(who) for who in (BROKER, DRIVER, TILL)} == {BROKER: 1, DRIVER: 2, TILL: 0}


@pytest.mark.parametrize("width", [20, 59, 79, 200])
@pytest.mark.parametrize("blocks", [True, False])
def test_the_panel_fits_its_terminal(width: int, blocks: bool) -> None:
    lines = panel_lines(a_performance(), STATES, width=width, blocks=blocks)
    assert max(map(len, lines)) <= width
    assert blocks or all(line.isascii() for line in lines)
    if width >= 79:
        text = "\n".join(lines)
        assert "broker up, killed 1x" in text
        assert "driver starting, killed 2x" in text
        assert "100%      1,000" in text
        assert "the till ended by itself" in text


def test_a_panel_is_drawn_over_itself_and_gives_the_cursor_back() -> None:
    terminal = Terminal()
    with Panel(terminal, colored=True) as panel:
        panel.show(a_performance(), STATES)
        once = terminal.text.count("\n")
        panel.show(a_performance(), STATES)
    text = terminal.text
    assert f"\x1b[{once}F" in text
    assert text.startswith("\x1b[?25l")
    assert text.endswith("\x1b[?25h")
    assert "\x1b[31m" in text  # A kill is red.


@pytest.mark.parametrize(
    ("terminal", "environment", "kind"),
    [
        (Terminal(), {"TERM": "xterm"}, Panel),
        (Terminal(), {"TERM": "dumb"}, Log),
        (Terminal(), {}, Log),
        (io.StringIO(), {"TERM": "xterm"}, Log),
    ],
)
def test_a_panel_is_for_terminals_only(
    terminal: io.TextIOBase, environment: Mapping[str, str], kind: type
) -> None:
    assert type(display_for(terminal, environment)) is kind  # type: ignore[arg-type]  # a stream is enough


def test_colors_and_blocks_are_left_out_where_they_are_not_wanted() -> None:
    terminal = Terminal(encoding="ascii")
    with display_for(terminal, {"TERM": "vt100", "NO_COLOR": "1"}) as display:
        display.show(a_performance(), STATES)
    assert "\x1b[31m" not in terminal.text
    assert "#####" in terminal.text


def test_a_log_tells_everything_once_and_how_far_it_is_now_and_then() -> None:
    stream = io.StringIO()
    timeline = a_performance()
    with Log(stream) as log:
        for _tick in range(3):
            log.show(timeline, STATES)
    lines = stream.getvalue().splitlines()
    assert len(lines) == len(timeline.happenings) + 1
    assert lines[0] == "   5.0 s  kill -9: the broker and the pipeline's driver"
    assert lines[-1].startswith("  25.8 s  sent 1,000 (100%), counted 1,000 (100%); 14 connections cut")
    assert lines[-1].endswith("driver starting")


def test_the_picture_has_both_curves_and_a_band_for_every_fault() -> None:
    timeline = a_performance()
    root = ET.fromstring(svg(timeline, KEPT))
    titles = [title.text or "" for title in root.iter(f"{_SVG}title")]
    kills = timeline.kills(DRIVER)
    assert sum("kill -9 driver" in title for title in titles) == 3 * kills, (
        "in its lane and across both plots"
    )
    assert "kill -9 broker, at work again after 0.8 s" in titles
    assert "till ended, at work again after 1.0 s" in titles
    texts = [text.text or "" for text in root.iter(f"{_SVG}text")]
    assert any("0 lost, 0 duplicated, 0 torn" in text for text in texts)
    assert {"kill -9 driver", "kill -9 broker", "till ended", "connections cut"} <= set(texts), "the lanes"
    assert len(list(root.iter(f"{_SVG}polyline"))) == 4


def test_a_picture_is_drawn_again_from_its_data() -> None:
    timeline = a_performance()
    kept = json.loads(json.dumps(picture.as_data(timeline, KEPT)))
    assert picture.of_data(kept) == (timeline, KEPT)


def test_a_performance_of_no_length_can_be_drawn() -> None:
    ET.fromstring(svg(Timeline(total=0), Verdict(())))


def test_the_page_says_whether_the_promise_was_kept_and_needs_nothing_else() -> None:
    kept, broken = (html(a_performance(), verdict, "semel demo --seed 1") for verdict in (KEPT, BROKEN))
    assert "Every order was counted once" in kept
    assert "The promise was not kept" in broken
    assert "class=bad" in broken
    assert "class=bad" not in kept
    assert "&lt;again &amp; again&gt;" in kept
    outside = kept.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert "http" not in outside
    assert "<script" not in kept
