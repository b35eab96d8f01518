"""Is this history possible if every promise was kept? Each thing that is not, found and shown.

Role.   `judge` gives the findings of a history. It knows nothing of brokers: the same rules hold on any Kafka.
Rules.  Pure. The promises, and their breaches:
        * An acknowledged record is there, unless its transaction was not committed. A record lies at one offset only.
        * Records of one producer to one partition lie in the order in which they were sent.
        * A record that failed for certain, or that nobody sent there, is not stored. Within a transaction it is not visible: a
          transaction of which a record failed cannot be committed.
        * Of a transaction all records are visible or none; all if it is known to be committed.
        * A group's position and the outputs of what lies below it are stored together.
        * A producer whose transactional id was taken by another writes and commits no more.
Elsewhere. Polls: `judge_reading`. Groups that only read: `judge_groups`. Limits of time: `judge_progress`.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from semel.verify.history.events import (
    COMMITTED,
    UNCOMMITTED,
    Acked,
    ClientEvent,
    Deciding,
    Failed,
    Position,
    Sent,
    Took,
)
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.index import Index, Place, named
from semel.verify.proof.judge_groups import judge_groups
from semel.verify.proof.judge_progress import stuck, unavailable, went_back
from semel.verify.proof.judge_reading import judge_reading

OUTPUT_OF: Final = "output of "
"""The beginning of an output's value; the input, `BY` and the maker follow."""
BY: Final = " by "


@dataclass(frozen=True, slots=True)
class Limits:
    """How long is too long."""

    stuck_seconds: float = 90.0
    """A last stable offset that stands still below the end of its log; above the transaction timeout."""
    unavailable_seconds: float = 30.0
    """Nobody was told anything good, faults that block everything left out."""


def output_of(value: str, sender: str) -> str:
    """The value of an output: says which input it is of, and is no other attempt's."""
    return f"{OUTPUT_OF}{value}{BY}{sender}"


def judge(history: Sequence[ClientEvent], limits: Limits | None = None) -> list[Finding]:
    """Everything that is wrong, in the order of `Anomaly`."""
    limits = limits or Limits()
    index = Index.of(history)
    findings = [
        *_lost_and_torn(index),
        *_duplicates(index),
        *_out_of_order(index),
        *_phantoms(index),
        *judge_reading(index),
        *_positions(index),
        *judge_groups(index),
        *_zombies(index),
        *went_back(history),
        *stuck(history, limits.stuck_seconds),
        *unavailable(history, limits.unavailable_seconds),
    ]
    order = list(Anomaly)
    return sorted(findings, key=lambda finding: order.index(finding.anomaly))


def counts(findings: Iterable[Finding]) -> dict[Anomaly, int]:
    """How many of each, every anomaly listed."""
    numbers = dict.fromkeys(Anomaly, 0)
    for finding in findings:
        numbers[finding.anomaly] += 1
    return numbers


def unread(history: Sequence[ClientEvent]) -> list[Place]:
    """Partitions that somebody wrote to and nobody read to their end, of both isolations: nothing is known of them."""
    logs = Index.of(history).logs
    written = {(event.topic, event.partition): None for event in history if isinstance(event, Sent)}
    return [
        where for where in written if any(where not in logs.get(one, {}) for one in (COMMITTED, UNCOMMITTED))
    ]


def _lost_and_torn(index: Index) -> Iterator[Finding]:
    for value, place in index.acked.items():
        sent = index.sent_as(value)
        if sent is None or sent.transaction is not None or index.own_places(value):
            continue
        if _is_drained(index, value):
            told = index.history[place]
            offset = told.offset if isinstance(told, Acked) else -1
            yield Finding(
                Anomaly.LOST,
                f"{value} was acknowledged at offset {offset} of {sent.topic}-{sent.partition} and is not there",
                index.events_of(value),
            )
    for transaction, values in index.parts.items():
        checked = [value for value in values if _is_drained(index, value) and not index.is_beyond(value)]
        seen = [value for value in checked if index.is_seen(value)]
        if index.outcome(transaction) == "aborted" or len(seen) == len(checked):
            continue  # A record seen of an aborted transaction is an aborted read.
        missing = [value for value in checked if not index.is_seen(value)]
        if seen:
            yield Finding(
                Anomaly.TORN,
                f"{named(transaction)}: {len(seen)} of {len(checked)} records are visible, {missing[0]} is not, "
                f"{seen[0]} is",
                (*index.events_of(seen[0]), *index.events_of(missing[0])),
            )
        elif index.outcome(transaction) == "committed":
            for value in missing:
                yield Finding(
                    Anomaly.LOST,
                    f"{value} of {named(transaction)}, which was committed, is not there",
                    index.events_of(value),
                )


def _duplicates(index: Index) -> Iterator[Finding]:
    for value, found in index.offsets.items():
        # A value nobody says to have sent comes from a task of Spark: a task tried again sends it again, uncommitted.
        places = found if value in index.sent else [one for one in found if index.is_visible(*one)]
        if len(places) > 1:
            where = ", ".join(f"{topic}-{partition} at {offset}" for (topic, partition), offset in places)
            polls = [poll for at, offset in places for poll in index.polls_of(at, offset)[:1]]
            yield Finding(
                Anomaly.DUPLICATE,
                f"{value} was sent once and lies {len(places)} times: {where}",
                (*index.events_of(value), *polls),
                tuple(offset for _, offset in places),
            )


def _out_of_order(index: Index) -> Iterator[Finding]:
    last: dict[tuple[str, Place], tuple[int, str]] = {}
    for value in index.sent:  # In the order in which they were sent.
        sent = index.sent_as(value)
        if sent is None or value not in index.offsets:
            continue
        where, offset = index.offsets[value][0]
        before = last.get((sent.process, where))
        if before is not None and before[0] > offset:
            yield Finding(
                Anomaly.REORDERED,
                f"{sent.process} sent {before[1]} before {value}; in {where[0]}-{where[1]} they lie at "
                f"{before[0]} and {offset}",
                (*index.events_of(before[1]), *index.events_of(value)),
            )
        last[sent.process, where] = offset, value


def _phantoms(index: Index) -> Iterator[Finding]:
    for value, place in index.failed.items():
        failed = index.history[place]
        sent = index.sent_as(value)
        in_transaction = sent is not None and sent.transaction is not None
        # A stored record of a transaction that is not visible is no breach: the failed record has the transaction aborted.
        is_there = index.is_seen(value) if in_transaction else value in index.offsets
        if isinstance(failed, Failed) and failed.certain and is_there:
            (topic, partition), offset = index.offsets[value][0]
            yield Finding(
                Anomaly.PHANTOM,
                f"{value} failed for certain ({failed.error}) and lies at offset {offset} of {topic}-{partition}",
                index.events_of(value),
            )
    for value, places in index.offsets.items():
        origin = _origin(index, value)
        for where, offset in places:
            if origin is not None and where[1] == origin.partition and origin.topic in ("", where[0]):
                continue
            sent_to = (
                "nobody sent it" if origin is None else f"it was sent to {origin.topic}-{origin.partition}"
            )
            yield Finding(
                Anomaly.PHANTOM,
                f"{value} lies at offset {offset} of {where[0]}-{where[1]}, and {sent_to}",
                (*index.events_of(value), *index.polls_of(where, offset)[:1]),
                (offset,),
            )


def _origin(index: Index, value: str) -> Sent | None:
    """The event that sent it; for the output of a task of Spark, the sending of its input, with any topic."""
    sent = index.sent_as(value)
    if sent is not None or not value.startswith(OUTPUT_OF):
        return sent
    of = index.sent_as(value.removeprefix(OUTPUT_OF).rpartition(BY)[0])
    return None if of is None else replace(of, topic="")


def _positions(index: Index) -> Iterator[Finding]:
    outputs: dict[str, list[str]] = {}
    for value in index.visible:
        if value.startswith(OUTPUT_OF):
            outputs.setdefault(value.removeprefix(OUTPUT_OF).rpartition(BY)[0], []).append(value)
    for value, made in outputs.items():
        if len(made) > 1:
            yield Finding(
                Anomaly.DUPLICATE,
                f"{value} was transformed {len(made)} times: {', '.join(made)} are visible",
                tuple(place for one in made for place in index.events_of(one)),
            )
    for place, event in enumerate(index.history):
        if not isinstance(event, Position) or not event.transforms:
            continue
        inputs = index.logs.get(COMMITTED, {}).get((event.topic, event.partition))
        if inputs is None:
            continue
        for offset, value in sorted(inputs.values.items()):
            is_done = offset < event.offset
            if is_done == (value in outputs):
                continue
            what = "no output of it is there" if is_done else "an output of it is there"
            relation = "below" if is_done else "not below"
            told = [place for one in outputs.get(value, ()) for place in index.events_of(one)]
            yield Finding(
                Anomaly.OFFSET_WITHOUT_OUTPUT if is_done else Anomaly.OUTPUT_WITHOUT_OFFSET,
                f"{value} at {offset} of {event.topic}-{event.partition} is {relation} the position {event.offset} "
                f"of {event.group}, and {what}",
                (*index.events_of(value), *told, place),
            )


def _zombies(index: Index) -> Iterator[Finding]:
    replaced: dict[str, tuple[float, int]] = {}
    """Process -> when another one took its id."""
    for places in index.took.values():
        for mine, theirs in itertools.pairwise(places):
            first, second = index.history[mine], index.history[theirs]
            if isinstance(first, Took) and isinstance(second, Took) and first.process != second.process:
                replaced[first.process] = second.at, theirs
    for value in index.offsets:
        sent = index.sent_as(value)
        if sent is None or sent.process not in replaced:
            continue
        since, place = replaced[sent.process]
        asked = None if sent.transaction is None else index.committing.get((sent.process, sent.transaction))
        committing = None if asked is None else index.history[asked]
        if sent.at > since:
            what = f"sent {value} after another process had taken its transactional id, and it is stored"
        elif isinstance(committing, Deciding) and committing.at > since and index.is_seen(value):
            what = f"asked to commit {value} after another process had taken its transactional id, and it is visible"
        else:
            continue
        shown = (place, *index.events_of(value), *(() if asked is None else (asked,)))
        yield Finding(Anomaly.ZOMBIE, f"{sent.process} {what}", shown)


def _is_drained(index: Index, value: str) -> bool:
    sent = index.sent_as(value)
    return sent is not None and (sent.topic, sent.partition) in index.logs.get(COMMITTED, {})
