"""Is this history possible if every promise was kept? Each thing that is not, found and shown.

Role.   `judge` gives the findings of a history. It knows nothing of brokers: the same rules hold on any Kafka.
Rules.  Pure. What is promised, and what breaks it:
        * An acknowledged record is there, unless its transaction was not committed. A record lies at one offset only.
        * Records of one producer to one partition lie in the order in which they were sent.
        * What failed for certain, was aborted or never to be committed is never handed to a reader of committed records.
        * Of a transaction all records are visible or none; all if it is known to be committed.
        * An offset has one value, for everybody and for ever, the one its producer was told.
        * A reader is handed offsets in order and passes over nothing that it may see.
        * A group's position and the outputs of what lies below it are stored together. What holds for groups that only read:
          `judge_groups`.
        * A producer whose transactional id was taken by another writes no more.
        * The last stable offset goes on, and so does the system, within the limits given.
"""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.events import (
    COMMITTED,
    Acked,
    Assigned,
    Drained,
    Ended,
    Event,
    Failed,
    Fault,
    Polled,
    Position,
    Repositioned,
    Sent,
    Stable,
    Took,
)
from semel.verify.proof.index import Index, Place, Transaction
from semel.verify.proof.judge_groups import judge_groups

OUTPUT_OF: Final = "output of "
"""What the value of an output begins with; then the input, `BY`, and who made it."""
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


def judge(history: Sequence[Event], limits: Limits | None = None) -> list[Finding]:
    """Everything that is wrong, in the order of `Anomaly`."""
    limits = limits or Limits()
    index = Index.of(history)
    findings = [
        *_lost_and_torn(index),
        *_duplicates(index),
        *_out_of_order(index),
        *_phantoms(index),
        *_aborted_reads(index),
        *_inconsistent(index),
        *_readers(index),
        *_positions(index),
        *judge_groups(index),
        *_zombies(index),
        *_stuck(history, limits),
        *_unavailable(history, limits),
    ]
    order = list(Anomaly)
    return sorted(findings, key=lambda finding: order.index(finding.anomaly))


def counts(findings: Iterable[Finding]) -> dict[Anomaly, int]:
    """How many of each, every anomaly listed."""
    numbers = dict.fromkeys(Anomaly, 0)
    for finding in findings:
        numbers[finding.anomaly] += 1
    return numbers


def _lost_and_torn(index: Index) -> Iterator[Finding]:
    visible = index.visible
    drained = index.logs.get(COMMITTED, {})
    for value, place in index.acked.items():
        sent = index.sent_as(value)
        if sent is None or sent.transaction is not None or value in visible:
            continue
        if (sent.topic, sent.partition) in drained:
            told = index.history[place]
            offset = told.offset if isinstance(told, Acked) else -1
            yield Finding(
                Anomaly.LOST,
                f"{value} was acknowledged at offset {offset} of {sent.topic}-{sent.partition} and is not there",
                index.events_of(value),
            )
    for transaction, values in index.parts.items():
        checked = [value for value in values if _is_drained(index, value)]
        seen = [value for value in checked if value in visible]
        if index.outcome(transaction) == "aborted" or len(seen) == len(checked):
            continue  # What is seen of an aborted one is an aborted read.
        missing = [value for value in checked if value not in visible]
        if seen:
            yield Finding(
                Anomaly.TORN,
                f"{_named(transaction)}: {len(seen)} of {len(checked)} records are visible, {missing[0]} is not, "
                f"{seen[0]} is",
                (*index.events_of(seen[0]), *index.events_of(missing[0])),
            )
        elif index.outcome(transaction) == "committed":
            for value in missing:
                yield Finding(
                    Anomaly.LOST,
                    f"{value} of {_named(transaction)}, which was committed, is not there",
                    index.events_of(value),
                )


def _duplicates(index: Index) -> Iterator[Finding]:
    for value, found in index.offsets.items():
        # What nobody says to have sent comes from tasks of Spark: a task that is tried again sends it again, uncommitted.
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
        if isinstance(failed, Failed) and failed.certain and not in_transaction and value in index.offsets:
            (topic, partition), offset = index.offsets[value][0]
            yield Finding(
                Anomaly.PHANTOM,
                f"{value} failed for certain ({failed.error}) and lies at offset {offset} of {topic}-{partition}",
                index.events_of(value),
            )


def _aborted_reads(index: Index) -> Iterator[Finding]:
    told: set[str] = set()
    for place in index.polls:
        poll = index.history[place]
        if not isinstance(poll, Polled) or poll.isolation != COMMITTED:
            continue
        for offset, value in poll.records:
            sent = index.sent_as(value)
            if sent is None or sent.transaction is None or value in told:
                continue
            if index.outcome((sent.process, sent.transaction)) == "aborted":
                told.add(value)
                yield Finding(
                    Anomaly.ABORTED_READ,
                    f"{poll.process} was handed {value} at {offset} of {poll.topic}-{poll.partition}; "
                    f"{_named((sent.process, sent.transaction))} was not committed",
                    (*index.events_of(value), place),
                    (offset,),
                )


def _inconsistent(index: Index) -> Iterator[Finding]:
    known: dict[tuple[Place, int], tuple[str, int]] = {}
    for value, place in index.acked.items():
        sent, acked = index.sent_as(value), index.history[place]
        if sent is not None and isinstance(acked, Acked) and acked.offset >= 0:
            known.setdefault(((sent.topic, sent.partition), acked.offset), (value, place))
    told: set[tuple[Place, int]] = set()
    for place in index.polls:
        poll = index.history[place]
        if not isinstance(poll, Polled):
            continue
        where = poll.topic, poll.partition
        for offset, value in poll.records:
            other, seen_at = known.setdefault((where, offset), (value, place))
            if other != value and (where, offset) not in told:
                told.add((where, offset))
                yield Finding(
                    Anomaly.INCONSISTENT,
                    f"offset {offset} of {poll.topic}-{poll.partition} is {other} and {value}",
                    (seen_at, place),
                    (offset,),
                )


def _readers(index: Index) -> Iterator[Finding]:
    """Polls that go back, and records that were passed over."""
    last: dict[tuple[str, Place], tuple[int, int]] = {}
    handed: dict[tuple[str, Place], set[int]] = {}
    moved: set[tuple[str, Place]] = set()
    for place, event in enumerate(index.history):
        if isinstance(event, Repositioned | Assigned):
            reader = event.process, (event.topic, event.partition)
            if last.pop(reader, None) is not None:
                moved.add(reader)  # It need not see all of it any more.
        elif isinstance(event, Polled):
            reader = event.process, (event.topic, event.partition)
            before = last.get(reader)
            for offset, value in event.records:
                if before is not None and offset <= before[0]:
                    yield Finding(
                        Anomaly.NON_MONOTONIC,
                        f"{event.process} was handed {value} at {offset} of {event.topic}-{event.partition} "
                        f"after offset {before[0]}",
                        (before[1], place),
                        (before[0], offset),
                    )
                before = offset, place
                handed.setdefault(reader, set()).add(offset)
            if before is not None:
                last[reader] = before
    for drained in index.history:
        if isinstance(drained, Drained):
            reader = drained.process, (drained.topic, drained.partition)
            if reader not in moved:
                yield from _passed_over(index, drained, handed.get(reader, set()))


def _passed_over(index: Index, drained: Drained, handed: set[int]) -> Iterator[Finding]:
    """What other readers of the same isolation were handed between the two offsets, and this one was not."""
    where = drained.topic, drained.partition
    for offset, value in sorted(index.logs[drained.isolation][where].values.items()):
        if drained.start <= offset < drained.end and offset not in handed:
            yield Finding(
                Anomaly.SKIPPED,
                f"{drained.process} read {drained.topic}-{drained.partition} from {drained.start} to {drained.end} "
                f"and was not handed {value} at {offset}",
                (*index.events_of(value), *index.polls_of(where, offset)[:1]),
                (offset,),
            )


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
    visible = index.visible
    replaced: dict[str, tuple[float, int]] = {}
    """Process -> when another one took its id."""
    for places in index.took.values():
        for mine, theirs in itertools.pairwise(places):
            first, second = index.history[mine], index.history[theirs]
            if isinstance(first, Took) and isinstance(second, Took) and first.process != second.process:
                replaced[first.process] = second.at, theirs
    for value in visible:
        sent = index.sent_as(value)
        if sent is None or sent.process not in replaced:
            continue
        since, place = replaced[sent.process]
        if sent.at > since:
            yield Finding(
                Anomaly.ZOMBIE,
                f"{sent.process} sent {value} after another process had taken its transactional id, and it is visible",
                (place, *index.events_of(value)),
            )


def _stuck(history: Sequence[Event], limits: Limits) -> Iterator[Finding]:
    """Where the last stable offset stood still for too long, or was not at the end when all was over."""
    since: dict[Place, tuple[int, float, int]] = {}
    latest: dict[Place, int] = {}
    told: set[Place] = set()
    for place, event in enumerate(history):
        if not isinstance(event, Stable):
            continue
        where = event.topic, event.partition
        latest[where] = place
        before = since.get(where)
        if event.stable >= event.end:
            since.pop(where, None)
        elif before is None or before[0] != event.stable:
            since[where] = event.stable, event.at, place
        elif event.at - before[1] > limits.stuck_seconds and where not in told:
            told.add(where)
            yield Finding(
                Anomaly.STUCK,
                f"the last stable offset of {event.topic}-{event.partition} stood at {event.stable} for "
                f"{event.at - before[1]:.0f} s; the log ends at {event.end}",
                (before[2], place),
            )
    for where, place in latest.items():
        event = history[place]
        if isinstance(event, Stable) and event.stable < event.end and where not in told:
            yield Finding(
                Anomaly.STUCK,
                f"when all was over, the last stable offset of {event.topic}-{event.partition} was {event.stable}; "
                f"the log ends at {event.end}",
                (place,),
            )


def _unavailable(history: Sequence[Event], limits: Limits) -> Iterator[Finding]:
    blocked = [(event.at, event.until) for event in history if isinstance(event, Fault) and event.blocks]
    before: tuple[float, int] | None = None
    for place, event in enumerate(history):
        good = isinstance(event, Acked | Polled) or (
            isinstance(event, Ended) and event.outcome == "committed"
        )
        if isinstance(event, Sent) and before is None:
            before = event.at, place
        if not good:
            continue
        if before is not None:
            excused = _covered(before[0], event.at, blocked)
            if event.at - before[0] - excused > limits.unavailable_seconds:
                yield Finding(
                    Anomaly.UNAVAILABLE,
                    f"for {event.at - before[0]:.1f} s nothing was acknowledged, committed or read "
                    f"({excused:.1f} s of them excused by faults)",
                    (before[1], place),
                )
        before = event.at, place


def _covered(start: float, end: float, intervals: list[tuple[float, float]]) -> float:
    """How much of a time the intervals cover."""
    total, reached = 0.0, start
    for first, last in sorted(intervals):
        first, last = max(first, reached), min(last, end)
        if last > first:
            total += last - first
            reached = last
    return total


def _is_drained(index: Index, value: str) -> bool:
    sent = index.sent_as(value)
    return sent is not None and (sent.topic, sent.partition) in index.logs.get(COMMITTED, {})


def _named(transaction: Transaction) -> str:
    return f"transaction {transaction[1]} of {transaction[0]}"
