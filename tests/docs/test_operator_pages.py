"""The pages for operators and contributors: what they name exists, and their commands are there.

Method: tests, links, make targets, subcommands and options are read from the pages and looked up.
"""

import ast
import re
from pathlib import Path

import click
import pytest

from semel.cli.main import COMMANDS, cli

ROOT = Path(__file__).parents[2]
PAGES = [
    "docs/service.md",
    "docs/backup.md",
    "docs/upgrade.md",
    "docs/operations.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]


@pytest.fixture(params=PAGES)
def page(request: pytest.FixtureRequest) -> Path:
    return ROOT / str(request.param)


def slug(title: str) -> str:
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([\w./-]+)(?:#([\w-]+))?\)", page.read_text()):
        file = page.parent / target
        assert file.exists(), target
        if anchor:
            assert anchor in {slug(one) for one in re.findall(r"^#+ (.*)", file.read_text(), re.MULTILINE)}


def test_tests_that_are_named_exist(page: Path) -> None:
    for path, name in re.findall(r"`([\w/]+\.py)::(\w+)`", page.read_text()):
        tree = ast.parse((ROOT / "tests" / path).read_text())
        assert name in {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)}, (path, name)


def test_make_targets_that_are_named_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for line in re.findall(r"\bmake ((?:[a-z]+ ?)+)(?:`|$)", page.read_text(), re.MULTILINE):
        for target in line.split():
            assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_commands_and_options_that_are_shown_exist(page: Path) -> None:
    text = re.sub(r"\\\n\s*", "", page.read_text())
    shown = re.findall(r"(?:^    |`)semel ([a-z].*?)(?:`|$|;|\|)", text, re.MULTILINE)
    for words in (one.split() for one in shown):
        assert words[0] in COMMANDS, words
        command = cli.get_command(click.Context(cli), words[0])
        options = command
        if isinstance(command, click.Group) and len(words) > 1:
            options = command.commands[words[1]]
        assert isinstance(options, click.Command)
        known = {name for one in options.params for name in one.opts + one.secondary_opts}
        if words[0] == "service":  # It takes the broker's.
            broker = cli.get_command(click.Context(cli), "broker")
            assert broker is not None
            known |= {name for one in broker.params for name in one.opts}
        assert {word for word in words if re.fullmatch(r"--[a-z-]+", word)} <= known, words
