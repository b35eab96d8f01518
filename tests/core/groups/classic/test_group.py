"""A classic group's answers for offsets, listing and deletion.

Method: a group in each state, each question.
"""

import pytest

from semel.core.groups.classic.member import Member, MemberProtocol
from semel.core.groups.classic.protocols import select_protocol, subscribed_topics
from semel.core.groups.group import CommitFrom, GroupType, OffsetExpiry
from semel.errors import ErrorCode, InvariantError
from support.groups.classic_kit import DELAY_MS, ClassicWorld, subscription

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID


def in_state(state: str) -> tuple[ClassicWorld, str]:
    world = ClassicWorld()
    ids = world.generation(None, "s") if state == "CompletingRebalance" else world.stable(None, "s")
    if state == "Empty":
        world.leave(*ids)
    if state == "PreparingRebalance":
        world.join(ids[0])
    assert world.state == state
    return world, ids[0]


@pytest.mark.parametrize(
    ("state", "member", "code", "in_transaction"),
    [
        ("Empty", "none", NONE, NONE),
        ("Empty", "known", UNKNOWN, UNKNOWN),
        ("Stable", "none", UNKNOWN, NONE),
        ("Stable", "known", NONE, NONE),
        ("Stable", "of another generation", ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        ("Stable", "without a generation", ErrorCode.ILLEGAL_GENERATION, ErrorCode.ILLEGAL_GENERATION),
        ("Stable", "a stranger", UNKNOWN, UNKNOWN),
        ("Stable", "fenced", ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_INSTANCE_ID),
        ("PreparingRebalance", "known", NONE, NONE),
        ("PreparingRebalance", "none", UNKNOWN, NONE),
        ("CompletingRebalance", "known", ErrorCode.REBALANCE_IN_PROGRESS, NONE),
        ("CompletingRebalance", "none", UNKNOWN, NONE),
    ],
)
def test_who_may_commit(state: str, member: str, code: ErrorCode, in_transaction: ErrorCode) -> None:
    world, known = in_state(state)
    commit = {
        "none": CommitFrom("", None, -1),
        "known": CommitFrom(known, None, 1),
        "of another generation": CommitFrom(known, None, 2),
        "without a generation": CommitFrom(known, None, -1),
        "a stranger": CommitFrom("stranger", None, 1),
        "fenced": CommitFrom(known, "s", 1),
    }[member]
    assert world.group.check_commit(commit) is code
    assert world.group.check_commit(commit._replace(transactional=True)) is in_transaction


@pytest.mark.parametrize("state", ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"])
def test_what_may_be_deleted(state: str) -> None:
    world, _ = in_state(state)
    group = world.group
    assert group.type is GroupType.CLASSIC
    assert group.is_empty == (state == "Empty")
    assert group.check_delete() is (NONE if state == "Empty" else ErrorCode.NON_EMPTY_GROUP)
    assert group.check_delete_offsets() is NONE, "of topics no consumer reads"
    assert group.check_fetch("whoever", 3) is NONE
    group.protocol_type = "connect"
    assert group.check_delete_offsets() is (NONE if state == "Empty" else ErrorCode.NON_EMPTY_GROUP)


def test_from_when_offsets_grow_old() -> None:
    world = ClassicWorld()
    world.member_id()
    assert world.group.offset_expiry() == OffsetExpiry(None), "it never had members"
    world = ClassicWorld()
    [leader] = world.stable(None)
    assert world.group.offset_expiry() == OffsetExpiry(None)
    world.join(leader, metadata=b"what is this")
    assert world.group.subscribed_topics is None
    assert world.group.offset_expiry() is None, "a rebalance is under way"
    world.sync(leader, given={})
    assert world.state == "Stable"
    assert world.group.offset_expiry() is None, "nobody knows what it reads"
    world.leave(leader)
    assert world.group.offset_expiry() == OffsetExpiry(world.now_ms)


def test_topics_are_those_of_all_members() -> None:
    world = ClassicWorld()
    for topics in (("a", "b"), ("b", "c")):
        world.join(version=3, metadata=subscription(*topics))
    world.pass_time(2 * DELAY_MS)
    assert world.group.subscribed_topics == frozenset("abc")
    assert world.group.is_subscribed_to("c")
    assert not world.group.is_subscribed_to("d")


def test_groups_that_are_no_consumers_read_nothing() -> None:
    world = ClassicWorld()
    world.join(version=3, protocol_type="connect", metadata=b"x")
    world.pass_time(DELAY_MS)
    assert world.group.subscribed_topics is None
    assert not world.group.is_subscribed_to("a")


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4, 99])
def test_subscriptions_of_every_version_begin_alike(version: int) -> None:
    extra = b"more" if version > 3 else b""
    assert subscribed_topics([subscription("a", "b", version=version, extra=extra)]) == frozenset("ab")


@pytest.mark.parametrize(
    "metadata", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01", b"\x00\x00\x00\x00\x00\x09\x00\x01a"]
)
def test_what_is_no_subscription_tells_nothing(metadata: bytes) -> None:
    assert subscribed_topics([subscription("a"), metadata]) is None


def test_it_is_described_as_kafka_does() -> None:
    world = ClassicWorld()
    leader, static = world.stable(None, "s")
    stable = world.group.describe()
    assert stable is not None
    assert (stable.group_state, stable.protocol_type, stable.protocol_data) == ("Stable", "consumer", "range")
    assert [
        (one.member_id, one.group_instance_id, one.client_id, one.client_host, one.member_assignment)
        for one in stable.members
    ] == [
        (leader, None, "client", "/127.0.0.1", leader.encode()),
        (static, "s", "client", "/127.0.0.1", static.encode()),
    ]
    assert {one.member_metadata for one in stable.members} == {subscription("orders")}
    world.join(leader)
    preparing = world.group.describe()
    assert preparing is not None
    assert (preparing.group_state, preparing.protocol_data) == ("PreparingRebalance", "")
    assert {one.member_metadata for one in preparing.members} == {b""}


def _voter(*names: str) -> Member:
    protocols = tuple(MemberProtocol(name, b"") for name in names)
    return Member("m", None, "c", "/h", 1, 1, protocols)


def test_of_protocols_with_equal_votes_javas_map_decides() -> None:
    """Buckets of Java's hashes: 'sticky' is in 8, 'range' in 9, 'roundrobin' in 10, 'cooperative-sticky' in 15."""
    names = ["sticky", "range", "roundrobin", "cooperative-sticky"]
    for first in names:
        for second in names:
            winner = min(first, second, key=names.index)
            assert select_protocol([_voter(first), _voter(second)], names) == winner


def test_nobody_to_vote_is_a_fault() -> None:
    with pytest.raises(InvariantError, match="without members"):
        select_protocol([], ["range"])
    with pytest.raises(InvariantError, match="knows none of"):
        select_protocol([_voter("range")], ["sticky"])
    with pytest.raises(InvariantError, match="does not know the protocol 'sticky'"):
        _voter("range").metadata("sticky")
