"""A real ZooKeeper from the jars inside the PySpark package, and ours on a real port: a test plays the same on both."""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from semel.core.zookeeper.machine import Machine
from semel.runtime.bundle import real_runtime
from semel.runtime.loop_thread import LoopThread
from semel.spark.java import find_java
from semel.verify.simulation.zookeeper_server import ZooKeeperServer

TICK_MS: Final = 200
TIMEOUT_MAX_MS: Final = 60_000
_JARS: Final = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
    "netty-",
)
_START_SECONDS: Final = 60


def _jars() -> list[str]:
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    return sorted(str(one) for one in folder.iterdir() if one.name.startswith(_JARS))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@contextlib.contextmanager
def real_zookeeper(directory: Path) -> Iterator[int]:
    """Apache ZooKeeper with one member; its port."""
    port = _free_port()
    settings = {
        "dataDir": directory / "data",
        "clientPort": port,
        "clientPortAddress": "127.0.0.1",
        "tickTime": TICK_MS,
        "maxSessionTimeout": TIMEOUT_MAX_MS,
        "maxClientCnxns": 0,
        "admin.enableServer": "false",
    }
    config = directory / "zoo.cfg"
    config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    with (directory / "zookeeper.log").open("wb") as log:
        process = subprocess.Popen(
            [
                str(find_java().executable),
                "-Xmx64m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                ":".join(_jars()),
                "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                str(config),
            ],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _await_service(process, port, directory)
            yield port
        finally:
            process.kill()
            process.wait()


def _await_service(process: "subprocess.Popen[bytes]", port: int, directory: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as one:
            one.sendall(b"srvr")
            if b"Mode: " in one.recv(4096):  # It accepts connections before it serves.
                return
        time.sleep(0.05)
    raise AssertionError(f"ZooKeeper did not start: {(directory / 'zookeeper.log').read_text()[-3000:]}")


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
