"""Answers as tables: a row per entry, a column per field, other people's text escaped, and never without end.

Method: small answers, and what they become.
"""

from typing import NamedTuple

from semel.client.admin.tables import Answers, Listing
from semel.errors import ErrorCode
from semel.types import TopicPartition


class Thing(NamedTuple):
    name: str
    where: TopicPartition | None = None
    parts: tuple["Thing", ...] = ()


def test_a_list_is_a_table_with_a_column_per_field() -> None:
    shown = Listing([Thing("<b>", TopicPartition("t", 1)), Thing("c")])._repr_html_()
    assert shown == (
        "<table><thead><tr><th>name</th><th>where</th><th>parts</th></tr></thead><tbody>"
        "<tr><td>&lt;b&gt;</td><td>t-1</td><td>()</td></tr><tr><td>c</td><td></td><td>()</td></tr>"
        "</tbody></table>"
    )


def test_a_dict_has_its_keys_in_front_and_tables_in_tables() -> None:
    shown = Answers({TopicPartition("t", 0): Thing("outer", parts=(Thing("inner"),))})._repr_html_()
    assert "<tr><td>t-0</td><td>outer</td>" in shown
    assert shown.count("<table>") == 2
    assert "<td>inner</td>" in shown


def test_plain_values_and_codes() -> None:
    assert (
        "<tr><td>a</td><td>NOT_CONTROLLER</td></tr>" in Answers({"a": ErrorCode.NOT_CONTROLLER})._repr_html_()
    )
    assert "<td>1</td>" in Answers({"a": {"b": 1}})._repr_html_()
    assert Listing[int]()._repr_html_() == (
        "<table><thead><tr><th>value</th></tr></thead><tbody></tbody></table>"
    )


def test_a_long_answer_is_cut_and_says_so() -> None:
    shown = Listing(range(1000))._repr_html_()
    assert shown.count("<td>") == 200
    assert shown.endswith("<p>… and 800 more</p>")


def test_they_are_lists_and_dicts() -> None:
    assert Listing([1, 2]) == [1, 2]
    assert Answers({"a": 1}) == {"a": 1}
