"""The output of commands: tables for people; JSON, YAML and CSV for programs.

Role.   `show` prints the rows of a list in the format of `-o`; `show_document` prints a description, whose tables the command lays out
        itself with `print_table`.
Rules.  * A reader may close the pipe (`semel … | head`). The command then ends without a word; `main` decides the exit code.
        * JSON, YAML and CSV carry every field under the same names; a table has the fields a person asks for first, `wide` all of them.
        * CSV has one row per thing listed. A list or an object in a cell is JSON; an unknown value is an empty cell.
        * Columns are aligned by the cells a terminal gives to characters: two to wide ones, none to combining ones.
"""

import csv
import io
import json
import os
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import click

from semel.runtime.terminal import is_colored

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None

TABLE: Final = "table"
WIDE: Final = "wide"
JSON: Final = "json"
YAML: Final = "yaml"
CSV: Final = "csv"
OUTPUTS: Final = (TABLE, WIDE, JSON, YAML, CSV)
FOR_PEOPLE: Final = (TABLE, WIDE)
_INVISIBLE: Final = ("Mn", "Me", "Cf")


class Column(NamedTuple):
    """A column of a table: its header, and its cell by the name of a field or by a function of the row."""

    header: str
    of: str | Callable[[Mapping[str, Any]], object]
    wide: bool = False
    """Only in `wide`."""

    def cell(self, row: Mapping[str, Any]) -> object:
        return row[self.of] if isinstance(self.of, str) else self.of(row)


def show(output: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[Column]) -> None:
    """Print a list in the chosen format."""
    if output in FOR_PEOPLE:
        chosen = columns_for(output, columns)
        print_table([one.header for one in chosen], [[one.cell(row) for one in chosen] for row in rows])
    elif output == CSV:
        print_csv(rows, columns)
    else:
        show_document(output, list(rows))


def columns_for(output: str, columns: Sequence[Column]) -> list[Column]:
    """The columns that a table of this kind has."""
    return [one for one in columns if output == WIDE or not one.wide]


def show_document(output: str, document: Any) -> None:
    """Print a description as JSON or YAML."""
    if output == YAML:
        import yaml  # Only here: a command that prints no YAML does not wait for it.

        plain = json.loads(json.dumps(document))
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
    else:
        print_json(document)


def drop_output() -> None:
    """Standard output has no reader: whatever is still written there, now or when the interpreter ends, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def print_json(document: Json) -> None:
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))


def print_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[Column] = ()) -> None:
    """A header of the fields' names and a row each; of an empty list the names in `columns`."""
    names = list(rows[0]) if rows else [one.of for one in columns if isinstance(one.of, str)]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if names:
        writer.writerow(names)
    writer.writerows([_csv_cell(row[name]) for name in names] for row in rows)
    click.echo(text.getvalue(), nl=False)


def _csv_cell(value: object) -> object:
    if isinstance(value, bool) or (value is not None and not isinstance(value, str | int | float)):
        return json.dumps(value, ensure_ascii=False)
    return value


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their content; numbers to the right; '-' for what is not known."""
    for at, line in enumerate(table_lines(header, rows)):
        click.echo(styled(line, bold=True) if at == 0 else line)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table, its header first."""
    cells = [["-" if cell is None else one_line(str(cell)) for cell in row] for row in rows]
    widths = [max([width(name), *(width(row[at]) for row in cells)]) for at, name in enumerate(header)]
    numeric = [
        all(isinstance(row[at], int | None) for row in rows) and bool(rows) for at in range(len(header))
    ]
    return [
        "  ".join(
            padded(cell, columns, right=right)
            for cell, columns, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [list(header), *cells]
    ]


def styled(text: str, *, bold: bool = False, color: str | None = None, dim: bool = False) -> str:
    """The text for standard output, in colours where a person sees them."""
    if not is_colored(sys.stdout):
        return text
    return click.style(text, bold=bold or None, fg=color, dim=dim or None)


def width(text: str) -> int:
    """How many cells of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_cells(one) for one in text)


def _cells(character: str) -> int:
    if unicodedata.category(character) in _INVISIBLE:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """The text with spaces beside it up to so many cells."""
    space = " " * (columns - width(text))
    return space + text if right else text + space


def cut(text: str, columns: int) -> str:
    """The text in at most so many cells; '…' stands for what is missing."""
    if width(text) <= columns:
        return text
    taken = 0
    for at, character in enumerate(text):
        taken += _cells(character)
        if taken > columns - 1:
            return text[:at] + "…"
    return text


def one_line(text: str) -> str:
    """The text with its control characters spelled out: a cell is one line, and commands no terminal."""
    if text.isprintable():
        return text
    return "".join(
        one if one.isprintable() or unicodedata.category(one) not in ("Cc", "Zl", "Zp") else _spelled(one)
        for one in text
    )


def _spelled(character: str) -> str:
    return character.encode("unicode_escape").decode()
