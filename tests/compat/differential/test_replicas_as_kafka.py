"""Requests of replicas nobody assigned, and acks=all on a topic that asks for more replicas than it has: as in Apache Kafka.

Method: the same requests to Semel and to Kafka 3.9.2 and 4.3.1, each alone with its partitions, in the versions both have.
"""

from pathlib import Path
from typing import Final

import pytest

from compat.differential.asking import (
    Ask,
    AskBytes,
    Build,
    create,
    fetched,
    learn_created,
    learn_session,
    offsets,
    produced,
    records,
)
from compat.differential.comparison import assert_alike
from compat.differential.exchange import Side
from compat.differential.known import Known
from semel.core.wire.message import Message
from semel.core.wire.messages import create_topics, fetch, offset_for_leader_epoch
from semel.peers.kafka import KafkaHome

_STRANGER: Final = 7
_SELF: Final = 1
_DEBUGGING: Final = -2
_FUTURE: Final = -3
_STATE_SINCE: Final = 15
_FETCH: Final = (4, 9, 12, 13, 14, 15, 17)


def _by(replica_id: int, build: Build, replica_epoch: int = -1) -> Build:
    """The same fetch, by a replica."""

    def built(side: Side, version: int) -> Message:
        request = build(side, version)
        assert isinstance(request, fetch.FetchRequest)
        if version >= _STATE_SINCE:
            request.replica_state = fetch.ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)
        else:
            request.replica_id = replica_id
        return request

    return built


def _listed(replica_id: int, timestamp: int, *, committed: bool = False) -> Build:
    def built(side: Side, version: int) -> Message:
        request = offsets(timestamp, committed=committed)(side, version)
        request.replica_id = replica_id  # type: ignore[attr-defined]
        return request

    return built


def _ended(replica_id: int, current: int) -> Build:
    asked = offset_for_leader_epoch.OffsetForLeaderPartition(
        partition=0, leader_epoch=0, current_leader_epoch=current
    )
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic="orders", partitions=[asked])
    request = offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=replica_id, topics=[topic])
    return lambda _side, _version: request


def _fetching(who: str, replica_id: int) -> tuple[Ask, ...]:
    def ask(title: str, build: Build, versions: tuple[int, ...] = _FETCH) -> Ask:
        return Ask(f"fetch by {who}: {title}", versions, build)

    first = ("orders", 0, 0)
    return (
        ask("from the start", _by(replica_id, fetched(first))),
        ask("committed", _by(replica_id, fetched(first, isolation_level=1))),
        ask("its broker epoch", _by(replica_id, fetched(first), 3), (15, 17)),
        ask("at the end", _by(replica_id, fetched(("orders", 0, 3), max_wait_ms=10, min_bytes=1))),
        ask("beyond the end", _by(replica_id, fetched(("orders", 0, 99), max_wait_ms=10, min_bytes=1))),
        ask("the leader as known", _by(replica_id, fetched(first, leader_epoch=0)), _FETCH[1:]),
        ask("the leader to come", _by(replica_id, fetched(first, leader_epoch=5)), _FETCH[1:]),
        ask(
            "the epoch it read",
            _by(replica_id, fetched(("orders", 0, 2), leader_epoch=0, last_epoch=0)),
            (12, 15),
        ),
        ask(
            "an epoch nobody had",
            _by(replica_id, fetched(("orders", 0, 2), leader_epoch=0, last_epoch=4)),
            (12, 15),
        ),
        ask("a partition nobody made", _by(replica_id, fetched(("orders", 9, 0)))),
    )


def _producing(title: str, acks: int, timeout_ms: int = 10_000) -> Ask:
    def built(side: Side, version: int) -> Message:
        request = produced(records(2), "safe", acks=acks)(side, version)
        request.timeout_ms = timeout_ms  # type: ignore[attr-defined]
        return request

    return Ask(f"produce: {title}", (3, 9, 11), built, changes=True)


STORY: Final[tuple[Ask | AskBytes, ...]] = (
    Ask(
        "create",
        (7,),
        lambda _side, _version: create_topics.CreateTopicsRequest(
            topics=[create("orders"), create("safe", configs=[("min.insync.replicas", "2")])],
            timeout_ms=30_000,
        ),
        learn=learn_created,
        changes=True,
    ),
    # Asked until Kafka leads both.
    Ask("list offsets: one is led", (5,), offsets(-1)),
    Ask("list offsets: the other is led", (5,), offsets(-1, "safe")),
    Ask("produce: what is read", (9,), produced(records(3), "orders"), changes=True),
    _producing("acks=all, two replicas wanted of one", -1),
    _producing("acks=all, no time", -1, 0),
    _producing("acks=all, less than no time", -1, -5),
    _producing("acks=1, two replicas wanted of one", 1),
    *_fetching("a stranger", _STRANGER),
    *_fetching("the leader itself", _SELF),
    *_fetching("a debugger", _DEBUGGING),
    *_fetching("a log that moves", _FUTURE),
    Ask(
        "fetch by a stranger: a session is begun",
        (12, 15),
        _by(_STRANGER, fetched(("orders", 0, 0), session_epoch=0)),
        learn=learn_session("stranger"),
        changes=True,
    ),
    *(
        Ask(f"list offsets by {who}: {title}", (1, 5, 9), _listed(replica_id, timestamp, committed=committed))
        for who, replica_id in (("a stranger", _STRANGER), ("a debugger", _DEBUGGING), ("0", 0))
        for title, timestamp, committed in (
            ("latest", -1, False),
            ("latest, committed", -1, True),
            ("earliest", -2, False),
            ("by time", 0, False),
        )
    ),
    *(
        Ask(f"offset for leader epoch by {replica_id}: epoch {current}", (3, 4), _ended(replica_id, current))
        for replica_id in (_STRANGER, _SELF, _DEBUGGING, -1)
        for current in (-1, 0, 4)
    ),
)


KNOWN: Final[dict[str, tuple[Known, ...]]] = {
    "3.9.2": (
        Known("create *", "topics[*].configs*", "topics of 3.9 have other settings and defaults"),
        Known(
            "fetch by *",
            "node_endpoints*",
            "3.9 tells replicas where the leader is; 4.x does not, as they know the brokers",
        ),
    ),
    "4.3.1": (
        Known(
            "create *",
            "*configs[min.insync.replicas]*",
            "Kafka's format tool stores min.insync.replicas as a dynamic default of the cluster; nobody set it here",
        ),
    ),
}


@pytest.mark.java
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
def test_replicas_are_answered_as_by_kafka(
    kafka_home: KafkaHome, old_kafka_home: KafkaHome, version: str, tmp_path: Path
) -> None:
    home = old_kafka_home if version == "3.9.2" else kafka_home
    assert_alike(home, tmp_path, STORY, KNOWN[version])
