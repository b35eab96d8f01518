"""Rows and results joined: nothing hidden, nothing assumed.

Method: results made by hand, as a test run would write them, and the lines made from them.
"""

import json
from pathlib import Path

import pytest

from checklist.report import MissionResultsError, Outcome, TestResult, lines, read_results, write_results
from checklist.rows import rows


def results(*outcomes: Outcome, row_id: str = "IDEM-21") -> list[TestResult]:
    return [
        TestResult(f"tests/test_{index}.py::test", outcome, (row_id,))
        for index, outcome in enumerate(outcomes)
    ]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ((), "none"),
        (("passed",), "passed"),
        (("failed",), "failed"),
        (("skipped",), "none"),
        (("passed", "passed"), "passed"),
        (("passed", "skipped"), "passed"),
        (("passed", "failed"), "failed"),
        (("skipped", "failed"), "failed"),
    ],
)
def test_a_row_passed_if_a_test_passed_and_none_failed(outcomes: tuple[Outcome, ...], expected: str) -> None:
    (line,) = [line for line in lines(results(*outcomes)) if line.row.id == "IDEM-21"]
    assert line.result == expected
    assert [test.outcome for test in line.tests] == list(outcomes)


def test_every_row_has_a_line_in_the_order_of_the_checklist() -> None:
    report = lines(results("passed"))
    assert [line.row for line in report] == list(rows())
    assert [line.row.id for line in report if line.result != "none"] == ["IDEM-21"]


def test_a_test_may_decide_several_rows_and_tests_are_listed_by_name() -> None:
    both = TestResult("tests/test_b.py::test", "passed", ("LOG-03", "R-33"))
    first = TestResult("tests/test_a.py::test", "failed", ("R-33",))
    found = {line.row.id: line for line in lines([both, first]) if line.tests}
    assert found["LOG-03"].tests == (both,)
    assert found["LOG-03"].result == "passed"
    assert found["R-33"].tests == (first, both)
    assert found["R-33"].result == "failed"


def test_results_survive_the_file_sorted_by_test(tmp_path: Path) -> None:
    path = tmp_path / "build" / "mission.json"
    written = results("passed", "failed", "skipped")
    write_results(path, reversed(written))
    assert read_results(path) == written


def test_a_missing_file_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(MissionResultsError) as refused:
        read_results(tmp_path / "mission.json")
    assert str(refused.value) == (
        f"{tmp_path}/mission.json is missing: a run of the project's own tests writes it; name the file with --results"
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "7",
        '{"test": "a"}',
        "[1]",
        '[{"test": "a", "outcome": "passed"}]',
        json.dumps([{"test": "a", "outcome": "excellent", "ids": []}]),
        json.dumps([{"test": "a", "outcome": ["passed"], "ids": []}]),
        json.dumps([{"test": "a", "outcome": "passed", "ids": 7}]),
    ],
)
def test_a_file_that_no_test_run_wrote_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mission.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(
        MissionResultsError,
        match=r"mission\.json holds no results of a test run \(.*run the project's own tests again",
    ):
        read_results(path)


def test_a_file_that_cannot_be_read_says_why(tmp_path: Path) -> None:
    with pytest.raises(MissionResultsError, match="cannot be read: Is a directory"):
        read_results(tmp_path)
