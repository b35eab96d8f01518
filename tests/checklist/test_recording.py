"""A test run must write down, for each marked test, what really happened to it.

Method: small suites of our own, run by pytest inside this test with the project's plugin, and the file they leave.
"""

import json

import pytest

pytest_plugins = ["pytester"]

HEADER = "import pytest\n\n@pytest.fixture\ndef breaks_before():\n    raise RuntimeError('setup')\n\n"
HEADER += "@pytest.fixture\ndef breaks_after():\n    yield\n    raise RuntimeError('teardown')\n\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """An empty project with our plugin and our marker."""
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers -p no:cacheprovider\nmarkers = mission(*ids): rows\n"
    )
    folder = pytester.mkdir("tests")
    (folder / "conftest.py").write_text(
        'pytest_plugins = ["support.suite.mission_marks"]\n', encoding="utf-8"
    )
    return pytester


def run(
    suite: pytest.Pytester, body: str, *arguments: str
) -> tuple[pytest.RunResult, dict[str, tuple[str, list[str]]]]:
    """What pytest said, and test -> (outcome, ids) from the file it wrote."""
    (suite.path / "tests" / "test_it.py").write_text(HEADER + body, encoding="utf-8")
    result = suite.runpytest_inprocess("tests", *arguments)
    path = suite.path / "build" / "mission.json"
    written = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    return result, {entry["test"].partition("::")[2]: (entry["outcome"], entry["ids"]) for entry in written}


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("def test_x():\n    pass\n", "passed"),
        ("def test_x():\n    assert False\n", "failed"),
        ("def test_x():\n    pytest.skip('no Java')\n", "skipped"),
        ("def test_x(breaks_before):\n    pass\n", "failed"),
        ("def test_x(breaks_after):\n    pass\n", "failed"),
        ("def test_x(breaks_after):\n    pytest.skip('no Java')\n", "failed"),
        ("@pytest.mark.skip(reason='never')\ndef test_x():\n    pass\n", "skipped"),
        ("@pytest.mark.xfail(reason='known')\ndef test_x():\n    assert False\n", "skipped"),
    ],
)
def test_the_worst_of_setup_call_and_teardown_counts(suite: pytest.Pytester, test: str, outcome: str) -> None:
    _result, written = run(suite, "@pytest.mark.mission('IDEM-21')\n" + test)
    assert written == {"test_x": (outcome, ["IDEM-21"])}


def test_marks_add_up_and_unmarked_tests_are_not_recorded(suite: pytest.Pytester) -> None:
    body = (
        "pytestmark = pytest.mark.mission('LOG-10')\n\n"
        "@pytest.mark.mission('R-03', 'IDEM-26')\n@pytest.mark.mission('R-03')\n"
        "@pytest.mark.parametrize('n', [1, 2])\ndef test_many(n):\n    assert n == 1\n"
    )
    (suite.path / "tests" / "test_plain.py").write_text("def test_plain():\n    pass\n", encoding="utf-8")
    _result, written = run(suite, body)
    ids = ["IDEM-26", "LOG-10", "R-03"]
    assert written == {"test_many[1]": ("passed", ids), "test_many[2]": ("failed", ids)}


def test_a_mark_with_an_unknown_id_stops_the_run_by_name(suite: pytest.Pytester) -> None:
    result, written = run(suite, "@pytest.mark.mission('IDEM-21', 'IDEM-99')\ndef test_x():\n    pass\n")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_it.py::test_x decides rows that do not exist: IDEM-99"])
    assert written == {}


def test_workers_report_to_the_process_that_started_them(suite: pytest.Pytester) -> None:
    body = (
        "@pytest.mark.mission('LOG-10')\n@pytest.mark.parametrize('n', range(4))\ndef test_x(n):\n    pass\n"
    )
    _result, written = run(suite, body, "-n", "2")
    assert written == {f"test_x[{n}]": ("passed", ["LOG-10"]) for n in range(4)}


def test_a_test_that_kills_its_worker_has_failed(suite: pytest.Pytester) -> None:
    body = "import os\n\n@pytest.mark.mission('LOG-10')\ndef test_x():\n    os._exit(3)\n"
    _result, written = run(suite, body, "-n", "1")
    assert written == {"test_x": ("failed", ["LOG-10"])}


def test_an_interrupted_test_has_not_passed(suite: pytest.Pytester) -> None:
    _result, written = run(
        suite, "@pytest.mark.mission('LOG-10')\ndef test_x():\n    pytest.exit('stopped')\n"
    )
    assert written == {}


def test_collecting_alone_keeps_the_results_of_the_last_run(suite: pytest.Pytester) -> None:
    body = "@pytest.mark.mission('LOG-10')\ndef test_x():\n    pass\n"
    _result, before = run(suite, body)
    _result, after = run(suite, body, "--collect-only")
    assert before == after == {"test_x": ("passed", ["LOG-10"])}
