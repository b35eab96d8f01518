"""Every trap of docs/traps.md names tests that are there.

Method: the page's table is read; each name must be a test in the file it is said to be in.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "traps.md"
TRAPS = 37
_ROW = re.compile(r"^\| (\d+) \| (.+?) \| (.+) \|$", re.MULTILINE)
_NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


@cache
def functions_in(path: str) -> frozenset[str]:
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef))


def rows() -> list[tuple[int, str]]:
    return [(int(number), named) for number, _what, named in _ROW.findall(PAGE.read_text(encoding="utf-8"))]


def test_the_page_has_them_all() -> None:
    assert [number for number, _named in rows()] == list(range(1, TRAPS + 1))


@pytest.mark.parametrize(
    ("number", "named"), rows(), ids=lambda one: str(one) if isinstance(one, int) else ""
)
def test_a_trap_names_tests_that_are_there(number: int, named: str) -> None:
    tests = _NAMED.findall(named)
    assert tests, f"trap {number} names no test"
    for path, name in tests:
        assert name in functions_in(path), f"trap {number}: {path} has no {name}"
