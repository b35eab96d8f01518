"""Spark's own Kafka connector as a peer: install its jars through Maven.

Role.   Tests compare `format("semel")` with `format("kafka")` and benchmarks measure beside it. Nothing here is needed to use Semel.
        Needs Java 17+, PySpark and, to install, Maven.
Rules.  * Jars live where Kafka's do (`kafka_peer`), one folder per version of Spark, complete or not there.
        * Only the connector's own jars are kept; what Spark brings itself is Spark's.

Usage.  python -m semel.bench.spark_peer install [--if-possible]
"""

import argparse
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from semel.bench.kafka_peer import PeerMissingError, java, peers_directory

_ARTIFACTS: Final = (
    "spark-sql-kafka-0-10_2.13",
    "spark-token-provider-kafka-0-10_2.13",
    "kafka-clients",
    "commons-pool2",
)


def spark_version() -> str:
    """The version of PySpark that is installed."""
    try:
        return importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise PeerMissingError(
            "PySpark is not installed: run 'make install', or pip install semel[spark]"
        ) from None


def connector_classpath() -> str:
    """The connector's jars, for `spark.driver.extraClassPath`; raises `PeerMissingError` if they are not there."""
    java()
    home = _home(spark_version())
    if not (home / "lib" / ".complete").exists():
        raise PeerMissingError(
            f"Spark's Kafka connector {spark_version()} is not installed: run 'make peers' (needs Java 17+ and Maven)"
        )
    return f"{home / 'lib'}/*"


def install() -> Path:
    """Fetch the connector of the installed PySpark unless it is there."""
    target = _home(spark_version())
    if (target / "lib" / ".complete").exists():
        return target
    java()
    if shutil.which("mvn") is None:
        raise PeerMissingError("Maven is not installed: the connector's jars come through it (command 'mvn')")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
        fetched = Path(beside) / "fetched"
        _fetch(fetched)
        if not target.exists():  # Somebody else may have been as fast.
            fetched.rename(target)
    return target


def _fetch(home: Path) -> None:
    home.mkdir()
    (home / "pom.xml").write_text(_pom(spark_version()), encoding="utf-8")
    subprocess.run(
        [
            "mvn",
            "-q",
            "-B",
            "-Dstyle.color=never",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            f"-DincludeArtifactIds={','.join(_ARTIFACTS)}",
            "-DoutputDirectory=lib",
        ],
        cwd=home,
        check=True,
        stdout=sys.stderr,
    )
    (home / "lib" / ".complete").touch()


def _home(version: str) -> Path:
    return peers_directory() / f"spark-kafka-{version}"


def _pom(version: str) -> str:
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>semel</groupId><artifactId>peer-spark-kafka</artifactId>"
        "<version>1</version><packaging>pom</packaging>\n<dependencies><dependency><groupId>org.apache.spark</groupId>"
        f"<artifactId>{_ARTIFACTS[0]}</artifactId><version>{version}</version></dependency></dependencies></project>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.bench.spark_peer", description="Install the jars of Spark's Kafka connector."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="fetch the jars through Maven")
    installing.add_argument(
        "--if-possible", action="store_true", help="only say so where something is missing"
    )
    options = parser.parse_args(arguments)
    try:
        print(f"Spark's Kafka connector {spark_version()}: {install()}")
    except PeerMissingError as missing:
        print(f"Spark's Kafka connector is left out: {missing}", file=sys.stderr)
        return 0 if options.if_possible else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
