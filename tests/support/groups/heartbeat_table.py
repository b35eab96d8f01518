"""Every kind of heartbeat in every state of a KIP-848 member: how the member gets there, and what it says.

The tables of answers are in tests/core/groups/consumer/test_heartbeats.py; a shard and Apache Kafka are held to them.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from semel.errors import ErrorCode
from support.groups.consumer_stories import ALL_OF_T, FULL, Story

ME, OTHER = "m", "n"
INSTANCE = "i"
Scene = Callable[[Story], None]
Act = Callable[[Story], str]


def _empty_but_old(story: Story) -> None:
    """The group is in epoch 3, so that there are epochs before the member's."""
    story.join(OTHER)
    story.leave(OTHER)


def _unknown(story: Story) -> None:
    _empty_but_old(story)
    story.join(OTHER)


def _stable(story: Story) -> None:
    _empty_but_old(story)
    story.join(ME)


def _advanced(story: Story) -> None:
    _stable(story)
    story.beat(ME, subscribed_topic_names=["t", "u"], owned=ALL_OF_T)


def _behind(story: Story) -> None:
    _stable(story)
    story.join(OTHER)


def _unrevoked(story: Story) -> None:
    _behind(story)
    story.confirm(ME)


def _unreleased(story: Story) -> None:
    _unknown(story)
    story.join(ME)


def _released(story: Story) -> None:
    _unreleased(story)
    story.confirm(OTHER)
    story.confirm(OTHER)


MEMBERS: Final[Mapping[str, Scene]] = {
    "unknown": _unknown,
    "stable": _stable,
    "advanced": _advanced,
    "behind": _behind,
    "unrevoked": _unrevoked,
    "unreleased": _unreleased,
    "released": _released,
}
"""unknown: the other member owns everything. stable: it owns everything, in epoch 4. advanced: stable in epoch 5, with
`u` too. behind: the target is of epoch 5, it has not heard yet. unrevoked: it was told to let go of half. unreleased: the
other one holds its half. released: its half is free."""


def _mine(story: Story) -> Any:
    return story.given.get(ME, {})


def _now(story: Story) -> int:
    """The epoch in which the coordinator knows the member; 4 if it does not."""
    return story.epochs.get(ME, 4)


def _beat(**fields: Any) -> Act:
    """Its epoch, and these fields."""
    return lambda story: story.beat(ME, _now(story), **fields)


def _holding(**fields: Any) -> Act:
    """Its epoch, the partitions it was given, and these fields."""
    return lambda story: story.beat(ME, _now(story), _mine(story), **fields)


HEARTBEATS: Final[Mapping[str, Act]] = {
    "epoch 0": lambda story: story.join(ME),
    "epoch 0, other topics": lambda story: story.join(ME, "u"),
    "epoch 0, an instance id": lambda story: story.join(ME, instance_id=INSTANCE),
    "epoch 0, with partitions": lambda story: story.beat(ME, 0, ALL_OF_T, **FULL),
    "epoch 0, without topics": lambda story: story.beat(ME, 0, {}, rebalance_timeout_ms=5),
    "epoch 0, without timeout": lambda story: story.beat(ME, 0, {}, subscribed_topic_names=["t"]),
    "its epoch": _beat(),
    "its epoch, what it was given": _holding(),
    "its epoch, still everything": _beat(owned=ALL_OF_T),
    "its epoch, owning nothing": _beat(owned={}),
    "its epoch, everything repeated": _holding(**FULL),
    "its epoch, other topics": _beat(subscribed_topic_names=["u"]),
    "its epoch, other topics, owning nothing": _beat(subscribed_topic_names=["u"], owned={}),
    "its epoch, more topics": _holding(subscribed_topic_names=["t", "u"]),
    "its epoch, no topics": _holding(subscribed_topic_names=[]),
    "its epoch, a missing topic": _holding(subscribed_topic_names=["missing"]),
    "its epoch, an expression": _holding(subscribed_topic_regex="u.*"),
    "its epoch, a bad expression": _holding(subscribed_topic_regex="("),
    "its epoch, another assignor": _holding(server_assignor="range"),
    "its epoch, an unknown assignor": _holding(server_assignor="sticky"),
    "its epoch, an instance id": _beat(instance_id=INSTANCE),
    "the epoch before, what it was given": lambda story: story.beat(ME, _now(story) - 1, _mine(story)),
    "the epoch before, more than given": lambda story: story.beat(ME, _now(story) - 1, {"t": [0, 9]}),
    "the epoch before, not saying": lambda story: story.beat(ME, _now(story) - 1),
    "an older epoch": lambda story: story.beat(ME, _now(story) - 2, _mine(story)),
    "a newer epoch": lambda story: story.beat(ME, _now(story) + 1, _mine(story)),
    "-1": lambda story: story.leave(ME),
    "-1, an instance id": lambda story: story.leave(ME, instance_id=INSTANCE),
    "-2": lambda story: story.leave(ME, -2),
    "-2, an instance id": lambda story: story.leave(ME, -2, instance_id=INSTANCE),
    "-3": lambda story: story.leave(ME, -3),
}


# Static members


def _static(story: Story) -> None:
    _empty_but_old(story)
    story.join(ME, instance_id=INSTANCE)


def _away(story: Story) -> None:
    _static(story)
    story.leave(ME, -2)


def _replaced(story: Story) -> None:
    _away(story)
    story.join("m2", instance_id=INSTANCE)


def _revoking(story: Story) -> None:
    _static(story)
    story.join(OTHER)
    story.confirm(ME)


def _away_while_revoking(story: Story) -> None:
    _revoking(story)
    story.leave(ME, -2)


def _nobody(story: Story) -> None:
    _empty_but_old(story)
    story.instances[ME] = INSTANCE


STATIC_MEMBERS: Final[Mapping[str, Scene]] = {
    "unknown": _nobody,
    "static": _static,
    "away": _away,
    "replaced": _replaced,
    "unrevoked": _revoking,
    "away, unrevoked": _away_while_revoking,
}
"""static: it owns everything, in epoch 4. away: it left with -2. replaced: `m2` came with its instance id after that.
unrevoked: it was told to let go of half; away, unrevoked: and left with -2 then."""


def _as_another(epoch: int | None, owned: Any = None, **fields: Any) -> Act:
    """A member `x` with the instance id."""
    return lambda story: story.beat(
        "x", _now(story) if epoch is None else epoch, owned, instance_id=INSTANCE, **fields
    )


STATIC_HEARTBEATS: Final[Mapping[str, Act]] = {
    "epoch 0": lambda story: story.join(ME, instance_id=INSTANCE),
    "epoch 0, without its instance id": lambda story: story.beat(ME, 0, {}, instance_id=None, **FULL),
    "epoch 0, another instance id": lambda story: story.join(ME, instance_id="j"),
    "epoch 0, as another": _as_another(0, {}, **FULL),
    "epoch 0, as another, other topics": _as_another(0, {}, **{**FULL, "subscribed_topic_names": ["u"]}),
    "its epoch": _beat(),
    "its epoch, what it was given": _holding(),
    "its epoch, without its instance id": _holding(instance_id=None),
    "its epoch, another instance id": _holding(instance_id="j"),
    "its epoch, as another": _as_another(None),
    "the epoch before, what it was given": lambda story: story.beat(ME, _now(story) - 1, _mine(story)),
    "a newer epoch": lambda story: story.beat(ME, _now(story) + 1, _mine(story)),
    "-1": lambda story: story.leave(ME),
    "-1, without its instance id": lambda story: story.leave(ME, instance_id=None),
    "-1, as another": _as_another(-1),
    "-2": lambda story: story.leave(ME, -2),
    "-2, without its instance id": lambda story: story.leave(ME, -2, instance_id=None),
    "-2, as another": _as_another(-2),
}


# Answers

UNKNOWN, INVALID = ErrorCode.UNKNOWN_MEMBER_ID.name, ErrorCode.INVALID_REQUEST.name
FENCED, FENCED_INSTANCE = ErrorCode.FENCED_MEMBER_EPOCH.name, ErrorCode.FENCED_INSTANCE_ID.name
UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID.name
NO_ASSIGNOR, NO_REGEX = ErrorCode.UNSUPPORTED_ASSIGNOR.name, ErrorCode.INVALID_REGULAR_EXPRESSION.name
Cells = Mapping[str, str]
"""State -> the answer there: an error's name; or the epoch, the assignment if there is one, and after `>` the state in
which the member is then."""


def answer_of(cell: str) -> str:
    """The part of a cell that is sent."""
    return cell.partition(" > ")[0]


def _by_state(states: tuple[str, ...], rows: Mapping[str, tuple[str, ...]]) -> Mapping[str, Cells]:
    return {said: dict(zip(states, row, strict=True)) for said, row in rows.items()}


ANSWERS: Final = _by_state(
    tuple(MEMBERS),
    {
        "epoch 0": (
            "5 nothing > unreleased",
            "4 t0123 > stable",
            "6 t0123 > stable",
            "5 t01 > stable",
            "5 t01 > stable",
            "5 nothing > unreleased",
            "5 t23 > stable",
        ),
        "epoch 0, other topics": (
            "5 u01 > stable",
            "5 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
        ),
        "epoch 0, an instance id": (
            "5 nothing > unreleased",
            "4 t0123 > stable",
            "6 t0123 > stable",
            "5 t01 > stable",
            "5 t01 > stable",
            "5 nothing > unreleased",
            "5 t23 > stable",
        ),
        "epoch 0, with partitions": (INVALID,) * 7,
        "epoch 0, without topics": (INVALID,) * 7,
        "epoch 0, without timeout": (INVALID,) * 7,
        "its epoch": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "4 t01 > unrevoked",
            "4 > unrevoked",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, what it was given": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "4 t01 > unrevoked",
            "5 > stable",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, still everything": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "4 t01 > unrevoked",
            "4 > unrevoked",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, owning nothing": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "5 t01 > stable",
            "5 > stable",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, everything repeated": (
            UNKNOWN,
            "4 t0123 > stable",
            "5 t0123 > unrevoked",
            "4 t01 > unrevoked",
            "5 t01 > stable",
            "5 nothing > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, other topics": (
            UNKNOWN,
            "4 nothing > unrevoked",
            "5 u01 > unrevoked",
            "4 nothing > unrevoked",
            "4 nothing > unrevoked",
            "6 u01 > stable",
            "6 u01 > stable",
        ),
        "its epoch, other topics, owning nothing": (
            UNKNOWN,
            "5 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
            "6 u01 > stable",
        ),
        "its epoch, more topics": (
            UNKNOWN,
            "5 t0123 u01 > stable",
            "5 > stable",
            "4 t0 > unrevoked",
            "4 t0 > unrevoked",
            "6 u01 > unreleased",
            "6 t2 u01 > stable",
        ),
        "its epoch, no topics": (
            UNKNOWN,
            "4 nothing > unrevoked",
            "5 nothing > unrevoked",
            "4 nothing > unrevoked",
            "4 nothing > unrevoked",
            "6 > stable",
            "6 > stable",
        ),
        "its epoch, a missing topic": (
            UNKNOWN,
            "4 nothing > unrevoked",
            "5 nothing > unrevoked",
            "4 nothing > unrevoked",
            "4 nothing > unrevoked",
            "6 > stable",
            "6 > stable",
        ),
        "its epoch, an expression": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "4 t01 > unrevoked",
            "5 > stable",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, a bad expression": (UNKNOWN, *(NO_REGEX,) * 6),
        "its epoch, another assignor": (
            UNKNOWN,
            "4 > stable",
            "5 > stable",
            "4 t01 > unrevoked",
            "5 > stable",
            "5 > unreleased",
            "5 t23 > stable",
        ),
        "its epoch, an unknown assignor": (NO_ASSIGNOR,) * 7,
        "its epoch, an instance id": (UNKNOWN,) * 7,
        "the epoch before, what it was given": (
            UNKNOWN,
            FENCED,
            "5 > stable",
            FENCED,
            FENCED,
            FENCED,
            FENCED,
        ),
        "the epoch before, more than given": (UNKNOWN, *(FENCED,) * 6),
        "the epoch before, not saying": (UNKNOWN, *(FENCED,) * 6),
        "an older epoch": (UNKNOWN, *(FENCED,) * 6),
        "a newer epoch": (UNKNOWN, *(FENCED,) * 6),
        "-1": (UNKNOWN, *("-1 > gone",) * 6),
        "-1, an instance id": (UNKNOWN,) * 7,
        "-2": (INVALID,) * 7,
        "-2, an instance id": (UNKNOWN,) * 7,
        "-3": (INVALID,) * 7,
    },
)

STATIC_ANSWERS: Final = _by_state(
    tuple(STATIC_MEMBERS),
    {
        "epoch 0": (
            "4 t0123 > stable",
            UNRELEASED,
            "4 t0123 > stable",
            UNRELEASED,
            UNRELEASED,
            "5 t01 > stable",
        ),
        "epoch 0, without its instance id": (
            "4 t0123 > stable",
            "4 t0123 > stable",
            "4 t0123 > stable",
            "5 nothing > unreleased",
            "5 t01 > stable",
            "5 t01 > stable",
        ),
        "epoch 0, another instance id": (
            "4 t0123 > stable",
            "4 t0123 > stable",
            "4 t0123 > stable",
            "5 nothing > unreleased",
            "5 t01 > stable",
            "5 t01 > stable",
        ),
        "epoch 0, as another": (
            "4 t0123 > gone",
            UNRELEASED,
            "4 t0123 > gone",
            UNRELEASED,
            UNRELEASED,
            "5 t01 > gone",
        ),
        "epoch 0, as another, other topics": (
            "4 u01 > gone",
            UNRELEASED,
            "5 u01 > gone",
            UNRELEASED,
            UNRELEASED,
            "6 u01 > gone",
        ),
        "its epoch": (UNKNOWN, "4 > stable", FENCED, FENCED_INSTANCE, "4 > unrevoked", FENCED),
        "its epoch, what it was given": (
            UNKNOWN,
            "4 > stable",
            FENCED,
            FENCED_INSTANCE,
            "5 > stable",
            FENCED,
        ),
        "its epoch, without its instance id": (UNKNOWN, "4 > stable", FENCED, UNKNOWN, "5 > stable", FENCED),
        "its epoch, another instance id": (UNKNOWN,) * 6,
        "its epoch, as another": (UNKNOWN, *(FENCED_INSTANCE,) * 5),
        "the epoch before, what it was given": (UNKNOWN, FENCED, FENCED, FENCED_INSTANCE, FENCED, FENCED),
        "a newer epoch": (UNKNOWN, FENCED, FENCED, FENCED_INSTANCE, FENCED, FENCED),
        "-1": (UNKNOWN, "-1 > gone", "-1 > gone", FENCED_INSTANCE, "-1 > gone", "-1 > gone"),
        "-1, without its instance id": (UNKNOWN, "-1 > gone", "-1 > gone", UNKNOWN, "-1 > gone", "-1 > gone"),
        "-1, as another": (UNKNOWN, *(FENCED_INSTANCE,) * 5),
        "-2": (UNKNOWN, "-2 > away", "-2 > away", FENCED_INSTANCE, "-2 > away", "-2 > away"),
        "-2, without its instance id": (INVALID,) * 6,
        "-2, as another": (UNKNOWN, *(FENCED_INSTANCE,) * 5),
    },
)
