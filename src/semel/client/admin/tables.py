"""Answers that show themselves as tables in a notebook.

Role.   `Listing` is a list and `Answers` a dict; both have `_repr_html_` with a row per entry and a column per field.
Rules.  * They are lists and dicts in every other respect.
        * Everything is escaped: names of topics and clients are other people's text.
"""

import html
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, TypeVar

T = TypeVar("T")
K = TypeVar("K")

_ROWS_MAX: Final = 200


class Listing(list[T]):
    """A list that is a table in a notebook."""

    def _repr_html_(self) -> str:
        return _table((), (((), one) for one in self), len(self))


class Answers(dict[K, T]):
    """A dict that is a table in a notebook: a row per key."""

    def _repr_html_(self) -> str:
        return _table(("",), (((key,), one) for key, one in self.items()), len(self))


def _table(first: tuple[str, ...], rows: Iterable[tuple[tuple[Any, ...], Any]], count: int) -> str:
    shown = [row for row, _ in zip(rows, range(_ROWS_MAX), strict=False)]
    fields = next((one._fields for _key, one in shown if _is_named(one)), ("value",))
    head = "".join(f"<th>{html.escape(one)}</th>" for one in (*first, *fields))
    body = "".join(
        "<tr>"
        + "".join(f"<td>{_cell(one)}</td>" for one in (*key, *(row if _is_named(row) else (row,))))
        + "</tr>"
        for key, row in shown
    )
    more = f"<p>… and {count - _ROWS_MAX} more</p>" if count > _ROWS_MAX else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cell(value: object) -> str:
    if isinstance(value, Enum):
        return html.escape(value.name)
    if isinstance(value, Listing | Answers):
        return value._repr_html_()
    if isinstance(value, dict):
        return Answers(value)._repr_html_()
    if isinstance(value, tuple) and not hasattr(value, "_fields") and value and _is_named(value[0]):
        return Listing(value)._repr_html_()
    return "" if value is None else html.escape(str(value))


def _is_named(value: object) -> bool:
    """Whether it has fields to be shown one by one; a partition, which has a text of its own, is shown by that."""
    return isinstance(value, tuple) and hasattr(value, "_fields") and type(value).__str__ is tuple.__str__
