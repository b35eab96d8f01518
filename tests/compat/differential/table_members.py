"""Offsets of groups that have members: who may commit and delete, and when; what is told of such a group."""

from typing import Any, Final

from compat.differential.asking import Ask, Build, Learn, always
from compat.differential.exchange import Side
from compat.differential.table_offsets import committed, described_groups, fetched, forgotten, listed
from semel.core.wire.message import Message
from semel.core.wire.messages import delete_groups, heartbeat, join_group, leave_group, sync_group
from semel.core.wire.messages.consumer_protocol import ConsumerProtocolSubscription

_COMMITS: Final = (2, 3, 4, 5, 6, 7, 8, 9)
_SESSION_MS: Final = 600_000
_SUBSCRIPTION: Final = b"\0\0" + ConsumerProtocolSubscription(topics=["orders"]).encode(0)
_PLACES: Final = (("orders", 0), ("quiet", 0))


def _joined(group: str, protocol_type: str) -> Build:
    def build(side: Side, _version: int) -> Message:
        return join_group.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=side.texts.get(group, ""),
            protocol_type=protocol_type,
            protocols=[join_group.JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
        )

    return build


def _learn_member(group: str) -> Learn:
    def learn(side: Side, answer: join_group.JoinGroupResponse) -> None:
        side.texts[group] = answer.member_id
        side.numbers[group] = answer.generation_id

    return learn


def _synced(group: str) -> Build:
    def build(side: Side, _version: int) -> Message:
        member_id = side.texts[group]
        assignment = sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=b"yours")
        return sync_group.SyncGroupRequest(
            group_id=group, generation_id=side.numbers[group], member_id=member_id, assignments=[assignment]
        )

    return build


def _left(group: str) -> Build:
    def build(side: Side, _version: int) -> Message:
        return leave_group.LeaveGroupRequest(group_id=group, member_id=side.texts[group])

    return build


def _by_member(group: str, *, later: int = 0, member_id: str | None = None, **how: Any) -> Build:
    """A commit by the member, in its generation or so many later."""

    def build(side: Side, version: int) -> Message:
        return committed(
            group,
            *((topic, partition, 8) for topic, partition in (*_PLACES, ("nowhere", 0))),
            generation_id_or_member_epoch=side.numbers[group] + later,
            member_id=side.texts[group] if member_id is None else member_id,
            **how,
        )(side, version)

    return build


def _heartbeat(group: str) -> Build:
    def build(side: Side, _version: int) -> Message:
        return heartbeat.HeartbeatRequest(
            group_id=group, generation_id=side.numbers[group], member_id=side.texts[group]
        )

    return build


def _commits(group: str, when: str) -> tuple[Ask, ...]:
    return (
        Ask(f"offset commit: by a member, {when}", _COMMITS, _by_member(group)),
        Ask(f"offset commit: by a member ahead of its time, {when}", _COMMITS, _by_member(group, later=1)),
        Ask(f"offset commit: by a member behind its time, {when}", _COMMITS, _by_member(group, later=-1)),
        Ask(f"offset commit: by a stranger, {when}", _COMMITS, _by_member(group, member_id="stranger")),
        Ask(
            f"offset commit: by nobody, in the generation, {when}", _COMMITS, _by_member(group, member_id="")
        ),
        Ask(
            f"offset commit: by a static stranger, {when}",
            (7, 8, 9),
            _by_member(group, group_instance_id="statue"),
        ),
        Ask(f"offset commit: by no member, {when}", _COMMITS, committed(group, ("orders", 0, 9))),
        Ask(
            f"offset commit: by a name without generation, {when}",
            _COMMITS,
            committed(group, ("orders", 0, 9), member_id="stranger"),
        ),
    )


def _looks(group: str, when: str) -> tuple[Ask, ...]:
    return (
        Ask(f"offset fetch: of members, {when}", (1, 5, 7, 9), fetched({group: _PLACES}, stable=True)),
        Ask(f"describe groups: with members, {when}", (0, 1, 2, 3, 4, 5, 6), described_groups(group)),
        Ask(f"list groups: with members, {when}", (0, 3, 4, 5), listed()),
        Ask(f"list groups: stable with members, {when}", (4, 5), listed(["Stable"])),
        Ask(
            f"offset delete: what is read and what is not, {when}",
            (0,),
            forgotten(group, {"orders": (0, 9), "quiet": (0,), "nowhere": (0,)}),
            changes=True,
        ),
        Ask(
            f"delete groups: with members, {when}",
            (0, 1, 2),
            always(delete_groups.DeleteGroupsRequest(groups_names=[group])),
            changes=True,
        ),
    )


def _story(group: str, protocol_type: str) -> tuple[Ask, ...]:
    return (
        Ask(
            f"join group: as {protocol_type}",
            (3,),
            _joined(group, protocol_type),
            learn=_learn_member(group),
            changes=True,
        ),
        *_commits(group, f"{protocol_type}, before it is assigned"),
        Ask(f"sync group: as {protocol_type}", (3,), _synced(group), changes=True),
        *_commits(group, f"{protocol_type}, stable"),
        *_looks(group, f"{protocol_type}, stable"),
        Ask(f"heartbeat: as {protocol_type}", (0, 3, 4), _heartbeat(group)),
    )


MEMBERS: Final = (
    *_story("club", "consumer"),
    *_story("choir", "singer"),
    Ask("leave group: the last", (1,), _left("club"), changes=True),
    *_commits("club", "after the last has left"),
    Ask("describe groups: without members again", (0, 3, 6), described_groups("club")),
    Ask("list groups: without members again", (5,), listed()),
    Ask("offset delete: nobody reads it", (0,), forgotten("club", {"orders": (0,)}), changes=True),
    Ask(
        "delete groups: without members again",
        (2,),
        always(delete_groups.DeleteGroupsRequest(groups_names=["club", "choir"])),
        changes=True,
    ),
    Ask("offset fetch: of the deleted", (9,), fetched({"club": None, "choir": None})),
    Ask("list groups: the last", (5,), listed()),
)
