"""The records readers were handed: each one that cannot be if the logs kept their promises.

Role.   `judge_reading` is the part of `judge` about polls.
Rules.  Pure. The promises, and their breaches:
        * A reader of committed records is handed nothing of a transaction that was not to be committed, and nothing before its
          application has asked to commit.
        * An offset has one value, for everybody and for ever, the one its producer was told. A record handed to one reader is
          there for every later reader.
        * A reader is handed offsets in order and passes over no visible record. A reader of everything finds every record that
          readers of committed records find. Readers of committed records find every record outside transactions.
"""

from collections.abc import Iterator

from semel.verify.history.events import COMMITTED, UNCOMMITTED, Acked, Assigned, Drained, Polled, Repositioned
from semel.verify.proof.anomalies import Anomaly, Finding
from semel.verify.proof.index import Index, Place, named


def judge_reading(index: Index) -> Iterator[Finding]:
    """Everything that is wrong with what was handed out."""
    yield from _not_committed(index)
    yield from _inconsistent(index)
    yield from _gone(index)
    yield from _readers(index)


def _not_committed(index: Index) -> Iterator[Finding]:
    told: set[str] = set()
    for place, poll in index.all_polls():
        if poll.isolation != COMMITTED:
            continue
        for offset, value in poll.records:
            sent = index.sent_as(value)
            if sent is None or sent.transaction is None or value in told:
                continue
            transaction = sent.process, sent.transaction
            asked = index.committing.get(transaction)
            if index.outcome(transaction) == "aborted":
                why = f"{named(transaction)} was not committed"
            elif asked is not None and place < asked:
                why = f"only then its application asked to commit {named(transaction)}"
            else:
                continue
            told.add(value)
            shown = (*index.events_of(value), place, *(() if asked is None else (asked,)))
            yield Finding(
                Anomaly.ABORTED_READ,
                f"{poll.process} was handed {value} at {offset} of {poll.topic}-{poll.partition}; {why}",
                shown,
                (offset,),
            )


def _inconsistent(index: Index) -> Iterator[Finding]:
    known: dict[tuple[Place, int], tuple[str, int]] = {}
    told: set[tuple[Place, int]] = set()
    for value, place in index.acked.items():
        sent, acked = index.sent_as(value), index.history[place]
        if sent is None or not isinstance(acked, Acked) or acked.offset < 0:
            continue
        at = (sent.topic, sent.partition), acked.offset
        other, other_place = known.setdefault(at, (value, place))
        lies = index.own_places(value)
        if other != value:
            why = f"offset {acked.offset} of {sent.topic}-{sent.partition} was acknowledged for {other} and for {value}"
        elif lies and at not in lies:
            why = f"{value} was acknowledged at {acked.offset} of {sent.topic}-{sent.partition} and lies at {lies[0][1]}"
        else:
            continue
        told.add(at)
        polls = [poll for one in lies for poll in index.polls_of(*one)[:1]]
        shown = (*index.events_of(value), other_place, *polls[:1])
        yield Finding(Anomaly.INCONSISTENT, why, shown, tuple(offset for _, offset in lies))
    for place, poll in index.all_polls():
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


def _gone(index: Index) -> Iterator[Finding]:
    """Records handed to a reader but not to the last reader of the same isolation; acknowledged or not."""
    told: set[tuple[Place, int]] = set()
    for place, poll in index.all_polls():
        where = poll.topic, poll.partition
        log = index.logs.get(poll.isolation, {}).get(where)
        if log is None:
            continue
        for offset, value in poll.records:
            if offset < log.start or offset in log.values or (where, offset) in told:
                continue
            if _is_told_otherwise(index, value, poll.isolation):
                continue
            told.add((where, offset))
            yield Finding(
                Anomaly.LOST,
                f"{value} at {offset} of {poll.topic}-{poll.partition} was handed to {poll.process} and is not there any more",
                (*index.events_of(value), place),
                (offset,),
            )


def _is_told_otherwise(index: Index, value: str, isolation: str) -> bool:
    """Whether it is a lost write, a part of a torn transaction or an aborted read anyway."""
    sent = index.sent_as(value)
    if sent is None:
        return False
    if sent.transaction is None:
        return value in index.acked and not index.own_places(value)
    outcome = index.outcome((sent.process, sent.transaction))
    return outcome == "committed" or (outcome == "aborted" and isolation == COMMITTED)


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
    for place, drained in enumerate(index.history):
        if isinstance(drained, Drained):
            reader = drained.process, (drained.topic, drained.partition)
            if reader not in moved:
                yield from _passed_over(index, drained, place, handed.get(reader, set()))


def _passed_over(index: Index, drained: Drained, place: int, handed: set[int]) -> Iterator[Finding]:
    """The visible records between the two offsets that the reader was not handed."""
    where = drained.topic, drained.partition
    for offset, value in sorted(_to_be_seen(index, drained).items()):
        if drained.start <= offset < drained.end and offset not in handed:
            yield Finding(
                Anomaly.SKIPPED,
                f"{drained.process} read {drained.topic}-{drained.partition} from {drained.start} to {drained.end} "
                f"and was not handed {value} at {offset}",
                (*index.events_of(value), *index.polls_of(where, offset)[:1], place),
                (offset,),
            )


def _to_be_seen(index: Index, drained: Drained) -> dict[int, str]:
    """Offset -> value: the records readers of this isolation find there by the word of all readers."""
    where = drained.topic, drained.partition
    found = dict(index.logs[drained.isolation][where].values)
    other = index.logs.get(UNCOMMITTED if drained.isolation == COMMITTED else COMMITTED, {}).get(where)
    for offset, value in other.values.items() if other is not None else ():
        sent = index.sent_as(value)
        is_plain = sent is not None and sent.transaction is None
        if drained.isolation == UNCOMMITTED or is_plain:
            found.setdefault(offset, value)
    return found
