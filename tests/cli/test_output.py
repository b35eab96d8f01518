"""Lists in every format: aligned for people in any script, complete for programs.

Method: small rows, and the text that must come out; what is read back is read by the formats' own parsers.
"""

import csv
import io
import json
from collections.abc import Callable
from typing import Any, Final

import pytest
import yaml

from semel.cli.output import Column, cut, one_line, show, table_lines, width

_ROWS: Final[list[dict[str, Any]]] = [
    {"name": "orders", "count": 3, "ids": [1, 2], "known": None, "on": True},
    {"name": "日本", "count": 12, "ids": [], "known": 'größer, "or"\nnot', "on": False},
]
_COLUMNS: Final = (
    Column("NAME", "name"),
    Column("COUNT", "count"),
    Column("IDS", lambda row: ",".join(map(str, row["ids"])), wide=True),
    Column("KNOWN", "known"),
)

Printed = Callable[[str], str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def run(output: str) -> str:
        show(output, _ROWS, _COLUMNS)
        return capsys.readouterr().out

    return run


def test_columns_are_aligned_by_the_cells_of_a_terminal(printed: Printed) -> None:
    header, first, second = printed("table").splitlines()
    assert header == "NAME    COUNT  KNOWN"
    assert first == "orders      3  -"
    assert second == '日本       12  größer, "or"\\nnot'  # Two characters, four cells.
    assert (
        len({width(line[: line.index(mark)]) for line, mark in ((header, "KNOWN"), (second, "größer"))}) == 1
    )


def test_wide_has_every_column(printed: Printed) -> None:
    assert printed("wide").splitlines()[0].split() == ["NAME", "COUNT", "IDS", "KNOWN"]


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_documents_carry_everything(printed: Printed, output: str, read: Callable[[str], Any]) -> None:
    assert read(printed(output)) == _ROWS


def test_csv_carries_everything(printed: Printed) -> None:
    first, second = csv.DictReader(io.StringIO(printed("csv")))
    assert first == {"name": "orders", "count": "3", "ids": "[1, 2]", "known": "", "on": "true"}
    assert second["known"] == _ROWS[1]["known"]


def test_csv_of_nothing_has_a_header(capsys: pytest.CaptureFixture[str]) -> None:
    show("csv", [], _COLUMNS)
    assert capsys.readouterr().out == "name,count,known\n"


@pytest.mark.parametrize(
    ("text", "cells"),
    [("abc", 3), ("日本", 4), ("größer", 6), ("e\u0301", 1), ("🙂", 2), ("\u200b", 0), ("ﾊ", 1)],
)
def test_the_width_of_a_text(text: str, cells: int) -> None:
    assert width(text) == cells


@pytest.mark.parametrize(
    ("text", "shown"), [("abcdef", "abcd…"), ("日本語", "日本…"), ("ab", "ab"), ("日日日日", "日日…")]
)
def test_a_cut_text_fits(text: str, shown: str) -> None:
    assert cut(text, 5) == shown
    assert width(shown) <= 5


def test_a_cell_commands_no_terminal() -> None:
    assert one_line("a\x1b[31mb\nc\u2028d") == "a\\x1b[31mb\\nc\\u2028d"
    assert one_line("e\u0301 日本") == "e\u0301 日本"
    assert len(table_lines(["A"], [["x\ny"]])) == 2
