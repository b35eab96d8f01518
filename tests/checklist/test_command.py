"""`tools/mission`: what a person and a program read about the checklist.

Method: a file of results as a test run writes it, and the printed table or JSON.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from checklist.command import main
from checklist.report import TestResult, write_results
from checklist.rows import rows

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


def mission(capsys: pytest.CaptureFixture[str], results_file: Path, *arguments: str) -> str:
    assert main(["--results", str(results_file), *arguments]) == 0
    return capsys.readouterr().out


def test_the_table_shows_each_row_its_tests_and_the_sums(
    capsys: pytest.CaptureFixture[str], results_file: Path
) -> None:
    printed = mission(capsys, results_file, "--group", "R").splitlines()
    assert printed[0] == "ROW      RESULT  PART          WHAT MUST BE TRUE"
    at = next(index for index, line in enumerate(printed) if line.startswith("R-03"))
    assert printed[at : at + 3] == [
        "R-03     failed  log           Unknown producer: any sequence; new epoch: only 0",
        "         failed  tests/test_window.py::test_epoch",
        "         passed  tests/test_window.py::test_gap",
    ]
    assert printed[-2] == "50 rows: 0 passed, 1 failed, 49 not decided yet"
    assert printed[-1].startswith("not decided, by part: log ")


def test_a_row_whose_tests_were_skipped_is_not_decided(
    capsys: pytest.CaptureFixture[str], results_file: Path
) -> None:
    printed = mission(capsys, results_file, "--group", "log")
    assert "LOG-10   none    log " in printed
    assert "         skipped tests/test_log.py::test_java\n" in printed


def test_sums_by_part_cover_exactly_the_undecided_rows(
    capsys: pytest.CaptureFixture[str], results_file: Path
) -> None:
    last = mission(capsys, results_file).splitlines()[-1]
    parts = dict(entry.split() for entry in last.removeprefix("not decided, by part: ").split(", "))
    assert sum(map(int, parts.values())) == len(rows()) - 2  # One passed, one failed.


def test_json_lists_every_row_for_programs(capsys: pytest.CaptureFixture[str], results_file: Path) -> None:
    document = json.loads(mission(capsys, results_file, "-o", "json"))
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


def test_groups_may_be_repeated_in_any_case_and_keep_the_checklist_order(
    capsys: pytest.CaptureFixture[str], results_file: Path
) -> None:
    document = json.loads(mission(capsys, results_file, "--group", "zk", "--group", "Pst", "-o", "json"))
    assert [entry["id"] for entry in document[:2]] == ["PST-01", "PST-02"]
    assert {entry["id"].partition("-")[0] for entry in document} == {"PST", "ZK"}


def test_missing_leaves_out_what_has_passed_and_nothing_else(
    capsys: pytest.CaptureFixture[str], results_file: Path
) -> None:
    document = json.loads(mission(capsys, results_file, "--missing", "-o", "json"))
    assert {row.id for row in rows()} - {entry["id"] for entry in document} == {"IDEM-23"}


def test_when_all_rows_passed_nothing_is_missing(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "mission.json"
    write_results(path, [TestResult("tests/test_all.py::test", "passed", tuple(row.id for row in rows()))])
    assert mission(capsys, path, "--missing") == "0 rows: 0 passed, 0 failed, 0 not decided yet\n"
    assert mission(capsys, path, "--missing", "-o", "json") == "[]\n"
    assert mission(capsys, path).splitlines()[-1] == "416 rows: 416 passed, 0 failed, 0 not decided yet"


def test_a_missing_file_is_one_line_and_exit_code_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--results", str(tmp_path / "none.json")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == (
        f"mission: {tmp_path}/none.json is missing: a run of the project's own tests writes it; "
        "name the file with --results\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "xml"], "invalid choice: 'xml'"),
        (
            ["--group", "IDEM", "--group", "idea"],
            "'idea' is no group of the checklist; there are MIS, IDEM, ",
        ),
    ],
)
def test_wrong_usage_is_exit_code_2_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_the_tool_runs_by_its_name_with_a_bare_python(results_file: Path) -> None:
    tool = Path(__file__).parents[2] / "tools" / "mission"
    done = subprocess.run(
        [sys.executable, "-S", "-E", str(tool), "--results", str(results_file), "-o", "json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [entry["id"] for entry in json.loads(done.stdout)] == [row.id for row in rows()]
