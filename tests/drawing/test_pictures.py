"""Committed pictures: each says in words what it shows, and each is what its data gives.

Method: the files of docs, parsed; and `tools/pictures.py` on a copy of the data.
"""

import shutil
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

import pictures

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
COMMITTED = sorted(path.name for path in DOCS.glob("*.svg"))


@pytest.mark.parametrize("name", COMMITTED)
def test_a_picture_has_a_title_and_a_description(name: str) -> None:
    root = ET.parse(DOCS / name).getroot()
    words = {part.attrib["id"]: part.text or "" for part in root if part.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.attrib["role"] == "img"
    title, description = (words[one] for one in root.attrib["aria-labelledby"].split())
    assert len(title) > 10
    assert len(description) > 80
    assert any(letter.isdigit() for letter in description) or name == "benchmarks-scale.svg"


def test_committed_pictures_are_what_their_data_gives(tmp_path: Path) -> None:
    for data in DOCS.glob("*.json"):
        shutil.copy(data, tmp_path)
    pictures.redraw(tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == COMMITTED
    for name in [*COMMITTED, "performance.md"]:
        assert (tmp_path / name).read_bytes() == (DOCS / name).read_bytes(), (
            f"make pictures draws {name} anew"
        )
