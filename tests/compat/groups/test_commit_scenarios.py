"""What a committed offset means: what is read again, what is lost, and what a running consumer ignores.

Method: consumers of three clients in a group, none of them ours, against one broker. Each story commits less, as much or more
than was processed, ends its consumer in order or by kill -9, and says exactly which offsets the next owner gets.
"""

import asyncio
import itertools
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection

import pytest

from compat_clients import PYTHON_CLIENTS
from compat_kit import Sent, ThreadBroker, eventually
from group_process import identity
from group_readers import READERS, ConfluentReader, Reader
from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.net.connection import connect
from semel.runtime.bundle import real_runtime

RECORDS = 12
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadBroker]:
    """Groups begin at once, and sessions may be short."""
    settings = {"group_initial_rebalance_delay_ms": "0", "group_min_session_timeout_ms": "1000"}
    with ThreadBroker(tmp_path_factory.mktemp("broker"), **settings) as running:
        yield running


@pytest.fixture(params=READERS)
def kind(request: pytest.FixtureRequest) -> type[Reader]:
    return READERS[request.param]


@pytest.fixture
def topic(broker: ThreadBroker) -> str:
    """A new topic of one partition with twelve records."""
    name = f"orders-{next(_numbers)}"
    PYTHON_CLIENTS[0].produce(broker.bootstrap, name, [Sent(0, None, b"%d" % n) for n in range(RECORDS)])
    return name


@pytest.mark.mission("OFF-06")
def test_committed_less_than_processed_is_processed_again(
    broker: ThreadBroker, topic: str, kind: type[Reader]
) -> None:
    with kind(broker.bootstrap, "less", topic) as first:
        processed = first.offsets(10)
        first.commit(6)
    with kind(broker.bootstrap, "less", topic) as second:
        again = second.offsets(RECORDS - 6)
    assert sorted(set(processed) & set(again)) == [6, 7, 8, 9]
    assert sorted(set(processed) | set(again)) == list(range(RECORDS))


@pytest.mark.mission("OFF-07")
def test_committed_more_than_processed_is_lost(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    with kind(broker.bootstrap, "more", topic) as first:
        processed = first.offsets(5)
        first.commit(8)
    with kind(broker.bootstrap, "more", topic) as second:
        later = second.offsets(RECORDS - 8)
    assert sorted(set(range(RECORDS)) - set(processed) - set(later)) == [5, 6, 7]
    assert not set(processed) & set(later)


@pytest.mark.mission("OFF-17")
def test_a_failed_message_between_two_that_went_well(
    broker: ThreadBroker, topic: str, kind: type[Reader]
) -> None:
    """M1 is committed, M2 fails and is not: the next polls give M3 and M4 all the same, unless one seeks to M2."""
    name = f"{topic}-four"
    messages = [b"M1", b"M2", b"M3", b"M4"]
    PYTHON_CLIENTS[0].produce(broker.bootstrap, name, [Sent(0, None, value) for value in messages])
    with kind(broker.bootstrap, f"four-{kind.name}", name) as reader:
        assert reader.read(1) == [(0, b"M1")]
        reader.commit(1)
        assert reader.read(1) == [(1, b"M2")]  # It fails: nothing is committed.
        assert [value for _offset, value in reader.read(2)] == [b"M3", b"M4"]
        assert reader.committed() == 1
        reader.seek(1)
        assert [value for _offset, value in reader.read(2)] == [b"M2", b"M3"]


@pytest.mark.mission("OFF-04")
def test_a_running_consumer_ignores_what_others_commit(broker: ThreadBroker, topic: str) -> None:
    """Somebody commits for its partition, in its name and generation: it goes on; only the next owner begins there."""
    with ConfluentReader(broker.bootstrap, "outside", topic) as reader:
        assert reader.offsets(5) == [0, 1, 2, 3, 4]
        generation, member_id = identity(reader.consumer.consumer_group_metadata())
        assert commit_from_outside(broker, "outside", topic, 2, generation, member_id) == 0
        assert reader.committed() == 2
        assert reader.offsets(3) == [5, 6, 7]
    with ConfluentReader(broker.bootstrap, "outside", topic) as reader:
        assert reader.offsets(2) == [2, 3]


def commit_from_outside(
    broker: ThreadBroker, group: str, topic: str, offset: int, generation: int, member_id: str
) -> int:
    async def send() -> int:
        host, _, port = broker.bootstrap.rpartition(":")
        connection = await connect(
            real_runtime(), host, int(port), client_id="outside", in_flight_max=1, timeout_ms=10_000
        )
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[place])],
        )
        response = await connection.send(request, 8, timeout_ms=10_000)
        connection.close()
        return response.topics[0].partitions[0].error_code

    return asyncio.run(send())


def test_seeks(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    """To the beginning, to an offset, to the end: the next poll begins there, and commits do not care."""
    with kind(broker.bootstrap, "seeks", topic) as reader:
        assert reader.offsets(4) == [0, 1, 2, 3]
        reader.commit(4)
        reader.seek(9)
        assert reader.offsets(2) == [9, 10]
        reader.seek_to_beginning()
        assert reader.offsets(2) == [0, 1]
        reader.seek_to_end()
        assert reader.poll() == []
        PYTHON_CLIENTS[0].produce(broker.bootstrap, topic, [Sent(0, None, b"new")])
        assert reader.read(1) == [(RECORDS, b"new")]
        assert reader.committed() == 4


def test_automatic_commits(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    """What was processed is committed by polling on, after the interval; a clean end leaves nothing to read again."""
    with kind(broker.bootstrap, "auto", topic, auto_commit_ms=100) as first:
        assert first.offsets(RECORDS) == list(range(RECORDS))
        eventually(
            lambda: (first.poll(), first.committed())[1] == RECORDS, "everything is committed by itself"
        )
        PYTHON_CLIENTS[0].produce(broker.bootstrap, topic, [Sent(0, None, b"last")])
        assert first.read(1) == [(RECORDS, b"last")]
    with kind(broker.bootstrap, "auto", topic) as second:
        assert second.committed() == RECORDS + 1


def test_commits_that_do_not_wait(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    with kind(broker.bootstrap, "async", topic) as reader:
        assert reader.offsets(3) == [0, 1, 2]
        told = reader.commit_async(3)
        eventually(lambda: (reader.poll(), reader.committed())[1] == 3, "it is committed in the end")
        if kind is not ConfluentReader:
            eventually(lambda: (reader.poll(), len(told))[1] == 1, "the callback is called")
            assert not isinstance(told[0], Exception)
    with kind(broker.bootstrap, "async", topic) as reader:
        assert reader.offsets(1) == [3]


def test_the_next_owner_of_one_that_was_killed_reads_again(broker: ThreadBroker, topic: str) -> None:
    """Processed up to o2, committed o1, kill -9: once its session has ended, the next owner begins at o1."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=read_and_hang, args=(broker.bootstrap, topic, there))
    process.start()
    try:
        processed = here.recv()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    finally:
        process.join()
    with ConfluentReader(broker.bootstrap, "killed", topic) as reader:
        again = reader.offsets(RECORDS - 4)
    assert processed == list(range(9))
    assert sorted(set(processed) & set(again)) == [4, 5, 6, 7, 8]
    assert again == list(range(4, RECORDS))


def read_and_hang(bootstrap: str, topic: str, pipe: Connection) -> None:
    reader = ConfluentReader(bootstrap, "killed", topic)
    offsets = reader.offsets(9)
    reader.commit(4)
    pipe.send(offsets)
    signal.pause()
