"""The project's own list of the checklist must be whole: every id, in order, each with a part and a title.

Method: counts per group and unbroken numbering stand in for the checklist itself; lines that are none are refused.
"""

from collections import Counter
from itertools import groupby

import pytest

from checklist.rows import PARTS, Row, known_ids, parse, rows

# How many rows each group of the checklist has, in its order.
COUNTS = {
    "MIS": 3,
    "IDEM": 40,
    "CFG": 31,
    "PST": 13,
    "ORD": 7,
    "PROD": 10,
    "REPL": 8,
    "CONS": 19,
    "OFF": 18,
    "CID": 11,
    "TXN": 20,
    "TXP": 23,
    "FEN": 9,
    "READ": 16,
    "LOG": 11,
    "STR": 15,
    "ZK": 17,
    "MET": 10,
    "PERF": 10,
    "EX": 14,
    "GUIDE": 19,
    "FIG": 32,
    "R": 50,
    "EXT": 10,
}


def test_every_group_has_all_its_rows_in_order() -> None:
    expected = [f"{group}-{number:02d}" for group, count in COUNTS.items() for number in range(1, count + 1)]
    assert [row.id for row in rows()] == expected
    assert len(expected) == 356 + 50 + 10  # The seeds and the mission, the rulings, the additions.
    assert known_ids() == frozenset(expected)


def test_groups_are_not_scattered() -> None:
    assert [group for group, _rows in groupby(rows(), key=lambda row: row.group)] == list(COUNTS)


def test_titles_are_short_lines_of_their_own() -> None:
    titles = Counter(row.title for row in rows())
    assert [title for title, count in titles.items() if count > 1] == []
    assert [title for title in titles if len(title) > 100 or title.endswith(".")] == []


def test_every_part_has_rows_that_wait_for_it() -> None:
    assert {row.part for row in rows()} == set(PARTS)


def test_comments_and_empty_lines_are_no_rows() -> None:
    text = "# A comment\n\nIDEM-01 | log | First\n   \n  LOG-02   |  broker  |  Second  \n"
    assert parse(text) == (Row("IDEM-01", "log", "First"), Row("LOG-02", "broker", "Second"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("IDEM-01 | log", "line 2 is not 'ID | part | title': 'IDEM-01 | log'"),
        ("IDEM-01 | log | a | b", "line 2 is not 'ID | part | title'"),
        ("IDEM-01 | log | ", "line 2 is not 'ID | part | title'"),
        ("IDEM-1 | log | a", "line 2: 'IDEM-1' is no id such as IDEM-21"),
        ("IDEM-20..23 | log | a", "line 2: 'IDEM-20..23' is no id such as IDEM-21"),
        ("IDEM-01 | cellar | a", "line 2: 'cellar' is no part; there are log, broker, "),
        ("LOG-01 | log | again", "line 2: LOG-01 is already there"),
    ],
)
def test_a_line_that_is_no_row_is_refused_by_number(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"rows\.txt ") as refused:
        parse(f"LOG-01 | log | There\n{line}\n")
    assert message in str(refused.value)
