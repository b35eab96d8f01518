"""`semel broker --zookeeper` joins a cluster, or says within seconds why it cannot, where, and what to do.

Method: the real command beside a real ZooKeeper. Each mistake of the table is one a new user makes; nothing may be changed by it.
"""

import asyncio
import base64
import contextlib
import hashlib
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel.cluster.zookeeper.client import Settings, ZooKeeperClient
from semel.cluster.zookeeper.connect_string import Servers
from semel.core.zookeeper.words import ALL_PERMISSIONS, Acl
from semel.runtime.bundle import real_runtime
from support.peers.zookeeper import real_zookeeper

pytestmark = pytest.mark.java
SECONDS = 60
QUICK = ("-X", "zookeeper.connection.timeout.ms=3000", "-X", "zookeeper.session.timeout.ms=4000")
USER = "semel:secret"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with real_zookeeper(tmp_path_factory.mktemp("zookeeper")) as port:
        yield port


def command(data: Path, broker_id: int | None, connect: str, *more: str) -> list[str]:
    words = [sys.executable, "-m", "semel", "broker", "--listen", "127.0.0.1:0", "--data-dir", str(data)]
    number = [] if broker_id is None else ["--broker-id", str(broker_id)]
    return [*words, *number, "--zookeeper", connect, *QUICK, *more]


@contextlib.contextmanager
def running(data: Path, broker_id: int | None, connect: str, *more: str) -> Iterator[tuple[int, int]]:
    """A member; its id, and its port."""
    process = subprocess.Popen(
        command(data, broker_id, connect, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"semel broker (\d+) ready on 127\.0\.0\.1:(\d+)\n", line)
        assert found is not None, line + process.communicate(timeout=SECONDS)[1]
        yield int(found[1]), int(found[2])
    finally:
        process.send_signal(signal.SIGTERM)
        _out, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said


def refused(data: Path, broker_id: int | None, connect: str, *more: str) -> str:
    """The last line of a broker that does not start."""
    begun = time.monotonic()
    done = subprocess.run(
        command(data, broker_id, connect, *more), capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - begun < SECONDS / 2
    return done.stderr.splitlines()[-1]


async def ask_zookeeper(port: int, path: str, acl: tuple[Acl, ...]) -> None:
    client = ZooKeeperClient(
        real_runtime(), Settings(Servers((("127.0.0.1", port),), "")), on_event=lambda _: None
    )
    await client.open()
    await client.create(path, b"", acl=acl)
    await client.close()


def test_a_broker_joins_and_comes_back_with_its_id_and_cluster(zookeeper: int, tmp_path: Path) -> None:
    connect = f"127.0.0.1:{zookeeper}/deep/chroot"
    with running(tmp_path / "data", None, connect) as (broker_id, _port):
        assert broker_id > 1000, "above reserved.broker.max.id, as in Kafka"
    properties = (tmp_path / "data" / "meta.properties").read_text()
    assert f"broker.id={broker_id}" in properties
    with running(tmp_path / "data", None, connect) as (again, _port):
        assert again == broker_id


def test_the_mistakes_of_joining(zookeeper: int, tmp_path: Path) -> None:
    connect = f"127.0.0.1:{zookeeper}/kafka"
    own, other = tmp_path / "own", tmp_path / "other"
    with running(own, 1, connect) as (_id, port):
        said = refused(other, 1, connect)
        assert "broker id 1 belongs to another broker" in said
        assert f"127.0.0.1:{port}" in said
        assert "another --broker-id" in said
        said = refused(other, 2, connect, "-X", f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}")
        assert f"127.0.0.1:{port} is registered by broker 1" in said
    said = refused(own, 2, connect)
    assert f"{own} belongs to broker 1, this is broker 2" in said
    said = refused(own, 1, f"127.0.0.1:{zookeeper}/wrong")
    assert "no cluster is at" in said
    assert "/wrong" in said
    with running(tmp_path / "third", 3, f"127.0.0.1:{zookeeper}/second"):
        said = refused(own, 1, f"127.0.0.1:{zookeeper}/second")
    assert "this broker's data belongs to cluster" in said
    alone = subprocess.run(
        [sys.executable, "-m", "semel", "broker", "--listen", "127.0.0.1:0", "--data-dir", str(own)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert alone.returncode == 1
    assert "under ZooKeeper" in alone.stderr.splitlines()[-1]


def test_the_mistakes_of_finding_zookeeper(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
        said = refused(tmp_path / "data", 1, nobody)
        assert f"no session with ZooKeeper at {nobody} within 3000 ms" in said
        assert "is --zookeeper right, and does it run?" in said
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        said = refused(tmp_path / "data", 1, f"127.0.0.1:{mute.getsockname()[1]}")
        assert "another server may listen at that port" in said
    said = refused(tmp_path / "data", 1, "127.0.0.1:2181,")
    assert "is no server; write HOST:PORT" in said
    for name, value, expected in (
        ("zookeeper.ssl.client.enable", "true", "TLS to ZooKeeper is not served"),
        ("zookeeper.set.acl", "true", "let the owner of the chroot set them"),
        ("semel.zookeeper.digest", "nobody", "is no USER:PASSWORD"),
        ("inter.broker.listener.name", "INTERNAL", "one listener is served, which is PLAINTEXT"),
        ("process.roles", "broker", "is of a cluster without ZooKeeper"),
    ):
        assert expected in refused(tmp_path / "data", 1, nobody, "-X", f"{name}={value}")
    assert not (tmp_path / "data").exists(), "nothing was made"


def test_access_lists_keep_out_a_broker_that_does_not_log_in(zookeeper: int, tmp_path: Path) -> None:
    digest = base64.b64encode(hashlib.sha1(USER.encode(), usedforsecurity=False).digest()).decode()
    only = (Acl(ALL_PERMISSIONS, "digest", f"semel:{digest}"),)
    asyncio.run(ask_zookeeper(zookeeper, "/closed", only))
    connect = f"127.0.0.1:{zookeeper}/closed"
    said = refused(tmp_path / "data", 1, connect)
    assert "does not permit" in said
    assert "/closed" in said or "chroot" in said
    wrong = refused(tmp_path / "data", 1, connect, "-X", "semel.zookeeper.digest=semel:wrong")
    assert "does not permit" in wrong
    with running(tmp_path / "data", 1, connect, "-X", f"semel.zookeeper.digest={USER}") as (broker_id, _port):
        assert broker_id == 1
