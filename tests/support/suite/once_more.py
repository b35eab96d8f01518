"""A pytest plugin that tells a flaky test from a broken one: `pytest --once-more`.

Role.   A test that touches other processes (Kafka, JVMs, Spark, kills, commands) and fails is run once more, alone, in a process
        of its own after everything else has ended. If it passes then, it is FLAKY: it counts as passed, is printed with its first
        failure, and is kept in `build/flaky.json`.
Flow.   Each worker counts the processes that are started and says of each report whether its test is such a test. The process
        that sees all reports runs them again when the session ends, before the summary is made.
Rules.  * A test touches other processes if it starts one or forks, if a fixture it uses has, or if it is marked `java`. It is seen,
          not listed. All other tests are pure: they fail at once.
        * More than `FLAKY_MAX` failures of such tests are no bad luck: none is run again.
        * A dead worker, an error of collection and a run that was stopped early are never flaky.
        * The final line is pytest's own; its counts are those after the second run.
"""

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

import pytest
from _pytest.terminal import TerminalReporter

FLAKY_MAX: Final = 3
FLAKY_FILE: Final = "build/flaky.json"
SECOND_RUN_SECONDS: Final = 900.0
FLAKY: Final = pytest.StashKey[frozenset[str]]()
"""Tests that failed and then passed, on the session's config; for plugins that count outcomes too."""

_PROPERTY: Final = "touches processes"
_FAILED: Final = ("failed", "error")
_ONE_PASSED: Final = {"tests": "1", "failures": "0", "errors": "0", "skipped": "0"}
_BEFORE: Final = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--once-more",
        action="store_true",
        help=f"run failed tests that touch other processes once more, alone; up to {FLAKY_MAX} may pass then",
    )


@pytest.hookimpl(trylast=True)  # After xdist has chosen how tests are run, and the terminal has its reporter.
def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("once_more", default=False) or config.option.collectonly:
        return
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        config.pluginmanager.register(Watch(), "semel-processes")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(OnceMore(config), "semel-once-more")


class Watch:
    """Where tests run: which of them touch other processes."""

    def __init__(self) -> None:
        self.started = 0
        self.fixtures: set[object] = set()
        os.register_at_fork(before=self._count)
        self._popen = popen = subprocess.Popen.__init__

        @functools.wraps(popen)
        def counted(*arguments: Any, **keywords: Any) -> None:
            self._count()
            popen(*arguments, **keywords)

        subprocess.Popen.__init__ = counted  # type: ignore[method-assign]

    def _count(self) -> None:
        self.started += 1

    def pytest_unconfigure(self) -> None:
        subprocess.Popen.__init__ = self._popen  # type: ignore[method-assign]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        before = self.started
        try:
            return (yield)
        finally:
            if self.started != before:
                self.fixtures.add(fixturedef)  # And those around it: their setup is not over yet.
            else:
                self.fixtures.discard(fixturedef)  # Set up anew, for another parameter.

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        item.stash[_BEFORE] = self.started
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if self._touches(item):
            report.user_properties.append((_PROPERTY, True))
        return report

    def _touches(self, item: pytest.Item) -> bool:
        if self.started != item.stash[_BEFORE] or item.get_closest_marker("java") is not None:
            return True
        request: Any = getattr(
            item, "_request", None
        )  # It alone knows the fixtures that were asked for by name.
        return bool(request) and not self.fixtures.isdisjoint(request._fixture_defs.values())


@dataclass(frozen=True, slots=True)
class Flaky:
    """A test that failed beside others and passed alone."""

    test: str
    when: str
    failure: str


class OnceMore:
    """Where all reports are seen: the second run, and what becomes of the first one's failures."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.touching: set[str] = set()
        self.flaky: list[Flaky] = []
        self.said: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if dict(report.user_properties).get(_PROPERTY):
            self.touching.add(report.nodeid)

    @pytest.hookimpl(
        trylast=True
    )  # The workers are gone then; the terminal's own hook is around it, and sums up after it.
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.TESTS_FAILED and not (session.shouldstop or session.shouldfail):
            self._judge(session, self._reporter())
        self.config.stash[FLAKY] = frozenset(one.test for one in self.flaky)
        path = self.config.rootpath / FLAKY_FILE
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps([asdict(one) for one in self.flaky], indent=1) + "\n", encoding="utf-8")

    def _reporter(self) -> TerminalReporter:
        reporter: TerminalReporter | None = self.config.pluginmanager.get_plugin("terminalreporter")
        assert reporter is not None
        return reporter

    def _judge(self, session: pytest.Session, reporter: TerminalReporter) -> None:
        failures = [one for key in _FAILED for one in reporter.stats.get(key, ())]
        again = self._candidates(failures)
        if len(again) > FLAKY_MAX:
            self.said.append(
                f"{len(again)} tests that touch other processes failed, more than {FLAKY_MAX}: none was run again"
            )
            return
        for test, first in again.items():
            reporter.write_line(f"\nonce more, alone: {test}")
            reporter.flush()
            again_said = _second_run(self.config, test)
            if again_said is None:
                self.flaky.append(Flaky(test, str(first.when), first.longreprtext))
                _count_as_passed(reporter, test)
            else:
                self.said.append(f"failed twice: {test}; alone:\n{again_said}")
        if self.flaky and not any(reporter.stats.get(key) for key in _FAILED):
            session.exitstatus = pytest.ExitCode.OK

    def _candidates(self, failures: Sequence[Any]) -> dict[str, pytest.TestReport]:
        """The first failure of every test that may be run again."""
        found: dict[str, pytest.TestReport] = {}
        never: set[str] = set()
        for report in failures:
            if not isinstance(report, pytest.TestReport) or report.when not in ("setup", "call", "teardown"):
                never.add(
                    report.nodeid
                )  # An error of collection; the report xdist makes up for a dead worker.
            elif report.nodeid in self.touching:
                found.setdefault(report.nodeid, report)
        return {test: report for test, report in found.items() if test not in never}

    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        if not (self.flaky or self.said):
            return
        terminalreporter.section("failed once", yellow=True)
        for one in self.flaky:
            terminalreporter.write_line(f"FLAKY {one.test} ({one.when}); its first failure:", yellow=True)
            terminalreporter.write_line(one.failure)
        for line in self.said:
            terminalreporter.write_line(line, red=True)


def _count_as_passed(reporter: TerminalReporter, test: str) -> None:
    """As if the first run had not failed."""
    for key in _FAILED:
        reporter.stats[key] = [one for one in reporter.stats.get(key, ()) if one.nodeid != test]
        if not reporter.stats[key]:
            del reporter.stats[key]
    passed = reporter.stats.setdefault("passed", [])
    if all(one.nodeid != test for one in passed):
        passed.append(pytest.TestReport(test, ("", None, ""), {}, "passed", None, "call"))


def _second_run(config: pytest.Config, test: str) -> str | None:
    """The test in a pytest of its own, without workers: None if it ran and passed, else what pytest said. A skip is no answer."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        result = scratch / "result.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"--junitxml={result}",
            f"--rootdir={config.rootpath}",
        ]
        command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:semel-mission"]
        if config.pluginmanager.hasplugin("xdist"):
            command += ["-n", "0"]
        if config.option.markexpr:
            command += ["-m", config.option.markexpr]
        said = scratch / "said.txt"
        try:
            with said.open("wb") as output:
                subprocess.run(
                    [*command, test],
                    cwd=config.rootpath,
                    check=False,
                    timeout=SECOND_RUN_SECONDS,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
        except subprocess.TimeoutExpired:
            return f"not done after {SECOND_RUN_SECONDS:.0f} s\n{said.read_text(errors='replace')}"
        if result.exists():
            [suite] = ET.parse(result).getroot().iter("testsuite")
            if {key: suite.get(key) for key in _ONE_PASSED} == _ONE_PASSED:
                return None
        return said.read_text(errors="replace")
