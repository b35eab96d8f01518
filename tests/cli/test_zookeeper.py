"""`semel zookeeper` serves a real client, keeps what it was told, ends at a signal, and says in one line what it cannot do.

Method: the command as a process; kazoo writes, the process ends and starts again on its data, kazoo reads.
"""

import contextlib
import importlib.util
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from kazoo.client import KazooClient

from semel.cli.main import cli

PATIENCE_SECONDS = 150


@contextlib.contextmanager
def running(directory: Path, listen: str = "127.0.0.1:0") -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """The process, and where it says that it serves."""
    process = subprocess.Popen(
        [sys.executable, "-m", "semel", "zookeeper", "--listen", listen, "--data-dir", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("zookeeper ready on 127.0.0.1:"), line + process.communicate()[1]
        yield process, line.split()[-1]
    finally:
        process.terminate()  # Killed, it could not end its Java process.
        process.communicate(timeout=PATIENCE_SECONDS)


@contextlib.contextmanager
def kazoo(address: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address)
    client.start(timeout=PATIENCE_SECONDS)
    try:
        yield client
    finally:
        client.stop()
        client.close()


def test_it_keeps_what_it_was_told_through_a_signal(tmp_path: Path) -> None:
    with running(tmp_path / "zk") as (process, address):
        with kazoo(address) as client:
            client.create("/kept", b"1")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=5)
    with running(tmp_path / "zk") as (_process, address), kazoo(address) as client:
        assert client.get("/kept")[0] == b"1"


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = CliRunner().invoke(
            cli, ["zookeeper", "--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path)]
        )
    assert isinstance(done.exception, Exception)
    assert f"cannot listen on 127.0.0.1:{port}" in str(done.exception)


@pytest.mark.parametrize("listen", ["2181", "host:", "host:99999", ":2181", "host:port"])
def test_a_wrong_address_is_a_mistake_of_the_caller(listen: str) -> None:
    done = CliRunner().invoke(cli, ["zookeeper", "--listen", listen])
    assert done.exit_code == 2
    assert f"{listen!r} is no HOST:PORT" in done.output


def test_without_pyspark_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pyspark" else real(name))
    done = CliRunner().invoke(cli, ["zookeeper", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path)])
    assert "pip install 'semel[spark]'" in str(done.exception)
