"""What a broker does from time to time goes on for as long as the broker does.

Method: a broker in a simulated world whose checkpoints fail in ways that were foreseen, and in one that was not.
"""

import asyncio
import errno

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.partitions import Partitions
from semel.errors import LogError
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation

SECONDS = 10


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "the disk failed"), LogError("it is offline"), ZeroDivisionError("unforeseen")],
)
def test_work_that_fails_is_done_again_the_next_time(
    error: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    times = 0
    checkpoint = Partitions.checkpoint

    async def failing(partitions: Partitions) -> None:
        nonlocal times
        times += 1
        if times <= 2:
            raise error
        await checkpoint(partitions)

    monkeypatch.setattr(Partitions, "checkpoint", failing)
    config: dict[str, str | int | bool] = {
        "log.dirs": "/data",
        "log.flush.offset.checkpoint.interval.ms": SECONDS * 1000,
    }

    async def program(runtime: Runtime) -> None:
        broker = Broker(BrokerConfig.of(config), runtime)
        await broker.start()
        await asyncio.sleep(4.5 * SECONDS)
        await broker.stop()

    async def main() -> None:
        await simulation.host("127.0.0.1").start(program)

    simulation = Simulation(1)
    simulation.run(main())
    assert times >= 4
    assert sum("checkpoints" in record.getMessage() for record in caplog.records) == 2
