"""Apache Kafka leads, and a broker of ours follows: its log is the leader's, byte for byte.

Method: two brokers of Kafka 3.9.2 under ZooKeeper, and a third one of which only following is real. Producers of librdkafka write in
every codec, and in transactions. One leader is killed after it wrote what only our broker fetched: our log is cut back.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from semel.core.records.batch import headers
from semel.log.partition_log import PartitionLog
from semel.peers.kafka import KafkaHome
from semel.runtime.bundle import Runtime
from support.broker.pretend_member import PretendMember
from support.net.net_worlds import in_reality
from support.peers.kafka_members import KafkaMember
from support.peers.zookeeper import real_zookeeper

pytestmark = pytest.mark.java
TOPIC = "orders"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SECONDS = 40


def leader_files(member: KafkaMember, partition: int, below: int) -> bytes:
    """The bytes of the leader's log, up to an offset."""
    folder = member.data / f"{TOPIC}-{partition}"
    whole = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    end = 0
    for position, header in headers(whole):
        if header.next_offset <= below:
            end = position + header.size_bytes
    return whole[:end]


def our_files(log: PartitionLog) -> bytes:
    return b"".join(segment.file.read_at(0, segment.size_bytes) for segment in log.segments)


def epochs_of(member: KafkaMember, partition: int) -> list[list[int]]:
    path = member.data / f"{TOPIC}-{partition}" / "leader-epoch-checkpoint"
    return [[int(word) for word in line.split()] for line in path.read_text().splitlines()[2:]]


async def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not in {SECONDS} s: {what}"
        await asyncio.sleep(0.05)


def produce(bootstrap: str, partition: int, count: int, together: int = 50, **settings: object) -> None:
    """Records that are acknowledged, some at a time."""
    lost: list[str] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **settings})
    for number in range(count):
        producer.produce(
            TOPIC,
            b"%d" % number * 30,
            key=b"%d" % number,
            partition=partition,
            on_delivery=lambda error, _message: lost.append(str(error)) if error else None,
        )
        if number % together == 0:
            producer.flush(SECONDS)
    assert producer.flush(SECONDS) == 0
    assert not lost, lost


def transactions(bootstrap: str, partition: int) -> None:
    """One that is committed, one that is aborted, one that stays open."""
    for name, ends in (("a", ("commit", "abort")), ("b", (None,))):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})
        producer.init_transactions(SECONDS)
        for end in ends:
            producer.begin_transaction()
            for number in range(10):
                producer.produce(TOPIC, b"%d" % number, partition=partition)
            assert producer.flush(SECONDS) == 0
            if end == "commit":
                producer.commit_transaction(SECONDS)
            elif end == "abort":
                producer.abort_transaction(SECONDS)


@pytest.fixture
def members(old_kafka_home: KafkaHome, tmp_path: Path) -> Iterator[tuple[str, list[KafkaMember]]]:
    """ZooKeeper's address, and two brokers."""
    with real_zookeeper(tmp_path / "zookeeper") as port:
        connect = f"127.0.0.1:{port}"
        found = [
            KafkaMember(
                old_kafka_home,
                tmp_path / str(one),
                one,
                connect,
                {"zookeeper.session.timeout.ms": "6000", "log.segment.bytes": "20000"},
            )
            for one in (1, 2)
        ]
        try:
            for one in found:
                one.begin()
            for one in found:
                one.until_started()
            yield connect, found
        finally:
            for one in found:
                one.kill()


def test_a_follower_of_kafka_has_its_leaders_bytes(
    members: tuple[str, list[KafkaMember]], tmp_path: Path
) -> None:
    connect, (first, second) = members

    async def story(runtime: Runtime) -> None:
        member = PretendMember(runtime, 3, connect, tmp_path / "ours")
        await member.start()
        try:
            await follow(member)
        finally:
            await member.close()

    async def on_thread(function: Callable[..., None], *args: object, **more: object) -> None:
        await asyncio.to_thread(lambda: function(*args, **more))

    async def follow(member: PretendMember) -> None:
        admin = AdminClient({"bootstrap.servers": first.bootstrap})
        created = admin.create_topics(
            [
                NewTopic(TOPIC, 2, replica_assignment=[[1, 2, 3], [1, 2, 3]]),
                NewTopic(
                    "__transaction_state", 1, replica_assignment=[[1]]
                ),  # Never on a broker that leads nothing.
            ]
        )
        for one in created.values():
            await asyncio.to_thread(one.result, SECONDS)
        await until(lambda: member.leader_of(1)[0] == 1, "the controller gives orders")
        node = member.node
        assert node is not None
        for codec in CODECS:
            # acks=all: acknowledged by a Kafka leader means fetched by us.
            await on_thread(produce, first.bootstrap, 0, 120, **{"compression.type": codec, "acks": "all"})
        await on_thread(produce, first.bootstrap, 1, 200, **{"enable.idempotence": True})
        await on_thread(transactions, first.bootstrap, 1)
        logs = node.logs
        await until(lambda: logs[0].high_watermark == logs[0].log_end_offset >= 600, "everything is fetched")
        for index, log in enumerate(logs):
            await until(
                lambda index=index, log=log: (
                    our_files(log)  # type: ignore[misc]
                    == leader_files(first, index, log.log_end_offset)
                    == leader_files(first, index, 1 << 60)
                ),
                "both logs are one",
            )
            assert len(log.segments) > 1
        states = {one.producer_id: one for one in logs[1].producers.entries()}
        assert (
            sum(
                entry.current_txn_first_offset is not None and entry.current_txn_first_offset >= 0
                for entry in states.values()
            )
            == 1
        )
        assert [entry for segment in logs[1].segments for entry in segment.txn_index.entries]
        assert node.fetchers.lag_max == 0

        # Broker 2 stands still. A fetch of its own may still be answered by the first of the records that broker 1 writes now; the
        # last ones only we fetch. Then broker 1 dies.
        common = logs[0].log_end_offset
        second.pause()
        await on_thread(produce, first.bootstrap, 0, 30, 1, acks="1")
        await until(lambda: logs[0].log_end_offset == common + 30, "we have what broker 2 has not")
        first.kill()
        second.resume()
        await until(lambda: member.leader_of(0)[0] == 2, "broker 2 leads")
        await until(lambda: common <= logs[0].log_end_offset < common + 30, "the log is cut")
        begin = logs[0].log_end_offset
        await on_thread(produce, second.bootstrap, 0, 50, acks="all")
        await until(lambda: logs[0].high_watermark == begin + 50, "we are in sync again")
        assert our_files(logs[0]) == leader_files(second, 0, begin + 50)
        epoch = member.leader_of(0)[1]
        assert [list(entry) for entry in logs[0].leader_epochs.entries] == [[0, 0], [epoch, begin]]
        assert epochs_of(second, 0) == [[0, 0], [epoch, begin]]

    in_reality(story)
