"""A Spark standalone cluster of processes on this machine: a master and workers, from PySpark's own jars, on free ports."""

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from semel.spark.java import use_java
from support.spark.spark_kit import PATIENCE_SECONDS

_DAEMON_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = "Successfully registered with master"


def spark_home() -> Path:
    """Where PySpark keeps Spark."""
    import pyspark

    return Path(str(pyspark.__file__)).parent


@dataclass
class Daemon:
    """A master or a worker."""

    process: subprocess.Popen[bytes]
    output: Path

    def wait_for(self, pattern: str | re.Pattern[str]) -> str:
        """The first match in what it has written; fails if it ends or takes too long."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            text = self.output.read_text(encoding="utf-8", errors="replace")
            if found := re.search(pattern, text):
                return found.group(found.re.groups)
            assert self.process.poll() is None, text[-3000:]
            assert time.monotonic() < deadline, text[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """It and what it started: a worker's executors."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()


@dataclass
class Cluster:
    """A running master with its workers."""

    directory: Path
    environment: Mapping[str, str]
    master: Daemon
    url: str
    workers: list[Daemon] = field(default_factory=list)

    def add_worker(self, *, cores: int = 1, memory: str = "1g") -> Daemon:
        number = len(self.workers)
        # Spark runs no second attempt of a task on the host of the first: every worker has an address of its own.
        host = f"127.0.0.{number + 1}" if sys.platform == "linux" else "127.0.0.1"
        worker = _daemon(
            self.directory / f"worker-{number}",
            {**self.environment, "SPARK_LOCAL_IP": host},
            "org.apache.spark.deploy.worker.Worker",
            *("--host", host, "--port", "0", "--webui-port", "0"),
            *(
                "--cores",
                str(cores),
                "--memory",
                memory,
                "--work-dir",
                str(self.directory / f"work-{number}"),
            ),
            self.url,
        )
        self.workers.append(worker)
        return worker


@contextlib.contextmanager
def standalone_cluster(directory: Path, *, workers: int = 2, cores: int = 1) -> Iterator[Cluster]:
    """A cluster that is ready for work; every process of it is gone at the end."""
    environment = dict(os.environ)
    use_java(environment)
    environment |= {
        "SPARK_HOME": str(spark_home()),
        "SPARK_DAEMON_JAVA_OPTS": _DAEMON_OPTIONS,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(directory / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    master = _daemon(
        directory / "master",
        environment,
        "org.apache.spark.deploy.master.Master",
        *("--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
    )
    cluster = Cluster(directory, environment, master, "")
    try:
        cluster.url = master.wait_for(_MASTER)
        for _ in range(workers):
            cluster.add_worker(cores=cores)
        for worker in cluster.workers:
            worker.wait_for(f"({_REGISTERED})")
        yield cluster
    finally:
        for daemon in [*cluster.workers, master]:
            daemon.kill()


def _daemon(directory: Path, environment: Mapping[str, str], *arguments: str) -> Daemon:
    directory.mkdir(parents=True)
    output = directory / "output.txt"
    with output.open("wb") as sink:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), *arguments],
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )
    return Daemon(process, output)
