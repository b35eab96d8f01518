"""The output of commands: tables for people, JSON for programs.

Rules.  A reader may close the pipe (`semel … | head`). The command then ends without a word; `main` decides the exit code.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import click

Json: TypeAlias = bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"] | None


def drop_output() -> None:
    """Standard output has no reader: whatever is still written there, now or when the interpreter ends, goes nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def print_json(document: Json) -> None:
    click.echo(json.dumps(document, indent=1, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their content; numbers to the right; '-' for what is not known."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    widths = [max([len(name), *(len(row[at]) for row in cells)]) for at, name in enumerate(header)]
    numeric = [
        all(isinstance(row[at], int | None) for row in rows) and bool(rows) for at in range(len(header))
    ]
    for row in [list(header), *cells]:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        click.echo("  ".join(padded).rstrip())
