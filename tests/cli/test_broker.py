"""`semel broker`: it says when it serves, stops when told, keeps its data, and answers mistakes with one clear line.

Method: real processes on free ports. The ready line is what tests wait for; nothing sleeps.
"""

import re
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path
from typing import Protocol

import pytest

from semel import Producer
from support.broker.broker_process import PATIENCE_SECONDS, command, running_broker
from support.broker.prometheus_kit import of, read_page


class Failed(Protocol):
    def __call__(self, *arguments: str) -> str: ...


@pytest.fixture
def failed(tmp_path_factory: pytest.TempPathFactory) -> Failed:
    """Starts a broker that cannot start; the one line it leaves, and it must leave no other."""

    def start(*arguments: str) -> str:
        done = subprocess.run(
            command("broker", *arguments),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
            cwd=tmp_path_factory.mktemp("elsewhere"),
        )
        return _one_line(done)

    return start


def _one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode in (1, 2), (done.returncode, done.stderr)
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    if done.returncode == 1:
        assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def stored(bootstrap: str, *values: bytes) -> list[int]:
    """The offsets at which they lie."""
    with Producer(bootstrap_servers=bootstrap) as producer:
        sent = [producer.send("orders", value) for value in values]
    return [one.result().offset for one in sent]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_once_that_it_is_ready_and_a_signal_ends_it_in_order(
    tmp_path: Path, number: signal.Signals
) -> None:
    with running_broker(tmp_path / "data", "--broker-id", "7") as broker:
        assert re.fullmatch(r"semel broker 7 ready on 127\.0\.0\.1:[1-9]\d*", broker.ready_line)
        assert stored(broker.bootstrap, b"one") == [0]
        code, out, err = broker.stop(number)
    assert (code, out) == (0, "")
    assert "Traceback" not in err
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_with_metrics_a_second_line_says_where_they_are(tmp_path: Path) -> None:
    begun = time.time()
    with running_broker(tmp_path / "data", "--metrics", "127.0.0.1:0") as broker:
        assert broker.process.stdout is not None
        line = broker.process.stdout.readline().rstrip("\n")
        found = re.fullmatch(r"semel broker 1 metrics on (http://127\.0\.0\.1:[1-9]\d*/metrics)", line)
        assert found, line
        assert stored(broker.bootstrap, b"one") == [0]
        with urllib.request.urlopen(found[1], timeout=PATIENCE_SECONDS) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            page = read_page(answer.read().decode())
        assert of(page, "kafka_server_brokertopicmetrics_messagesinpersec", topic="orders") == 1
        assert of(page, "process_resident_memory_bytes") > 1 << 20
        assert of(page, "process_cpu_seconds_total") > 0
        assert abs(of(page, "process_start_time_seconds") - begun) < 3600, "in this system's time"
        assert 0 < of(page, "process_open_fds") < of(page, "process_max_fds")
        code, out, err = broker.stop()
    assert (code, out) == (0, "")
    assert "Traceback" not in err


def test_metrics_nowhere_or_at_a_port_that_is_taken_are_one_line(tmp_path: Path, failed: Failed) -> None:
    assert "expected HOST:PORT" in failed("--metrics", "9404", "--data-dir", str(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = failed("--listen", "127.0.0.1:0", "--metrics", address, "--data-dir", str(tmp_path))
    assert line.startswith(f"semel: cannot serve metrics on {address}: ")
    assert "port 0 picks a free one" in line


def test_compiled_kernels_come_once_it_serves(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert stored(broker.bootstrap, b"checked in Python, or not any more") == [0]
        assert broker.process.stderr is not None
        assert any("compiled kernels are in use" in line for line in broker.process.stderr)
        assert stored(broker.bootstrap, b"checked by a kernel") == [1]
        assert broker.stop()[0] == 0


def test_what_it_stored_is_there_after_a_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert stored(broker.bootstrap, b"one", b"two") == [0, 1]
        broker.stop()
    with running_broker(tmp_path) as broker:
        assert stored(broker.bootstrap, b"three") == [2]


def test_a_kill_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert stored(broker.bootstrap, b"one", b"two") == [0, 1]
        broker.stop(signal.SIGKILL)
    with running_broker(tmp_path) as broker:
        assert stored(broker.bootstrap, b"three") == [2]


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(
        f"# Kafka's own format\nbroker.id=3\nlisteners=PLAINTEXT://127.0.0.1:1\nlog.dir={tmp_path / 'other'}\n"
        "num.partitions = 5\n"
    )
    with running_broker(tmp_path / "data", "--config", str(file), "-X", "num.partitions=2") as broker:
        assert broker.ready_line.startswith("semel broker 3 ready on 127.0.0.1:")
        stored(broker.bootstrap, b"one")
        broker.stop()
    assert sorted(one.name for one in (tmp_path / "data").glob("orders-*")) == ["orders-0", "orders-1"]
    assert not (tmp_path / "other").exists()


def test_a_port_in_use(tmp_path: Path, failed: Failed) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = failed("--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path))
    assert line == (
        f"semel: cannot listen on 127.0.0.1:{port}: Address already in use; stop what uses it or choose another "
        "with --listen HOST:PORT (port 0 picks a free one)"
    )


def test_a_host_that_is_not_this_machine(tmp_path: Path, failed: Failed) -> None:
    line = failed("--listen", "192.0.2.1:0", "--data-dir", str(tmp_path))
    assert line.startswith("semel: cannot listen on 192.0.2.1:0: ")
    assert "--listen HOST:PORT" in line


def test_a_directory_another_broker_uses(tmp_path: Path, failed: Failed) -> None:
    with running_broker(tmp_path):
        line = failed("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert line == (
        f"semel: {tmp_path}/.lock is locked: another broker uses this directory; stop it or choose another one"
    )


def test_a_directory_of_another_broker_id(tmp_path: Path, failed: Failed) -> None:
    with running_broker(tmp_path, "--broker-id", "3") as broker:
        broker.stop()
    line = failed("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path), "--broker-id", "4")
    assert line == (
        f"semel: {tmp_path} belongs to broker 3, this is broker 4: use its --broker-id or another --data-dir"
    )


def test_a_directory_with_the_metadata_of_another_cluster(tmp_path: Path, failed: Failed) -> None:
    for name in ("one", "other"):
        with running_broker(tmp_path / name) as broker:
            broker.stop()
    mine, foreign = tmp_path / "one" / "meta.properties", tmp_path / "other" / "meta.properties"
    own_id, foreign_id = (re.findall(r"cluster.id=(\S+)", file.read_text())[0] for file in (mine, foreign))
    kept = mine.read_text()
    mine.write_text(foreign.read_text())
    line = failed("--listen", "127.0.0.1:0", "--data-dir", str(mine.parent))
    assert line == (
        f"semel: {mine.parent} is of two clusters: meta.properties says cluster.id={foreign_id}, its metadata {own_id}; "
        f"bring the right files back, set cluster.id={own_id} if they are, or use another --data-dir"
    )
    mine.write_text(kept)
    with running_broker(mine.parent) as broker:
        broker.stop()


def test_a_directory_that_cannot_be_written(tmp_path: Path, failed: Failed) -> None:
    (tmp_path / "file").write_text("in the way")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        line = failed("--listen", "127.0.0.1:0", "--data-dir", str(path))
        assert line.startswith(f"semel: the data directory {path} cannot be used: "), line
        assert line.endswith("choose another with --data-dir DIR")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["-X", "num.partition=3"],
            "num.partition is not a setting of a broker: did you mean num.partitions?",
        ),
        (
            ["-X", "num.partitions=many"],
            "Invalid value many for configuration num.partitions: Not a number of type INT",
        ),
        (["-X", "retention.ms"], "'retention.ms' is not key=value."),
        (["-X", "num.partitions=1", "-X", "num.partitions=2"], "num.partitions is given twice: '1' and '2'."),
        (["--listen", "9092"], "'9092' is no HOST:PORT, as 127.0.0.1:9092."),
        (["--listen", "host:port"], "expected PLAINTEXT://HOST:PORT with a port from 0 to 65535"),
        (["--listen", "127.0.0.1:0", "-X", "listeners=PLAINTEXT://:1"], "name one thing: keep one."),
        (["--broker-id", "-1"], "-1 is not in the range"),
        (["--quorum", "localhost:2181"], "No such option"),
        (
            ["--config", "/nowhere/server.properties"],
            "/nowhere/server.properties cannot be read: No such file",
        ),
    ],
)
def test_settings_that_cannot_be(failed: Failed, arguments: list[str], message: str) -> None:
    assert message in failed(*arguments)


def test_a_config_file_with_a_line_that_is_none(tmp_path: Path, failed: Failed) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=1\n\nthis is not a setting\n")
    assert failed("--config", str(file)) == f"semel: {file}, line 3: 'this is not a setting' is not key=value"
