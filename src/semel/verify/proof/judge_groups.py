"""Assignments, records and answers of group members: each one that cannot be if the group kept its promises.

Role.   `judge_groups` is the part of `judge` about groups that read and store their positions.
Rules.  Pure. The promises, and their breaches:
        * The next owner of a partition goes on at the stored position: it is never handed a record below. In the end the
          position is not below it, either. A commit not answered in time may still arrive and set the position back, until
          another member has stored one, or until it is too old to arrive.
        * Everything below the position a group has in the end was handed to one of its members.
        * Once another member has a partition, no position of the one before is stored: a member that was frozen is refused.
        * Left in peace, a group comes to the end of its input.
        Two members that read one partition at once are no breach: a member taken for dead does not know it yet. Its commits are.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from semel.verify.history.events import COMMITTED, Assigned, ClientEvent, Commit, Polled, Position, Unfinished
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.index import Index

_LATE_SECONDS: Final = 60.0
"""How long a commit whose answer was lost may be on its way."""
_ASKED_TWICE_SECONDS: Final = 4.0
"""A client that waits so long for an answer may have asked again: its first request may come after the second."""

Owned: TypeAlias = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass(slots=True)
class _Partition:
    """One partition in the eyes of one group; integers are places in the history."""

    given: list[int] = field(default_factory=list)
    commits: list[int] = field(default_factory=list)
    last: int | None = None
    """The position in the end."""


def judge_groups(index: Index) -> Iterator[Finding]:
    """Everything that is wrong with groups."""
    partitions: dict[Owned, _Partition] = {}
    groups_of: dict[str, str] = {}
    """Member -> its group."""
    for place, event in enumerate(index.history):
        if isinstance(event, Assigned):
            _of(partitions, event).given.append(place)
            groups_of[event.process] = event.group
        elif isinstance(event, Commit):
            _of(partitions, event).commits.append(place)
        elif isinstance(event, Position) and not event.transforms:
            _of(partitions, event).last = place
        elif isinstance(event, Unfinished):
            yield Finding(
                Anomaly.GROUP_STUCK,
                f"{event.group} was left in peace and stayed at {event.offset} of {event.topic}-{event.partition}, "
                f"which ends at {event.end}",
                (place,),
            )
    for owned, partition in partitions.items():
        yield from _lost(index, owned, partition)
        yield from _former_owners(index.history, partition)
    yield from _unread(index, groups_of)


def _of(partitions: dict[Owned, _Partition], event: Assigned | Commit | Position) -> _Partition:
    return partitions.setdefault((event.group, event.topic, event.partition), _Partition())


def _lost(index: Index, owned: Owned, partition: _Partition) -> Iterator[Finding]:
    """Owners that began below what was stored before they were given the partition, and an end that is below it."""
    group, topic, number = owned
    for given in partition.given:
        assigned = index.history[given]
        if not isinstance(assigned, Assigned):
            continue
        first = _first_poll(index, assigned.process, (topic, number), given)
        if first is None:
            continue
        stored = _stored_before(index.history, partition.commits, assigned.at)
        if stored is not None and first[1] < stored[1]:
            yield Finding(
                Anomaly.POSITION_LOST,
                f"{group} had stored {stored[1]} of {topic}-{number}; {assigned.process} was given it afterwards and "
                f"handed {first[1]}",
                (stored[0], given, first[0]),
                (first[1],),
            )
    position = None if partition.last is None else index.history[partition.last]
    if partition.last is not None and isinstance(position, Position):
        stored = _stored_before(index.history, partition.commits, position.at)
        if stored is not None and position.offset < stored[1]:
            yield Finding(
                Anomaly.POSITION_LOST,
                f"{group} had stored {stored[1]} of {topic}-{number}; in the end its position is {position.offset}",
                (stored[0], partition.last),
            )


def _first_poll(index: Index, process: str, where: tuple[str, int], after: int) -> tuple[int, int] | None:
    """The first poll of a partition after a place in the history, and the offset it begins with."""
    for place in index.handed.get((process, where), ()):
        poll = index.history[place]
        if place > after and isinstance(poll, Polled) and poll.records:
            return place, poll.records[0][0]
    return None


def _stored_before(history: Sequence[ClientEvent], commits: list[int], at: float) -> tuple[int, int] | None:
    """The commit that set the position which holds at a time, and the least that the position may be."""
    known = [
        (place, commit)
        for place in commits
        if isinstance(commit := history[place], Commit) and commit.asked_at < at
    ]
    stored = [(place, one) for place, one in known if one.outcome == "stored" and one.at < at]
    if not stored:
        return None
    best, highest = max(stored, key=lambda found: found[1].offset)
    late = [one.offset for _, one in known if _may_come_late(one, [other for _, other in stored])]
    return best, min([highest.offset, *late])


def _may_come_late(commit: Commit, stored: list[Commit]) -> bool:
    """Whether it, or a request of it that was given up, may have come after all of these."""
    if commit.outcome != "unknown" and commit.at - commit.asked_at < _ASKED_TWICE_SECONDS:
        return False
    return not any(
        (other.process != commit.process and other.asked_at > commit.asked_at)
        or other.asked_at > commit.asked_at + _LATE_SECONDS
        for other in stored
    )


def _former_owners(history: Sequence[ClientEvent], partition: _Partition) -> Iterator[Finding]:
    """Positions that were stored although they were asked for after another member had the partition."""
    given = [(history[place].at, place) for place in partition.given]
    for place in partition.commits:
        commit = history[place]
        if not isinstance(commit, Commit) or commit.outcome != "stored":
            continue
        before = [one for at, one in given if at < commit.asked_at]
        owner = history[before[-1]] if before else None
        if isinstance(owner, Assigned) and owner.process != commit.process:
            yield Finding(
                Anomaly.FORMER_OWNER,
                f"{commit.process} stored {commit.offset} of {commit.topic}-{commit.partition} for {commit.group} after "
                f"{owner.process} had been given the partition",
                (before[-1], place),
            )


def _unread(index: Index, groups_of: dict[str, str]) -> Iterator[Finding]:
    """The records below the position of a group that no member of it was handed."""
    for place, position in enumerate(index.history):
        if not isinstance(position, Position) or position.transforms:
            continue
        where = position.topic, position.partition
        log = index.logs.get(COMMITTED, {}).get(where)
        handed = {
            offset
            for (process, at), polls in index.handed.items()
            if at == where and groups_of.get(process) == position.group
            for poll in (index.history[one] for one in polls)
            if isinstance(poll, Polled)
            for offset, _value in poll.records
        }
        for offset, value in sorted(log.values.items()) if log is not None else ():
            if offset < position.offset and offset not in handed:
                yield Finding(
                    Anomaly.UNREAD,
                    f"{value} at {offset} of {position.topic}-{position.partition} is below the position {position.offset} "
                    f"of {position.group}, and no member of it was handed it",
                    (*index.events_of(value), place),
                )
