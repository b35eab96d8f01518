"""Java programs that are started more than once: compiled once, and run with Kafka's jars."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from semel.peers.kafka import KafkaHome, java

_SOURCES: Final = Path(__file__).parents[2] / "java"
_COMPILE_SECONDS: Final = 120
_QUICK_START: Final = "-XX:TieredStopAtLevel=1"


class JavaProgram:
    """A class of tests/java, and the services it offers to who looks for them on the class path."""

    def __init__(
        self, home: KafkaHome, name: str, directory: Path, services: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._home = home
        self._directory = directory
        jars = ":".join(
            map(str, sorted((home.path / "lib").glob("*.jar")))
        )  # The compiler takes no wildcard.
        subprocess.run(
            [
                *(java(), "-m", "jdk.compiler/com.sun.tools.javac.Main", "-d", directory),
                *("-cp", jars, _SOURCES / f"{name}.java"),
            ],
            check=True,
            timeout=_COMPILE_SECONDS,
        )
        for service, implementation in (services or {}).items():
            offer = directory / "META-INF" / "services" / service
            offer.parent.mkdir(parents=True, exist_ok=True)
            offer.write_text(f"{implementation}\n", encoding="utf-8")

    @contextmanager
    def started(self, log: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process of it that writes to `log`; killed at the end, if not before."""
        classpath = f"{self._directory}:{self._home.classpath}"
        with log.open("ab") as output:
            process = subprocess.Popen(
                self._home.java(_QUICK_START, "-cp", classpath, self.name, *arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
