"""KIP-848 groups must live as in Apache Kafka: same answers, same epochs, same messages, same rows.

Method: the stories below, and random ones, are told to both brokers heartbeat by heartbeat; each answer must be the same
but for topic ids. In the end both logs are read: each group has the same rows under the same keys, and the hash in its
row is that of the same topics.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.differential.comparison import kafka_side, semel_side
from compat.differential.exchange import Side
from compat.differential.group_stories import ClassicWalker, Pair, Walker, group_rows_of
from semel.core.wire.message import Message
from semel.core.wire.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
    offset_commit,
    offset_fetch,
)
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.peers.kafka import KafkaHome

pytestmark = pytest.mark.java
SETTINGS = {
    "group_consumer_assignment_interval_ms": "0",
    "group_consumer_max_size": "9",
    "group_consumer_session_timeout_ms": "1800000",  # Nobody shall be put out because the machine is busy.
    "group_consumer_max_session_timeout_ms": "1800000",
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "4",
}
UNKNOWN_MEMBER_ID = 25
REBALANCE_IN_PROGRESS = 27


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("groups")


@pytest.fixture(scope="module")
def pair(kafka_home: KafkaHome, directory: Path) -> Iterator[Pair]:
    with (
        semel_side(directory / "semel", **SETTINGS) as ours,
        kafka_side(kafka_home, directory / "kafka", **SETTINGS) as theirs,
    ):
        both = Pair(ours, theirs)
        both.create_topics(five=5, three=3, seven=7)
        both.wait_for_coordinator("g")
        yield both
        our_rows, their_rows = rows_of(both, directory)  # Of every test that ran in this process.
        assert {key: value for key, value in our_rows.items() if value != their_rows.get(key)} == {}
        assert our_rows == their_rows


def test_what_cannot_be_meant_is_refused(pair: Pair) -> None:
    join: dict[str, Any] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["five"], "owned": {}}
    pair.beat(group_id="", member_id="m", **join)
    pair.beat(group_id=" ", member_id="m", **join)
    pair.beat(group_id="g", member_id="", **join)
    pair.beat(group_id="g", member_id="\t", member_epoch=3)
    pair.beat(version=0, group_id="g", member_id="", member_epoch=3)
    pair.beat(version=0, group_id="g", member_id="", member_epoch=-1)
    pair.beat(group_id="g", member_id="m", instance_id="", **join)
    pair.beat(group_id="g", member_id="m", rack_id=" ", **join)
    pair.beat(group_id="g", member_id="m", subscribed_topic_names=["five"], owned={})
    pair.beat(group_id="g", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["five"])
    pair.beat(
        group_id="g",
        member_id="m",
        rebalance_timeout_ms=1,
        subscribed_topic_names=["five"],
        owned={"five": [0]},
    )
    pair.beat(group_id="g", member_id="m", rebalance_timeout_ms=1, owned={})
    pair.beat(group_id="g", member_id="m", member_epoch=-2)
    pair.beat(group_id="g", member_id="m", member_epoch=-3)
    pair.beat(group_id="g", member_id="m", server_assignor="sticky", **join)
    pair.beat(group_id="g", member_id="m", server_assignor="", **join)
    pair.beat(group_id="g", member_id="m", member_epoch=1)
    pair.beat(group_id="g", member_id="m", member_epoch=-1)
    pair.beat(group_id="g", member_id="m", instance_id="i", member_epoch=-1)
    pair.beat(group_id="g", member_id="m", instance_id="i", member_epoch=-2)


def test_expressions_are_re2s(pair: Pair) -> None:
    for regex in [
        "(",
        "[a",
        "a**",
        r"\1",
        "(?=a)",
        "x{1001}",
        "(?P<n",
        "*a",
        "\\",
        "a)",
        "[z-a]",
        r"\pQ",
        "(?z)",
    ]:
        pair.beat(
            group_id="regexes",
            member_id="m",
            rebalance_timeout_ms=1000,
            subscribed_topic_regex=regex,
            owned={},
        )


def test_members_come_and_go(pair: Pair) -> None:
    one, two, three = (Walker(pair, "rebalances", f"member-{name}", ["five"]) for name in "abc")
    assert one.join()["member_epoch"] == 2
    assert one.owned == {"five": [0, 1, 2, 3, 4]}
    assert one.beat()["assignment"] is None
    assert one.beat(silent=True)["assignment"] is None
    assert one.beat(full=True)["assignment"] is not None

    two.join()
    assert two.owned == {}  # Nothing is free yet.
    one.beat()
    two.beat()
    assert two.owned == {}  # It was told to let go, but has not said that it did.
    one.beat()
    two.beat()
    assert len(two.owned["five"]) == 2

    three.join()
    for _ in range(3):
        for walker in (one, two, three):
            walker.beat()
    assert sorted(p for w in (one, two, three) for p in w.owned["five"]) == [0, 1, 2, 3, 4]
    _describe(pair, "rebalances")

    two.leave()
    two.beat()  # Nobody knows it any more.
    for _ in range(3):
        one.beat()
        three.beat()
    three.leave()
    one.beat()
    one.beat()
    assert one.owned == {"five": [0, 1, 2, 3, 4]}
    one.leave()
    _describe(pair, "rebalances")
    one.join()


def test_epochs_tell_the_lost_from_the_fenced(pair: Pair) -> None:
    one, two = (Walker(pair, "epochs", f"member-{name}", ["five"]) for name in "ab")
    one.join()
    two.join()
    one.beat(member_epoch=7)
    one.beat(member_epoch=1, silent=True)
    before = one.epoch
    one.beat()
    one.beat()
    one.beat(member_epoch=before)  # The answer to the last one was lost: it still has what it had.
    one.beat(member_epoch=before, silent=True)
    one.owned = {"five": [4], "three": [0]}
    one.beat(member_epoch=before)
    one.join()
    two.beat()
    two.join()  # Twice the same: it begins again.
    for _ in range(2):
        one.beat()
        two.beat()


def test_a_static_member_goes_and_comes_back(pair: Pair) -> None:
    one = Walker(pair, "static", "member-a", ["five"], instance_id="i-1")
    two = Walker(pair, "static", "member-b", ["five"], instance_id="i-2")
    one.join()
    two.join()
    for _ in range(3):
        one.beat()
        two.beat()
    thief = Walker(pair, "static", "member-c", ["five"], instance_id="i-1")
    thief.join()
    thief.beat(member_epoch=3)
    thief.leave()
    thief.leave(-2)
    one.leave(-2)
    _describe(pair, "static")
    two.beat()
    thief.join()
    thief.beat()
    one.beat()
    _describe(pair, "static")
    thief.leave()
    for _ in range(3):
        two.beat()
    again = Walker(pair, "static", "member-d", ["five"], instance_id="i-1")
    again.join()
    dynamic = Walker(pair, "static", "member-b", ["five"])
    dynamic.epoch = two.epoch
    dynamic.beat(silent=True)
    again.leave(-2)
    other = Walker(pair, "static", "member-e", ["three"], instance_id="i-1", assignor="range")
    other.join()
    for _ in range(3):
        two.beat()
        other.beat()


def test_subscriptions_change(pair: Pair) -> None:
    one = Walker(pair, "subscriptions", "member-a", ["five"], assignor="range")
    two = Walker(pair, "subscriptions", "member-b", ["five"], assignor="range")
    one.join()
    two.join()
    for walker in (one, two, one, two):
        walker.beat()
    one.subscribe("five", "three")
    one.beat()
    two.subscribe("three")
    for walker in (one, two, one, two, one):
        walker.beat()
    one.subscribe("seven", "missing")
    for walker in (one, two, one, two, one):
        walker.beat()
    two.subscribe()
    for walker in (one, two, one, two, one):
        walker.beat()
    _describe(pair, "subscriptions")
    one.beat(server_assignor="uniform")
    one.beat(rack_id="r1", rebalance_timeout_ms=5)
    _describe(pair, "subscriptions")


def test_topics_appear_and_grow(pair: Pair) -> None:
    one = Walker(pair, "growing", "member-a", ["late"])
    one.join()
    assert one.owned == {}
    one.beat()
    pair.create_topics(late=2)
    _converge(pair, one)
    assert one.owned == {"late": [0, 1]}
    pair.grow("late", 4)
    _converge(pair, one)
    assert one.owned == {"late": [0, 1, 2, 3]}


def test_a_group_has_room_for_so_many(pair: Pair) -> None:
    for number in range(10):
        Walker(pair, "full", f"member-{number}", ["seven"]).join()
    Walker(pair, "full", "member-3", ["seven"]).join()


def test_offsets_are_for_members_of_the_epoch(pair: Pair) -> None:
    one, two = (Walker(pair, "offsets", f"member-{name}", ["five"]) for name in "ab")
    one.join()
    _commit(pair, "offsets", "member-a", 2, 0)
    _commit(pair, "offsets", "member-a", 3, 0)
    _commit(pair, "offsets", "member-x", 2, 0)
    _commit(pair, "offsets", "", -1, 0)
    two.join()
    one.beat()
    one.beat()
    two.beat()
    for partition in range(5):
        for epoch in (2, 3):
            _commit(pair, "offsets", "member-a", epoch, partition)
            _commit(pair, "offsets", "member-b", epoch, partition)
    for member_id, epoch in [("member-a", 2), ("member-a", 3), ("member-x", 3), (None, -1), ("member-b", 9)]:
        _fetch(pair, "offsets", member_id, epoch)
    _commit(pair, "offsets", "member-a", 2, 0, version=8)
    pair.ask("delete", lambda _: delete_groups.DeleteGroupsRequest(groups_names=["offsets"]), 2)
    _describe(pair, "offsets")
    one.leave()
    two.leave()
    _commit(pair, "offsets", "", -1, 3)
    pair.ask("delete", lambda _: delete_groups.DeleteGroupsRequest(groups_names=["offsets"]), 2)
    _describe(pair, "offsets")


def test_topics_are_found_by_expression(pair: Pair) -> None:
    join: dict[str, Any] = {
        "group_id": "by-regex",
        "rebalance_timeout_ms": 1_800_000,  # Nobody shall be put out for what it holds on to in the end.
        "server_assignor": "range",
    }
    pair.beat(member_id="member-a", subscribed_topic_regex="(five|thr.*)", owned={}, **join)
    _settled(pair, "by-regex", "member-a", epoch=1)
    pair.beat(member_id="member-b", subscribed_topic_regex="(five|thr.*)", owned={}, **join)
    pair.beat(
        group_id="by-regex",
        member_id="member-a",
        member_epoch=2,
        owned={"five": [0, 1, 2, 3, 4], "three": [0, 1, 2]},
    )
    pair.beat(
        group_id="by-regex", member_id="member-a", member_epoch=2, owned={"five": [0, 1, 2], "three": [0, 1]}
    )
    pair.beat(group_id="by-regex", member_id="member-b", member_epoch=3, owned={})
    pair.beat(
        group_id="by-regex",
        member_id="member-b",
        member_epoch=3,
        subscribed_topic_regex="",
        subscribed_topic_names=["seven"],
        owned={"five": [3, 4], "three": [2]},
    )
    _describe(pair, "by-regex")
    pair.beat(group_id="by-regex", member_id="member-a", member_epoch=-1)
    _describe(pair, "by-regex")


def test_a_classic_group_becomes_one_of_kip_848_and_back(pair: Pair) -> None:
    old = ClassicWalker(pair, "moving", "i-1", ["five"])
    old.join()
    old.sync({"five": [0, 1, 2, 3, 4]})
    assert old.beat() == 0

    new = Walker(pair, "moving", "member-z", ["five"], assignor="range")
    new.join()
    assert old.beat() == REBALANCE_IN_PROGRESS
    _describe(pair, "moving")
    old.sync()
    old.join()
    old.sync()
    assert old.owned == {"five": [0, 1, 2]}
    new.beat()  # It has not said that it let go.
    assert old.beat() == REBALANCE_IN_PROGRESS
    old.join()
    old.sync()
    new.beat()
    assert new.owned == {"five": [3, 4]}
    assert old.beat() == 0
    old.beat(generation_id=1)
    _commit_classic(pair, old)
    _describe(pair, "moving")

    second = ClassicWalker(pair, "moving", "i-2", ["five", "three"])
    second.join(version=5)
    second.sync()
    for _ in range(2):
        if old.beat():
            old.join()
            old.sync()
        new.beat()
        if second.beat():
            second.join()
            second.sync()
    again = ClassicWalker(pair, "moving", "i-2", ["five", "three"])
    again.join(anew=True)
    again.sync()
    again.leave()
    again.leave()
    other = ClassicWalker(pair, "moving", "i-9", ["five"], protocol="roundrobin")
    other.join()  # Nobody else knows that way to assign.

    for _ in range(3):
        if old.beat():
            old.join()
            old.sync()
        new.beat()
    new.leave()
    _describe(pair, "moving")
    assert old.beat() == REBALANCE_IN_PROGRESS
    old.join()
    old.sync({"five": [0, 1, 2, 3, 4]})
    assert old.beat() == 0
    new.beat()
    old.leave()
    new.join()  # The classic group is empty, and becomes another.
    new.leave()
    old.join(anew=True)  # And the other way round.
    old.sync({"five": [0, 1, 2, 3, 4]})


def test_a_static_member_changes_its_protocol(pair: Pair) -> None:
    new = Walker(pair, "switching", "member-a", ["five"], assignor="range", instance_id="i-1")
    new.join()
    old = ClassicWalker(pair, "switching", "i-1", ["five"])
    old.join()
    old.sync()
    old.beat()
    _describe(pair, "switching")
    new.beat()
    new.join()
    new.beat()
    _describe(pair, "switching")


@pytest.mark.parametrize("seed", range(6))
def test_random_lives_are_alike(pair: Pair, seed: int) -> None:
    draw = random.Random(seed)
    group_id = f"random-{seed}"
    several = (
        seed % 2
    )  # Several topics only with `range`: what `uniform` does first depends on the topics' ids.
    topics = ["five", "three", "seven", "missing"] if several else ["five"]
    walkers = [
        Walker(
            pair,
            group_id,
            f"member-{letter}",
            draw.sample(topics, draw.randint(1, len(topics))),
            assignor="range" if several else None,
            instance_id=f"i-{letter}" if draw.random() < 0.3 else None,
        )
        for letter in "abcde"
    ]
    for _ in range(120):
        walker = draw.choice(walkers)
        match draw.choice(
            ["beat"] * 8 + ["full", "silent", "join", "leave", "away", "subscribe", "epoch", "keeps"]
        ):
            case "beat":
                walker.beat()
            case "full":
                walker.beat(full=True)
            case "silent":
                walker.beat(silent=True)
            case "join":
                walker.join()
            case "leave":
                walker.leave()
            case "away":
                walker.leave(-2)
            case "subscribe":
                walker.subscribe(*draw.sample(topics, draw.randint(0 if several else 1, len(topics))))
            case "epoch":
                walker.beat(member_epoch=max(1, walker.epoch + draw.choice([-2, -1, 1])))
            case "keeps":
                owned = walker.owned
                walker.beat()
                walker.owned = {**owned, **walker.owned}
    _describe(pair, group_id)


@pytest.mark.parametrize("seed", range(4))
def test_random_moves_between_the_protocols_are_alike(pair: Pair, seed: int) -> None:
    draw = random.Random(seed)
    group_id = f"moves-{seed}"
    classic = ClassicWalker(pair, group_id, "i-1", ["five"])  # One only: two would wait for each other.
    walkers = [
        Walker(pair, group_id, f"member-{letter}", ["five"], assignor="range", instance_id=instance_id)
        for letter, instance_id in (("y", None), ("z", "i-1" if seed % 2 else None))
    ]
    for _ in range(80):
        walker = draw.choice(walkers)
        match draw.choice(
            ["classic"] * 6 + ["beat"] * 6 + ["join", "join", "leave", "go", "again", "away", "stale"]
        ):
            case "classic":
                code = classic.beat() if classic.generation_id >= 0 else UNKNOWN_MEMBER_ID
                if code:
                    _join_and_sync(classic, anew=code == UNKNOWN_MEMBER_ID)
            case "beat":
                walker.beat()
            case "join":
                walker.join()
            case "leave":
                walker.leave()
            case "away":
                walker.leave(-2)
            case "go":
                classic.leave()
            case "again":
                _join_and_sync(classic, anew=True)
            case "stale":
                classic.beat(generation_id=classic.generation_id - 1)
    _describe(pair, group_id)


def _join_and_sync(walker: ClassicWalker, *, anew: bool) -> None:
    joined = walker.join(anew=anew)
    if not joined["error_code"]:
        leads = joined["leader"] == joined["member_id"]
        walker.sync({"five": [0, 1, 2, 3, 4]} if leads else None)


def test_the_logs_say_the_same(pair: Pair, directory: Path) -> None:
    """Of this group now; of those of the other tests when all have run (`pair`)."""
    one, two = (Walker(pair, "logged", f"member-{name}", ["five"]) for name in "ab")
    one.join()
    two.join()
    ours, theirs = (
        {key: value for key, value in rows.items() if "logged" in key} for rows in rows_of(pair, directory)
    )
    assert ours == theirs
    assert sum(key.count("ConsumerGroupCurrentMemberAssignmentKey") for key in ours) == 2


def rows_of(pair: Pair, directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What both logs hold of all groups."""
    return (
        group_rows_of(directory / "semel", pair, pair.ours),
        group_rows_of(directory / "kafka" / "data", pair, pair.theirs),
    )


def _describe(pair: Pair, group_id: str) -> None:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=[group_id], include_authorized_operations=True
    )
    classic = describe_groups.DescribeGroupsRequest(groups=[group_id])
    for version in (0, 1):
        pair.ask("describe", lambda _: request, version)
    for version in (5, 6):
        pair.ask("describe as classic", lambda _: classic, version)
    pair.ask("list", lambda _: list_groups.ListGroupsRequest(types_filter=["consumer"]), 5)


def _converge(pair: Pair, walker: Walker) -> None:
    """Heartbeat on both sides until each has noticed the change: then they must be alike again."""
    epoch = walker.epoch
    request = ConsumerGroupHeartbeatRequest(
        group_id=walker.group_id, member_id=walker.member_id, member_epoch=epoch
    )
    pair.until("converge", lambda _: request, 1, lambda answer: answer["member_epoch"] > epoch)
    walker.epoch = epoch + 1
    walker.beat(full=True)


def _settled(pair: Pair, group_id: str, member_id: str, epoch: int) -> None:
    """Until both sides have resolved the expression and told the member."""
    request = ConsumerGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)
    pair.until("resolve", lambda _: request, 1, lambda answer: answer["member_epoch"] > epoch)


def _commit_classic(pair: Pair, walker: ClassicWalker) -> None:
    for generation_id in (walker.generation_id - 1, walker.generation_id, walker.generation_id + 1):
        for partition in range(5):

            def build(side: Side, generation_id: int = generation_id, partition: int = partition) -> Message:
                part = offset_commit.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=5, committed_metadata=""
                )
                topic = offset_commit.OffsetCommitRequestTopic(name="five", partitions=[part])
                return offset_commit.OffsetCommitRequest(
                    group_id=walker.group_id,
                    member_id=walker.member_id(side),
                    generation_id_or_member_epoch=generation_id,
                    topics=[topic],
                )

            pair.ask(f"classic commit {generation_id} {partition}", build, 8)


def _commit(pair: Pair, group_id: str, member_id: str, epoch: int, partition: int, version: int = 9) -> None:
    request = offset_commit.OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name="five",
                partitions=[
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=partition, committed_offset=5, committed_metadata=""
                    )
                ],
            )
        ],
    )
    pair.ask(f"commit {member_id} {epoch} {partition}", lambda _: request, version)


def _fetch(pair: Pair, group_id: str, member_id: str | None, epoch: int) -> None:
    request = offset_fetch.OffsetFetchRequest(
        groups=[
            offset_fetch.OffsetFetchRequestGroup(
                group_id=group_id,
                member_id=member_id,
                member_epoch=epoch,
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(name="five", partition_indexes=[0, 1, 2, 3, 4])
                ],
            )
        ]
    )
    pair.ask(f"fetch {member_id} {epoch}", lambda _: request, 9)
