"""Run Apicurio Registry on a broker of ours, and record its answers to the tests with a registry.

Usage.  .venv/bin/python tests/support/schemas/record.py            the answers are written to tests/schema/recordings
        .venv/bin/python tests/support/schemas/record.py --serve    only run it, until Ctrl-C

Role.   Apicurio speaks Confluent's protocol (its `ccompat` API, v7) and keeps everything in topics: every schema of the recordings
        was stored by a broker of Semel. It comes through Maven; it needs Java 21 or newer (JAVA_21 names its `java`).
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semel.embedded import Broker
from semel.peers.kafka import peers_directory

VERSION = "3.3.3"
PATH = "/apis/ccompat/v7"
START_SECONDS = 180.0
TESTS = ("schema", "spark/test_schemas.py", "cli/test_schema.py", "docs/test_schema_page.py")


def installed() -> Path:
    """The folder of Apicurio, fetched through Maven if it is not there."""
    target = peers_directory() / f"apicurio-{VERSION}"
    if target.exists():
        return target
    artifact = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
    plugin = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
    subprocess.run(
        ["mvn", "-q", "-B", f"{plugin}:get", f"-Dartifact={artifact}", "-Dtransitive=false"], check=True
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as beside:
        command = [
            "mvn",
            "-q",
            "-B",
            f"{plugin}:copy",
            f"-Dartifact={artifact}",
            f"-DoutputDirectory={beside}",
        ]
        subprocess.run(command, check=True)
        with tarfile.open(next(Path(beside).glob("*.tar.gz"))) as archive:
            archive.extractall(Path(beside) / "app", filter="data")
        (Path(beside) / "app").rename(target)
    return target


@contextmanager
def running(port: int) -> Iterator[str]:
    """Apicurio on a broker of ours; gives the URL of its registry."""
    java = os.environ.get("JAVA_21") or shutil.which("java") or "java"
    with Broker() as broker, tempfile.TemporaryFile() as log:
        settings = {
            "quarkus.http.port": port,
            "quarkus.http.host": "127.0.0.1",
            "apicurio.storage.kind": "kafkasql",
            "apicurio.kafkasql.bootstrap.servers": broker.bootstrap,
        }
        options = [f"-D{name}={value}" for name, value in settings.items()]
        process = subprocess.Popen(
            [java, "-Xmx512m", "-XX:+UseSerialGC", *options, "-jar", str(installed() / "quarkus-run.jar")],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            url = f"http://127.0.0.1:{port}{PATH}"
            deadline = time.monotonic() + START_SECONDS
            while not _answers(f"{url}/subjects"):
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    sys.exit(f"Apicurio does not run:\n{log.read().decode(errors='replace')[-3000:]}")
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--serve", action="store_true", help="only run it, until Ctrl-C")
    parser.add_argument("--port", type=int, default=18081)
    given = parser.parse_args()
    with running(given.port) as url:
        if given.serve:
            print(url, flush=True)
            try:
                while True:
                    time.sleep(3600)
            except KeyboardInterrupt:
                return 0
        tests = Path(__file__).parents[2]
        recordings = tests / "schema" / "recordings"
        recordings.mkdir(exist_ok=True)
        for old in recordings.glob("*.json"):
            old.unlink()
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:xdist",
            *(str(tests / one) for one in TESTS),
        ]
        return subprocess.run(
            command, env={**os.environ, "SEMEL_RECORD_REGISTRY": url}, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
