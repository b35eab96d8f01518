"""The log of `semel broker`: its format and levels, its first and last lines, and what it is told to a service manager.

Method: real processes. What clients do many times leaves no line: a load of sessions, transactions and connections shows it.
"""

import json
import signal
import socket
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from semel import Admin, Producer
from semel.client.values.administration import ConfigResource, ConfigResourceType
from support.broker.broker_process import PATIENCE_SECONDS, BrokerProcess, command, running_broker


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def load(broker: BrokerProcess) -> None:
    """What clients do all day: connections, idempotent and transactional sessions, transactions, requests."""
    host, port = broker.bootstrap.split(":")
    for number in range(20):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall((100).to_bytes(4, "big") + b"left inside a frame"[:number])
    for number in range(3):
        with Producer(bootstrap_servers=broker.bootstrap, transactional_id=f"job-{number}") as producer:
            producer.init_transactions()
            for _ in range(5):
                with producer.transaction():
                    producer.send("orders", b"one")
    with Producer(bootstrap_servers=broker.bootstrap) as producer:
        for _ in range(50):
            producer.send("orders", b"one").result()


def test_a_load_leaves_no_line_per_event_and_start_and_stop_one_each(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--log-format", "json") as broker:
        load(broker)
        code, _, err = broker.stop()
    assert code == 0
    said = lines(err)
    for line in said:
        assert datetime.fromisoformat(line["time"]).utcoffset() is not None
        assert {"level", "logger", "message"} <= line.keys()
    messages = [line["message"] for line in said if "kernel" not in line["message"]]
    assert [line["level"] for line in said] == ["INFO"] * len(said)
    begun, signalled, stopping, closed = messages
    assert begun.startswith("semel 0.")
    assert f"serves on {broker.bootstrap}" in begun
    assert signalled == "SIGTERM received"
    assert stopping.startswith("broker 1 stops: it waits up to 5 s for the requests of ")
    assert closed.startswith("broker 1 is closed after ")
    assert closed.endswith("the next start recovers nothing")


def test_debug_of_one_logger_shows_its_events_with_fields(tmp_path: Path) -> None:
    levels = ("--log-level", "WARN", "--log-level", "semel.broker.handlers=DEBUG")
    with running_broker(tmp_path, "--log-format", "json", *levels) as broker:
        load(broker)
        _, _, err = broker.stop()
    said = lines(err)
    assert {(line["level"], line["logger"]) for line in said} == {
        ("DEBUG", "semel.broker.handlers.init_producer_id")
    }
    assert {line["transactional_id"] for line in said} == {"job-0", "job-1", "job-2"}
    assert all(isinstance(line["producer_id"], int) and line["producer_epoch"] == 0 for line in said)


def test_a_level_changes_while_it_runs(tmp_path: Path) -> None:
    with running_broker(tmp_path, "--log-level", "ERROR") as broker:
        loggers = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1")
        with Admin(bootstrap_servers=broker.bootstrap) as admin:
            admin.incremental_alter_configs({loggers: {"semel.cli.broker": "INFO"}})
        _, _, err = broker.stop()
    assert [line.split(" ", 1)[1] for line in err.splitlines()] == ["INFO semel.cli.broker: SIGTERM received"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--log-level", "WRN"], "'WRN' is no level: did you mean WARN?"),
        (["--log-level", "9"], "'9' is no level; levels are DEBUG, INFO, WARN, ERROR, FATAL."),
        (["--log-level", "semel.nett=INFO"], "'semel.nett' is no logger"),
        (["--log-level", "kafka=INFO"], "'kafka' is no logger"),
        (["--log-level", "INFO", "--log-level", "ERROR"], "the level of all loggers is given twice."),
        (["--log-format", "xml"], "'xml' is not one of 'text', 'json'."),
    ],
)
def test_levels_and_formats_that_are_none(arguments: list[str], message: str) -> None:
    done = subprocess.run(
        command("broker", *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert done.returncode == 2
    assert message in done.stderr


def test_an_error_of_the_start_is_json_as_well(tmp_path: Path) -> None:
    arguments = ("--listen", "192.0.2.1:0", "--data-dir", str(tmp_path), "--log-format", "json")
    done = subprocess.run(
        command("broker", *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = lines(done.stderr)
    assert line["level"] == "CRITICAL"
    assert line["message"].startswith("cannot listen on 192.0.2.1:0: ")


def test_the_environment_names_options_and_the_command_line_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEMEL_BROKER_ID", "7")
    monkeypatch.setenv("SEMEL_LOG_FORMAT", "json")
    monkeypatch.setenv("SEMEL_LOG_LEVEL", "WARN semel.cli=INFO")
    monkeypatch.setenv("SEMEL_METRICS", "127.0.0.1:0")
    with running_broker(tmp_path / "one") as broker:
        assert broker.ready_line.startswith("semel broker 7 ready on ")
        _, _, err = broker.stop(signal.SIGINT)
    assert [line["message"] for line in lines(err)] == ["SIGINT received"]
    with running_broker(tmp_path / "two", "-X", "node.id=8", "--log-format", "text") as broker:
        assert broker.ready_line.startswith("semel broker 8 ready on ")
        _, _, err = broker.stop()
    assert " INFO semel.cli.broker: SIGTERM received" in err


def test_a_service_manager_is_told_of_ready_and_of_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(PATIENCE_SECONDS)
        with running_broker(tmp_path / "data") as broker:
            told = [manager.recv(4096).decode().splitlines()]
            assert told[0][0] == "WATCHDOG=1", "it lives, and is given the time it needs"
            assert "EXTEND_TIMEOUT_USEC=30000000" in told[0]
            while told[-1] == told[0] or len(told) < 5:
                told.append(manager.recv(4096).decode().splitlines())
            assert ["READY=1", f"STATUS=serves on {broker.bootstrap}"] in told
            assert told[-1] == ["WATCHDOG=1"]
            assert broker.stop()[0] == 0
        while told[-1][0] != "STOPPING=1":
            told.append(manager.recv(4096).decode().splitlines())
        assert told.count(["READY=1", f"STATUS=serves on {broker.bootstrap}"]) == 1
