"""Apache Kafka as a peer: install its jars through Maven, run a broker or one of its classes.

Role.   Tests compare Semel with the real thing and benchmarks measure beside it. Nothing here is needed to
        use Semel. Needs Java 17+ and, to install, Maven.
Rules.  * Jars live in a cache outside the project (`SEMEL_PEERS`, default `~/.cache/semel-peers`), one folder
          per version, complete or not there. Complete means: made for the jars we want today. An older installation is
          replaced by a rename, for others may be using it.
        * Kafka Streams comes without RocksDB, by far its largest part: our topologies keep their state in memory.
        * A broker runs with the values of Kafka's own server.properties; a caller's setting wins.
        * Ports are chosen free; the broker's output is kept beside its data.

Usage.  python -m semel.peers.kafka install [--if-possible] VERSION…
"""

import argparse
import base64
import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from semel.errors import SemelError
from semel.peers import children

DEFAULT_VERSION: Final = "4.3.1"
_START_TIMEOUT_SECONDS: Final = 300

# The values of config/server.properties in Apache Kafka's distribution.
_STOCK_SETTINGS: Final[Mapping[str, str]] = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
_JVM: Final = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
"""As Kafka's own scripts start a JVM: what benchmarks measure."""
QUICK_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""For JVMs that live for seconds: little is compiled, and one thread collects."""


class PeerMissingError(SemelError):
    """Java, Maven or Kafka's jars are not on this machine; the text says how to get them."""


@dataclass(frozen=True, slots=True)
class KafkaHome:
    """An installed version of Apache Kafka."""

    version: str
    path: Path
    jvm: tuple[str, ...] = _JVM

    @property
    def classpath(self) -> str:
        return f"{self.path / 'lib'}/*"

    def java(self, *arguments: str, heap: str = "512M") -> list[str]:
        """The command line of a JVM with Kafka's jars and quiet logging."""
        return [java(), f"-Xmx{heap}", *self.jvm, self._logging("tool"), "-cp", self.classpath, *arguments]

    def run(self, *arguments: str, stdin: str | None = None, timeout: float = 240) -> str:
        """Run a class (or a Java source file) to its end; its standard output. Raises if it fails."""
        done = subprocess.run(
            self.java(*arguments), input=stdin, capture_output=True, text=True, timeout=timeout, check=False
        )
        if done.returncode != 0:
            raise PeerFailedError(
                f"{' '.join(arguments)} ended with {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            )
        return done.stdout

    def _logging(self, who: str) -> str:
        if self.version.split(".")[0] in ("0", "1", "2", "3"):
            return f"-Dlog4j.configuration=file:{self.path / f'log4j-{who}.properties'}"
        return f"-Dlog4j2.configurationFile={self.path / f'log4j2-{who}.properties'}"

    @contextlib.contextmanager
    def broker(self, directory: Path, **settings: str) -> Iterator["KafkaBroker"]:
        """A single-node broker on 127.0.0.1 that keeps what `directory` holds; stopped at the end."""
        broker = KafkaBroker(self, directory, settings={k.replace("_", "."): v for k, v in settings.items()})
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


class PeerFailedError(SemelError):
    """A Kafka tool or broker ended with an error; the text carries its output."""


@dataclass(slots=True)
class KafkaBroker:
    """One running KRaft broker, combined with its controller."""

    home: KafkaHome
    directory: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    heap: str = "1G"
    port: int = 0
    process: subprocess.Popen[bytes] | None = None
    _output: IO[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def start(self) -> None:
        """Format the directory if it is new, start, and return once the broker serves; again at the port it had."""
        self.directory.mkdir(parents=True, exist_ok=True)
        port, controller_port = _free_ports(2)
        self.port = self.port or port
        properties = self.directory / "server.properties"
        properties.write_text(
            "".join(f"{key}={value}\n" for key, value in self._properties(controller_port).items()),
            encoding="utf-8",
        )
        if not (self.data / "meta.properties").exists():
            cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            if cluster_id.startswith("-"):
                cluster_id = "A" + cluster_id[1:]
            self.home.run(
                "kafka.tools.StorageTool", "format", "--standalone", "-t", cluster_id, "-c", str(properties)
            )
        log = self.directory / "server.log"
        self._output = log.open("wb")
        self.process = subprocess.Popen(
            [
                java(),
                f"-Xmx{self.heap}",
                f"-Xms{self.heap}",
                *self.home.jvm,
                self.home._logging("server"),
                "-cp",
                self.home.classpath,
                "kafka.Kafka",
                str(properties),
            ],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while b"Kafka Server started" not in log.read_bytes():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise PeerFailedError(
                    f"Apache Kafka did not start:\n{log.read_text(errors='replace')[-4000:]}"
                )
            time.sleep(0.05)

    def stop(self) -> None:
        """A clean shutdown; killed if it takes too long."""
        children.end(self.process)
        self._forget()

    def kill(self) -> None:
        """kill -9."""
        children.kill(self.process)
        self._forget()

    def _forget(self) -> None:
        self.process = None
        if self._output is not None:
            self._output.close()
            self._output = None

    def _properties(self, controller_port: int) -> dict[str, str]:
        return {
            **_STOCK_SETTINGS,
            "log.dirs": str(self.data),
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.min.isr": "1",
            **self.settings,
        }


def java() -> str:
    """The machine's Java; raises with a way out if there is none."""
    if (found := shutil.which("java")) is None:
        raise PeerMissingError(
            "Java is not installed: tests beside Apache Kafka need Java 17 or newer on the PATH"
        )
    return found


def find(version: str = DEFAULT_VERSION) -> KafkaHome:
    """The installed version; raises `PeerMissingError` if it is not there."""
    java()
    home = _home(version)
    if not (home / "lib" / ".complete").exists():
        raise PeerMissingError(
            f"Apache Kafka {version} is not installed: run 'python -m semel.peers.kafka install {version}' "
            "(needs Java 17+ and Maven) to get it"
        )
    if (home / "pom.xml").read_text(encoding="utf-8") != _pom(version):
        raise PeerMissingError(
            f"Apache Kafka {version} is installed without jars we need: run "
            f"'python -m semel.peers.kafka install {version}' to complete it"
        )
    return KafkaHome(version, home)


def install(version: str = DEFAULT_VERSION) -> KafkaHome:
    """Fetch the jars of a version through Maven unless they are there."""
    with contextlib.suppress(PeerMissingError):
        return find(version)
    java()
    if shutil.which("mvn") is None:
        raise PeerMissingError("Maven is not installed: Apache Kafka's jars come through it (command 'mvn')")
    target = _home(version)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
        fetched = Path(beside) / "fetched"
        _fetch(version, fetched)
        if target.exists():
            target.rename(Path(beside) / "before")
        fetched.rename(target)
    return KafkaHome(version, target)


def _fetch(version: str, home: Path) -> None:
    fetch_jars(home, _pom(version))
    for who, target in (("server", "out"), ("tool", "err")):
        (home / f"log4j2-{who}.properties").write_text(_log4j2(f"SYSTEM_{target.upper()}"), encoding="utf-8")
        (home / f"log4j-{who}.properties").write_text(_log4j(f"System.{target}"), encoding="utf-8")
    (home / "lib" / ".complete").touch()


def fetch_jars(home: Path, pom: str) -> None:
    """Have Maven copy what a pom depends on into `lib` of a new folder; whoever calls marks it as complete."""
    home.mkdir()
    (home / "pom.xml").write_text(pom, encoding="utf-8")
    subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-Dstyle.color=never",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=lib",
        ],
        cwd=home,
        check=True,
        stdout=sys.stderr,
    )


def peers_directory() -> Path:
    """Where peers are installed: outside the project, once for all checkouts."""
    return Path(os.environ.get("SEMEL_PEERS") or Path.home() / ".cache" / "semel-peers")


def _home(version: str) -> Path:
    return peers_directory() / f"kafka-{version}"


def _pom(version: str) -> str:
    old = version.split(".", maxsplit=1)[0] in ("0", "1", "2", "3")
    backend = (
        ("org.slf4j", "slf4j-reload4j", "1.7.36")
        if old
        else ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4")
    )
    # Up to 2.8 the tools are part of the broker's own jar.
    tools = (
        ()
        if version.split(".", maxsplit=1)[0] in ("0", "1", "2")
        else (("org.apache.kafka", "kafka-tools", version),)
    )
    wanted = (("org.apache.kafka", "kafka_2.13", version), *tools, backend)
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version></dependency>\n"
        for group, artifact, number in wanted
    )
    if not old:
        dependencies += (
            "<dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId>"
            f"<version>{version}</version><exclusions><exclusion><groupId>org.rocksdb</groupId>"
            "<artifactId>rocksdbjni</artifactId></exclusion></exclusions></dependency>\n"
        )
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>semel</groupId><artifactId>peer-kafka</artifactId>"
        f"<version>1</version><packaging>pom</packaging>\n<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def _log4j2(target: str) -> str:
    """Warnings, and the one line that says the broker is ready."""
    return (
        "rootLogger.level=WARN\nrootLogger.appenderRef.c.ref=C\nappender.c.type=Console\nappender.c.name=C\n"
        f"appender.c.target={target}\nappender.c.layout.type=PatternLayout\n"
        "appender.c.layout.pattern=[%d] %p %m (%c)%n\n"
        "logger.r.name=kafka.server.KafkaRaftServer\nlogger.r.level=INFO\n"
    )


def _log4j(target: str) -> str:
    return (
        "log4j.rootLogger=WARN,C\nlog4j.appender.C=org.apache.log4j.ConsoleAppender\n"
        f"log4j.appender.C.target={target}\nlog4j.appender.C.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.C.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
        "log4j.logger.kafka.server.KafkaRaftServer=INFO\nlog4j.logger.kafka.server.KafkaServer=INFO\n"
    )


def _free_ports(count: int) -> list[int]:
    """Ports that are free now; held together while they are chosen so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.peers.kafka", description="Install Apache Kafka's jars."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="fetch the jars of these versions through Maven")
    installing.add_argument(
        "--if-possible", action="store_true", help="only say so where Java or Maven is missing"
    )
    installing.add_argument("versions", nargs="*", default=[DEFAULT_VERSION])
    options = parser.parse_args(arguments)
    for version in options.versions:
        try:
            print(f"Apache Kafka {version}: {install(version).path}")
        except PeerMissingError as missing:
            print(f"Apache Kafka {version} is left out: {missing}", file=sys.stderr)
            if not options.if_possible:
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
