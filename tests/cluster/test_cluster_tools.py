"""Apache Kafka's own tools direct a cluster of Kafka's and Semel's brokers, and find every replica equal.

Method: TopicCommand, ReassignPartitionsCommand, LeaderElectionCommand, ConfigCommand, DeleteRecordsCommand, LogDirsCommand and
ReplicaVerificationTool of 3.9.2, and the tools of 2.8.2 that write znodes, on a cluster that nobody harms. What they were told
to do is looked up in ZooKeeper and in the brokers' files. Every broker leads something, so every order reaches both kinds.
"""

import json
import time
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from semel.peers.kafka import KafkaHome
from support.cluster import replica_files
from support.cluster.judging import assert_equal, assert_equal_at_rest, assert_kept
from support.cluster.load import IDEMPOTENT, QUIET, Load
from support.cluster.members import Member
from support.cluster.mixed_cluster import MixedCluster
from support.cluster.tools import (
    CONFIGS,
    DELETE_RECORDS,
    ELECT,
    LOG_DIRS,
    OFFSETS,
    OLD_ELECT,
    OLD_REASSIGN,
    OLD_TOPICS,
    REASSIGN,
    TOPICS,
    Tools,
    described,
    log_dirs,
    partitions_of,
    plan,
    verify_replicas,
)

pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

SPREAD: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
"""Everyone leads one partition and follows two."""
HEALTH: Final = (
    "--under-replicated-partitions",
    "--unavailable-partitions",
    "--under-min-isr-partitions",
    "--at-min-isr-partitions",
)


def replica_assignment(replicas: list[list[int]]) -> str:
    return ",".join(":".join(map(str, one)) for one in replicas)


def wait_gone(cluster: MixedCluster, directories: list[Path]) -> None:
    cluster.wait(lambda: not any(one.exists() for one in directories), f"{directories} are gone")


def wait_told(
    cluster: MixedCluster,
    tools: Tools,
    member: Member,
    entity: tuple[str, ...],
    *wanted: str,
    absent: str = "",
) -> None:
    """Kafka's ConfigCommand, asking this broker, tells all of it."""

    def so() -> bool:
        told = tools.run(CONFIGS, "--bootstrap-server", member.address, "--describe", *entity)
        return all(one in told for one in wanted) and not (absent and absent in told)

    cluster.wait(so, f"{member} knows {wanted}, and not {absent!r}, of {entity}", every=0.1)


def written(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_topics_are_made_grown_and_deleted(cluster: MixedCluster, tools: Tools) -> None:
    topic = "made-by-tool"
    where = ("--bootstrap-server", cluster.bootstrap)
    tools.run(
        TOPICS, *where, "--create", "--topic", topic, "--replica-assignment", replica_assignment(SPREAD)
    )
    cluster.wait_in_sync(topic)
    cluster.wait_known(topic)
    for member in cluster.members.values():
        rows = described(
            tools.run(TOPICS, "--bootstrap-server", member.address, "--describe", "--topic", topic)
        )
        assert [(one["Leader"], one["Replicas"]) for one in rows.values()] == [
            (str(replicas[0]), ",".join(map(str, replicas))) for replicas in SPREAD
        ], f"as {member} tells it"
        assert [sorted(one["Isr"].split(",")) for one in rows.values()] == [["1", "2", "3"]] * 3
    with Load(cluster.bootstrap, topic, 3) as load:
        load.wait_acks(20)
        tools.run(
            *(TOPICS, *where, "--alter", "--topic", topic, "--partitions", "4"),
            *("--replica-assignment", replica_assignment([*SPREAD, [3, 2, 1]])),
        )
        cluster.wait(lambda: len(cluster.assignment(topic)) == 4, "there are four partitions")
        cluster.wait_in_sync(topic)
        load.wait_acks(20)
    with Load(cluster.bootstrap, topic, 4) as grown:
        grown.wait_acks(20)
    assert load.errors == grown.errors == []
    assert_equal(cluster, topic)
    for health in HEALTH:
        told = tools.run(TOPICS, *where, "--describe", health)
        assert f"Topic: {topic}\t" not in told, f"{health}: {told}"
    tools.run(TOPICS, *where, "--delete", "--topic", topic)
    cluster.wait_deleted(topic)
    cluster.wait_absent(topic, *cluster.ids, partitions=4)
    assert topic not in tools.run(TOPICS, *where, "--list").splitlines()


def test_partitions_move_from_broker_to_broker_under_load(
    cluster: MixedCluster, tools: Tools, tmp_path: Path
) -> None:
    topic = "moving"
    where = ("--bootstrap-server", cluster.bootstrap)
    # Onto each broker and off it again, alone and with all the others; leaders go along.
    journeys = [
        [[1, 2], [2, 1], [1, 2]],
        [[3, 1], [3, 2], [2, 3]],
        [[3, 1, 2], [1, 3, 2], [2, 3, 1]],
        [[2, 1], [1, 2], [1, 3]],
    ]
    cluster.create(topic, journeys[0])
    with Load(cluster.bootstrap, topic, 3) as load:
        for number, replicas in enumerate(journeys[1:]):
            load.wait_acks(20)
            moves = written(tmp_path / "moves.json", plan({topic: replicas}))
            throttle = () if number else ("--throttle", "50000000")
            tools.run(REASSIGN, *where, "--execute", "--reassignment-json-file", moves, *throttle)
            cluster.wait_assigned(topic, replicas)
            verified = tools.run(REASSIGN, *where, "--verify", "--reassignment-json-file", moves)
            assert verified.count("is completed.") == 3, verified
            assert "No partition reassignments found" in tools.run(REASSIGN, *where, "--list")
            cluster.wait_in_sync(topic)
            for partition, brokers in enumerate(replicas):
                gone = set(cluster.ids) - set(brokers)
                left = [cluster.log_of(broker, topic, partition) for broker in gone]
                wait_gone(cluster, left)
        load.wait_acks(20)
    assert load.errors == []
    assert_equal(cluster, topic)
    assert assert_kept(cluster, topic, load.acks) == load.sent


def test_preferred_leaders_are_elected(cluster: MixedCluster, tools: Tools, tmp_path: Path) -> None:
    topic = "elected"
    where = ("--bootstrap-server", cluster.bootstrap)
    cluster.create(topic, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    everyone = written(tmp_path / "partitions.json", partitions_of(topic, 3))
    with Load(cluster.bootstrap, topic, 3) as load:
        for turned in ([[2, 3, 1], [3, 1, 2], [1, 2, 3]], [[3, 1, 2], [1, 2, 3], [2, 3, 1]]):
            load.wait_acks(20)
            # The same replicas in another order: nothing is copied, and another leader is preferred.
            moves = written(tmp_path / "moves.json", plan({topic: turned}))
            tools.run(REASSIGN, *where, "--execute", "--reassignment-json-file", moves)
            cluster.wait_assigned(topic, turned)
            before = cluster.states(topic)
            told = tools.run(ELECT, *where, "--election-type", "preferred", "--path-to-json-file", everyone)
            assert "Successfully completed leader election" in told, told
            for partition, replicas in enumerate(turned):
                cluster.wait_leader(topic, replicas[0], partition)
                assert cluster.state(topic, partition).leader_epoch > before[partition].leader_epoch
            again = tools.run(ELECT, *where, "--election-type", "preferred", "--path-to-json-file", everyone)
            assert "Valid replica already elected" in again, again
        load.wait_acks(20)
    assert load.errors == []
    assert_equal_at_rest(cluster, topic)
    assert assert_kept(cluster, topic, load.acks) == load.sent


def test_settings_reach_every_broker(cluster: MixedCluster, tools: Tools) -> None:
    topic = "configured"
    cluster.create(topic, SPREAD)
    members = list(cluster.members.values())

    def alter(member: Member, entity: tuple[str, ...], *change: str) -> None:
        tools.run(CONFIGS, "--bootstrap-server", member.address, "--alter", *entity, *change)

    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    for number, member in enumerate(members):
        # Each broker is asked once to write; all of them have to know.
        value = f"retention.ms={1_000_000_000 + number}"
        alter(member, of_topic, "--add-config", value)
        for reader in members:
            wait_told(cluster, tools, reader, of_topic, value)
    alter(members[-1], of_topic, "--delete-config", "retention.ms")
    for reader in members:
        wait_told(cluster, tools, reader, of_topic, absent="retention.ms")

    everyone = ("--entity-type", "brokers", "--entity-default")
    alter(members[-1], everyone, "--add-config", "log.retention.ms=987654321")
    for broker, member in cluster.members.items():
        one = ("--entity-type", "brokers", "--entity-name", str(broker), "--all")
        wait_told(cluster, tools, member, one, "log.retention.ms=987654321")
    alter(members[0], everyone, "--delete-config", "log.retention.ms")

    user = ("--entity-type", "users", "--entity-name", "ada")
    alter(members[-1], user, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
    alter(members[-1], user, "--add-config", "producer_byte_rate=123456789")
    for reader in members:
        wait_told(
            cluster, tools, reader, user, "producer_byte_rate=1.23456789E8", "SCRAM-SHA-256=iterations=4096"
        )


def test_records_are_deleted_on_every_replica(cluster: MixedCluster, tools: Tools, tmp_path: Path) -> None:
    topic = "deleted-records"
    where = ("--bootstrap-server", cluster.bootstrap)
    cluster.create(topic, SPREAD)
    with Load(cluster.bootstrap, topic, 3, pause_seconds=0.002) as load:
        load.wait_acks(60)
        wanted = {0: 20, 1: 41, 2: 7}
        rows = [{"topic": topic, "partition": one, "offset": offset} for one, offset in wanted.items()]
        told = tools.run(
            *(DELETE_RECORDS, *where, "--offset-json-file"),
            written(tmp_path / "delete.json", json.dumps({"version": 1, "partitions": rows})),
        )
        for partition, offset in wanted.items():
            assert f"partition: {topic}-{partition}\tlow_watermark: {offset}" in told, told
        load.wait_acks(20)
    earliest = tools.run(OFFSETS, *where, "--topic", topic, "--time", "-2").split()
    assert earliest == [f"{topic}:{partition}:{offset}" for partition, offset in wanted.items()]
    # Who leads next has the same log start: it had to, before DeleteRecords answered.
    turned = [replicas[1:] + replicas[:1] for replicas in SPREAD]
    moves = written(tmp_path / "moves.json", plan({topic: turned}))
    tools.run(REASSIGN, *where, "--execute", "--reassignment-json-file", moves)
    cluster.wait_assigned(topic, turned)
    everyone = written(tmp_path / "partitions.json", partitions_of(topic, 3))
    tools.run(ELECT, *where, "--election-type", "preferred", "--path-to-json-file", everyone)
    for partition, replicas in enumerate(turned):
        cluster.wait_leader(topic, replicas[0], partition)
    cluster.wait_known(topic)
    assert tools.run(OFFSETS, *where, "--topic", topic, "--time", "-2").split() == earliest
    assert load.errors == []
    assert_equal(cluster, topic)


def test_log_directories_are_described(cluster: MixedCluster, tools: Tools) -> None:
    topic = "described"
    cluster.create(topic, SPREAD)
    with Load(cluster.bootstrap, topic, 3) as load:
        load.wait_acks(30)
    assert_equal(cluster, topic)
    told = log_dirs(
        tools.run(LOG_DIRS, "--bootstrap-server", cluster.bootstrap, "--describe", "--topic-list", topic)
    )
    assert sorted(told) == [1, 2, 3]
    for broker, replicas in told.items():
        assert sorted(replicas) == [f"{topic}-{partition}" for partition in range(3)]
        for name, one in replicas.items():
            partition = int(name.rpartition("-")[2])
            log = cluster.log_of(broker, topic, partition)
            assert one["size"] == sum(file.stat().st_size for file in replica_files.segments(log))
            assert (one["offsetLag"], one["isFuture"]) == (0, False), (broker, one)


def test_replicas_are_verified_by_kafkas_own_tool(
    cluster: MixedCluster, old_kafka_home: KafkaHome, tmp_path: Path
) -> None:
    topic = "verified"
    cluster.create(topic, SPREAD)
    with Load(cluster.bootstrap, topic, 3, settings={"compression.type": "lz4"}) as load:
        load.wait_acks(100)
    assert_equal(cluster, topic)
    ends = {
        f"{topic}-{partition}": replica_files.read(cluster.log_of(replicas[0], topic, partition)).log_end
        for partition, replicas in enumerate(SPREAD)
    }
    reports, others = verify_replicas(
        old_kafka_home, cluster.bootstrap, topic, ends, tmp_path / "verification.log"
    )
    assert reports
    assert others == [], "differences"


def test_a_transaction_is_the_same_on_every_replica(cluster: MixedCluster) -> None:
    """A commit and an abort over partitions led by every broker: markers and all are replicated, readers see the commit."""
    topic = "transacted"
    cluster.create(topic, SPREAD)
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            **IDEMPOTENT,
            "message.timeout.ms": 60_000,
            "transactional.id": "teller",
        }
    )
    producer.init_transactions(60)
    for number, is_kept in enumerate((True, False, True)):
        producer.begin_transaction()
        for partition in range(3):
            producer.produce(topic, b"%d" % number, partition=partition)
        producer.flush(60)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(60)
    assert_equal(cluster, topic)
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.auto.commit": False, **QUIET}
    )
    seen: list[Message] = []
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(3)])
        deadline = time.monotonic() + 60
        while len(seen) < 6 and time.monotonic() < deadline:
            seen += consumer.consume(100, timeout=0.2)
        seen += consumer.consume(100, timeout=1)
    finally:
        consumer.close()
    assert sorted((one.partition(), one.value()) for one in seen) == [
        (partition, value) for partition in range(3) for value in (b"0", b"2")
    ]
    for partition in range(3):
        files = replica_files.read(cluster.log_of(1, topic, partition))
        assert sum(one.header.is_control for one in files.batches) == 3


def test_a_compacted_topic_holds_the_same_on_every_replica(cluster: MixedCluster) -> None:
    """Every replica is compacted by its own broker: what is left agrees by keys, and the followers go on fetching."""
    topic = "compacted"
    cluster.create(
        topic,
        SPREAD,
        {
            "cleanup.policy": "compact",
            "segment.bytes": "4096",
            "min.cleanable.dirty.ratio": "0.01",
            "min.compaction.lag.ms": "0",
        },
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap, **IDEMPOTENT, "batch.size": 1024})
    for round_ in range(3):
        for number in range(400):
            value = None if number % 7 == round_ else b"%d of %d" % (number, round_)
            producer.produce(topic, value, key=b"key %d" % (number % 50), partition=number % 3)
            producer.poll(0)
        assert producer.flush(60) == 0

    def cleaned(broker: int) -> bool:
        """Many of its records are gone, on each partition."""
        counts = [
            sum(
                one.header.records_count
                for one in replica_files.read(cluster.log_of(broker, topic, p)).batches
            )
            for p in range(3)
        ]
        return all(count < 200 for count in counts)

    for broker in cluster.ids:
        cluster.wait(partial(cleaned, broker), f"{broker} has compacted its replicas", every=0.2)
    assert_equal(cluster, topic, compacted=True)


def test_tools_of_2_8_write_znodes(
    cluster: MixedCluster, tools: Tools, znode_tools: Tools, tmp_path: Path
) -> None:
    """As the seeds describe it: topics, partitions, moves, elections, settings and deletion through ZooKeeper alone.

    A topic made so has no id until the controller gives it one, and partitions added so must not lose it (trap 24).
    """
    topic = "by-znodes"
    where = ("--zookeeper", cluster.connect)
    znode_tools.run(
        *(OLD_TOPICS, *where, "--create", "--topic", topic),
        *("--replica-assignment", replica_assignment([[1, 2], [3, 2]])),
    )
    cluster.wait_in_sync(topic)
    cluster.wait(
        lambda: bool((cluster.read(f"/brokers/topics/{topic}") or ({}, 0))[0].get("topic_id")), "an id"
    )
    cluster.wait_known(topic)
    topic_id = cluster.topic_id(topic)
    with Load(cluster.bootstrap, topic, 2) as load:
        load.wait_acks(20)
        znode_tools.run(
            *(OLD_TOPICS, *where, "--alter", "--topic", topic, "--partitions", "3"),
            *("--replica-assignment", replica_assignment([[1, 2], [3, 2], [2, 3]])),
        )
        cluster.wait(lambda: cluster.state(topic, 2).leader == 2, "the new partition is led")
        load.wait_acks(20)
        assert cluster.topic_id(topic) == topic_id
        target = [[3, 1], [1, 3, 2], [3, 2]]
        moves = written(tmp_path / "moves.json", plan({topic: target}))
        znode_tools.run(OLD_REASSIGN, *where, "--execute", "--reassignment-json-file", moves)
        cluster.wait_assigned(topic, target)
        verify = (OLD_REASSIGN, *where, "--verify", "--reassignment-json-file", moves)
        cluster.wait(  # The node of what is moved shrinks a moment after the last topic is written.
            lambda: znode_tools.run(*verify).count("is complete.") == 3, "the old tool sees that all moved"
        )
        elected = written(tmp_path / "partitions.json", partitions_of(topic, 3))
        znode_tools.run(OLD_ELECT, *where, "--path-to-json-file", elected)
        for partition, replicas in enumerate(target):
            cluster.wait_leader(topic, replicas[0], partition)
        load.wait_acks(20)
    assert load.errors == []
    cluster.wait_in_sync(topic)
    assert_equal(cluster, topic)
    assert assert_kept(cluster, topic, load.acks) == load.sent
    of_topic = ("--entity-type", "topics", "--entity-name", topic)
    znode_tools.run(CONFIGS, *where, "--alter", *of_topic, "--add-config", "retention.ms=1234567890")
    for member in cluster.members.values():
        wait_told(cluster, tools, member, of_topic, "retention.ms=1234567890")
    znode_tools.run(OLD_TOPICS, *where, "--delete", "--topic", topic)
    cluster.wait_deleted(topic)
    cluster.wait_absent(topic, *cluster.ids, partitions=3)
