"""Apache ZooKeeper as a process, from the jars inside the PySpark package.

Role.   `ZooKeeperProcess` runs one server alone: for `semel zookeeper`, for tests beside it, and for a first cluster.
Rules.  * Nothing is installed: PySpark brings ZooKeeper and its requirements, and the caller names the Java.
        * `start` returns once the server serves; it accepts connections before that.
        * What ZooKeeper writes is kept in `zookeeper.log` beside its data.
        * A port that was chosen free may be taken by the time ZooKeeper binds it: another one is tried.
"""

import importlib.util
import selectors
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from semel.errors import SemelError
from semel.peers import children

_JARS: Final = (
    "zookeeper-",
    "slf4j-api-",
    "log4j-",
    "metrics-core-",
    "snappy-java-",
    "commons-io-",
    "netty-",
)
_JVM: Final = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.awt.headless=true")
_MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
_START_SECONDS: Final = 120
_STOP_SECONDS: Final = 30
_TRIES: Final = 5
_BIND_FAILED: Final = "Address already in use"


class ZooKeeperError(SemelError):
    """ZooKeeper cannot be started here, or ended."""


class PortTakenError(ZooKeeperError):
    """Another process listens at the address."""


def jars() -> list[Path]:
    """ZooKeeper and what it needs. Raises `ZooKeeperError` without PySpark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperError(
            "ZooKeeper's jars come with PySpark, which is not installed: pip install 'semel[spark]'"
        )
    folder = Path(spec.origin).parent / "jars"
    found = sorted(one for one in folder.glob("*.jar") if one.name.startswith(_JARS))
    if not any(one.name.startswith("zookeeper-") for one in found):
        raise ZooKeeperError(
            f"no ZooKeeper in {folder}: this PySpark comes without it, install pyspark from PyPI"
        )
    return found


@dataclass(slots=True)
class ZooKeeperProcess:
    """One server."""

    java: Path
    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0: a free one is chosen by `start`."""
    heap: str = "64m"
    settings: dict[str, str] = field(default_factory=dict)
    """More lines of its configuration, as `tickTime`."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def connect(self) -> str:
        """For `zookeeper.connect`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "zookeeper.log"

    def start(self) -> None:
        """Return once it serves. Raises `PortTakenError`, `ZooKeeperError`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        chooses = self.port == 0
        for left in reversed(range(_TRIES)):
            if chooses:
                self.port = _free_port(self.host)
            try:
                self._start()
            except PortTakenError:
                if not chooses or not left:
                    raise
            else:
                return

    def _start(self) -> None:
        lines = {
            "tickTime": "2000",
            "dataDir": str(self.directory / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "autopurge.purgeInterval": "1",
            **self.settings,
        }
        config = self.directory / "zoo.cfg"
        config.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
        said = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(self.java),
                    f"-Xmx{self.heap}",
                    *_JVM,
                    "-cp",
                    ":".join(map(str, jars())),
                    _MAIN,
                    str(config),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us: we stop it in order.
            )
        deadline = time.monotonic() + _START_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            if self._serves():
                return
            time.sleep(0.05)
        self.kill()
        text = self.log.read_bytes()[said:].decode(errors="replace")
        if _BIND_FAILED in text:
            raise PortTakenError(
                f"cannot listen on {self.connect}: another process does; choose another port"
            )
        raise ZooKeeperError(f"ZooKeeper did not start, see {self.log}: {text[-1500:]}")

    def _serves(self) -> bool:
        """It says in which mode it is only once it serves. The answer is this server's, for it is alone in its directory."""
        try:
            with socket.create_connection((self.host, self.port), timeout=5) as one:
                one.sendall(b"srvr")
                answer = b""
                with selectors.DefaultSelector() as selector:
                    selector.register(one, selectors.EVENT_READ)
                    while selector.select(5) and (piece := one.recv(4096)):
                        answer += piece
        except OSError:
            return False
        return b"Mode: " in answer and self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        """SIGTERM; killed if it takes too long."""
        children.end(self.process, seconds=_STOP_SECONDS)
        self.process = None

    def kill(self) -> None:
        """kill -9."""
        children.kill(self.process)
        self.process = None


def _free_port(host: str) -> int:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as one:
        one.bind((host, 0))
        port: int = one.getsockname()[1]
        return port
