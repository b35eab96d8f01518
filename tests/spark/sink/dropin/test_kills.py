"""A driver killed at every step of a commit, and in the middle of its tasks: each row is there once.

Method: one driver with a query per step; each query stops dead at its own step, the driver is killed with everything below it,
and started again. What the topics then hold is compared with what was produced. On Semel, which has two-phase commit, and on
Apache Kafka.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import Admin, Producer
from semel.spark.sink.dropin.committing import Step
from support.broker.broker_process import running_broker
from support.spark.spark_kit import driver_process, eventually, new_topic, values

DRIVER = Path(__file__).parents[3] / "support" / "spark" / "dropin_driver.py"
STEPS = ["written", *(one.value for one in Step)]
ROWS = 40


@pytest.fixture(params=["semel", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "kafka":
        yield request.getfixturevalue("kafka_broker").bootstrap
        return
    with running_broker(tmp_path / "broker", "-X", "transaction.two.phase.commit.enable=true") as broker:
        yield broker.bootstrap


@pytest.mark.campaign  # Two lives of a driver with a query per step.
@pytest.mark.mission("STR-01")
def test_every_row_once_wherever_the_driver_died(
    java_installed: None, bootstrap: str, tmp_path: Path
) -> None:
    source = new_topic(bootstrap, "in", 2)
    targets = {step: new_topic(bootstrap, f"out-{step}", 2) for step in STEPS}
    wanted = [f"{index:03}" for index in range(ROWS)]
    with Producer(bootstrap_servers=bootstrap) as producer:
        for text in wanted:
            producer.send(source, value=text, partition=int(text) % 2)
    folder = tmp_path / "driver"
    arguments = [bootstrap, source, str(folder), *(f"{step}={topic}" for step, topic in targets.items())]

    with driver_process(DRIVER, arguments, directory=folder) as driver:
        for step in STEPS:
            sign = folder / step
            eventually(lambda: sign.exists() or driver.process.poll() is not None, f"a query at {step}")  # noqa: B023 - called at once
            assert driver.process.poll() is None, driver.text()[-5000:]
        driver.kill()
    for step, topic in targets.items():
        # Readers see the first batch once it is ended; that it was decided is not for them to see.
        assert values(bootstrap, topic) == (wanted[:20] if step in ("ended", "swept") else []), step

    (folder / "go").touch()
    with driver_process(DRIVER, arguments, directory=folder) as driver:
        assert driver.wait() == 0, driver.text()[-5000:]
    for step, topic in targets.items():
        assert values(bootstrap, topic) == wanted, step
    with Admin(bootstrap_servers=bootstrap) as admin:
        left = [
            one.transactional_id
            for one in admin.list_transactions(states=["Ongoing"])
            if one.transactional_id.startswith("semel-sink:")
        ]
    assert not left
