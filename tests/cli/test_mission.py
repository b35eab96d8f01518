"""`semel mission`: what a person and a program read about the checklist.

Method: a file of results as a test run writes it, and the printed table or JSON.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from semel.cli.main import cli
from semel.mission.report import MissionResultsError, TestResult, write_results
from semel.mission.rows import rows

RESULTS = [
    TestResult("tests/test_window.py::test_gap", "passed", ("IDEM-23", "R-03")),
    TestResult("tests/test_window.py::test_epoch", "failed", ("R-03",)),
    TestResult("tests/test_log.py::test_java", "skipped", ("LOG-10",)),
]


@pytest.fixture
def results_file(tmp_path: Path) -> Path:
    path = tmp_path / "mission.json"
    write_results(path, RESULTS)
    return path


def mission(results_file: Path, *arguments: str) -> Result:
    result = CliRunner().invoke(
        cli, ["mission", "--results", str(results_file), *arguments], catch_exceptions=False
    )
    assert result.exit_code == 0
    return result


def test_the_table_shows_each_row_its_tests_and_the_sums(results_file: Path) -> None:
    printed = mission(results_file, "--group", "R").output.splitlines()
    assert printed[0] == "ROW      RESULT  PART          WHAT MUST BE TRUE"
    at = next(index for index, line in enumerate(printed) if line.startswith("R-03"))
    assert printed[at : at + 3] == [
        "R-03     failed  log           Unknown producer: any sequence; new epoch: only 0",
        "         failed  tests/test_window.py::test_epoch",
        "         passed  tests/test_window.py::test_gap",
    ]
    assert printed[-2] == "50 rows: 0 passed, 1 failed, 49 not decided yet"
    assert printed[-1].startswith("not decided, by part: log ")


def test_a_row_whose_tests_were_skipped_is_not_decided(results_file: Path) -> None:
    printed = mission(results_file, "--group", "log").output
    assert "LOG-10   none    log " in printed
    assert "         skipped tests/test_log.py::test_java\n" in printed


def test_sums_by_part_cover_exactly_the_undecided_rows(results_file: Path) -> None:
    last = mission(results_file).output.splitlines()[-1]
    parts = dict(entry.split() for entry in last.removeprefix("not decided, by part: ").split(", "))
    assert sum(map(int, parts.values())) == len(rows()) - 2  # One passed, one failed.


def test_json_lists_every_row_for_programs(results_file: Path) -> None:
    document = json.loads(mission(results_file, "-o", "json").stdout)
    assert [entry["id"] for entry in document] == [row.id for row in rows()]
    assert all(set(entry) == {"id", "title", "part", "tests", "result"} for entry in document)
    by_id = {entry["id"]: entry for entry in document}
    assert by_id["IDEM-23"] == {
        "id": "IDEM-23",
        "title": "A gap in the sequence is refused with error 45 and stores nothing",
        "part": "log",
        "tests": ["tests/test_window.py::test_gap"],
        "result": "passed",
    }
    assert by_id["R-03"]["result"] == "failed"
    assert by_id["LOG-10"]["result"] == "none"
    assert by_id["ZK-01"]["tests"] == []


def test_groups_may_be_repeated_in_any_case_and_keep_the_checklist_order(results_file: Path) -> None:
    document = json.loads(mission(results_file, "--group", "zk", "--group", "Pst", "-o", "json").stdout)
    assert [entry["id"] for entry in document[:2]] == ["PST-01", "PST-02"]
    assert {entry["id"].partition("-")[0] for entry in document} == {"PST", "ZK"}


def test_missing_leaves_out_what_has_passed_and_nothing_else(results_file: Path) -> None:
    document = json.loads(mission(results_file, "--missing", "-o", "json").stdout)
    assert {row.id for row in rows()} - {entry["id"] for entry in document} == {"IDEM-23"}


def test_when_all_rows_passed_nothing_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "mission.json"
    write_results(path, [TestResult("tests/test_all.py::test", "passed", tuple(row.id for row in rows()))])
    assert mission(path, "--missing").output == "0 rows: 0 passed, 0 failed, 0 not decided yet\n"
    assert mission(path, "--missing", "-o", "json").output == "[]\n"
    assert mission(path).output.splitlines()[-1] == "416 rows: 416 passed, 0 failed, 0 not decided yet"


def test_a_missing_file_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(MissionResultsError, match="is missing: a run of the project's own tests writes it"):
        CliRunner().invoke(
            cli,
            ["mission", "--results", str(tmp_path / "none.json")],
            catch_exceptions=False,
            standalone_mode=False,
        )
