"""The promises of every run, whatever was done to it: a pure judgement over its history.

Role.   `judge` gives every broken promise as a sentence; none means that the run was right.
Rules.  The promises:
        * Stored: a batch whose producer was told so lies at the offset it was told, whole and unchanged, for as long as
          nobody deleted it. A kill loses nothing. A power cut loses at most the end of a log that is not synced before
          each answer, and nothing below its recovery point.
        * Once: no record lies at two offsets of a log, and no record lies anywhere of which its producer knows for
          certain that it is not stored.
        * No producer is refused that has done nothing wrong and whose past is there.
        * A topic made again under its old name is empty.
        * In order: a producer's records lie in the order in which they were given.
        * Read: a reader gets every offset once, in order, all below the high watermark; two readers, or a reader and the
          log, never differ about an offset.
        * Opened again after a kill, logs and producers are what they were.
        * A producer id is given once.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from semel.errors import ErrorCode
from semel.types import UNKNOWN_OFFSET, TopicPartition
from semel.verify.history.events import (
    Given,
    GivenUp,
    IdGiven,
    LogState,
    Place,
    Read,
    RecordsDeleted,
    Reopened,
    Settled,
    Unsure,
)
from semel.verify.history.run import History


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that was not kept; `topic` and `at` are where to look."""

    why: str
    topic: str | None = None
    at: float = math.inf


def judge_openings(history: History) -> list[Broken]:
    """The flaws written down, and logs that did not come back as they were."""
    return [*(Broken(flaw) for flaw in history.flaws), *_reopenings(history)]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Facts of a cluster that excuse what a broker alone must not do."""

    may_be_gone: Callable[[Place, Reopened], bool]
    """Whether a member's log was taken away before it was opened again."""
    led: Callable[[str, TopicPartition, float, float], bool]
    """Whether a member led a partition all the time between two moments. One that was deposed, and has not heard of it, may
    refuse what it has nothing of."""


def judge(history: History) -> list[Broken]:
    """Every promise that was broken."""
    return [*judge_openings(history), *_records(history)]


def judge_cluster(history: History, facts: ClusterFacts) -> list[Broken]:
    """The same where members replicate: `history.logs` are those of the leaders. Nothing that anybody was told may be lost."""
    return [
        *(Broken(flaw) for flaw in history.flaws),
        *_reopenings(history, facts),
        *_records(history, facts),
    ]


def _records(history: History, facts: ClusterFacts | None = None) -> list[Broken]:
    return [
        *_producer_ids(history),
        *_what_lies_where(history, loses_to_power=facts is None),
        *_carried_over(history),
        *_logs(history),
        *_failed_for_certain(history),
        *_refused_without_reason(history, facts),
        *_readers(history),
    ]


# Openings


def _reopenings(history: History, facts: ClusterFacts | None = None) -> Iterator[Broken]:
    deleted: dict[Place, int] = {}
    pending = list(history.of(RecordsDeleted))
    for opened in history.of(Reopened):
        while pending and pending[0].at <= opened.at:
            one = pending.pop(0)
            deleted[one.place] = max(deleted.get(one.place, 0), one.low_watermark)
        for place, before in opened.before.items():
            after = opened.after.get(place)
            if after is None:
                if not _was_being_deleted(history, before.topic, place, opened) and (
                    facts is None or not facts.may_be_gone(place, opened)
                ):
                    yield Broken(
                        f"{before.topic}-{place.partition} is gone after {opened.endings}",
                        before.topic,
                        opened.at,
                    )
                continue
            yield from _log_reopened(place, before, after, opened, may_follow=facts is not None)
            if after.start < deleted.get(place, 0):
                yield Broken(
                    f"{before.topic}-{place.partition} begins at {after.start} after {opened.endings}, its records below "
                    f"{deleted[place]} were reported as deleted",
                    before.topic,
                    opened.at,
                )


def _was_being_deleted(history: History, topic: str, place: Place, opened: Reopened) -> bool:
    """Whether a deletion was under way, or done, that explains a missing log: its end may be noted after the opening."""
    changes = [change for change in history.of(Unsure) if change.topic == topic]
    made = [index for index, change in enumerate(changes) if change.topic_id == place.topic_id]
    if not made:
        return True  # Nobody was ever sure of this topic: made and gone within one change.
    return any(change.since <= opened.at for change in changes[made[0] + 1 :])


def _log_reopened(
    place: Place, before: LogState, after: LogState, opened: Reopened, *, may_follow: bool
) -> Iterator[Broken]:
    """`may_follow`: what a follower shows need not be on its disk yet, it is on the leader's."""
    name = f"{before.topic}-{place.partition}"
    least, why = before.end, "nothing may be lost without a power cut"
    if opened.power_was_cut:
        least, why = before.recovery_point, "it was synced up to there"
        if before.synced_answers and before.high_watermark > least and not may_follow:
            least, why = before.high_watermark, "readers saw that, and it is synced before it is shown"
    if may_follow and opened.endings == ("clean stop",) and after.high_watermark < before.high_watermark:
        yield Broken(
            f"{name}: the high watermark is {after.high_watermark} after a clean stop, it was {before.high_watermark}",
            before.topic,
            opened.at,
        )
    if after.end < least:
        yield Broken(
            f"{name} ends at {after.end} after {opened.endings}, at least {least} expected: {why}",
            before.topic,
            opened.at,
        )
    if after.end == before.end and after.producers != before.producers:
        differing = {one.producer_id for one in {*before.producers} ^ {*after.producers}}
        yield Broken(
            f"{name}: the producers {sorted(differing)} are not what they were before {opened.endings}:\n"
            f"  before {before.producers}\n  after  {after.producers}",
            before.topic,
            opened.at,
        )


def _producer_ids(history: History) -> Iterator[Broken]:
    owners: dict[tuple[str, int], str] = {}
    for given in history.of(IdGiven):
        owner = owners.setdefault((given.broker, given.producer_id), given.producer)
        if owner != given.producer:
            yield Broken(f"producer id {given.producer_id} was given to {owner} and to {given.producer}")


# What lies where


class _Testimony:
    """The known records of one log, from everybody who was told or shown one."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.values: dict[int, tuple[bytes, str]] = {}
        self._losses: list[tuple[float, int]] = []

    def hear(self, told: Iterable[tuple[int, bytes]], since: float, who: str) -> Iterator[Broken]:
        """Take it up, or find that it contradicts what is known. A record lost since the asking counts for nothing."""
        for offset, value in told:
            if any(at > since and offset >= end for at, end in self._losses):
                continue
            known, witness = self.values.setdefault(offset, (value, who))
            if known != value:
                yield Broken(
                    f"{self.topic} offset {offset}: {witness} {_name(known)}, {who} {_name(value)}",
                    self.topic,
                )

    def lose(self, at: float, end: int) -> None:
        """A power cut took everything from `end` on, rightly: the offsets are free again."""
        self._losses.append((at, end))
        for offset in [offset for offset in self.values if offset >= end]:
            del self.values[offset]


def _what_lies_where(history: History, *, loses_to_power: bool) -> Iterator[Broken]:
    """Acknowledgements, readers and the log at the end must agree on every offset, but for what was lost rightly."""
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    known: dict[Place, _Testimony] = {}
    for event in history.events:
        match event:
            case Settled():
                batch = given[event.producer, event.batch]
                topic_id = event.topic_id or history.topic_at(batch.topic, event.since, event.at)
                if topic_id is None or event.base_offset == UNKNOWN_OFFSET:
                    continue
                testimony = known.setdefault(Place(topic_id, batch.partition), _Testimony(batch.topic))
                who = f"{event.producer} was told (batch {event.batch})"
                yield from testimony.hear(enumerate(batch.values, event.base_offset), event.since, who)
            case Read():
                topic_id = event.topic_id or history.topic_at(event.topic, event.since, event.at)
                if topic_id is None:
                    continue
                testimony = known.setdefault(Place(topic_id, event.partition), _Testimony(event.topic))
                yield from testimony.hear(event.records, event.since, f"{event.reader} read")
            case Reopened() if loses_to_power:
                for place, state in event.after.items():
                    if event.power_was_cut and not state.synced_answers:
                        known.setdefault(place, _Testimony(state.topic)).lose(event.at, state.end)
            case _:
                pass
    for place, (state, batches) in history.logs.items():
        held = {
            offset: value for batch in batches for offset, value in enumerate(batch.values, batch.base_offset)
        }
        testimony = known.get(place, _Testimony(state.topic))
        for offset, (value, who) in testimony.values.items():
            if offset >= state.start and held.get(offset) != value:
                yield Broken(
                    f"{state.topic}-{place.partition} offset {offset}: {who} {_name(value)}, the log holds "
                    f"{_name(held.get(offset))}",
                    state.topic,
                )


def _carried_over(history: History) -> Iterator[Broken]:
    """No record stored in one topic is in a later topic of the same name.

    Only an attempt that names its topic by name and arrives late can be stored again, in the new one.
    """
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    homes: dict[bytes, bytes] = {}
    for settled in history.of(Settled):
        batch = given[settled.producer, settled.batch]
        topic_id = settled.topic_id or history.topic_at(batch.topic, settled.since, settled.at)
        if topic_id is not None and (settled.topic_id is not None or settled.attempt == 1):
            homes.update(dict.fromkeys(batch.values, topic_id))
    for place, (state, batches) in history.logs.items():
        strange = [
            value
            for batch in batches
            for value in batch.values
            if homes.get(value, place.topic_id) != place.topic_id
        ]
        if strange:
            yield Broken(
                f"{state.topic}-{place.partition} holds {_name(strange[0])}, which was stored in an earlier topic of that name",
                state.topic,
            )


# Logs


def _logs(history: History) -> Iterator[Broken]:
    """Every record was given, lies once and in its producer's order, and with its whole batch."""
    given = {value: one for one in history.of(Given) for value in one.values}
    order = {value: number for number, value in enumerate(given)}
    for place, (state, batches) in history.logs.items():
        name = f"{state.topic}-{place.partition}"
        seen: dict[bytes, int] = {}
        newest: dict[str, int] = {}
        for batch in batches:
            source = given.get(batch.values[0]) if batch.values else None
            if source is None or source.values != batch.values:
                yield Broken(
                    f"{name} offset {batch.base_offset}: nobody gave the batch {[*map(_name, batch.values)]}",
                    state.topic,
                )
                continue
            if (source.topic, source.partition) != (state.topic, place.partition):
                yield Broken(
                    f"{name} offset {batch.base_offset} holds what was given for {source.topic}-{source.partition}",
                    state.topic,
                )
            for value in batch.values:
                if value in seen:
                    yield Broken(
                        f"{name}: {_name(value)} is stored twice, at {seen[value]} and in the batch at {batch.base_offset}",
                        state.topic,
                    )
                seen[value] = batch.base_offset
            if newest.get(source.producer, -1) > order[batch.values[0]]:
                yield Broken(
                    f"{name}: {_name(batch.values[0])} at offset {batch.base_offset} was given before what lies before it",
                    state.topic,
                )
            newest[source.producer] = order[batch.values[-1]]


def _failed_for_certain(history: History) -> Iterator[Broken]:
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    held = {
        value: (state.topic, place.partition, batch.base_offset)
        for place, (state, batches) in history.logs.items()
        for batch in batches
        for value in batch.values
    }
    for failed in history.of(GivenUp):
        value = given[failed.producer, failed.batch].values[0]
        if not failed.maybe_stored and value in held:
            topic, partition, offset = held[value]
            yield Broken(
                f"{topic}-{partition} offset {offset} holds {_name(value)}, of which {failed.producer} was certain that "
                f"it is not stored ({failed.code})",
                topic,
            )


def _refused_without_reason(history: History, facts: ClusterFacts | None) -> Iterator[Broken]:
    """A sequence is refused for good only where the broker may have lost the one before, or the producer gave it up."""
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    unsteady = {state.topic for opened in history.of(Reopened) for state in _lossy(opened)}
    changes = [change.topic for change in history.of(Unsure)]
    unsteady |= {topic for topic in changes if changes.count(topic) > 1}
    gaps: set[tuple[str, str, int]] = set()
    for failed in history.of(GivenUp):
        batch = given[failed.producer, failed.batch]
        lane = (failed.producer, batch.topic, batch.partition)
        out_of_order = failed.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name
        if facts is not None:
            where = TopicPartition(batch.topic, batch.partition)
            out_of_order = out_of_order and facts.led(failed.refused_by, where, batch.at, failed.at)
        if out_of_order and lane not in gaps and batch.topic not in unsteady:
            yield Broken(
                f"{batch.topic}-{batch.partition}: batch {failed.batch} of {failed.producer} was refused as out of "
                "order, but nothing before it is missing",
                batch.topic,
            )
        gaps.add(lane)


def _lossy(opened: Reopened) -> Iterator[LogState]:
    return (
        state
        for place, state in opened.before.items()
        if place not in opened.after or opened.after[place].end < state.end
    )


# Readers


def _readers(history: History) -> Iterator[Broken]:
    positions: dict[tuple[str, int, str, int], int] = {}
    for read in history.of(Read):
        who = f"{read.reader} in turn {read.turn} of {read.topic}-{read.partition}"
        key = (read.reader, read.turn, read.topic, read.partition)
        for offset, _value in read.records:
            expected = positions.get(key, offset)
            if offset != expected:
                yield Broken(f"{who}: offset {offset} came where {expected} was next", read.topic, read.at)
            if offset >= read.limit:
                yield Broken(
                    f"{who}: offset {offset} came, readers may see up to {read.limit}", read.topic, read.at
                )
            positions[key] = offset + 1


def _name(value: bytes | None) -> str:
    return "nothing" if value is None else value.partition(b" ")[0].decode(errors="replace")
