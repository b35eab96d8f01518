"""What a committed offset means: what is read again, what is lost, and what a running consumer ignores.

Method: consumers of four clients in a group, one of them ours, against one broker. Each story commits less, as much or more
than was processed, ends its consumer in order or by kill -9, and says exactly which offsets the next owner gets.
"""

import asyncio
import itertools
import multiprocessing
import os
import signal
from collections.abc import Iterator
from multiprocessing.connection import Connection

import confluent_kafka
import pytest

from semel.core.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.net.connection import connect
from semel.runtime.bundle import real_runtime
from support.compat.compat_clients import PYTHON_CLIENTS
from support.compat.compat_kit import Sent, ThreadBroker, eventually
from support.groups.group_readers import READERS, ConfluentReader, Reader, SemelReader
from support.transactions.transaction_clients import DEADLINE_SECONDS, read

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
    """A new topic of one partition with twelve records.

    Each test names its group after it: a reader that ends while it joins is a member until its session is over.
    """
    name = f"orders-{next(_numbers)}"
    PYTHON_CLIENTS[0].produce(broker.bootstrap, name, [Sent(0, None, b"%d" % n) for n in range(RECORDS)])
    return name


@pytest.mark.mission("OFF-06")
def test_committed_less_than_processed_is_processed_again(
    broker: ThreadBroker, topic: str, kind: type[Reader]
) -> None:
    with kind(broker.bootstrap, f"less-{topic}", topic) as first:
        processed = first.offsets(10)
        first.commit(6)
    with kind(broker.bootstrap, f"less-{topic}", topic) as second:
        again = second.offsets(RECORDS - 6)
    assert sorted(set(processed) & set(again)) == [6, 7, 8, 9]
    assert sorted(set(processed) | set(again)) == list(range(RECORDS))


@pytest.mark.mission("OFF-07")
def test_committed_more_than_processed_is_lost(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    with kind(broker.bootstrap, f"more-{topic}", topic) as first:
        processed = first.offsets(5)
        first.commit(8)
    with kind(broker.bootstrap, f"more-{topic}", topic) as second:
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
@pytest.mark.parametrize("kind", [ConfluentReader, SemelReader], ids=lambda kind: kind.name)
def test_a_running_consumer_ignores_what_others_commit(
    broker: ThreadBroker, topic: str, kind: type[ConfluentReader] | type[SemelReader]
) -> None:
    """Somebody commits for its partition, in its name and generation: it goes on; only the next owner begins there."""
    with kind(broker.bootstrap, f"outside-{topic}", topic) as reader:
        assert reader.offsets(5) == [0, 1, 2, 3, 4]
        assert commit_from_outside(broker, reader.group, topic, 2, *reader.member()) == 0
        assert reader.committed() == 2
        assert reader.offsets(3) == [5, 6, 7]
    with kind(broker.bootstrap, f"outside-{topic}", topic) as reader:
        assert reader.offsets(2) == [2, 3]


@pytest.mark.mission("OFF-18")
@pytest.mark.parametrize("transactional", [False, True])
def test_who_dies_behind_its_work_has_it_repeated(
    broker: ThreadBroker, topic: str, transactional: bool
) -> None:
    """Processed up to 9, committed up to 6: the next owner reads 6 to 9 again, and its output shows them twice. Where output
    and position are one transaction it reads them again, too, and its output shows them once."""
    group, output = f"dies-{topic}", f"{topic}-out"
    with ConfluentReader(broker.bootstrap, group, topic) as first:
        copy(broker, first, output, transactional=transactional, commits=6)
        copy(broker, first, output, transactional=transactional, processes=4)  # It dies here.
    with ConfluentReader(broker.bootstrap, group, topic) as second:
        again = copy(broker, second, output, transactional=transactional, commits=RECORDS - 6)
    assert again == list(range(6, RECORDS))
    shown = [int(value) for value in read(broker.bootstrap, output, 0, committed=True)]
    if transactional:
        assert shown == list(range(RECORDS))
    else:
        assert shown == [*range(10), *range(6, RECORDS)]


def copy(
    broker: ThreadBroker,
    reader: ConfluentReader,
    output: str,
    *,
    transactional: bool,
    commits: int = 0,
    processes: int = 0,
) -> list[int]:
    """Copy records and commit the position, or process as many and get no further."""
    settings = {"transactional.id": f"of {output}"} if transactional else {}
    producer = confluent_kafka.Producer(
        {"log_level": 0, "bootstrap.servers": broker.bootstrap, "linger.ms": 0, **settings}
    )
    if transactional:
        producer.init_transactions(DEADLINE_SECONDS)
        producer.begin_transaction()
    got = reader.read(commits or processes)
    for _offset, value in got:
        producer.produce(output, value=value, partition=0)
    assert producer.flush(DEADLINE_SECONDS) == 0
    if commits and transactional:
        end = confluent_kafka.TopicPartition(reader.topic, 0, got[-1][0] + 1)
        metadata = reader.consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([end], metadata, DEADLINE_SECONDS)
        producer.commit_transaction(DEADLINE_SECONDS)
    elif commits:
        reader.commit(got[-1][0] + 1)
    return [offset for offset, _value in got]


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
    with kind(broker.bootstrap, f"seeks-{topic}", topic) as reader:
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
    with kind(broker.bootstrap, f"auto-{topic}", topic, auto_commit_ms=100) as first:
        assert first.offsets(RECORDS) == list(range(RECORDS))
        eventually(
            lambda: (first.poll(), first.committed())[1] == RECORDS, "everything is committed by itself"
        )
        PYTHON_CLIENTS[0].produce(broker.bootstrap, topic, [Sent(0, None, b"last")])
        assert first.read(1) == [(RECORDS, b"last")]
    with kind(broker.bootstrap, f"auto-{topic}", topic) as second:
        assert second.committed() == RECORDS + 1


def test_commits_that_do_not_wait(broker: ThreadBroker, topic: str, kind: type[Reader]) -> None:
    with kind(broker.bootstrap, f"async-{topic}", topic) as reader:
        assert reader.offsets(3) == [0, 1, 2]
        told = reader.commit_async(3)
        eventually(lambda: (reader.poll(), reader.committed())[1] == 3, "it is committed in the end")
        if kind is not ConfluentReader:
            eventually(lambda: (reader.poll(), len(told))[1] == 1, "the callback is called")
            assert not isinstance(told[0], Exception)
    with kind(broker.bootstrap, f"async-{topic}", topic) as reader:
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
    with ConfluentReader(broker.bootstrap, f"killed-{topic}", topic) as reader:
        again = reader.offsets(RECORDS - 4)
    assert processed == list(range(9))
    assert sorted(set(processed) & set(again)) == [4, 5, 6, 7, 8]
    assert again == list(range(4, RECORDS))


def read_and_hang(bootstrap: str, topic: str, pipe: Connection) -> None:
    reader = ConfluentReader(bootstrap, f"killed-{topic}", topic)
    offsets = reader.offsets(9)
    reader.commit(4)
    pipe.send(offsets)
    signal.pause()
