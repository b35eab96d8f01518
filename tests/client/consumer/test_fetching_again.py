"""A fetch whose answer cannot be understood is reported, and what it asked for is asked for again.

Method: the first answer to a Fetch is spoiled on its way up; the reader on a real broker gets its record all the same.
"""

import logging
import time
from typing import Any

import pytest

from semel import Broker, Consumer, Producer
from semel.client.cluster import Cluster
from semel.core.wire.messages.fetch import FetchRequest
from semel.errors import WireError


def test_an_answer_that_is_none_ends_no_reading(
    semel_broker: Broker, semel_topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Producer(bootstrap_servers=semel_broker.bootstrap) as producer:
        producer.send(semel_topic, b"read", partition=0).result(60)
    send = Cluster.send
    spoiled: list[FetchRequest] = []

    async def spoils_one(self: Cluster, request: Any, **how: Any) -> Any:
        answer = await send(self, request, **how)
        if isinstance(request, FetchRequest) and not spoiled:
            spoiled.append(request)
            raise WireError("3 bytes are missing")
        return answer

    monkeypatch.setattr(Cluster, "send", spoils_one)
    with (
        caplog.at_level(logging.ERROR),
        Consumer(bootstrap_servers=semel_broker.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([(semel_topic, 0)])
        deadline, got = time.monotonic() + 60, list[Any]()
        while not got and time.monotonic() < deadline:
            got = list(consumer.poll(timeout_ms=1000))
    assert [record.value for record in got] == [b"read"]
    assert spoiled
    assert "fetch from 1 failed" in caplog.text
