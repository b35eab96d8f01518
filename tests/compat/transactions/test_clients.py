"""Transactions with the clients people have: commit, abort, offsets, fencing; and what readers see of them.

Method: the same stories with confluent-kafka (librdkafka), kafka-python, aiokafka, Java's client in two versions and ours against
one broker; what is visible is asked of confluent-kafka and kafka-python, what is stored is read from the files.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from support.compat.compat_kit import ThreadBroker, batches, eventually, stored
from support.transactions.transaction_clients import (
    ALL_PRODUCERS,
    FencedOutError,
    TransactionalProducer,
    committed_offset,
    end_offset,
    read,
)
from support.transactions.transaction_java import JavaProducer

# Java 4.3 and ours speak the second protocol (KIP-890), the others the first.
pytestmark = pytest.mark.mission("EXT-01", "R-24")

Make = Callable[[str, str], TransactionalProducer]
_BY_NAME = {one.name: one for one in ALL_PRODUCERS}
_JAVA = [pytest.param(name, marks=pytest.mark.java) for name in ("java_4_3", "java_3_9")]


@pytest.fixture(params=[*_BY_NAME, *_JAVA])
def make(request: pytest.FixtureRequest) -> Make:
    if request.param in _BY_NAME:
        return _BY_NAME[request.param]
    return partial(JavaProducer, shell=request.getfixturevalue(request.param))


@pytest.fixture
def producer(make: Make, broker: ThreadBroker, topic: str) -> Iterator[TransactionalProducer]:
    running = make(broker.bootstrap, f"of {topic}")
    yield running
    running.close()


@pytest.mark.mission(
    "TXN-02",
    "TXN-08",
    "TXN-09",
    "TXN-17",
    "TXP-08",
    "TXP-14",
    "READ-01",
    "READ-14",
    "READ-16",
    "R-29",
    "R-50",
)
def test_readers_see_what_was_committed(
    producer: TransactionalProducer, broker: ThreadBroker, topic: str
) -> None:
    """Also: records are in the log before the end, an abort does not remove them, the end a reader is told is the last
    stable offset, and every end leaves a marker behind on each partition it touched that nobody reads as a record."""
    bootstrap = broker.bootstrap
    seen: list[bytes] = []
    for number in range(6):
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, partition, b"%d" % number)
        producer.flush()
        everything = [b"%d" % earlier for earlier in range(number + 1)]
        assert read(bootstrap, topic, 0, committed=False) == everything
        assert read(bootstrap, topic, 0, committed=True) == seen
        assert end_offset(bootstrap, topic, 0, committed=True) == 2 * number
        assert end_offset(bootstrap, topic, 0, committed=False) == 2 * number + 1
        if number % 2:
            producer.abort()
        else:
            producer.commit()
            seen.append(b"%d" % number)
        for partition in (0, 1):
            assert read(bootstrap, topic, partition, committed=True) == seen
    assert read(bootstrap, topic, 0, committed=False) == [b"%d" % number for number in range(6)]
    assert len(stored(broker.directory, topic)) == 12  # A marker for each.
    for partition in (0, 1):
        headers = [header for header, _records in batches(broker.directory, topic, partition)]
        assert [header.is_control for header in headers] == [False, True] * 6
    assert list(batches(broker.directory, topic, 2)) == []


def test_offsets_are_part_of_it(producer: TransactionalProducer, broker: ThreadBroker, topic: str) -> None:
    """Consume, transform, produce: the position moves with the output, or not at all."""
    group = f"group of {topic}"
    for number, commit in ((1, True), (2, False), (3, True)):
        producer.begin()
        producer.send(topic, 0, b"out %d" % number)
        producer.send_offset(group, topic, 2, number)
        if commit:
            producer.commit()
        else:
            producer.abort()
        expected = number if commit else number - 1
        assert committed_offset(broker.bootstrap, group, topic, 2) == expected
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"out 1", b"out 3"]


def test_the_second_instance_fences_the_first(make: Make, broker: ThreadBroker, topic: str) -> None:
    first = make(broker.bootstrap, f"of {topic}")
    first.begin()
    first.send(topic, 0, b"of a zombie")
    first.flush()
    second = make(broker.bootstrap, f"of {topic}")
    second.begin()
    second.send(topic, 0, b"of the owner")
    with pytest.raises(FencedOutError):
        first.commit()
    second.commit()
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"of the owner"]
    second.close()
    first.close()


@pytest.mark.mission("FEN-05")
def test_one_after_the_other_may_share_an_id(make: Make, broker: ThreadBroker, topic: str) -> None:
    for number in range(3):
        one = make(broker.bootstrap, f"of {topic}")
        one.begin()
        one.send(topic, 0, b"%d" % number)
        one.commit()
        one.close()
    assert read(broker.bootstrap, topic, 0, committed=True) == [b"0", b"1", b"2"]


@pytest.mark.mission("TXP-04")
def test_what_an_instance_left_open_is_aborted_for_the_next(
    make: Make, broker: ThreadBroker, topic: str
) -> None:
    first = make(broker.bootstrap, f"of {topic}")
    first.begin()
    first.send(topic, 0, b"left")
    first.flush()
    second = make(broker.bootstrap, f"of {topic}")  # `first` is as good as dead.
    eventually(
        lambda: (
            end_offset(broker.bootstrap, topic, 0, committed=True)
            == end_offset(broker.bootstrap, topic, 0, committed=False)
        ),
        "the last stable offset moved on",
    )
    assert read(broker.bootstrap, topic, 0, committed=True) == []
    second.close()
    first.close()
