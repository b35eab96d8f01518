"""Spark's own Kafka connector as a peer, and its Avro module: install their jars through Maven.

Role.   Tests compare `format("semel")` with `format("kafka")` and benchmarks measure beside it; tests of Avro need Spark's module for
        it. Nothing here is needed to use Semel. Needs Java 17+ and, to install, Maven.
Rules.  * Jars live where Kafka's do (`kafka`), one folder per version, complete or not there.
        * Only the connector's own jars are kept; what Spark brings itself is Spark's.

Usage.  python -m semel.peers.spark install [--if-possible]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from semel.peers.kafka import PeerMissingError, fetch_jars, java, peers_directory

CONNECTOR_VERSION: Final = "4.2.0"
"""The newest that Maven has; it runs on PySpark 4.2 and 4.3."""
AVRO_VERSION: Final = "4.1.1"
"""The newest that Maven has; it runs on PySpark 4.3."""
_CONNECTOR: Final = (
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", CONNECTOR_VERSION),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
)
_AVRO: Final = (("org.apache.spark", "spark-avro_2.13", AVRO_VERSION),)
"""Each alone: what they bring along is Spark's, and the repositories their parents name are not ours to trust."""


_Artifacts: TypeAlias = tuple[tuple[str, str, str], ...]
_PEERS: Final[Mapping[str, _Artifacts]] = {
    f"spark-kafka-{CONNECTOR_VERSION}": _CONNECTOR,
    f"spark-avro-{AVRO_VERSION}": _AVRO,
}


def connector_classpath() -> str:
    """The connector's jars, for `spark.driver.extraClassPath`; raises `PeerMissingError` if they are not there."""
    return _classpath(f"spark-kafka-{CONNECTOR_VERSION}")


def avro_classpath() -> str:
    """The jar of Spark's Avro module; raises `PeerMissingError` if it is not there."""
    return _classpath(f"spark-avro-{AVRO_VERSION}")


def install() -> list[Path]:
    """Fetch what is not there."""
    return [_install(name, artifacts) for name, artifacts in _PEERS.items()]


def _classpath(name: str) -> str:
    java()
    home = peers_directory() / name
    if not (home / "lib" / ".complete").exists():
        raise PeerMissingError(
            f"{name} is not installed: run 'python -m semel.peers.spark install' (needs Java 17+ and Maven)"
        )
    return f"{home / 'lib'}/*"


def _install(name: str, artifacts: _Artifacts) -> Path:
    target = peers_directory() / name
    if (target / "lib" / ".complete").exists():
        return target
    java()
    if shutil.which("mvn") is None:
        raise PeerMissingError(f"Maven is not installed: the jars of {name} come through it (command 'mvn')")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-") as beside:
        fetched = Path(beside) / "fetched"
        try:
            fetch_jars(fetched, _pom(name, artifacts))
        except subprocess.CalledProcessError as error:
            raise PeerMissingError(f"Maven could not fetch {name}: {error}") from error
        (fetched / "lib" / ".complete").touch()
        if not target.exists():  # Somebody else may have been as fast.
            fetched.rename(target)
    return target


def _pom(name: str, artifacts: _Artifacts) -> str:
    alone = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{alone}</dependency>\n"
        for group, artifact, version in artifacts
    )
    return (
        f"<project><modelVersion>4.0.0</modelVersion><groupId>semel</groupId><artifactId>peer-{name}</artifactId>"
        f"<version>1</version><packaging>pom</packaging>\n<dependencies>\n{dependencies}</dependencies></project>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line of this module."""
    parser = argparse.ArgumentParser(
        prog="python -m semel.peers.spark",
        description="Install the jars of Spark's Kafka connector and its Avro module.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    installing = commands.add_parser("install", help="fetch the jars through Maven")
    installing.add_argument(
        "--if-possible", action="store_true", help="only say so where something is missing"
    )
    options = parser.parse_args(arguments)
    try:
        for home in install():
            print(home)
    except PeerMissingError as missing:
        print(f"Jars of Spark are left out: {missing}", file=sys.stderr)
        return 0 if options.if_possible else 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
