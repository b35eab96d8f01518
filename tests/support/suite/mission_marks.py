"""A pytest plugin: the outcome of each test that decides rows of the mission's checklist is written down.

Role.   `@pytest.mark.mission("IDEM-21")` names the rows a test decides. At the end of a run the outcome of each marked test goes
        to `build/mission.json`, which `tools/mission` prints.
Rules.  * A mark with an unknown id stops the run.
        * Setup, call and teardown report one after the other, and the worst of them counts. A test has passed once its teardown
          has: one that was interrupted, or died with its worker, has not. One that is flaky (`once_more`) has.
"""

from collections.abc import Generator
from dataclasses import replace

import pytest

from checklist.report import RESULTS_FILE, Outcome, TestResult, write_results
from checklist.rows import known_ids
from support.suite.once_more import FLAKY

_PROPERTY = "mission"
_SEVERITY: tuple[Outcome, ...] = ("passed", "skipped", "failed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = known_ids()
    for item in items:
        ids = [row_id for mark in item.iter_markers("mission") for row_id in mark.args]
        if unknown := sorted(set(ids) - known):
            raise pytest.UsageError(f"{item.nodeid} decides rows that do not exist: {', '.join(unknown)}")
        if ids:
            item.user_properties.append((_PROPERTY, sorted(set(ids))))


class MissionRecorder:
    """Collects the outcome of each marked test, on the process that sees all reports."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.results: dict[str, TestResult] = {}
        self.finished: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        before = self.results.get(report.nodeid)
        marked = dict(report.user_properties).get(_PROPERTY)
        ids = tuple(str(row_id) for row_id in marked) if isinstance(marked, list) else None
        if ids is None and before is not None:
            ids = before.ids  # The report xdist makes up for a dead worker carries no properties.
        if ids is None:
            return
        outcomes: list[Outcome] = [report.outcome, before.outcome if before is not None else "passed"]
        self.results[report.nodeid] = TestResult(
            test=report.nodeid, outcome=max(outcomes, key=_SEVERITY.index), ids=ids
        )
        if report.when == "teardown":
            self.finished.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)  # After a second run of what failed.
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        result = yield
        for test in self.config.stash.get(FLAKY, frozenset()) & self.results.keys():
            self.results[test] = replace(self.results[test], outcome="passed")
            self.finished.add(test)
        decided = [r for r in self.results.values() if r.outcome != "passed" or r.test in self.finished]
        write_results(self.config.rootpath / RESULTS_FILE, decided)
        return result


def pytest_configure(config: pytest.Config) -> None:
    # The workers of xdist report to the process that started them; collecting alone runs nothing to record.
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(MissionRecorder(config), "semel-mission")
