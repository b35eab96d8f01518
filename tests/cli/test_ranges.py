"""Ranges as users write them, and the offsets they are in a partition.

Method: a table of texts; a partition from 10 to 200.
"""

import click
import pytest

from semel.cli.ranges import Kind, Point, resolved, start_and_end, until


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("earliest", 10, None),
        ("latest", 200, None),
        ("96", 96, None),
        ("-100", 100, None),
        ("-1000", 10, None),
        ("96:120", 96, 120),
        ("96:end", 96, 200),
        ("96:", 96, 200),
        (":96", 10, 96),
        ("start:-50", 10, 150),
        ("-100:-50", 100, 150),
        ("@1970-01-01T00:00:05Z", 77, None),
        ("@5000", 77, None),
    ],
)
def test_a_range_is_offsets_of_a_partition(text: str, start: int, end: int | None) -> None:
    first, last = start_and_end(text)
    assert resolved(first, 10, 200, 77) == start
    assert (None if last is None else resolved(last, 10, 200, 77)) == end


def test_no_record_at_a_time_is_the_end() -> None:
    assert resolved(Point(Kind.TIME, 5), 10, 200, None) == 200


@pytest.mark.parametrize("text", ["soon", "", "1:2:3", "9" * 20, "--1", "-", "96:start", "٣"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="nor a range as 96:120"):
        start_and_end(text)


def test_a_range_that_ends_before_it_begins_is_refused_with_the_right_one() -> None:
    with pytest.raises(click.BadParameter, match="write 90:96"):
        start_and_end("96:90")


def test_an_end_is_an_offset_a_time_or_the_end() -> None:
    assert [until(text).kind for text in ("7", "@7", "latest", "end")] == [
        Kind.OFFSET, Kind.TIME, Kind.LATEST, Kind.LATEST,
    ]  # fmt: skip
    for text in ("-7", "earliest", "soon"):
        with pytest.raises(click.BadParameter, match="neither an offset nor @TIME nor latest"):
            until(text)
