"""A broker's process is killed, stopped and continued for real, and its data outlives it.

Method: a record is produced; the broker is stopped, and a question finds no answer; it goes on, and has one. After kill -9 the
next process has the record. A broker that was stopped can still be ended.
"""

from pathlib import Path

import pytest

from semel import Admin, OffsetSpec, Producer
from semel.exceptions import KafkaException
from semel.types import TopicPartition
from semel.verify.demo.processes import BrokerProcess, DemoFailedError


def end_offset(bootstrap: str, timeout_ms: int) -> int:
    where = TopicPartition("notes", 0)
    with Admin(
        bootstrap_servers=bootstrap, default_api_timeout_ms=timeout_ms, request_timeout_ms=timeout_ms
    ) as admin:
        found = admin.list_offsets({where: OffsetSpec.latest()})[where].offset
    assert found is not None
    return found


def test_a_broker_is_stopped_continued_and_killed(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"num.partitions": "1"})
    broker.start()
    try:
        with Producer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("notes", b"kept").result()
        broker.pause()
        with pytest.raises(KafkaException):
            end_offset(broker.bootstrap, 500)
        broker.resume()
        assert end_offset(broker.bootstrap, 60_000) == 1
        broker.kill()
        assert broker.code is None  # It is not meant to run.
        broker.start()
        assert end_offset(broker.bootstrap, 60_000) == 1
        broker.pause()
    finally:
        broker.stop()


def test_a_broker_that_cannot_start_says_why(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data", {"num.partitions": "none"})
    with pytest.raises(DemoFailedError, match=r"num\.partitions"):
        broker.start()
    broker.stop()
