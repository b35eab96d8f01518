"""Apache Kafka 3.9 as a member of a cluster under ZooKeeper: one process, and where it listens."""

import contextlib
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from semel.peers import children
from semel.peers.kafka import _STOCK_SETTINGS, KafkaHome, _free_ports, java

_START_SECONDS: Final = 120


@contextlib.contextmanager
def kafka_under_zookeeper(
    home: KafkaHome, directory: Path, zookeeper: str, settings: Mapping[str, str]
) -> Iterator[str]:
    """A broker that serves; its address. `directory/data` is its data directory, which may be there already."""
    directory.mkdir(parents=True, exist_ok=True)
    (port,) = _free_ports(1)
    wanted = {
        **_STOCK_SETTINGS,
        "zookeeper.connect": zookeeper,
        "log.dirs": str(directory / "data"),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        **settings,
    }
    properties, log = directory / "server.properties", directory / "server.log"
    properties.write_text("".join(f"{key}={value}\n" for key, value in wanted.items()), encoding="utf-8")
    command = [java(), "-Xmx320m", *home.jvm, home._logging("server"), "-cp", home.classpath, "kafka.Kafka"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, str(properties)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            deadline = time.monotonic() + _START_SECONDS
            while b"started (kafka.server.KafkaServer)" not in log.read_bytes():
                assert process.poll() is None, log.read_text(errors="replace")[-4000:]
                assert time.monotonic() < deadline, log.read_text(errors="replace")[-4000:]
                time.sleep(0.05)
            yield f"127.0.0.1:{port}"
        finally:
            children.kill(process)
