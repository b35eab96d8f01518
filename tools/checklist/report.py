"""Rows and results joined: which test decides which row, and how it went in the last run.

Role.   The file format between the test run (`support.suite.mission_marks` writes it) and `tools/mission` (reads it).
Rules.  * A row passed if it has a test that passed and none that failed; a skipped test decides nothing.
        * A row without a deciding test says "none": nothing is hidden and nothing is assumed.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from checklist.rows import Row, rows

RESULTS_FILE: Final = "build/mission.json"

Outcome = Literal["passed", "failed", "skipped"]
Result = Literal["passed", "failed", "none"]


class MissionResultsError(Exception):
    """The results of the last test run are missing or are not what a test run writes."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """One test of the last run and the rows it decides."""

    __test__ = False  # Not a test itself, whatever its name suggests to pytest.

    test: str
    outcome: Outcome
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """One row of the report."""

    row: Row
    tests: tuple[TestResult, ...]

    @property
    def result(self) -> Result:
        outcomes = {test.outcome for test in self.tests}
        if "failed" in outcomes:
            return "failed"
        return "passed" if "passed" in outcomes else "none"


def lines(results: Iterable[TestResult]) -> list[Line]:
    """A line for every row of the checklist, in its order."""
    by_id: dict[str, list[TestResult]] = {}
    for result in results:
        for row_id in result.ids:
            by_id.setdefault(row_id, []).append(result)
    return [Line(row, tuple(sorted(by_id.get(row.id, ()), key=lambda r: r.test))) for row in rows()]


def write_results(path: Path, results: Iterable[TestResult]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = sorted(results, key=lambda result: result.test)
    document = [{"test": r.test, "outcome": r.outcome, "ids": list(r.ids)} for r in ordered]
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def read_results(path: Path) -> list[TestResult]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        return [_test_result(entry) for entry in document]
    except FileNotFoundError:
        raise MissionResultsError(
            f"{path} is missing: a run of the project's own tests writes it; name the file with --results"
        ) from None
    except OSError as error:
        raise MissionResultsError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise MissionResultsError(
            f"{path} holds no results of a test run ({error}): run the project's own tests again"
        ) from error


def _test_result(entry: Mapping[str, Any]) -> TestResult:
    outcome: Outcome = entry["outcome"]
    if outcome not in get_args(Outcome):
        raise ValueError(f"{outcome!r} is no outcome of a test")
    return TestResult(test=entry["test"], outcome=outcome, ids=tuple(entry["ids"]))
