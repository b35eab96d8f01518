"""A broker that stops does not wait for a log that is being opened again: its thread is asked to leave off.

Method: a real broker with a partition the disk once refused. Reading it again is replaced by a read without an end, which leaves
only when it is asked to: a stop that did not ask would wait for it for ever.
"""

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.broker.topics import create_missing
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.halt import NEVER, Halt
from semel.log.partition_log import PartitionLog
from semel.runtime.bundle import real_runtime
from semel.types import TopicPartition

PATIENCE_SECONDS = 60.0
ORDERS = TopicPartition("orders", 0)


def config(data: Path) -> BrokerConfig:
    return BrokerConfig.of({"listeners": "PLAINTEXT://127.0.0.1:0", "log.dirs": str(data)})


def test_a_stop_has_a_log_that_is_opened_again_left_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reading = threading.Event()

    def read(
        _self: LogDirectory,
        topic_partition: TopicPartition,
        _config: LogConfig,
        _now_ms: int,
        halt: Halt = NEVER,
    ) -> PartitionLog:
        reading.set()
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS * 1000)):
            if halt.is_asked:
                raise halt.error(str(topic_partition))
            pause.wait(0.001)
        raise AssertionError("nobody asked")

    async def program() -> None:
        broker = Broker(config(tmp_path), real_runtime())
        await broker.start()
        await create_missing(broker.parts.administration, ["orders"])
        directory = broker._directory
        assert directory is not None
        directory.logs.pop(ORDERS).release()
        directory.damaged[ORDERS] = OSError("the disk refused it")
        monkeypatch.setattr(LogDirectory, "read", read)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not reading.is_set():  # The housekeeping tries every second.
                await asyncio.sleep(0.01)
            await broker.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(program())
    assert "nobody asked" not in caplog.text
    assert "after its caller had left" not in caplog.text
    assert not (tmp_path / ".kafka_cleanshutdown").exists(), "a log that is not open may not be trusted"
