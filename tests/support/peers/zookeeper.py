"""A real ZooKeeper from the jars inside the PySpark package, and ours on a real port: a test plays the same on both."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from semel.core.zookeeper.machine import Machine
from semel.peers.zookeeper import ZooKeeperProcess
from semel.runtime.bundle import real_runtime
from semel.runtime.loop_thread import LoopThread
from semel.spark.java import find_java
from semel.verify.simulation.zookeeper_server import ZooKeeperServer

TICK_MS: Final = 200
TIMEOUT_MAX_MS: Final = 60_000
_START_SECONDS: Final = 60


@contextlib.contextmanager
def real_zookeeper(directory: Path) -> Iterator[int]:
    """Apache ZooKeeper with one member; its port."""
    settings = {"tickTime": str(TICK_MS), "maxSessionTimeout": str(TIMEOUT_MAX_MS)}
    server = ZooKeeperProcess(find_java().executable, directory, settings=settings)
    server.start()
    try:
        yield server.port
    finally:
        server.kill()


@contextlib.contextmanager
def our_zookeeper() -> Iterator[int]:
    """The machine behind a real port, with the same settings."""
    server = ZooKeeperServer(Machine(tick_ms=TICK_MS, timeout_max_ms=TIMEOUT_MAX_MS))
    thread = LoopThread("zookeeper")
    task = thread.submit(server.run(real_runtime(), "127.0.0.1", 0))
    try:
        deadline = time.monotonic() + _START_SECONDS
        while server.address[1] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield server.address[1]
    finally:
        task.cancel()
        thread.close()
