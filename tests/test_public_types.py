"""The public API as a type checker shows it to a user: each expression's type, and each mistake that is refused.

Method: the programs in tests/typing are copied to a folder of their own and checked there by mypy in its strict mode, with none of
our settings. A line says what it must reveal (`# reveals: T`) or which errors it must have (`# refused: code …`); lines that say
nothing must be silent. Types are compared without the modules they live in.
"""

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "typing"
_EXPECTED = re.compile(r"# (reveals|refused): (.*)$")
_SAID = re.compile(r"(\w+\.py):(\d+): (?:note: Revealed type is \"(.*)\"|error: .*\[([a-z-]+)\])$")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=\w)")

Words = dict[tuple[str, int], list[str]]


def expected() -> Words:
    """program and line -> the type, or the codes of errors."""
    found: Words = {}
    for path in PROGRAMS.glob("*.py"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if (match := _EXPECTED.search(line)) is not None:
                kind, words = match.groups()
                found[path.name, number] = [words] if kind == "reveals" else words.split()
    return found


def plainly(shown: str) -> str:
    """A type without modules; a named tuple by its name alone."""
    text = _MODULE.sub("", shown)
    while (end := text.find(", fallback=")) >= 0:
        depth, start = 1, end
        while depth:  # Back to the bracket that this tuple opened.
            start -= 1
            depth += {"]": 1, "[": -1}.get(text[start], 0)
        close = text.index("]", end)
        text = text[: start - len("tuple")] + text[end + len(", fallback=") : close] + text[close + 1 :]
    return text


@pytest.mark.parametrize(
    ("shown", "plain"),
    [
        ("int | None", "int | None"),
        ("typing.Coroutine[Any, Any, semel.types.X]", "Coroutine[Any, Any, X]"),
        ("set[tuple[str, int, fallback=semel.types.TopicPartition]]", "set[TopicPartition]"),
        ("dict[tuple[a.B[int], tuple[str, fallback=c.D], fallback=e.F], int]", "dict[F, int]"),
    ],
)
def test_types_are_compared_without_their_modules(shown: str, plain: str) -> None:
    assert plainly(shown) == plain


def test_users_see_these_types_and_these_mistakes(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--no-pretty"]
    names = sorted(path.name for path in folder.glob("*.py"))
    done = subprocess.run(
        [*command, "--cache-dir", str(tmp_path / "cache"), *names],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    found: defaultdict[tuple[str, int], list[str]] = defaultdict(list)
    for line in done.stdout.splitlines():
        if (match := _SAID.search(line)) is not None:
            name, number, revealed, code = match.groups()
            found[name, int(number)].append(code or plainly(revealed))
    assert found == expected(), done.stdout + done.stderr
    assert len(found) > 50
