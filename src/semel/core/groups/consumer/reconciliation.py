"""One step of a member towards its target: first revoke, then take free partitions.

Role.   `reconcile` decides at every heartbeat which partitions a member owns next. It uses the target, the other
        members' partitions, and the member's reported ones.
Rules.  * A partition goes to its next owner only after the previous owner has confirmed its revocation, so two members
          never read the same partition.
        * While a member has partitions to revoke, it stays in its epoch and gets no new ones.
        * A member gets free partitions of its target at once, and the others at a later heartbeat, when they are free.
        * A member never keeps partitions of an unsubscribed topic, even if an older target has them.
"""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from semel.core.groups.consumer.assignor_spec import Assigned
from semel.core.groups.consumer.member import Member, Owned
from semel.core.groups.consumer.states import MemberState


class Situation(NamedTuple):
    """The inputs of a reconciliation besides the member."""

    target_epoch: int
    target: Assigned
    subscribed: Collection[bytes]
    """Ids of its subscribed topics that exist."""
    partition_epoch: Callable[[bytes, int], int | None]
    """The epoch of a partition's holder; None if it is free."""
    owned: list[tuple[bytes, list[int]]] | None
    """Partitions the member reports as owned; None if it reports nothing."""
    subscription_changed: bool = False


def reconcile(member: Member, around: Situation) -> Member | None:
    """The member after this step: unchanged if there is nothing to do, None if it must rejoin."""
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
            # Partitions the member itself is revoking are not held by others.
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
    """Revoke partitions of unsubscribed topics at once, before there is a new target."""
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
    """Whether the member has yet to confirm the revocation of these; without a report it has not."""
    if owned is None:
        return True
    return any(
        partition in partitions[topic_id]
        for topic_id, own in owned
        if topic_id in partitions
        for partition in own
    )
