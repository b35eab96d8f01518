"""docs/architecture.md names modules that are there, and ten typical changes with few files each.

Method: the page's paths are looked for in the tree; the table of changes is counted.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| ([^|]+) \| (`[^|]+) \|$", re.MULTILINE)
_FILE = re.compile(r"`((?:\w+/)+[\w-]+\.(?:py|md)|docs/[\w-]+\.md)`")
_IN_A_PATH = re.compile(r"(?<![\w/.-])((?:broker|client|core|spark|net|log|cluster)(?:/\w+)+)")
FILES_MAX = 4


def changes() -> dict[str, list[str]]:
    """Each change of the table, with its files."""
    begin = PAGE.index("## Ten changes and their files")
    table = PAGE[begin : PAGE.index("\n## ", begin)]
    return {change: _FILE.findall(files) for change, files in _ROW.findall(table)}


def test_there_are_ten() -> None:
    assert len(changes()) == 10


@pytest.mark.parametrize(
    ("change", "files"), changes().items(), ids=lambda one: one if isinstance(one, str) else ""
)
def test_a_change_touches_few_files_that_are_there(change: str, files: list[str]) -> None:
    own = [name for name in files if not name.startswith("tools/")]
    assert 2 <= len(own) <= FILES_MAX
    for name in files:
        if "NAME" not in name:
            place = ROOT / name if name.startswith(("docs/", "tools/")) else ROOT / "src" / "semel" / name
            assert place.is_file(), name


def test_the_paths_lead_through_modules_that_are_there() -> None:
    begin, end = PAGE.index("## The path of a record"), PAGE.index("## The parts")
    named = set(_IN_A_PATH.findall(PAGE[begin:end]))
    assert len(named) > 40
    for name in sorted(named):
        place = ROOT / "src" / "semel" / name
        # `log/partition_log.append` and `handlers/fetch` beside it end in a name inside a module.
        assert place.is_dir() or place.with_suffix(".py").is_file(), name
