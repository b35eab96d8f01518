"""Where the broker stamps records, it stamps the markers of transactions too: as Kafka's own files show.

Method: the same transactions by the same client against both brokers, on a topic with the broker's time; the batches' headers are
read from the files.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from semel.core.records.batch import headers
from semel.peers.kafka import KafkaHome
from support.compat.compat_kit import ThreadBroker

SECONDS = 60


@pytest.mark.java
def test_a_marker_has_the_brokers_time_where_records_have(kafka_home: KafkaHome, tmp_path: Path) -> None:
    with ExitStack() as stack:
        ours = stack.enter_context(ThreadBroker(tmp_path / "semel"))
        theirs = stack.enter_context(kafka_home.broker(tmp_path / "kafka"))
        for bootstrap in (ours.bootstrap, f"127.0.0.1:{theirs.port}"):
            transact(bootstrap)
    mine, kafkas = shapes(tmp_path / "semel"), shapes(tmp_path / "kafka" / "data")
    assert mine == kafkas
    assert [(control, stamped) for control, stamped, _count in mine] == [
        (False, True),
        (True, True),
        (False, True),
        (True, True),
    ]


def transact(bootstrap: str) -> None:
    """One transaction is committed, one aborted."""
    topic = NewTopic("stamped", 1, 1, config={"message.timestamp.type": "LogAppendTime"})
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([topic]).values():
        made.result(SECONDS)
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    producer.init_transactions(SECONDS)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce("stamped", b"v", timestamp=5)
        producer.flush(SECONDS)
        end(SECONDS)
    # Whoever takes over the id waits until the last marker is written.
    Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"}).init_transactions(SECONDS)


def shapes(directory: Path) -> list[tuple[bool, bool, int]]:
    """Of each batch: whether it is a marker, whether the broker stamped it, how many records it has."""
    [path] = (directory / "stamped-0").glob("*.log")
    data = path.read_bytes()
    return [
        (header.is_control, header.timestamp_type.name == "LOG_APPEND_TIME", header.records_count)
        for _position, header in headers(data)
    ]
