"""Brokers of Apache Kafka 3.9 as members of a cluster under ZooKeeper."""

import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from semel.peers import children
from semel.peers.kafka import KafkaHome, PeerFailedError, _free_ports, java

_START_SECONDS: Final = 120
_HEAP: Final = "256M"


@dataclass(slots=True)
class KafkaMember:
    """One broker's process."""

    home: KafkaHome
    directory: Path
    broker_id: int
    zookeeper: str
    settings: dict[str, str] = field(default_factory=dict)
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def begin(self) -> None:
        """Start the process; `until_started` waits for it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        if not self.port:
            (self.port,) = _free_ports(1)
        properties = {
            "broker.id": str(self.broker_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(self.data),
            "zookeeper.connect": self.zookeeper,
            "num.network.threads": "2",
            "num.io.threads": "4",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "log.cleaner.dedupe.buffer.size": "16777216",
            **self.settings,
        }
        path = self.directory / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._output = (self.directory / "server.log").open("wb")
        self.process = subprocess.Popen(
            [
                java(),
                f"-Xmx{_HEAP}",
                *self.home.jvm,
                self.home._logging("server"),
                "-cp",
                self.home.classpath,
                "kafka.Kafka",
                str(path),
            ],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def until_started(self) -> None:
        """Return once it serves."""
        log, deadline = self.directory / "server.log", time.monotonic() + _START_SECONDS
        while b"started (kafka.server.KafkaServer)" not in log.read_bytes():
            if self.process is None or self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise PeerFailedError(
                    f"Apache Kafka did not start:\n{log.read_text(errors='replace')[-4000:]}"
                )
            time.sleep(0.05)

    def pause(self) -> None:
        """SIGSTOP."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """kill -9."""
        children.kill(self.process)
        self.process = None
        if self._output is not None:
            self._output.close()
            self._output = None
