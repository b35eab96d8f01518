"""What every test shares: the mission marks become a report; properties run the same everywhere.

`@pytest.mark.mission("IDEM-21")` names the rows of the checklist a test decides. At the end of a run the
outcome of each marked test goes to `build/mission.json`, which `semel mission` prints.
"""

import logging
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from semel.bench import kafka_peer
from semel.mission.report import RESULTS_FILE, Outcome, TestResult, write_results
from semel.mission.rows import known_ids

# A shell starts what runs in its background with SIGINT ignored, and so would every process the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parent.parent
_PROPERTY = "mission"
_SEVERITY: tuple[Outcome, ...] = ("passed", "skipped", "failed")

settings.register_profile(
    "semel", deadline=None, derandomize=True, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "search", parent=settings.get_profile("semel"), derandomize=False, max_examples=2000
)
settings.load_profile(os.environ.get("SEMEL_HYPOTHESIS", "semel"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    known = known_ids()
    for item in items:
        ids = [row_id for mark in item.iter_markers("mission") for row_id in mark.args]
        if unknown := sorted(set(ids) - known):
            raise pytest.UsageError(f"{item.nodeid} decides rows that do not exist: {', '.join(unknown)}")
        if ids:
            item.user_properties.append((_PROPERTY, sorted(set(ids))))


class MissionRecorder:
    """Collects the outcome of each marked test, on the process that sees all reports.

    Setup, call and teardown report one after the other, and the worst of them counts. A test has passed once its
    teardown has: one that was interrupted, or died with its worker, has not.
    """

    def __init__(self) -> None:
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

    def pytest_sessionfinish(self) -> None:
        decided = [r for r in self.results.values() if r.outcome != "passed" or r.test in self.finished]
        write_results(ROOT / RESULTS_FILE, decided)


def pytest_configure(config: pytest.Config) -> None:
    # The workers of xdist report to the process that started them; collecting alone runs nothing to record.
    if not hasattr(config, "workerinput") and not config.option.collectonly:
        config.pluginmanager.register(MissionRecorder(), "semel-mission")


def _installed(version: str) -> kafka_peer.KafkaHome:
    """Kafka's jars; skips with a reason where Java or the jars are missing, fails in CI."""
    try:
        return replace(kafka_peer.find(version), jvm=kafka_peer.QUICK_JVM)
    except kafka_peer.PeerMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def kafka_home() -> kafka_peer.KafkaHome:
    """Apache Kafka, the version we measure ourselves against."""
    return _installed(kafka_peer.DEFAULT_VERSION)


@pytest.fixture(scope="session")
def old_kafka_home() -> kafka_peer.KafkaHome:
    """The last Apache Kafka with ZooKeeper."""
    return _installed("3.9.2")


_AT_ONCE = {"group_initial_rebalance_delay_ms": "0"}
"""A group does not wait three seconds for members who might come."""


@pytest.fixture(scope="session")
def kafka_broker(
    kafka_home: kafka_peer.KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.KafkaBroker]:
    """A running Apache Kafka of the version we measure ourselves against."""
    with kafka_home.broker(tmp_path_factory.mktemp("kafka"), **_AT_ONCE) as running:
        yield running


@pytest.fixture(scope="session")
def old_kafka_broker(
    old_kafka_home: kafka_peer.KafkaHome, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kafka_peer.KafkaBroker]:
    """A running Apache Kafka of the last version with ZooKeeper: older protocols of groups and transactions."""
    with old_kafka_home.broker(tmp_path_factory.mktemp("old-kafka"), **_AT_ONCE) as running:
        yield running


@pytest.fixture(
    scope="session",
    params=["kafka_broker", "old_kafka_broker"],
    ids=lambda name: name.removesuffix("_broker"),
)
def kafka_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where an Apache Kafka listens: today's, and the last one with ZooKeeper. Mark such a test with `java`."""
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


@pytest.fixture(
    scope="session",
    params=[
        "semel_broker",
        pytest.param("kafka_broker", marks=pytest.mark.java),
        pytest.param("old_kafka_broker", marks=pytest.mark.java),
    ],
)
def any_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where a broker listens: Semel's, Kafka's, an older Kafka's, each in turn."""
    bootstrap: str = request.getfixturevalue(request.param).bootstrap
    return bootstrap


def pytest_runtest_teardown() -> None:
    """What plays seeds switches logging off, for a process of its own; here other tests come after it."""
    logging.disable(logging.NOTSET)
