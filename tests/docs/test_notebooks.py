"""Notebooks: every one is run, its outputs are those that are committed, and it is a notebook for others' programs too.

Method: the cells run as `make notebooks` runs them, with a broker of their own; nbformat judges the file.
"""

import json
from pathlib import Path

import nbformat
import pytest

import notebooks

SOURCES = sorted(notebooks.NOTEBOOKS.glob("*.py"))


def test_there_are_notebooks() -> None:
    assert [source.stem for source in SOURCES] == ["exactly_once"]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_a_notebook_gives_the_outputs_that_are_committed(source: Path) -> None:
    committed = source.with_suffix(".ipynb").read_text(encoding="utf-8")
    nbformat.validate(json.loads(committed))
    made = notebooks.notebook(source.read_text(encoding="utf-8"))
    assert json.loads(committed) == made, "make notebooks writes it anew"
    assert notebooks.as_text(made) == committed


def test_cells_of_a_text() -> None:
    text = "# header\n\n# %% [markdown]\n# # Title\n#\n# more\n\n# %%\nprint(1)\n2 + 2\n\n# %%\nx = 3\n"
    made = notebooks.notebook(text)["cells"]
    assert [cell["cell_type"] for cell in made] == ["markdown", "code", "code"]
    assert "".join(made[0]["source"]) == "# Title\n\nmore"
    assert made[1]["outputs"][0]["text"] == ["1\n"]
    assert made[1]["outputs"][1]["data"] == {"text/plain": ["4"]}
    assert made[2]["outputs"] == []


def test_a_cell_that_raises_stops_the_notebook() -> None:
    with pytest.raises(ZeroDivisionError):
        notebooks.notebook("# %%\n1 / 0\n")
