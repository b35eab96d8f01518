"""docs/command-line.md names every command there is, and none that is not."""

import re
from pathlib import Path

import click

from semel.cli.main import cli

PAGE = Path(__file__).parent.parent.parent / "docs" / "command-line.md"


def test_the_table_has_every_command() -> None:
    table = re.findall(r"^\| `semel (\w+)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(table) == sorted(cli.list_commands(click.Context(cli)))
