"""Brokers of a mixed cluster stop, die, fall behind and come back; nothing acknowledged is lost and replicas end up equal.

Method: one story after the other on a cluster whose brokers are stopped, killed and frozen. Producers write through it; the files of
every replica are compared afterwards, byte for byte. Roles go round, so that brokers of both kinds lead, follow, die and return.
"""

import shutil
import time
from typing import Final

import pytest

from semel.errors import ErrorCode
from support.cluster import replica_files
from support.cluster.judging import assert_clean_end, assert_equal, assert_equal_at_rest, assert_kept
from support.cluster.load import Load
from support.cluster.mixed_cluster import KAFKA, SESSION_MS, MixedCluster
from support.cluster.raw_connection import RefusedError
from support.cluster.raw_producer import RawProducer
from support.cluster.tools import REASSIGN, Tools, plan

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

SPREAD: Final = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def one_of_each_kind(cluster: MixedCluster) -> list[int]:
    """A broker of every kind, never the only one that can control."""
    chosen = {one.kind: broker for broker, one in cluster.members.items()}
    if len(cluster.of_kind(KAFKA)) == 1:
        del chosen[KAFKA]
    return list(chosen.values())


def test_a_clean_stop_hands_leadership_over_first(cluster: MixedCluster, tools: Tools) -> None:
    """Controlled shutdown of one broker after the other, under load: no producer waits for a session to end.

    Every stop moves what the broker leads before its process ends, and clients go on within seconds. At the end all are
    stopped, and what is written at a clean end is equal: snapshots of producers, log starts, Kafka's dump.
    """
    topic = "rolling"
    cluster.create(topic, SPREAD)
    gaps = {}
    with Load(cluster.bootstrap, topic, 3) as load:
        for broker, member in cluster.members.items():
            load.wait_acks(30)
            begun = time.monotonic()
            member.ask_to_stop()
            # The only broker that can control stops: nobody tells the others, until it is back.
            is_told = cluster.of_kind(KAFKA) != [broker]
            if is_told:
                cluster.wait_out_of_sync(topic, broker)
            member.wait_ended()
            cluster.wait_gone(broker)
            if is_told:
                assert all(broker not in state.isr for state in cluster.states(topic).values())
                load.wait_acks(10)
                gaps[str(member)] = load.longest_gap(begun)
            member.start()
            cluster.wait_in_sync(topic)
            cluster.elect_preferred(topic)
    assert load.errors == []
    assert all(gap < SESSION_MS / 1000 for gap in gaps.values()), (
        f"seconds without an acknowledgement: {gaps}"
    )
    assert_equal(cluster, topic)
    assert assert_kept(cluster, topic, load.acks) == load.sent
    assert_clean_end(cluster, tools, topic)


def test_a_follower_catches_up_even_from_behind_the_log_start(cluster: MixedCluster) -> None:
    """It was dead while the others wrote on, rolled segments, and deleted what it would have asked for next."""
    for broker in one_of_each_kind(cluster):
        topic = f"behind-{broker}"
        first, second = (one for one in cluster.ids if one != broker)
        cluster.create(topic, [[first, second, broker], [second, first, broker]], {"segment.bytes": "8192"})
        small = {"batch.size": 2048}
        with Load(cluster.bootstrap, topic, 2, pause_seconds=0.002, settings=small) as load:
            load.wait_acks(40)
            cluster.members[broker].kill()
            cluster.wait_out_of_sync(topic, broker)
            load.wait_acks(600)
        ends = {p: replica_files.read(cluster.log_of(first, topic, p)).log_end for p in (0, 1)}
        behind = replica_files.read(cluster.log_of(broker, topic, 1)).log_end
        # Partition 0 it can read on; of partition 1 its place is gone.
        before = ends[1] - 20
        assert behind < before
        assert cluster.delete_records(topic, 1, before) == before
        cluster.members[broker].start()
        cluster.wait_in_sync(topic)
        assert_equal(cluster, topic)
        assert_kept(cluster, topic, [ack for ack in load.acks if ack.partition == 0 or ack.offset >= before])
        returned = replica_files.read(cluster.log_of(broker, topic, 1))
        assert [one.offset for one in returned.records()][-20:] == list(range(before, ends[1]))
        assert returned.batches[0].header.base_offset > behind, "what was deleted elsewhere is gone here too"


def test_what_only_a_dead_leader_had_is_cut_when_it_returns(cluster: MixedCluster) -> None:
    """Two leaders die one after the other, each with records of its own that were never replicated (traps 8 and 9).

    The third goes on with what was acknowledged by all. Both come back, the first to die with two epochs to learn of, and must cut
    what nobody else has, whoever is their leader.
    """
    for first, second, third in successions_of_three(cluster):
        topic = f"cut-{first}-{second}-{third}"
        cluster.create(topic, [[first, second, third]], {"min.insync.replicas": "1"})
        address = {broker: member.address for broker, member in cluster.members.items()}
        producer = RawProducer(address[third], topic)
        kept = [producer.batch(b"kept %d" % number) for number in range(10)]
        assert [one.error for one in producer.ask_all(address[first], kept)] == [ErrorCode.NONE] * 10

        lose_tail(cluster, topic, leader=first, frozen=(second, third), count=7)
        assert cluster.wait_led_elsewhere(topic, first) == second
        end = spared(cluster, topic, second)
        assert end < 17, "something was lost"
        again = [producer.batch(b"kept too %d" % number) for number in range(3)]
        answers = producer.ask_all(address[second], again)
        assert [one.base_offset for one in answers] == list(range(end, end + 3))

        cluster.wait_out_of_sync(topic, first)
        lose_tail(cluster, topic, leader=second, frozen=(third,), count=3)
        assert cluster.wait_led_elsewhere(topic, second) == third
        assert spared(cluster, topic, third) < end + 6, "something was lost"
        end = spared(cluster, topic, third)
        last = [producer.batch(b"kept at last %d" % number) for number in range(2)]
        assert [one.base_offset for one in producer.ask_all(address[third], last)] == [end, end + 1]

        survived = replica_files.read(cluster.log_of(third, topic)).contents()
        for broker in (first, second):
            cluster.members[broker].start()
        cluster.wait_in_sync(topic)
        assert_equal(cluster, topic)
        assert replica_files.read(cluster.log_of(first, topic)).contents() == survived
        assert sum(value is not None and value.startswith(b"kept") for _, _, value in survived) == 15
        # Who died first leads again, and goes on where the others are.
        cluster.elect_preferred(topic)
        after = producer.batch(b"kept to the end")
        assert producer.ask(address[first], after).base_offset == end + 2
        assert_equal_at_rest(cluster, topic)


def spared(cluster: MixedCluster, topic: str, heir: int) -> int:
    """Where the heir's log ends: a fetch that was under way may have brought it the beginning of a tail."""
    return replica_files.read(cluster.log_of(heir, topic)).log_end


def successions_of_three(cluster: MixedCluster) -> list[tuple[int, int, int]]:
    """Orders of death in which somebody is left to control, so that each kind dies first if it may."""
    orders: dict[str, tuple[int, int, int]] = {}
    for first in cluster.ids:
        for second in cluster.ids:
            if second != first:
                (third,) = set(cluster.ids) - {first, second}
                if set(cluster.of_kind(KAFKA)) - {first, second}:
                    orders.setdefault(cluster.members[first].kind, (first, second, third))
    return list(orders.values())


def lose_tail(cluster: MixedCluster, topic: str, *, leader: int, frozen: tuple[int, ...], count: int) -> None:
    """The leader stores records for acks=1 that nobody can fetch, and dies."""
    member = cluster.members[leader]
    alone = RawProducer(member.address, topic)
    end = replica_files.read(cluster.log_of(leader, topic)).log_end
    for broker in frozen:
        cluster.members[broker].freeze()
    try:
        tail = [alone.batch(b"lost %d" % number) for number in range(count)]
        assert [one.error for one in alone.ask_all(member.address, tail, acks=1)] == [ErrorCode.NONE] * count
        assert replica_files.read(cluster.log_of(leader, topic)).log_end == end + count
        member.kill()
    finally:
        for broker in frozen:
            cluster.members[broker].thaw()


def test_a_leader_that_slept_through_its_session_gives_way(cluster: MixedCluster) -> None:
    """It is stopped for longer than its session lives, under load, and wakes up believing it leads.

    The others have gone on without it. Nothing it still had in hand may count, and it comes back as a follower, registered anew.
    """
    for broker in one_of_each_kind(cluster):
        topic = f"asleep-{broker}"
        first, second = (one for one in cluster.ids if one != broker)
        cluster.create(topic, [[broker, first, second], [first, second, broker]])
        member = cluster.members[broker]
        with Load(cluster.bootstrap, topic, 2) as load:
            load.wait_acks(20)
            before = cluster.state(topic).leader_epoch
            member.freeze()
            try:
                cluster.wait_out_of_sync(topic, broker)
                load.wait_acks(20)
            finally:
                member.thaw()
            cluster.wait_registered(broker)
            cluster.wait_in_sync(topic)
            assert cluster.state(topic).leader_epoch > before
            load.wait_acks(20)
            cluster.elect_preferred(topic)
            load.wait_acks(20)
        assert load.errors == []
        assert_equal_at_rest(cluster, topic)
        assert assert_kept(cluster, topic, load.acks) == load.sent


def test_a_topic_is_deleted_while_a_broker_is_dead_and_made_again(cluster: MixedCluster) -> None:
    """The deletion waits for the broker; then the name is free, and nothing of the old topic is left (trap 25)."""
    for broker in one_of_each_kind(cluster):
        topic = f"again-{broker}"
        replicas = [[one, *(other for other in cluster.ids if other != one)] for one in cluster.ids]
        cluster.create(topic, replicas)
        old_id = cluster.topic_id(topic)
        with Load(cluster.bootstrap, topic, 3) as old:
            old.wait_acks(30)
        cluster.members[broker].kill()
        cluster.wait_gone(broker)
        with pytest.raises(RefusedError, match="REQUEST_TIMED_OUT"):
            cluster.delete(topic, timeout_ms=0)
        others = [one for one in cluster.ids if one != broker]
        cluster.wait_absent(topic, *others, partitions=3)
        assert cluster.exists(topic), "it waits for the dead"
        cluster.members[broker].start()
        cluster.wait_deleted(topic)
        cluster.create(topic, replicas)
        assert cluster.topic_id(topic) != old_id
        with Load(cluster.bootstrap, topic, 3) as new:
            new.wait_acks(10)
        cluster.wait_in_sync(topic)
        assert_equal(cluster, topic)
        assert assert_kept(cluster, topic, new.acks) == new.sent


def test_a_replica_of_an_older_topic_of_the_name_is_never_taken_for_the_new_one(
    cluster: MixedCluster, tools: Tools, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The broker was dead while its replica was moved away, the topic deleted and made again with another id (trap 23).

    The id in `partition.metadata` decides: the broker refuses the new topic, for the directory is another's, and stays out of the
    ISR. Neither topic's records are served for the other's. Without the old directory it takes part.
    """
    where = tmp_path_factory.mktemp("moves") / "moves.json"
    for broker in one_of_each_kind(cluster):
        topic = f"another-{broker}"
        first, second = (one for one in cluster.ids if one != broker)
        cluster.create(topic, [[first, second, broker]])
        old_id = cluster.topic_id(topic)
        with Load(cluster.bootstrap, topic, 1) as old:
            old.wait_acks(30)
        assert_equal(cluster, topic)
        left = replica_files.read(cluster.log_of(broker, topic))
        cluster.members[broker].kill()
        cluster.wait_gone(broker)
        where.write_text(plan({topic: [[first, second]]}), encoding="utf-8")
        tools.run(
            REASSIGN,
            "--bootstrap-server",
            cluster.bootstrap,
            "--execute",
            "--reassignment-json-file",
            str(where),
        )
        cluster.wait_assigned(topic, [[first, second]])
        cluster.delete(topic)
        cluster.create(topic, [[first, second]])
        assert cluster.topic_id(topic) != old_id
        with Load(cluster.bootstrap, topic, 1) as new:
            new.wait_acks(10)
        cluster.members[broker].start()
        where.write_text(plan({topic: [[first, second, broker]]}), encoding="utf-8")
        tools.run(
            REASSIGN,
            "--bootstrap-server",
            cluster.bootstrap,
            "--execute",
            "--reassignment-json-file",
            str(where),
        )
        cluster.wait_replicas(topic, 3)
        with Load(cluster.bootstrap, topic, 1, first=new.sent) as more:
            more.wait_acks(30)
        assert broker not in cluster.state(topic).isr
        old_replica = replica_files.read(cluster.log_of(broker, topic))
        assert old_replica.batches == left.batches, "the old replica is as it was"

        cluster.members[broker].stop()
        shutil.rmtree(cluster.log_of(broker, topic))
        cluster.members[broker].start()
        cluster.wait_assigned(topic, [[first, second, broker]])
        cluster.wait_in_sync(topic)
        assert_equal_at_rest(cluster, topic)
        assert assert_kept(cluster, topic, [*new.acks, *more.acks]) == more.sent
