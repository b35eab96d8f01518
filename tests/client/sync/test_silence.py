"""A script without any logging set up sees on standard error what its client waits for, and soon.

Method: real scripts in processes of their own, in front of addresses where nobody, somebody else, or nobody in time answers.
The first line is waited for, and the script is ended then. The scripts say themselves when they began to wait.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from semel import Broker

_PRELUDE = """
import logging, sys, time
import semel
bootstrap = sys.argv[1]
class Clock(logging.Filter):
    def filter(self, record):
        record.msg = f"after {time.monotonic() - began:.3f} s: {record.msg}"
        return True
logging.getLogger("semel.client.troubles").addFilter(Clock())
client = semel.{kind}
began = time.monotonic()
"""
CONSUMER = 'Consumer(bootstrap_servers=bootstrap, group_id="g")', 'client.subscribe(["orders"])\n'
LOOP = "for record in client:\n    pass\n"
PRODUCER = "Producer(bootstrap_servers=bootstrap)", 'client.send("orders", b"x")\n'
PATIENCE_SECONDS = 60.0


def first_line(kind: str, script: str, bootstrap: str) -> tuple[float, str]:
    """The first line the script writes to standard error: how long it had waited, and the words."""
    process = subprocess.Popen(
        [sys.executable, "-c", _PRELUDE.replace("{kind}", kind) + script, bootstrap],
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"},
    )
    guard = threading.Timer(PATIENCE_SECONDS, process.kill)
    guard.start()
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
    finally:
        guard.cancel()
        process.kill()
        process.communicate()
    who, after, rest = line.partition("after ")
    assert after, f"nothing was said within {PATIENCE_SECONDS} s: {line!r}"
    seconds, _, words = rest.partition(" s: ")
    return float(seconds), f"{who}{words.strip()}"


def nobody() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that is no broker: it says this and closes, or with None listens and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer or b"")

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("kind", "script"), [(CONSUMER[0], CONSUMER[1] + LOOP), PRODUCER], ids=["consumer", "producer"]
)
def test_nobody_is_there(kind: str, script: str) -> None:
    bootstrap = nobody()
    seconds, words = first_line(kind, script, bootstrap)
    assert seconds < 5  # On a busy machine; in a simulation it is less than one.
    assert f"no broker of {bootstrap} can be reached (nobody listens at {bootstrap})" in words
    assert "start a broker there, or set bootstrap.servers" in words


def test_a_name_that_does_not_resolve() -> None:
    _, words = first_line(CONSUMER[0], CONSUMER[1] + LOOP, "no-such-host.invalid:9092")
    assert "no broker of no-such-host.invalid:9092 can be reached (no-such-host.invalid:9092: " in words


def test_a_port_where_something_else_answers() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as bootstrap:
        _, words = first_line(CONSUMER[0], CONSUMER[1] + LOOP, bootstrap)
        assert f"no broker of {bootstrap} can be reached" in words
        assert "security.protocol" in words or "set bootstrap.servers" in words


@pytest.mark.parametrize(
    ("kind", "script"), [(CONSUMER[0], CONSUMER[1] + LOOP), PRODUCER], ids=["consumer", "producer"]
)
def test_a_port_where_nothing_is_ever_said(kind: str, script: str) -> None:
    with answering(None) as bootstrap:
        seconds, words = first_line(kind, script, bootstrap)
        assert seconds < 5
        assert f"{bootstrap} does not answer: set bootstrap.servers to a broker's listener" in words


@pytest.mark.parametrize(
    ("kind", "script"), [(CONSUMER[0], CONSUMER[1] + LOOP), PRODUCER], ids=["consumer", "producer"]
)
def test_a_missing_topic(kind: str, script: str) -> None:
    with Broker(auto_create_topics_enable=False) as broker:
        seconds, words = first_line(kind, script, broker.bootstrap)
        assert seconds < 5
        assert f"topic orders does not exist at {broker.bootstrap}: create it, or correct its name" in words


def test_tls_that_the_broker_does_not_speak() -> None:
    with Broker() as broker:
        kind = 'Consumer(bootstrap_servers=bootstrap, group_id="g", security_protocol="SSL")'
        quiet = CONSUMER[1] + (
            "while True:\n    try:\n        client.poll(100)\n    except semel.KafkaException:\n        pass\n"
        )
        _, words = first_line(kind, quiet, broker.bootstrap)
        assert broker.bootstrap in words


@pytest.mark.parametrize(
    "command", [["topics", "list"], ["consume", "orders"], ["groups", "list"], ["offsets", "show", "orders"]]
)
def test_a_command_without_a_broker_says_so_in_a_line(command: list[str]) -> None:
    bootstrap, since = nobody(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", "from semel.cli.main import main; main()", *command, "-b", bootstrap],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert time.monotonic() - since < PATIENCE_SECONDS
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"semel: no broker of {bootstrap} can be reached (nobody listens at {bootstrap})")
