"""A Spark process that waits for its brokers says so: the client that sources and planners share, without a JVM.

Method: the process's client in front of nobody; what it logs before it gives up, and what it raises then.
"""

import logging
import socket

import pytest

from semel.errors import UnreachableError
from semel.spark.source import broker_client
from semel.spark.source.broker_client import client_for
from semel.spark.source.options import Subscribe


def test_a_reader_of_nobody_says_so_while_it_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(broker_client, "UNREACHABLE_PATIENCE_MS", 3000)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        bootstrap = f"127.0.0.1:{taken.getsockname()[1]}"
        client = client_for({"bootstrap.servers": bootstrap, "client.id": "spark-semel-source"})
        try:
            with (
                caplog.at_level(logging.WARNING, "semel"),
                pytest.raises(UnreachableError, match=f"nobody listens at {bootstrap}"),
            ):
                client.partitions(Subscribe(("orders",)))
        finally:
            client.close()
    said = f"spark-semel-source: no broker of {bootstrap} can be reached (nobody listens at {bootstrap})"
    assert caplog.messages[0].startswith(f"{said}: start a broker there, or set bootstrap.servers")
    assert 1 < len(caplog.messages) < 5
