"""Brokers of a cluster under ZooKeeper, each a process of its own: Apache Kafka 3.9.2's, and Semel's.

Role.   `KafkaMember` and `SemelMember` start, end, freeze and come back at the port they had; a cluster does not see which is which.
Rules.  * A member is there once its process says that it serves. What it writes is kept in `server.log` of its directory, all lives
          one after the other.
        * A port that was chosen free may be taken when it is bound: a first start tries others.
"""

import contextlib
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final

from semel.peers import children
from semel.peers.kafka import KafkaHome, PeerFailedError, _free_ports, java

START_SECONDS: Final = 240.0
STOP_SECONDS: Final = 120.0
_TRIES: Final = 5
_TAKEN: Final = ("Address already in use", "another process")
# Two compiler threads of a JVM would take a core each from who else runs.
_JVM: Final = (
    "-Xmx256M",
    "-Xms64M",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:CICompilerCount=1",
    "-Djava.awt.headless=true",
)
_LOG4J: Final = (
    "log4j.rootLogger=WARN,C\nlog4j.appender.C=org.apache.log4j.ConsoleAppender\n"
    "log4j.appender.C.target=System.out\nlog4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
    "log4j.appender.C.layout.ConversionPattern=[%d{ISO8601}] %p %m (%c)%n\n"
    "log4j.logger.kafka.server.KafkaServer=INFO\nlog4j.logger.kafka.controller=INFO\n"
    "log4j.logger.state.change.logger=INFO\n"
)


class Member(ABC):
    """A broker that is a process. `port` stays what it was first."""

    kind: ClassVar[str]
    ready: ClassVar[bytes]
    """Printed once it serves."""
    former_session: ClassVar[str]
    """Printed where its own node of a former life has not gone yet."""

    def __init__(self, node_id: int, directory: Path, zookeeper: str, settings: Mapping[str, str]) -> None:
        self.node_id = node_id
        self.directory = directory
        self.zookeeper = zookeeper
        """For `zookeeper.connect`, chroot included."""
        self.settings = dict(settings)
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._frozen = False

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    @property
    def log(self) -> Path:
        return self.directory / "server.log"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @abstractmethod
    def command(self) -> list[str]:
        """The command line, on `self.port`."""

    def start(self) -> None:
        """Return once it serves. Raises `PeerFailedError`."""
        self.begin()
        self.wait_ready()

    def begin(self) -> None:
        """Start the process, and do not wait."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._is_first = not self.port
        self._spawn()

    def _spawn(self) -> None:
        if self._is_first:
            (self.port,) = _free_ports(1)
        self._said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_ready(self) -> None:
        """Return once it serves: after `begin`."""
        deadline = time.monotonic() + START_SECONDS
        tries = _TRIES
        while self.ready not in (said := self.said()):
            if not self.is_running:
                text = said.decode(errors="replace")
                tries -= 1
                if self._is_first and tries and any(one in text for one in _TAKEN):
                    self._spawn()
                    continue
                raise PeerFailedError(f"{self} did not start:\n{text[-6000:]}")
            if time.monotonic() > deadline:
                self.kill()
                raise PeerFailedError(
                    f"{self} was not ready within {START_SECONDS} s:\n{said.decode(errors='replace')[-6000:]}"
                )
            time.sleep(0.03)

    def is_refused_for_its_former_session(self, text: str) -> bool:
        """Whether it ended with this because its node of a former life is still there."""
        return self.former_session in text

    def said(self) -> bytes:
        """What it has written in this life."""
        with self.log.open("rb") as log:
            log.seek(self._said)
            return log.read()

    def stop(self, *, seconds: float = STOP_SECONDS) -> None:
        """SIGTERM, and wait. Raises if it does not end in time, for a clean end is expected."""
        self.ask_to_stop()
        self.wait_ended(seconds=seconds)

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        assert self.process is not None, f"{self} does not run"
        self.thaw()
        self.process.send_signal(signal.SIGTERM)

    def wait_ended(self, *, seconds: float = STOP_SECONDS) -> None:
        """After `ask_to_stop`."""
        assert self.process is not None
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            text = self.said().decode(errors="replace")
            self.kill()
            raise PeerFailedError(f"{self} did not end within {seconds} s:\n{text[-6000:]}") from None
        self.process = None

    def kill(self) -> None:
        """kill -9."""
        children.kill(self.process)
        self.process, self._frozen = None, False

    def freeze(self) -> None:
        """SIGSTOP: it does nothing, and its connections stay open."""
        assert self.process is not None, f"{self} does not run"
        self.process.send_signal(signal.SIGSTOP)
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT."""
        if self._frozen and self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(signal.SIGCONT)
        self._frozen = False

    def __str__(self) -> str:
        return f"broker {self.node_id} ({self.kind}, {self.address})"


class KafkaMember(Member):
    """Apache Kafka with ZooKeeper."""

    kind = "kafka"
    ready = b"] started (kafka.server.KafkaServer)"
    former_session = "NodeExistsException"

    def __init__(
        self, home: KafkaHome, node_id: int, directory: Path, zookeeper: str, settings: Mapping[str, str]
    ) -> None:
        super().__init__(node_id, directory, zookeeper, settings)
        self._home = home

    def command(self) -> list[str]:
        wanted = {
            "broker.id": str(self.node_id),
            "listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
            "zookeeper.connect": self.zookeeper,
            "zookeeper.connection.timeout.ms": "60000",
            "num.network.threads": "2",
            "num.io.threads": "4",
            "log.cleaner.threads": "1",
            "log.cleaner.dedupe.buffer.size": "16777216",
            **self.settings,
        }
        properties = self.directory / "server.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in wanted.items()), encoding="utf-8")
        logging = self.directory / "log4j.properties"
        logging.write_text(_LOG4J, encoding="utf-8")
        return [
            *(java(), *_JVM, f"-Dlog4j.configuration=file:{logging}"),
            *("-cp", self._home.classpath, "kafka.Kafka", str(properties)),
        ]


class SemelMember(Member):
    """`semel broker --zookeeper`."""

    kind = "semel"
    ready = b" ready on "
    former_session = "belongs to another broker of the cluster"

    def command(self) -> list[str]:
        return [
            *(sys.executable, "-m", "semel", "broker", "--zookeeper", self.zookeeper),
            *("--broker-id", str(self.node_id), "--listen", self.address, "--data-dir", str(self.data)),
            *(part for key, value in self.settings.items() for part in ("-X", f"{key}={value}")),
        ]
