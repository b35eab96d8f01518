"""Notebooks from text: `make notebooks` runs the cells of `examples/notebooks/*.py` and writes each `.ipynb` with its outputs.

Role.   The text (percent format, as Jupytext and editors read it) is the source; the notebook beside it is for those who open notebooks.
        Tests run the cells the same way and compare the outputs with the committed ones.
Rules.  * A cell's output is what it prints, then the value of its last expression. A cell that raises stops the notebook.
        * No kernel: the cells run in one namespace of this process, one after the other.
"""

import argparse
import ast
import contextlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

NOTEBOOKS: Final = Path(__file__).parents[1] / "examples" / "notebooks"
_CODE: Final = "# %%"
_MARKDOWN: Final = "# %% [markdown]"
_METADATA: Final = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


@dataclass(frozen=True)
class Cell:
    """One cell; `kind` as nbformat names it."""

    kind: str
    source: str


def cells_of(text: str) -> list[Cell]:
    """The cells of a text in percent format; what stands above the first one is its header."""
    made: list[Cell] = []
    lines: list[str] | None = None
    kind = ""
    for line in [*text.splitlines(), _CODE]:
        if line not in (_CODE, _MARKDOWN):
            if lines is not None:
                lines.append(line)
            continue
        if lines is not None:
            if kind == "markdown":
                lines = [one.removeprefix("#").removeprefix(" ") for one in lines]
            made.append(Cell(kind, "\n".join(lines).strip("\n")))
        lines, kind = [], "markdown" if line == _MARKDOWN else "code"
    return made


def run(cell: Cell, names: dict[str, Any]) -> tuple[str, str]:
    """Run a code cell; what it printed, and the value of its last expression, if it ends with one."""
    body = ast.parse(cell.source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "<cell>", "exec"), names)  # noqa: S102  # The notebook's own code.
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # noqa: S307  # As above.
    return printed.getvalue(), "" if value is None else repr(value)


def notebook(text: str) -> dict[str, Any]:
    """The notebook with its outputs, in nbformat 4.5."""
    names: dict[str, Any] = {"__name__": "__main__"}
    made: list[dict[str, Any]] = []
    count = 0
    for place, cell in enumerate(cells_of(text)):
        entry: dict[str, Any] = {
            "cell_type": cell.kind,
            "id": f"cell-{place}",
            "metadata": {},
            "source": cell.source.splitlines(keepends=True),
        }
        if cell.kind == "code":
            count += 1
            printed, value = run(cell, names)
            entry |= {"execution_count": count, "outputs": _outputs(printed, value, count)}
        made.append(entry)
    return {"cells": made, "metadata": _METADATA, "nbformat": 4, "nbformat_minor": 5}


def _outputs(printed: str, value: str, count: int) -> list[dict[str, Any]]:
    outputs: list[dict[str, Any]] = []
    if printed:
        outputs.append({"name": "stdout", "output_type": "stream", "text": printed.splitlines(keepends=True)})
    if value:
        data = {"text/plain": value.splitlines(keepends=True)}
        outputs.append(
            {"data": data, "execution_count": count, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


def as_text(made: dict[str, Any]) -> str:
    return json.dumps(made, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def write(directory: Path) -> None:
    """Every notebook of a directory."""
    for source in sorted(directory.glob("*.py")):
        made = as_text(notebook(source.read_text(encoding="utf-8")))
        source.with_suffix(".ipynb").write_text(made, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("directory", type=Path, nargs="?", default=NOTEBOOKS)
    write(parser.parse_args().directory)
