"""A test that touches other processes may fail once and is then called flaky; nothing else is forgiven.

Method: small suites of our own, run by a pytest in a process of its own with the project's plugins, with and without workers; its
exit code, its final line and the files it leaves.
"""

import json
from pathlib import Path

import pytest

from support.suite.once_more import FLAKY_FILE, FLAKY_MAX

pytest_plugins = ["pytester"]

TESTS = Path(__file__).parents[1]
HEAD = """
import os, pathlib, subprocess, sys
import pytest

def process():
    subprocess.run([sys.executable, "-S", "-c", ""], check=True)

def fails_once(name="ran"):
    path = pathlib.Path(name)
    if not path.exists():
        path.touch()
        raise AssertionError("bad luck")

@pytest.fixture(scope="session")
def server():
    process()

@pytest.fixture(params=["plain", "server"])
def either(request):
    return request.param == "server" and request.getfixturevalue("server")
"""
BOTH = pytest.mark.parametrize("workers", [0, 2], ids=["alone", "xdist"])


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project with our plugins and our markers."""
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    pytester.makeini(
        f"[pytest]\npythonpath = {TESTS} {TESTS.parent / 'tools'}\naddopts = --strict-markers -ra\n"
        "markers =\n    mission(*ids): rows\n    java: a JVM\n"
    )
    pytester.makeconftest('pytest_plugins = ["support.suite.once_more", "support.suite.mission_marks"]\n')
    return pytester


def run(suite: pytest.Pytester, body: str, workers: int = 0, *arguments: str) -> pytest.RunResult:
    suite.makepyfile(test_it=HEAD + body)
    return suite.runpytest_subprocess("--once-more", "-n", str(workers), *arguments)


def flaky(suite: pytest.Pytester) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((suite.path / FLAKY_FILE).read_text(encoding="utf-8"))
    return found


def final(result: pytest.RunResult) -> str:
    return result.outlines[-1].strip("= ")


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        "def test_x():\n    process()\n    fails_once()\n",
        "def test_x():\n    if (child := os.fork()) == 0:\n        os._exit(0)\n    os.waitpid(child, 0)\n    fails_once()\n",
        "def test_x(server):\n    fails_once()\n",
        "@pytest.mark.java\ndef test_x():\n    fails_once()\n",
        "@pytest.fixture\ndef breaks():\n    process()\n    fails_once()\n\ndef test_x(breaks):\n    pass\n",
        "@pytest.fixture\ndef breaks():\n    yield process()\n    fails_once()\n\ndef test_x(breaks):\n    pass\n",
    ],
    ids=["call", "fork", "fixture", "java", "setup", "teardown"],
)
def test_what_fails_once_beside_other_processes_is_flaky(
    suite: pytest.Pytester, workers: int, body: str
) -> None:
    result = run(suite, body, workers)
    assert result.ret == 0
    assert final(result).startswith("1 passed")
    result.stdout.fnmatch_lines(["FLAKY test_it.py::test_x (*", "*bad luck"])
    [found] = flaky(suite)
    assert (found["test"], found["when"] in ("setup", "call", "teardown")) == ("test_it.py::test_x", True)
    assert "bad luck" in found["failure"]


@BOTH
def test_a_pure_test_fails_at_once(suite: pytest.Pytester, workers: int) -> None:
    result = run(suite, "def test_x():\n    fails_once()\n\ndef test_y():\n    process()\n", workers)
    assert result.ret == 1
    assert final(result).startswith("1 failed, 1 passed")
    assert flaky(suite) == []


def test_a_fixture_is_judged_by_the_parameter_it_was_set_up_for(suite: pytest.Pytester) -> None:
    """Of all tests of one function only those beside a process are forgiven, also where the process was there before."""
    body = "def test_first(server):\n    pass\n\ndef test_x(either, request):\n    fails_once(request.node.name)\n"
    result = run(suite, body)
    assert result.ret == 1
    assert final(result).startswith("1 failed, 2 passed")
    assert [one["test"] for one in flaky(suite)] == ["test_it.py::test_x[server]"]


@BOTH
def test_what_fails_twice_has_failed(suite: pytest.Pytester, workers: int) -> None:
    result = run(suite, "def test_x():\n    process()\n    raise AssertionError('broken')\n", workers)
    assert result.ret == 1
    assert final(result).startswith("1 failed")
    result.stdout.fnmatch_lines(["failed twice: test_it.py::test_x; alone:"])
    assert flaky(suite) == []


def test_a_skip_is_no_second_chance(suite: pytest.Pytester) -> None:
    body = "def test_x():\n    process()\n    if pathlib.Path('ran').exists():\n        pytest.skip()\n    fails_once()\n"
    result = run(suite, body)
    assert (result.ret, flaky(suite)) == (1, [])
    assert final(result).startswith("1 failed")


def many(count: int) -> str:
    return f"@pytest.mark.parametrize('n', range({count}))\ndef test_x(n):\n    process()\n    fails_once(str(n))\n"


def test_a_few_may_be_flaky(suite: pytest.Pytester) -> None:
    result = run(suite, many(FLAKY_MAX))
    assert result.ret == 0
    assert final(result).startswith(f"{FLAKY_MAX} passed")
    assert len(flaky(suite)) == FLAKY_MAX


@BOTH
def test_more_are_no_bad_luck(suite: pytest.Pytester, workers: int) -> None:
    result = run(suite, many(FLAKY_MAX + 1), workers)
    assert result.ret == 1
    assert final(result).startswith(f"{FLAKY_MAX + 1} failed")
    result.stdout.fnmatch_lines(
        [f"{FLAKY_MAX + 1} tests that touch other processes failed, more than *: none was run again"]
    )
    assert flaky(suite) == []


def test_a_dead_worker_is_not_flaky(suite: pytest.Pytester) -> None:
    body = "def test_x():\n    process()\n    if not pathlib.Path('ran').exists():\n        pathlib.Path('ran').touch()\n        os._exit(3)\n"
    result = run(suite, body, 1)
    assert result.ret == 1
    assert final(result).startswith("1 failed")
    assert flaky(suite) == []


@BOTH
def test_an_error_of_collection_is_not_flaky(suite: pytest.Pytester, workers: int) -> None:
    result = run(suite, "process()\nfails_once()\n\ndef test_x():\n    pass\n", workers)
    assert result.ret != 0
    assert " error" in final(result)
    assert flaky(suite) == []


def test_a_run_that_was_stopped_early_is_not_judged(suite: pytest.Pytester) -> None:
    result = run(suite, "def test_x():\n    process()\n    fails_once()\n", 0, "-x")
    assert (result.ret, flaky(suite)) == (1, [])


def test_without_being_asked_nothing_is_run_again(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_it=HEAD + "def test_x():\n    process()\n    fails_once()\n")
    assert suite.runpytest_subprocess().ret == 1
    assert not (suite.path / FLAKY_FILE).exists()


def test_the_next_run_forgets_the_flaky_tests_of_this_one(suite: pytest.Pytester) -> None:
    body = "def test_x():\n    process()\n    fails_once()\n"
    assert (run(suite, body).ret, len(flaky(suite))) == (0, 1)
    assert (run(suite, body).ret, len(flaky(suite))) == (0, 0)


@BOTH
def test_a_flaky_test_decides_its_rows_as_one_that_passed(suite: pytest.Pytester, workers: int) -> None:
    body = (
        "@pytest.mark.mission('LOG-10')\ndef test_x():\n    process()\n    fails_once()\n\n"
        "@pytest.mark.mission('LOG-10')\ndef test_y():\n    pass\n"
    )
    assert run(suite, body, workers).ret == 0
    written = json.loads((suite.path / "build" / "mission.json").read_text(encoding="utf-8"))
    assert {entry["test"].partition("::")[2]: entry["outcome"] for entry in written} == {
        "test_x": "passed",
        "test_y": "passed",
    }
