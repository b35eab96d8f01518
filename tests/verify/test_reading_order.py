"""The order of the first design beside the one readers have now: the seeds' log, and any other.

Method: the seeds' figure as a log; then logs made up at random, of which both designs must deliver the same records, only the
new one in order, and never one that is not stable.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.verify.reading_order import Delivery, End, Entry, Record, buffered, in_offset_order, side_by_side

FIGURE: list[Entry] = [
    Record("T1-M1", "T1"),
    Record("T2-M1", "T2"),
    Record("T1-M2", "T1"),
    Record("M1"),
    End("T2"),
    End("T1"),
]
_entries = st.one_of(
    st.builds(Record, st.just("r"), st.sampled_from([None, "T1", "T2", "T3"])),
    st.builds(End, st.sampled_from(["T1", "T2", "T3"]), st.booleans()),
)


@pytest.mark.mission("READ-03", "R-30", "FIG-19")
def test_the_figure_of_the_seeds() -> None:
    assert [one.name for one in buffered(FIGURE)] == ["M1", "T2-M1", "T1-M1", "T1-M2"]
    assert [one.name for one in in_offset_order(FIGURE)] == ["T1-M1", "T2-M1", "T1-M2", "M1"]
    assert {one.offset for one in in_offset_order(FIGURE)} == {
        5
    }  # Nothing before T1, which began first, has ended.


@pytest.mark.mission("READ-03")
def test_the_page_shows_it() -> None:
    page = Path(__file__).parents[2] / "docs" / "transactions.md"
    assert f"```\n{side_by_side(FIGURE)}\n```" in page.read_text(encoding="utf-8")


@given(st.lists(_entries, max_size=12))
def test_both_deliver_the_same_and_one_of_them_in_order(made_up: list[Entry]) -> None:
    numbered = [
        one._replace(name=str(offset)) if isinstance(one, Record) else one
        for offset, one in enumerate(made_up)
    ]
    log: list[Entry] = [*numbered, *(End(name) for name in ("T1", "T2", "T3"))]
    old, new = buffered(log), in_offset_order(log)
    assert sorted(int(one.name) for one in old) == [int(one.name) for one in new]
    for one in new:
        assert is_stable(log[: one.offset + 1], int(one.name))
        assert not is_stable(log[: one.offset], int(one.name)), "it could have come earlier"


def is_stable(log: list[Entry], record: int) -> bool:
    """Whether it is there, and every transaction of a record up to it has ended."""
    ends = {one.transaction: offset for offset, one in enumerate(log) if isinstance(one, End)}
    return record < len(log) and all(
        one.transaction is None or ends.get(one.transaction, -1) > offset
        for offset, one in enumerate(log[: record + 1])
        if isinstance(one, Record)
    )


def test_an_aborted_transaction_is_delivered_by_neither() -> None:
    log: list[Entry] = [Record("a", "T1"), Record("b"), End("T1", committed=False), Record("c")]
    assert buffered(log) == [Delivery(1, "b"), Delivery(3, "c")]
    assert in_offset_order(log) == [Delivery(2, "b"), Delivery(3, "c")]
