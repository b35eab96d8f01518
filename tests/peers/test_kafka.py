"""Apache Kafka as a peer: found where it is, missed with a way to get it, started on free ports.

Method: the real installation for what runs, an empty cache for what is missing.
"""

import socket
from pathlib import Path

import pytest

from semel.peers import kafka as kafka_peer
from semel.peers.kafka import KafkaHome, PeerFailedError, PeerMissingError


def test_a_missing_installation_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEMEL_PEERS", str(tmp_path))
    monkeypatch.setattr(kafka_peer, "java", lambda: "java")
    with pytest.raises(
        PeerMissingError,
        match=r"Kafka 9\.9\.9 is not installed: run 'python -m semel\.peers\.kafka install 9\.9\.9'",
    ):
        kafka_peer.find("9.9.9")


def test_without_java_or_maven_nothing_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEMEL_PEERS", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kafka_peer.main(["install", "9.9.9"]) == 1
    assert kafka_peer.main(["install", "--if-possible", "9.9.9"]) == 0
    assert "Java is not installed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_older_installation_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was made for other jars than those we want today: missed, then replaced as a whole."""
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\nmkdir lib && touch lib/fetched.jar\n")
    maven.chmod(0o755)
    monkeypatch.setenv("SEMEL_PEERS", str(tmp_path / "peers"))
    monkeypatch.setenv("PATH", f"{maven.parent}:/usr/bin:/bin")
    monkeypatch.setattr(kafka_peer, "java", lambda: "java")
    home = tmp_path / "peers" / "kafka-9.9.9"
    (home / "lib").mkdir(parents=True)
    (home / "lib" / ".complete").touch()
    (home / "lib" / "old.jar").touch()
    (home / "pom.xml").write_text("<project/>")
    with pytest.raises(
        PeerMissingError, match=r"without jars we need: run 'python -m semel\.peers\.kafka install"
    ):
        kafka_peer.find("9.9.9")
    assert kafka_peer.install("9.9.9") == kafka_peer.find("9.9.9")
    assert sorted(path.name for path in (home / "lib").iterdir()) == [".complete", "fetched.jar"]
    assert [path.name for path in home.parent.iterdir()] == ["kafka-9.9.9"]


@pytest.mark.java
@pytest.mark.timeout(600)
def test_a_broker_starts_serves_and_keeps_its_data(kafka_home: KafkaHome, tmp_path: Path) -> None:
    with kafka_home.broker(tmp_path, num_partitions="3") as broker:
        host, _colon, port = broker.bootstrap.partition(":")
        socket.create_connection((host, int(port)), timeout=30).close()
        process = broker.process
    assert process is not None
    assert process.poll() is not None
    assert "num.partitions=3" in (tmp_path / "server.properties").read_text()
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.java
def test_a_tool_that_fails_says_what_it_said(kafka_home: KafkaHome) -> None:
    with pytest.raises(PeerFailedError, match=r"no\.such\.Tool ended with 1"):
        kafka_home.run("no.such.Tool")
