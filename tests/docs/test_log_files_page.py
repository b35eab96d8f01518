"""What `docs/log-files.md` shows must be what the code writes.

Method: build the example log, run the real dump for every command on the page, compare line by line.
"""

import re
from pathlib import Path

import pytest

from semel.log.dump import dump
from semel.runtime.memory_files import MemoryDisk
from support.log.log_example import example
from support.log.log_kit import DIRECTORY, disk

PAGE = (Path(__file__).parent.parent.parent / "docs" / "log-files.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"```\n\$ semel log dump --files (\S+)( --deep-iteration)?\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def files() -> MemoryDisk:
    made = disk()
    example(made)
    return made


def test_the_page_has_an_example_of_every_kind() -> None:
    assert {name.rpartition(".")[2] for name, *_ in COMMANDS} == {
        "log",
        "index",
        "timeindex",
        "txnindex",
        "snapshot",
    }


@pytest.mark.parametrize(("name", "option", "shown"), COMMANDS, ids=[name for name, *_ in COMMANDS])
def test_every_dump_on_the_page_is_real(files: MemoryDisk, name: str, option: str, shown: str) -> None:
    path = f"{DIRECTORY}/{name.partition('/')[2]}"
    lines = list(dump(files, path, deep_iteration=bool(option)))
    assert [line.replace(path, name) for line in lines] == shown.splitlines()


@pytest.mark.mission("FIG-17")
def test_the_drawing_of_a_segment_has_the_right_positions(files: MemoryDisk) -> None:
    drawing = PAGE.partition("## A segment and its indexes")[2].partition("```\n")[2].partition("```")[0]
    found = {}
    for base in (0, 6):
        for line in dump(files, f"{DIRECTORY}/{base:020d}.log"):
            if match := re.search(r"baseOffset: (\d+).* position: (\d+)", line):
                found[int(match[1])] = int(match[2])
    offsets = [int(word) for word in re.findall(r"\d+", drawing.splitlines()[0])]
    positions = [
        int(word)
        for word in re.findall(r"\d+", next(line for line in drawing.splitlines() if "position" in line))
    ]
    assert dict(zip(offsets, positions, strict=True)) == found
    assert "00000000000000000006.log" in drawing


@pytest.mark.mission("FIG-25")
def test_the_drawing_of_the_aborted_index_has_the_entry_and_its_layout(files: MemoryDisk) -> None:
    drawing = PAGE.partition("## The aborted index")[2].partition("```\n")[2].partition("```")[0]
    widths = [int(word) for word in re.findall(r"(\d) bytes", drawing)]
    assert sum(widths) == files.size(f"{DIRECTORY}/00000000000000000000.txnindex") == 34
    values = [int(word) for word in re.findall(r"│ (\d+) ", drawing.splitlines()[-2])]
    line = list(dump(files, f"{DIRECTORY}/00000000000000000000.txnindex"))[1]
    assert values == [int(word) for word in re.findall(r": (\d+)", line)]
