"""What outlives a producer's session, and what does not: idempotence alone, a transactional id, the position beside the work.

Method: a program sends its work, dies before it knows that it is done, is started again and does the work again, once in each
of the ways a program can be written. What readers see then is the difference between these ways.
"""

import confluent_kafka
import pytest

from support.compat.compat_kit import ThreadBroker, batches, copies
from support.transactions.transaction_clients import (
    DEADLINE_SECONDS,
    ConfluentKafka,
    FencedOutError,
    committed_offset,
    read,
)

WORK = [b"1", b"2", b"3"]


def idempotent_session(broker: ThreadBroker, topic: str) -> None:
    """A producer without a transactional id that does the work."""
    producer = confluent_kafka.Producer(
        {"log_level": 0, "bootstrap.servers": broker.bootstrap, "enable.idempotence": True}
    )
    for value in WORK:
        producer.produce(topic, value=value, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0


def open_transaction(broker: ThreadBroker, topic: str) -> ConfluentKafka:
    """An instance of the topic's transactional id that has done the work, and not committed it."""
    producer = ConfluentKafka(broker.bootstrap, f"of {topic}")
    producer.begin()
    for value in WORK:
        producer.send(topic, 0, value)
    producer.flush()
    return producer


@pytest.mark.mission("IDEM-06", "IDEM-18", "FEN-08", "FEN-09", "R-04", "R-49")
def test_a_session_and_many_sessions(broker: ThreadBroker, topic: str) -> None:
    """Without a transactional id: a new producer id at sequence 0, and the work is there twice. With one: the same producer
    id, the first instance is fenced, and the work is seen once."""
    alone, together = f"{topic}-alone", f"{topic}-together"
    for _ in range(2):
        idempotent_session(broker, alone)
    headers = [header for header, _records in batches(broker.directory, alone)]
    ids = list(dict.fromkeys(header.producer_id for header in headers))
    assert len(ids) == 2
    assert {header.producer_epoch for header in headers} == {0}
    for producer_id in ids:
        first = next(header for header in headers if header.producer_id == producer_id)
        assert first.base_sequence == 0
    assert read(broker.bootstrap, alone, 0, committed=True) == WORK + WORK
    assert set(copies(broker.directory, alone).values()) == {2}

    crashed = open_transaction(broker, together)
    successor = open_transaction(broker, together)
    with pytest.raises(FencedOutError):
        crashed.commit()
    successor.commit()
    data = [header for header, _records in batches(broker.directory, together) if not header.is_control]
    assert len({header.producer_id for header in data}) == 1
    epochs = sorted({header.producer_epoch for header in data})
    assert len(epochs) == 2
    for epoch in epochs:
        first = next(header for header in data if header.producer_epoch == epoch)
        assert first.base_sequence == 0
    assert read(broker.bootstrap, together, 0, committed=True) == WORK
    assert read(broker.bootstrap, together, 0, committed=False) == WORK + WORK


@pytest.mark.mission("R-49")
def test_committed_work_is_repeated_unless_its_position_is_part_of_it(
    broker: ThreadBroker, topic: str
) -> None:
    """The program dies after the commit and before it knows: only the position in the transaction tells its successor."""
    source, without, within = f"{topic}-source", f"{topic}-without", f"{topic}-within"
    idempotent_session(broker, source)
    for _ in range(2):
        open_transaction(broker, without).commit()
    assert read(broker.bootstrap, without, 0, committed=True) == WORK + WORK

    group = f"group of {topic}"
    for _ in range(2):
        done = max(0, committed_offset(broker.bootstrap, group, source, 0))
        producer = ConfluentKafka(broker.bootstrap, f"of {within}")
        for position, value in enumerate(WORK[done:], done):
            producer.begin()
            producer.send(within, 0, value)
            producer.send_offset(group, source, 0, position + 1)
            producer.commit()
    assert read(broker.bootstrap, within, 0, committed=True) == WORK
