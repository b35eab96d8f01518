"""What every test on Spark gets: the process's one session, and brokers that are processes or peers.

Spark is started by the first test that asks for `spark`. Where there is no Java the test is skipped with what is missing, and
fails where peers are required.
"""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from semel.spark.java import JavaMissingError, find_java
from support.broker.broker_process import running_broker
from support.spark import spark_kit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# PySpark leaves sockets and pipes to the collector, and calls pandas and typing in old ways: none of it is ours to mend.
_NOT_OURS = (
    "ignore:unclosed:ResourceWarning",
    "ignore:subprocess .* is still running:ResourceWarning",
    "ignore::DeprecationWarning:pyspark",
    "ignore::FutureWarning:pyspark",
    "ignore::UserWarning:pyspark",
)
_HERE = os.path.dirname(__file__)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if str(item.path).startswith(_HERE):
            for text in _NOT_OURS:
                item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture(scope="session")
def java_installed() -> None:
    """Skips where Spark cannot run."""
    try:
        find_java()
    except JavaMissingError as missing:
        if os.environ.get("SEMEL_REQUIRE_PEERS"):
            raise
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def spark(java_installed: None) -> "Iterator[SparkSession]":
    """The session of this process; not to be stopped by a test."""
    yield spark_kit.shared_session()
    spark_kit.stop_shared_session()


@pytest.fixture(scope="session")
def spark_bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Semel broker in a process of its own: the test's process is busy with Spark."""
    with running_broker(tmp_path_factory.mktemp("spark-broker")) as broker:
        yield broker.bootstrap


@pytest.fixture(params=["spark_bootstrap", pytest.param("kafka_broker", marks=pytest.mark.java)])
def either_bootstrap(request: pytest.FixtureRequest) -> str:
    """Where a broker listens: Semel's, then Apache Kafka's."""
    given = request.getfixturevalue(request.param)
    bootstrap: str = given if isinstance(given, str) else given.bootstrap
    return bootstrap


@pytest.fixture(
    params=[
        "spark_bootstrap",
        pytest.param("kafka_broker", marks=[pytest.mark.java, pytest.mark.campaign]),
    ]
)
def both_bootstrap(request: pytest.FixtureRequest) -> str:
    """The same, with Apache Kafka in the campaign alone."""
    given = request.getfixturevalue(request.param)
    bootstrap: str = given if isinstance(given, str) else given.bootstrap
    return bootstrap
