"""One step of a member towards its target: give up first, then take what is free.

Role.   `reconcile` decides, at every heartbeat, what a member owns next, from the target, what others hold, and what
        the member says it still owns.
Rules.  * A partition goes to its next owner only after the one before has confirmed that it let go: that is what keeps
          two members from reading the same partition.
        * While a member has something to give up, it stays in its epoch and gets nothing new.
        * What it may have but is in other hands it gets at a later heartbeat; the rest it gets at once.
        * A member is never left with topics it does not subscribe to, whatever an older target says.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from semel.core.groups.consumer.assignor_spec import Assigned
from semel.core.groups.consumer.member import Member, Owned
from semel.core.groups.consumer.states import MemberState


class Situation(NamedTuple):
    """What surrounds a member when it is reconciled."""

    target_epoch: int
    target: Assigned
    subscribed: Collection[bytes]
    """The ids of the topics it subscribes to that exist."""
    partition_epoch: Callable[[bytes, int], int | None]
    """The epoch of whoever holds a partition; None if it is free."""
    owned: list[tuple[bytes, list[int]]] | None
    """What the member says it owns; None if it says nothing."""
    subscription_changed: bool = False


def reconcile(member: Member, around: Situation) -> Member | None:
    """The member after this step: itself if there is nothing to do, None if it has to begin again."""
    if not around.subscription_changed and member.is_reconciled_to(around.target_epoch):
        return member
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch != around.target_epoch:
                return _next(member, around)
            return _without_unsubscribed(member, around)
        case MemberState.UNREVOKED_PARTITIONS:
            if not _still_owns(member.pending_revocation, around.owned):
                return _next(member, around)
            return _without_unsubscribed(member, around) if around.subscription_changed else member
        case MemberState.UNRELEASED_PARTITIONS:
            return _next(member, around)
        case MemberState.UNKNOWN:
            return None if around.owned is None or around.owned else _next(member, around)


def _next(member: Member, around: Situation) -> Member:
    assigned: dict[bytes, dict[int, int]] = {}
    to_revoke: dict[bytes, dict[int, int]] = {}
    to_assign: dict[bytes, list[int]] = {}
    unreleased = False
    for topic_id in dict.fromkeys([*around.target, *member.assigned]):
        target = dict.fromkeys(around.target.get(topic_id, ()) if topic_id in around.subscribed else ())
        current = member.assigned.get(topic_id, {})
        kept = {partition: epoch for partition, epoch in current.items() if partition in target}
        revoked = {partition: epoch for partition, epoch in current.items() if partition not in kept}
        free = []
        for partition in target:
            if partition in kept:
                continue
            # What the member itself gives up is in nobody else's hands.
            own = partition in member.pending_revocation.get(topic_id, ())
            if own or around.partition_epoch(topic_id, partition) is None:
                free.append(partition)
            else:
                unreleased = True
        if kept:
            assigned[topic_id] = kept
        if revoked:
            to_revoke[topic_id] = revoked
        if free:
            to_assign[topic_id] = free
    if to_revoke and _still_owns(to_revoke, around.owned):
        return member.moved_to(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, assigned, to_revoke)
    for topic_id, partitions in to_assign.items():
        assigned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, around.target_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return member.moved_to(around.target_epoch, state, assigned, {})


def _without_unsubscribed(member: Member, around: Situation) -> Member:
    """Take away at once what it does not subscribe to any more, before there is a new target."""
    kept = {topic_id: parts for topic_id, parts in member.assigned.items() if topic_id in around.subscribed}
    if len(kept) == len(member.assigned):
        return member
    to_revoke = dict(member.pending_revocation)
    for topic_id, partitions in member.assigned.items():
        if topic_id not in kept:
            to_revoke[topic_id] = {**to_revoke.get(topic_id, {}), **partitions}
    if to_revoke and _still_owns(to_revoke, around.owned):
        return member.moved_to(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_revoke)
    return member.moved_to(member.member_epoch, member.state, kept, member.pending_revocation)


def _still_owns(partitions: Owned, owned: Iterable[tuple[bytes, list[int]]] | None) -> bool:
    """Whether the member has not confirmed that it let all of these go; one that says nothing has not."""
    if owned is None:
        return True
    return any(
        partition in partitions[topic_id]
        for topic_id, own in owned
        if topic_id in partitions
        for partition in own
    )
