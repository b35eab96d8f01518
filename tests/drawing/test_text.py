"""Widths, numbers, ticks and places: what labels and axes are made of.

Method: properties of wrapping and scales, and tables of what is written.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.drawing import palette
from semel.drawing.canvas import Canvas
from semel.drawing.frame import Frame, steps
from semel.drawing.ratios import Row, ratios, times_said
from semel.drawing.scales import Linear, Logarithmic, times, up_from_zero
from semel.drawing.text import balanced, number, seconds, shortened, width, wrapped

WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=80)


@given(WORDS, st.floats(40, 400))
def test_lines_fit_and_hold_every_word_that_fits(text: str, room: float) -> None:
    for lines in (wrapped(text, 12, room), balanced(text, 12, room)):
        assert all(width(line, 12) <= room for line in lines)
        if all(width(word, 12) <= room for word in text.split()):
            assert " ".join(lines) == " ".join(text.split())
    assert len(balanced(text, 12, room)) <= len(wrapped(text, 12, room))


@given(WORDS, st.floats(20, 200))
def test_what_is_too_long_is_shortened_visibly(text: str, room: float) -> None:
    short = shortened(text, 12, room)
    assert width(short, 12) <= room
    assert short == text or short.endswith("…")


def test_lines_are_broken_evenly() -> None:
    said = "the broker killed within a write (kill -9)"
    assert balanced(said, 11, 200) == ["the broker killed", "within a write (kill -9)"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (950, "950"),
        (4000, "4,000"),
        (12_000, "12k"),
        (1_500_000, "1.5M"),
        (2e9, "2G"),
    ],
)
def test_numbers_of_an_axis(value: float, said: str) -> None:
    assert number(value) == said


def test_moments_and_ratios_in_words() -> None:
    assert (seconds(30, 60), seconds(600, 3600), seconds(90, 600)) == ("30 s", "10 min", "1.5 min")
    assert [times_said(value) for value in (36.4, 2.33, 1.0, 0.7, 0.084)] == [
        "36×",
        "2.3×",
        "1.0×",
        "0.70×",
        "0.08×",
    ]


@given(st.floats(1e-6, 1e12), st.floats(0, 1e12))
def test_an_axis_from_zero_has_few_round_ticks_and_a_place_for_every_value(
    highest: float, value: float
) -> None:
    scale = up_from_zero(highest, 100, 0)
    ticks = scale.ticks()
    assert 2 <= len(ticks) <= 6
    assert scale.high >= highest * 0.999
    assert ticks[-1] == pytest.approx(scale.high)
    assert 0 <= scale.at(value) <= 100


def test_a_logarithmic_axis() -> None:
    scale = Logarithmic(0.1, 100, 0, 300)
    assert scale.at(1) == pytest.approx(100)
    assert (scale.at(0.001), scale.at(1e9)) == (0, 300), "what is outside stands at the edge"
    assert [round(tick, 6) for tick in scale.ticks()] == [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100]
    assert len(Logarithmic(1e-6, 1e6, 0, 300).ticks()) == 13


@given(st.floats(0.5, 1e6))
def test_ticks_of_time_are_few(end: float) -> None:
    ticks = times(end, 12)
    assert ticks[0] == 0
    assert len(ticks) <= 14
    assert ticks[-1] <= end


def test_a_level_stretch_is_two_points() -> None:
    canvas = Canvas("c", 100, "a title", "a description")
    frame = Frame(canvas, 0, 0, 100, 100, Linear(0, 10, 0, 100), Linear(0, 10, 100, 0))
    frame.line([(0, 5), (1, 5), (2, 5), (3, 7), (4, 7), (5, 7)], palette.BLUE)
    assert 'points="0.0,50.0 20.0,50.0 30.0,30.0 50.0,30.0"' in canvas.svg()


def test_steps_end_where_the_run_ends() -> None:
    assert steps([2.0, 3.0], 1.0, 1.5) == [(0.0, 2.0), (1.0, 2.0), (1.0, 3.0), (1.5, 3.0)]


def test_two_pictures_in_one_page_share_no_identity() -> None:
    one, other = (Canvas(name, 10, "t", "d") for name in ("one", "other"))
    assert one.pattern(palette.HATCHED, palette.BLUE) != other.pattern(palette.HATCHED, palette.BLUE)
    assert 'id="one-title"' in one.svg()
    assert 'id="other-title"' in other.svg()


def test_what_comes_from_outside_is_escaped() -> None:
    drawn = ratios("n", "<b>", "a & b", [Row("<g>", "<l>", 1, 2, 3)], "<peer>")
    assert "<b>" not in drawn
    assert "<g>" not in drawn
    assert "<l>" not in drawn
    assert "<peer>" not in drawn
