"""Every state of a classic group, with every input: what is answered, and which state follows.

Method: one table. A group of a leader, a follower and a static member, with one more id given out, is brought into each
state; each input is tried there. WAITS means that no answer is given yet. A refused request must change nothing.
"""

from collections.abc import Callable
from itertools import product
from typing import Final, NamedTuple

import pytest

from semel.core.groups.classic.states import MOVES, ClassicGroupState
from semel.errors import ErrorCode, InvariantError
from support.groups.classic_kit import DELAY_MS, ClassicWorld, snapshot, subscription

WAITS: Final = "waits"
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID
FENCED, INCONSISTENT = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
GENERATION, REBALANCE = ErrorCode.ILLEGAL_GENERATION, ErrorCode.REBALANCE_IN_PROGRESS
ID_REQUIRED = ErrorCode.MEMBER_ID_REQUIRED
STATES: Final = ("none", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable")
SAME: Final = STATES
PREPARING: Final = STATES[2]


class Cast(NamedTuple):
    """The members of the scenario."""

    leader: str
    follower: str
    static: str
    pending: str
    generation: int


def in_state(state: str) -> tuple[ClassicWorld, Cast]:
    world = ClassicWorld()
    if state == "none":
        return world, Cast("client-1", "client-2", "s-3", "client-4", 1)
    ids = (
        world.generation(None, None, "s") if state == "CompletingRebalance" else world.stable(None, None, "s")
    )
    leader, follower, static = ids
    generation = world.group.generation_id
    if state == "Empty":
        world.leave(leader, follower, static)
    if state == "PreparingRebalance":
        world.join(leader)
    assert world.state == state
    return world, Cast(leader, follower, static, world.member_id(), generation)


Act = Callable[[ClassicWorld, Cast], int | ErrorCode]
JOINS: Final[dict[str, Act]] = {
    "a new member": lambda world, _: world.join(),
    "a new member that is given no id": lambda world, _: world.join(version=3),
    "a new static member": lambda world, _: world.join(instance="t"),
    "the static member without its id": lambda world, _: world.join(instance="s"),
    "the static member under another id": lambda world, who: world.join(who.leader, instance="s"),
    "the follower": lambda world, who: world.join(who.follower),
    "the follower with other topics": lambda world, who: world.join(who.follower, metadata=subscription("a")),
    "the leader": lambda world, who: world.join(who.leader),
    "the one that is expected": lambda world, who: world.join(who.pending),
    "the one that is expected, as a static member": lambda world, who: world.join(who.pending, instance="x"),
    "an id nobody gave out": lambda world, _: world.join("client-9999"),
    "a new member of another type": lambda world, _: world.join(protocol_type="connect"),
    "a new member that knows other protocols": lambda world, _: world.join(names=("sticky",)),
    "a new member that knows no protocol": lambda world, _: world.join(names=()),
    "a new member that has no type": lambda world, _: world.join(protocol_type=""),
    "a follower that knows other protocols": lambda world, who: world.join(who.follower, names=("sticky",)),
}
SYNCS: Final[dict[str, Act]] = {
    "the leader": lambda world, who: world.sync(who.leader, who.generation, given={who.follower: b"all"}),
    "the follower": lambda world, who: world.sync(who.follower, who.generation),
    "the static member": lambda world, who: world.sync(who.static, who.generation, instance="s"),
    "the static member under another id": lambda world, who: world.sync(
        who.leader, who.generation, instance="s"
    ),
    "an instance nobody has": lambda world, who: world.sync(who.static, who.generation, instance="t"),
    "of another generation": lambda world, who: world.sync(who.follower, who.generation + 1),
    "of another type": lambda world, who: world.sync(
        who.follower, who.generation, protocol=("connect", "range")
    ),
    "of another protocol": lambda world, who: world.sync(
        who.follower, who.generation, protocol=("consumer", "x")
    ),
    "of no protocol": lambda world, who: world.sync(who.follower, who.generation, protocol=(None, "range")),
    "of no protocol, when that was not asked for": lambda world, who: world.sync(
        who.follower, who.generation, protocol=(None, None), version=4
    ),
    "the one that is expected": lambda world, who: world.sync(who.pending, who.generation),
    "an id nobody gave out": lambda world, who: world.sync("client-9999", who.generation),
}
HEARTBEATS: Final[dict[str, Act]] = {
    "the follower": lambda world, who: world.heartbeat(who.follower, who.generation),
    "the static member": lambda world, who: world.heartbeat(who.static, who.generation, instance="s"),
    "the static member under another id": lambda world, who: world.heartbeat(
        who.leader, who.generation, instance="s"
    ),
    "an instance nobody has": lambda world, who: world.heartbeat(who.static, who.generation, instance="t"),
    "of another generation": lambda world, who: world.heartbeat(who.follower, who.generation - 1),
    "the one that is expected": lambda world, who: world.heartbeat(who.pending, who.generation),
    "an id nobody gave out": lambda world, who: world.heartbeat("client-9999", who.generation),
}


def _leave(world: ClassicWorld, *leavers: tuple[str, str | None]) -> ErrorCode:
    [answer] = world.leave(*leavers).members
    return ErrorCode(answer.error_code)


LEAVES: Final[dict[str, Act]] = {
    "the follower": lambda world, who: _leave(world, (who.follower, None)),
    "the leader": lambda world, who: _leave(world, (who.leader, None)),
    "the static member by its instance": lambda world, _: _leave(world, ("", "s")),
    "the static member by both": lambda world, who: _leave(world, (who.static, "s")),
    "the static member under another id": lambda world, who: _leave(world, (who.leader, "s")),
    "an instance nobody has": lambda world, _: _leave(world, ("", "t")),
    "nobody at all": lambda world, _: _leave(world, ("", None)),
    "the one that is expected": lambda world, who: _leave(world, (who.pending, None)),
    "an id nobody gave out": lambda world, _: _leave(world, ("client-9999", None)),
}

Row = tuple[object, object, object, object, object]
"""The answers without a group, and in a group that is empty, preparing, completing, and stable."""
EVERYWHERE_UNKNOWN: Final[Row] = (UNKNOWN,) * 5
ANSWERS: Final[dict[tuple[str, str], Row]] = {
    ("join", "a new member"): (ID_REQUIRED,) * 5,
    ("join", "a new member that is given no id"): (WAITS,) * 5,
    ("join", "a new static member"): (WAITS,) * 5,
    ("join", "the static member without its id"): (WAITS, WAITS, WAITS, WAITS, NONE),
    ("join", "the static member under another id"): (UNKNOWN, UNKNOWN, FENCED, FENCED, FENCED),
    ("join", "the follower"): (UNKNOWN, UNKNOWN, WAITS, NONE, NONE),
    ("join", "the follower with other topics"): (UNKNOWN, UNKNOWN, WAITS, WAITS, WAITS),
    ("join", "the leader"): (UNKNOWN, UNKNOWN, WAITS, NONE, WAITS),
    ("join", "the one that is expected"): (UNKNOWN, WAITS, WAITS, WAITS, WAITS),
    ("join", "the one that is expected, as a static member"): (
        UNKNOWN,
        *(ErrorCode.UNKNOWN_SERVER_ERROR,) * 4,
    ),
    ("join", "an id nobody gave out"): EVERYWHERE_UNKNOWN,
    ("join", "a new member of another type"): (
        ID_REQUIRED,
        ID_REQUIRED,
        INCONSISTENT,
        INCONSISTENT,
        INCONSISTENT,
    ),
    ("join", "a new member that knows other protocols"): (
        ID_REQUIRED,
        ID_REQUIRED,
        INCONSISTENT,
        INCONSISTENT,
        INCONSISTENT,
    ),
    ("join", "a new member that knows no protocol"): (INCONSISTENT,) * 5,
    ("join", "a new member that has no type"): (INCONSISTENT,) * 5,
    ("join", "a follower that knows other protocols"): (
        UNKNOWN,
        UNKNOWN,
        INCONSISTENT,
        INCONSISTENT,
        INCONSISTENT,
    ),
    ("sync", "the leader"): (UNKNOWN, UNKNOWN, REBALANCE, NONE, NONE),
    ("sync", "the follower"): (UNKNOWN, UNKNOWN, REBALANCE, WAITS, NONE),
    ("sync", "the static member"): (UNKNOWN, UNKNOWN, REBALANCE, WAITS, NONE),
    ("sync", "the static member under another id"): (UNKNOWN, UNKNOWN, FENCED, FENCED, FENCED),
    ("sync", "an instance nobody has"): EVERYWHERE_UNKNOWN,
    ("sync", "of another generation"): (UNKNOWN, UNKNOWN, GENERATION, GENERATION, GENERATION),
    ("sync", "of another type"): (UNKNOWN, UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    ("sync", "of another protocol"): (UNKNOWN, UNKNOWN, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    ("sync", "of no protocol"): (INCONSISTENT,) * 5,
    ("sync", "of no protocol, when that was not asked for"): (UNKNOWN, UNKNOWN, REBALANCE, WAITS, NONE),
    ("sync", "the one that is expected"): EVERYWHERE_UNKNOWN,
    ("sync", "an id nobody gave out"): EVERYWHERE_UNKNOWN,
    ("heartbeat", "the follower"): (UNKNOWN, UNKNOWN, REBALANCE, NONE, NONE),
    ("heartbeat", "the static member"): (UNKNOWN, UNKNOWN, REBALANCE, NONE, NONE),
    ("heartbeat", "the static member under another id"): (UNKNOWN, UNKNOWN, FENCED, FENCED, FENCED),
    ("heartbeat", "an instance nobody has"): EVERYWHERE_UNKNOWN,
    ("heartbeat", "of another generation"): (UNKNOWN, UNKNOWN, GENERATION, GENERATION, GENERATION),
    ("heartbeat", "the one that is expected"): EVERYWHERE_UNKNOWN,
    ("heartbeat", "an id nobody gave out"): EVERYWHERE_UNKNOWN,
    ("leave", "the follower"): (UNKNOWN, UNKNOWN, NONE, NONE, NONE),
    ("leave", "the leader"): (UNKNOWN, UNKNOWN, NONE, NONE, NONE),
    ("leave", "the static member by its instance"): (UNKNOWN, UNKNOWN, NONE, NONE, NONE),
    ("leave", "the static member by both"): (UNKNOWN, UNKNOWN, NONE, NONE, NONE),
    ("leave", "the static member under another id"): (UNKNOWN, UNKNOWN, FENCED, FENCED, FENCED),
    ("leave", "an instance nobody has"): EVERYWHERE_UNKNOWN,
    ("leave", "nobody at all"): EVERYWHERE_UNKNOWN,
    ("leave", "the one that is expected"): (UNKNOWN, NONE, NONE, NONE, NONE),
    ("leave", "an id nobody gave out"): EVERYWHERE_UNKNOWN,
}
ACTS: Final = {"join": JOINS, "sync": SYNCS, "heartbeat": HEARTBEATS, "leave": LEAVES}
CASES: Final = [
    (api, who, state, answer)
    for (api, who), row in ANSWERS.items()
    for state, answer in zip(STATES, row, strict=True)
]


def state_after(api: str, who: str, before: str, answer: object) -> str:
    """Joins that wait and members that leave begin a rebalance, a new id makes a group, the leader's sync ends it."""
    if (api == "join" and answer is WAITS) or (api == "leave" and answer is NONE and before != "Empty"):
        return PREPARING
    if answer is ID_REQUIRED and before == "none":
        return "Empty"
    if api == "sync" and who == "the leader" and answer is NONE:
        return "Stable"
    return before


def test_the_table_has_every_input() -> None:
    assert set(ANSWERS) == {(api, who) for api, acts in ACTS.items() for who in acts}


@pytest.mark.parametrize(("api", "who", "state", "answer"), CASES)
def test_each_input_in_each_state(api: str, who: str, state: str, answer: object) -> None:
    world, cast = in_state(state)
    before = snapshot(world)
    got = ACTS[api][who](world, cast)
    if isinstance(got, ErrorCode):
        assert got is answer
    elif answer is WAITS:
        assert got in world.open
    else:
        assert world.code(got) is answer
    assert world.state == state_after(api, who, state, answer)
    if answer not in (NONE, ID_REQUIRED, WAITS) and (api, answer) != ("heartbeat", REBALANCE):
        assert snapshot(world) == before, "a refused request changed something"


@pytest.mark.parametrize(("api", "who", "state", "answer"), CASES)
def test_nothing_waits_forever(api: str, who: str, state: str, answer: object) -> None:
    """After any operation in any state: once time has passed, every ticket was answered and the group is empty."""
    del answer
    world, cast = in_state(state)
    ACTS[api][who](world, cast)
    world.pass_time(3_600_000)
    assert not world.open
    assert world.state in ("none", "Empty")
    assert world.coordinator.next_deadline_ms() is None


@pytest.mark.parametrize(("before", "after"), list(product(ClassicGroupState, ClassicGroupState)))
def test_only_listed_moves_are_possible(before: ClassicGroupState, after: ClassicGroupState) -> None:
    world = ClassicWorld()
    world.stable(None)
    group = world.group
    group.state = before
    if after in MOVES[before]:
        group.move_to(after, world.now_ms + DELAY_MS)
        assert group.state is after
        assert group.state_timestamp_ms == world.now_ms + DELAY_MS
    else:
        with pytest.raises(InvariantError, match=f"readers: {before} -> {after}"):
            group.move_to(after, world.now_ms)
        assert group.state is before
