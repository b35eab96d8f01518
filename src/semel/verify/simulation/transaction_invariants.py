"""The promises of transactions in every run: a pure judgement over the history and the logs it left.

Role.   `judge` gives every broken promise as a sentence. It trusts nothing but the log's bytes: which records are
        committed follows from batches and markers, by the rule every Kafka client has.
Rules.  The promises:
        * All or nothing: of a transaction either every record is committed, once, on every partition, or none is. A
          transaction acknowledged as committed is. A transaction never asked to commit is not. A transaction that another
          system decided to commit is committed in the end, by any instance. A deleted topic takes its records along; records
          in the topic made again are all or nothing with the transaction's other records.
        * Read: a reader of committed records gets exactly those, each at its offset, in the end all of them; nobody reads a
          record the log does not hold.
        * The last stable offset only grows: a later answer is never below an earlier one, unless a power cut has taken the
          end of the log in between.
        * In order: the batches one instance gave for a partition lie there in that order.
        * Fenced: once a successor has its identity, nothing of an earlier one is appended under the transactional id.
        * Identities are given once, and an epoch never goes back, to clients and in `__transaction_state` alike; its rows
          make only legal moves. A producer id is left for the next one when its epochs are used up, and only then.
        * Nothing hangs: in the end nothing is open.
        * Every input has one output, and the group's offsets say exactly how far that is.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.core.transactions.states import MOVES
from semel.core.transactions.transaction import EPOCH_LAST, Transaction
from semel.types import TopicPartition
from semel.verify.history.events import (
    Deciding,
    Ended,
    Given,
    Place,
    Read,
    Reopened,
    StableSeen,
    Took,
    Unsure,
)
from semel.verify.history.run import History, StoredBatch
from semel.verify.simulation.invariants import Broken

_OUTPUT_OF: Final = b"<"


@dataclass(slots=True)
class Stored:
    """Where a value lies, and whether it is committed; None while its transaction is open."""

    place: Place
    topic: str
    offset: int
    committed: bool | None


@dataclass(slots=True)
class Aftermath:
    """The facts known when everything is over, beside the history."""

    offsets: Mapping[TopicPartition, int]
    """The committed offsets of the workers' group; empty without workers."""
    rows: Sequence[Transaction] = ()
    """Every row of `__transaction_state`, in order."""
    readers: Mapping[str, bool] = field(default_factory=dict)
    """Whether each reader reads only what is committed."""
    mortal_topics: frozenset[str] = frozenset()
    """Topics that may have been deleted and made again; they are read by id."""


def judge(history: History, final: Aftermath) -> list[Broken]:
    """Every promise that was broken."""
    stored = [
        one
        for place, (state, batches) in history.logs.items()
        for one in fates_of(place, state.topic, batches)
    ]
    by_value: dict[bytes, list[Stored]] = {}
    for value, one in stored:
        by_value.setdefault(value, []).append(one)
    return [
        *_open(stored),
        *_all_or_nothing(history, by_value, _gone(history, final, by_value)),
        *_read(history, final, stored),
        *_only_grows(history, final),
        *_in_order(history),
        *_fenced(history),
        *_identities(history),
        *_rows(final.rows),
        *_pipeline(final, by_value),
    ]


def fates_of(place: Place, topic: str, batches: list[StoredBatch]) -> Iterator[tuple[bytes, Stored]]:
    """Every record with its fate: that of the first marker of its producer after it."""
    open_ones: dict[int, list[tuple[bytes, Stored]]] = {}
    everything: list[tuple[bytes, Stored]] = []
    for batch in batches:
        if batch.commits is not None:
            for _value, one in open_ones.pop(batch.producer_id, ()):
                one.committed = batch.commits
            continue
        new = [
            (value, Stored(place, topic, offset, None if batch.is_transactional else True))
            for offset, value in enumerate(batch.values, batch.base_offset)
        ]
        everything += new
        if batch.is_transactional:
            open_ones.setdefault(batch.producer_id, []).extend(new)
    yield from everything


def _open(stored: list[tuple[bytes, Stored]]) -> Iterator[Broken]:
    for value, one in stored:
        if one.committed is None:
            yield Broken(
                f"{_at(one)}: {value.decode()} is neither committed nor aborted in the end", one.topic
            )


# All or nothing


def _gone(history: History, final: Aftermath, by_value: Mapping[bytes, list[Stored]]) -> set[bytes]:
    """Values that are nowhere, for their topic may have been deleted after they were given."""
    made = {one.topic: one.until for one in history.of(Unsure) if one.topic in final.mortal_topics}
    return {
        value
        for one in history.of(Given)
        if one.at < made.get(one.topic, -1.0)
        for value in one.values
        if value not in by_value
    }


def _all_or_nothing(
    history: History, by_value: Mapping[bytes, list[Stored]], gone: set[bytes]
) -> Iterator[Broken]:
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    fates: dict[tuple[str, int], str] = {
        (one.process, one.transaction): one.outcome for one in history.of(Ended)
    }
    asked: set[tuple[str, int]] = set()
    for decision in history.of(Deciding):
        if not decision.commit:
            continue
        asked.update((decision.process, batch) for batch in decision.batches)
        fate = fates.get((decision.process, decision.transaction), "unknown")
        batches = [given[decision.process, batch] for batch in decision.batches]
        counts = {
            value: _committed(by_value.get(value, []))
            for one in batches
            for value in one.values
            if value not in gone
        }
        name = f"transaction {decision.transaction} of {decision.process} ({fate})"
        topic = batches[0].topic if batches else None
        twice = [value for value, count in counts.items() if count > 1]
        there = [value for value, count in counts.items() if count]
        missing = [value for value, count in counts.items() if not count]
        if twice:
            yield Broken(f"{name}: {twice[0].decode()} is committed {counts[twice[0]]} times", topic)
        if there and missing:
            yield Broken(
                f"{name} is torn: {there[0].decode()} is committed, {missing[0].decode()} is not", topic
            )
        elif fate == "committed" and missing:
            yield Broken(f"{name}: {missing[0].decode()} is lost", topic)
        elif decision.is_final and missing:
            yield Broken(f"{name} was decided for good: {missing[0].decode()} is not committed", topic)
        elif fate == "aborted" and there:
            yield Broken(f"{name}: {there[0].decode()} is committed all the same", topic)
    for key, batch in given.items():
        for value in batch.values if key not in asked else ():
            if _committed(by_value.get(value, [])):
                yield Broken(
                    f"{value.decode()} is committed, and {batch.producer} never asked for that", batch.topic
                )


def _committed(places: list[Stored]) -> int:
    return sum(one.committed is True for one in places)


# Readers


def _read(history: History, final: Aftermath, stored: list[tuple[bytes, Stored]]) -> Iterator[Broken]:
    held = {(one.topic, one.place.partition, one.offset): (value, one) for value, one in stored}
    latest: dict[tuple[str, str, int], tuple[int, set[int]]] = {}
    for read in history.of(Read):
        if (
            read.topic in final.mortal_topics
            and Place(read.topic_id or b"", read.partition) not in history.logs
        ):
            continue  # The records it read were deleted with their topic.
        committed = final.readers[read.reader]
        turn, seen = latest.get((read.reader, read.topic, read.partition), (-1, set()))
        if turn != read.turn:
            seen = set()
        for offset, value in read.records:
            found = held.get((read.topic, read.partition, offset))
            where = f"{read.reader} read {value.decode()} at {read.topic}-{read.partition} offset {offset}"
            if found is None or found[0] != value:
                there = "nothing" if found is None else found[0].decode()
                yield Broken(f"{where}, the log holds {there}", read.topic, read.at)
            elif committed and found[1].committed is not True:
                yield Broken(f"{where}, which is not committed", read.topic, read.at)
            if offset in seen:
                yield Broken(f"{where} twice", read.topic, read.at)
            if offset >= read.limit:
                yield Broken(f"{where}, it may see up to {read.limit}", read.topic, read.at)
            seen.add(offset)
        latest[read.reader, read.topic, read.partition] = (read.turn, seen)
    for reader, committed in final.readers.items():
        for (topic, partition, offset), (value, one) in held.items():
            if one.committed is True or not committed:
                _turn, seen = latest.get((reader, topic, partition), (-1, set()))
                if offset not in seen:
                    yield Broken(
                        f"{reader} never read {value.decode()} at {topic}-{partition} offset {offset}", topic
                    )


def _only_grows(history: History, final: Aftermath) -> Iterator[Broken]:
    told: dict[tuple[str, bytes | None, int], list[StableSeen]] = {}
    cut: dict[tuple[str, int], float] = {}
    for event in history.events:
        if isinstance(event, Reopened):
            cut |= dict.fromkeys(_cut_back(event), event.at)
        if not isinstance(event, StableSeen) or (
            event.topic in final.mortal_topics and event.topic_id is None
        ):
            continue
        since = cut.get((event.topic, event.partition), -math.inf)
        if event.since < since:
            continue  # The process that answered it may have known more than its successor.
        earlier = told.setdefault((event.topic, event.topic_id, event.partition), [])
        known = [one for one in earlier if since <= one.since and one.at <= event.since]
        most = max(known, key=lambda one: one.offset, default=event)
        if most.offset > event.offset:
            yield Broken(
                f"{event.topic}-{event.partition}: {event.reader} may read up to {event.offset}, and "
                f"{most.reader} was told {most.offset} before: the last stable offset went back",
                event.topic,
                event.at,
            )
        earlier.append(event)


def _cut_back(opened: Reopened) -> Iterator[tuple[str, int]]:
    """The partitions that lost their end."""
    for place, before in opened.before.items():
        after = opened.after.get(place)
        if after is not None and after.end < before.end:
            yield before.topic, place.partition


def _in_order(history: History) -> Iterator[Broken]:
    order = {value: number for number, value in enumerate(v for one in history.of(Given) for v in one.values)}
    owner = {value: one for one in history.of(Given) for value in one.values}
    for place, (state, batches) in history.logs.items():
        newest: dict[str, int] = {}
        for batch in batches:
            for value in batch.values:
                source = owner.get(value)
                if source is None or (source.topic, source.partition) != (state.topic, place.partition):
                    yield Broken(
                        f"{state.topic}-{place.partition}: nobody gave {value.decode()} for it", state.topic
                    )
                    continue
                if newest.get(source.producer, -1) >= order[value]:
                    yield Broken(
                        f"{state.topic}-{place.partition}: {value.decode()} lies behind what was given after it",
                        state.topic,
                    )
                newest[source.producer] = order[value]


# Identities


def _fenced(history: History) -> Iterator[Broken]:
    identities: dict[str, set[tuple[int, int]]] = {}
    for one in history.of(Took):
        identities.setdefault(one.transactional_id, set()).add((one.producer_id, one.producer_epoch))
    for one in history.of(Took):
        earlier = {
            identity
            for identity in identities[one.transactional_id]
            if identity < (one.producer_id, one.producer_epoch)
        }
        for place, end in one.ends.items():
            state, batches = history.logs.get(place, (None, []))
            for batch in batches:
                if batch.base_offset < end or state is None or not batch.is_transactional:
                    continue
                if one.keeps and batch.commits is not None:
                    continue
                if (batch.producer_id, batch.producer_epoch) in earlier:
                    what = "a marker" if batch.commits is not None else batch.values[0].decode()
                    yield Broken(
                        f"{state.topic}-{place.partition} offset {batch.base_offset}: {what} of producer "
                        f"{batch.producer_id}, epoch {batch.producer_epoch}, was written after {one.process} had epoch "
                        f"{one.producer_epoch} of {one.transactional_id}",
                        state.topic,
                        one.at,
                    )
                    break


def _identities(history: History) -> Iterator[Broken]:
    given: dict[tuple[int, int], str] = {}
    latest: dict[str, list[Took]] = {}
    for one in history.of(Took):
        identity = (one.producer_id, one.producer_epoch)
        if one.producer_epoch > EPOCH_LAST:
            yield Broken(f"{one.process} is given epoch {one.producer_epoch}, kept for markers", at=one.at)
        other = given.setdefault(identity, one.process)
        if other != one.process:
            yield Broken(
                f"{other} and {one.process} both are producer {identity[0]}, epoch {identity[1]}", at=one.at
            )
        for before in latest.setdefault(one.transactional_id, []):
            if before.at <= one.since and (before.producer_id, before.producer_epoch) >= identity:
                yield Broken(
                    f"{one.transactional_id}: {one.process} is given producer {identity[0]}, epoch {identity[1]}, after "
                    f"{before.process} had {before.producer_id}, {before.producer_epoch}",
                    at=one.at,
                )
        latest[one.transactional_id].append(one)


def _rows(rows: Sequence[Transaction]) -> Iterator[Broken]:
    last: dict[str, Transaction] = {}
    for row in rows:
        before = last.get(row.transactional_id)
        if before is not None:
            if row.state not in MOVES[before.state]:
                yield Broken(f"{row.transactional_id} moved from {before.state.label} to {row.state.label}")
            if row.producer_id == before.producer_id and row.producer_epoch < before.producer_epoch:
                yield Broken(
                    f"{row.transactional_id}: its epoch went from {before.producer_epoch} to {row.producer_epoch}"
                )
            yield from _rotated(before, row)
        last[row.transactional_id] = row
    for row in last.values():
        if not row.state.may_expire:
            yield Broken(f"{row.transactional_id} is {row.state.label} in the end")


def _rotated(before: Transaction, row: Transaction) -> Iterator[Broken]:
    """A new producer id begins at epoch 0, and only where the old one has no epoch left to give."""
    (old_id, old_epoch), (new_id, new_epoch) = _client_identity(before), _client_identity(row)
    if new_id != old_id and (old_epoch < EPOCH_LAST or new_epoch != 0 or new_id < old_id):
        yield Broken(
            f"{row.transactional_id}: its producer went from {old_id}, epoch {old_epoch}, to {new_id}, epoch {new_epoch}"
        )


def _client_identity(row: Transaction) -> tuple[int, int]:
    return (
        row.identity_after if row.state.is_prepared else (row.client_producer_id, row.client_producer_epoch)
    )


# Consume, transform, produce


def _pipeline(final: Aftermath, by_value: Mapping[bytes, list[Stored]]) -> Iterator[Broken]:
    outputs = Counter(
        value.partition(_OUTPUT_OF)[2]
        for value, places in by_value.items()
        if _OUTPUT_OF in value
        for one in places
        if one.committed is True
    )
    for value, places in by_value.items():
        for one in places:
            offset = final.offsets.get(TopicPartition(one.topic, one.place.partition))
            if offset is None or one.committed is not True:
                continue
            count, name = outputs.pop(value, 0), f"the input {value.decode()} at {_at(one)}"
            if count > 1:
                yield Broken(f"{name} has {count} outputs", one.topic)
            elif count and one.offset >= offset:
                yield Broken(f"{name} has an output, the group has committed {offset}", one.topic)
            elif not count and one.offset < offset:
                yield Broken(f"{name} has no output, the group has committed {offset}", one.topic)
            elif not count:
                yield Broken(f"{name} was never transformed, the group has committed {offset}", one.topic)
    for value in outputs:
        yield Broken(f"there is an output of {value.decode()}, which is not a committed input")


def _at(one: Stored) -> str:
    return f"{one.topic}-{one.place.partition} offset {one.offset}"
