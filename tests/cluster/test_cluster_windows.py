"""A batch that was replicated and never answered is a duplicate for the next leader: IDEM-04, between Kafka and Semel, both ways.

Method: five batches are under way to a leader that cannot answer, because one member of its ISR is frozen. As soon as the other
member has them on its disk, the leader is killed and the frozen one goes on. The heir is sent the same bytes.
"""

import contextlib

import pytest

from semel.errors import ErrorCode
from support.cluster import replica_files
from support.cluster.judging import assert_equal_at_rest
from support.cluster.mixed_cluster import KAFKA, MixedCluster
from support.cluster.raw_connection import RawConnection
from support.cluster.raw_producer import Answer, RawProducer

pytestmark = [pytest.mark.java, pytest.mark.timeout(900)]

WINDOW = 5


def successions(cluster: MixedCluster) -> list[tuple[int, int, int]]:
    """Who leads, who inherits, who looks on: one for each pair of kinds. Somebody who lives must be able to control."""
    found = {}
    for leader in cluster.ids:
        for heir in cluster.ids:
            if leader == heir:
                continue
            (third,) = set(cluster.ids) - {leader, heir}
            kinds = (cluster.members[leader].kind, cluster.members[heir].kind)
            if cluster.of_kind(KAFKA) != [leader] and (kinds[0] != kinds[1] or kinds not in found):
                found[kinds] = (leader, heir, third)
    several = {kinds: who for kinds, who in found.items() if kinds != (KAFKA, KAFKA)}
    return list((several or found).values())


def wait_stored(cluster: MixedCluster, broker: int, topic: str, end: int) -> None:
    log = cluster.log_of(broker, topic)
    cluster.wait(lambda: replica_files.read(log).log_end == end, f"{log} ends at {end}", every=0.003)


@pytest.mark.mission("IDEM-04")
def test_a_batch_that_was_replicated_but_not_answered_is_a_duplicate_for_the_heir(
    cluster: MixedCluster,
) -> None:
    for leader, heir, third in successions(cluster):
        story = f"{cluster.members[leader]} dies, {cluster.members[heir]} inherits"
        topic = f"windows-{leader}-{heir}"
        cluster.create(topic, [[leader, heir, third]])
        old, new = cluster.members[leader].address, cluster.members[heir].address
        producer = RawProducer(cluster.members[heir].address, topic)
        before = [producer.batch(b"before %d" % number, b"and more") for number in range(3)]
        assert producer.ask_all(old, before) == [Answer(ErrorCode.NONE, 2 * number) for number in range(3)]

        under_way = [producer.batch(b"under way %d" % number, b"b", b"c") for number in range(WINDOW)]
        end = 6 + 3 * WINDOW
        expected = [Answer(ErrorCode.NONE, 6 + 3 * number) for number in range(WINDOW)]
        cluster.members[third].freeze()
        try:
            with contextlib.ExitStack() as connections:
                # Kafka reads the next request of a connection once it has answered the last: each batch has its own.
                unanswered = [connections.enter_context(RawConnection(old)) for _ in under_way]
                for number, connection in enumerate(unanswered):
                    producer.send(connection, under_way[number])
                    wait_stored(cluster, leader, topic, expected[number].base_offset + 3)
                wait_stored(cluster, heir, topic, end)
                assert not any(one.has_answer for one in unanswered), story
                cluster.members[leader].kill()
        finally:
            cluster.members[third].thaw()
        assert cluster.wait_led_elsewhere(topic, leader) == heir, story

        assert producer.ask_all(new, under_way) == expected, story
        # In whatever order the retries come, as long as they are in the window.
        assert producer.ask_all(new, under_way[::-1]) == expected[::-1], story
        too_old = producer.ask(new, before[-1])
        assert too_old.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, story
        following = producer.batch(b"next")
        assert producer.ask(new, following) == Answer(ErrorCode.NONE, end), story
        producer.skip(1)
        gap = producer.ask(new, producer.batch(b"behind a gap"))
        assert gap.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, story
        assert producer.ask(new, following) == Answer(ErrorCode.NONE, end), story

        cluster.members[leader].start()
        cluster.wait_in_sync(topic)
        assert_equal_at_rest(cluster, topic)
        values = [one.value for one in replica_files.read(cluster.log_of(leader, topic)).records()]
        assert len(values) == end + 1, story
        assert values.count(b"next") == 1, story
        assert sum(value is not None and value.startswith(b"under way") for value in values) == WINDOW, story
