"""Assignors: the examples everybody knows, and what must hold for every group.

Method: the seeds' five partitions and three consumers by hand; then random groups through random rebalances, and of each
assignment the properties that make it one: every partition one owner, shares that differ by one at most, nothing moved
without need, nothing handed over in one step in a cooperative group.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.core.groups.assignors import ASSIGNORS
from semel.core.groups.assignors.cooperative_sticky import claim_of as cooperative_claim
from semel.core.groups.assignors.members import Assignment, Member, subscribed, without_racks
from semel.core.groups.assignors.sticky import claim_of as sticky_claim
from semel.core.groups.assignors.sticky import user_data
from semel.types import TopicPartition
from support.groups.assignor_cases import Case, story

FIVE = without_racks({"t": 5})
THREE = [Member("c1", ["t"]), Member("c2", ["t"]), Member("c3", ["t"])]
CASES = st.builds(
    lambda seed, name, rounds, racks: story(seed, name, rounds=rounds, racks=racks)[-1],
    st.integers(0, 2**32),
    st.sampled_from(sorted(ASSIGNORS)),
    st.integers(1, 4),
    st.booleans(),
)


def indexes(assignment: Assignment) -> dict[str, list[int]]:
    return {member: [one.partition for one in given] for member, given in assignment.items()}


@pytest.mark.mission("CONS-10", "R-45")
def test_range_gives_five_partitions_to_three_consumers() -> None:
    """Partitions 1-5 in the seeds, counted from 0 here."""
    assert indexes(ASSIGNORS["range"].assign(FIVE, THREE)) == {"c1": [0, 1], "c2": [2, 3], "c3": [4]}


@pytest.mark.mission("CONS-11", "R-45")
def test_round_robin_gives_five_partitions_to_three_consumers() -> None:
    assert indexes(ASSIGNORS["roundrobin"].assign(FIVE, THREE)) == {"c1": [0, 3], "c2": [1, 4], "c3": [2]}


@pytest.mark.mission("R-45")
def test_sticky_keeps_what_it_can_when_one_leaves_and_one_comes() -> None:
    first = ASSIGNORS["sticky"].assign(FIVE, THREE)
    assert indexes(first) == {"c1": [0, 3], "c2": [1, 4], "c3": [2]}
    without = [
        one._replace(user_data=user_data(first[one.member_id], 1)) for one in THREE if one.member_id != "c2"
    ]
    second = ASSIGNORS["sticky"].assign(FIVE, without)
    assert {0, 3} <= set(indexes(second)["c1"])
    assert 2 in indexes(second)["c3"]
    back = [one._replace(user_data=user_data(second[one.member_id], 2)) for one in without]
    third = indexes(ASSIGNORS["sticky"].assign(FIVE, [*back, Member("c4", ["t"])]))
    assert sorted(map(len, third.values())) == [1, 2, 2]
    moved = [one for member in ("c1", "c3") for one in indexes(second)[member] if one not in third[member]]
    assert len(moved) == 1


def test_cooperative_takes_first_and_gives_in_the_next_step() -> None:
    topics = without_racks({"t": 4})
    owned = [TopicPartition("t", index) for index in range(4)]
    old = Member("old", ["t"], owned_partitions=owned, generation_id=1)
    new = Member("new", ["t"], generation_id=-1)
    first = indexes(ASSIGNORS["cooperative-sticky"].assign(topics, [old, new]))
    assert first == {"old": [0, 1], "new": []}
    old = old._replace(owned_partitions=owned[:2], generation_id=2)
    second = indexes(ASSIGNORS["cooperative-sticky"].assign(topics, [old, new._replace(generation_id=2)]))
    assert second == {"old": [0, 1], "new": [2, 3]}


def test_a_topic_that_lost_partitions_leaves_nothing_of_them() -> None:
    """Kafka's client fails here: the topic was deleted and made again with fewer partitions."""
    owned = [TopicPartition("t", index) for index in range(8)]
    members = [
        Member("a", ["t"], owned_partitions=owned[:4], generation_id=1),
        Member("b", ["t"], owned_partitions=owned[4:], generation_id=1),
    ]
    given_now = indexes(ASSIGNORS["cooperative-sticky"].assign(without_racks({"t": 2}), members))
    assert given_now == {"a": [0], "b": []}  # 1 was a's: b gets it in the next step.


def test_who_wants_nothing_gets_nothing() -> None:
    members = [Member(f"m{number}", []) for number in range(3)] + [Member("w", ["t"])]
    for assignor in ASSIGNORS.values():
        assert indexes(assignor.assign(FIVE, members)) == {"m0": [], "m1": [], "m2": [], "w": [0, 1, 2, 3, 4]}
        assert assignor.assign(FIVE, []) == {}


def test_user_data_that_is_none_claims_nothing() -> None:
    """A member of another make may put there what it likes."""
    strange = Member("m", ["t"], user_data=b"\xff\xff")
    assert sticky_claim(strange) == ((), -1)
    assert cooperative_claim(strange) == ((), -1)
    assert cooperative_claim(strange._replace(user_data=None)) == ((), None)
    old = user_data([TopicPartition("t", 2)], 9)[:-4]  # Version 0 ends before the generation.
    assert sticky_claim(strange._replace(user_data=old)) == ([TopicPartition("t", 2)], None)


@pytest.mark.mission("CONS-02")
@settings(max_examples=300)
@given(CASES)
def test_each_partition_has_one_owner_that_wants_it(case: Case) -> None:
    """In a cooperative group some wait one step: then another member still has them."""
    assignment = case.answer()
    wanted = {member.member_id: member.topics for member in case.members}
    assert set(assignment) == set(wanted)
    owned = [one for given_now in assignment.values() for one in given_now]
    assert len(owned) == len(set(owned))
    assert all(one.topic in wanted[member] for member, mine in assignment.items() for one in mine)
    existing = {
        TopicPartition(topic, index)
        for topic, racks in subscribed(case.topics, case.members).items()
        for index in range(len(racks))
    }
    waiting = existing - set(owned)
    assert set(owned) <= existing
    if waiting:
        assert ASSIGNORS[case.assignor].is_cooperative
        assert waiting <= {one for member in case.members for one in member.owned_partitions}


@settings(max_examples=200)
@given(CASES)
def test_equal_wishes_get_equal_shares(case: Case) -> None:
    """Range is fair by topic, the others over all; a cooperative group once it has settled."""
    if ASSIGNORS[case.assignor].is_cooperative:
        case = _without_racks(case)
    alike = [member._replace(topics=sorted(case.topics)) for member in case.members]
    assignment = _settled(case._replace(members=alike))
    if case.assignor == "range":
        for topic in case.topics:
            sizes = [sum(one.topic == topic for one in mine) for mine in assignment.values()]
            assert max(sizes) - min(sizes) <= 1
    else:
        sizes = [len(mine) for mine in assignment.values()]
        assert max(sizes) - min(sizes) <= 1


@settings(max_examples=200)
@given(CASES.filter(lambda case: "sticky" in case.assignor))
def test_nothing_moves_when_nothing_changed(case: Case) -> None:
    """Where racks differ this is not so: what a member owns in another rack it gives up every time, as in Kafka."""
    case = _without_racks(case)
    settled = _settled(case)
    assert {member: sorted(mine) for member, mine in _again(case, settled).answer().items()} == {
        member: sorted(mine) for member, mine in settled.items()
    }


@settings(max_examples=300)
@given(CASES.filter(lambda case: case.assignor == "cooperative-sticky"))
def test_cooperative_never_hands_over_in_one_step(case: Case) -> None:
    """A partition of a member of the newest generation goes to another member only after the owner has revoked it."""
    generations = [member.generation_id for member in case.members if member.generation_id is not None]
    newest = max(generations, default=-1)
    assignment = case.answer()
    for member in case.members:
        if (member.generation_id or -1) != newest:
            continue
        for partition in member.owned_partitions:
            owner = [one for one, mine in assignment.items() if partition in mine]
            assert owner in ([], [member.member_id]) or _claims(case, partition, owner[0])


def _claims(case: Case, partition: TopicPartition, member_id: str) -> bool:
    """Two members say they own it; one of them keeps it."""
    [member] = [one for one in case.members if one.member_id == member_id]
    return partition in member.owned_partitions


def _again(case: Case, owned: Assignment) -> Case:
    """The same group one generation on, with what it was given."""
    members = [
        member._replace(
            owned_partitions=owned[member.member_id] if case.assignor == "cooperative-sticky" else (),
            generation_id=100,
            user_data=ASSIGNORS[case.assignor].user_data(owned[member.member_id], 100),
        )
        for member in case.members
    ]
    return case._replace(members=members)


def _without_racks(case: Case) -> Case:
    return case._replace(members=[member._replace(rack_id=None) for member in case.members])


def _settled(case: Case) -> Assignment:
    """The group's assignment after the step that hands out the revoked partitions."""
    first = case.answer()
    return first if not ASSIGNORS[case.assignor].is_cooperative else _again(case, first).answer()
