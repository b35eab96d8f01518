"""The promises of a replicated cluster (I1 to I6 of its specification): a pure judgement over what was seen of it.

Role.   `judge` gives every broken promise as a sentence, beside `invariants`, whose promises to clients hold in a cluster as well.
Rules.  The promises:
        * I1 A record that was acknowledged by all is on every leader of a later epoch, and in the end in every log. Before that, all
          that is committed, below any high watermark, is on every member of the ISR.
        * I2 What lies below a replica's high watermark never changes, and is the same on every replica, to the byte. In the end
          all replicas are the same.
        * I3 Every leader epoch of a partition has one leader: the one that ZooKeeper names, ordered in the life in which it leads.
          A log's epochs never go back, nor do those that a member believes in.
        * I4 A leader with fewer members in the ISR than `min.insync.replicas` commits nothing, and takes no record that all are to
          acknowledge. The end that readers may see never goes back. (No record that was read goes away: `invariants`.)
        * I5 At ZooKeeper a leader is in the ISR, or there is none; the ISR is among the replicas, and never empty.
        * I6 Replicas that hold the same have the same producers.
"""

import bisect
from collections.abc import Iterable, Iterator

from semel.types import UNKNOWN_OFFSET, TopicPartition
from semel.verify.history.events import Given, Place, Settled
from semel.verify.history.run import History
from semel.verify.simulation.controller.cluster import NO_LEADER
from semel.verify.simulation.invariants import Broken
from semel.verify.simulation.replicas import BatchSeen, ReplicaSeen, Sightings


def judge(history: History, seen: Sightings) -> list[Broken]:
    """Everything that is broken."""
    return [
        *_acknowledged(history, seen),
        *_lacks(seen),
        *_committed(seen),
        *_same_in_the_end(seen),
        *_leaders(seen),
        *_epochs_of_logs(seen),
        *_news(seen),
        *_moved_alone(seen),
        *_ends(history, seen),
        *_states(seen),
        *_producers(seen),
    ]


# I1


def _acknowledged(history: History, seen: Sightings) -> Iterator[Broken]:
    """Leaders that lack what was acknowledged before they were seen, and belongs to an earlier epoch.

    A leader that was followed by another, and has not heard of it, needs to have nothing of what that one acknowledges.
    """
    final = _longest(seen.last)
    begun = _begun(seen)
    acknowledged = _acknowledged_offsets(history)
    for look in seen.looks:
        kept = final.get(look.place)
        if look.leads_in is None or kept is None:
            continue
        held = {batch.base_offset: batch for batch in look.batches}
        until = min(
            [look.at, *(at for epoch, at in begun.get(look.place, {}).items() if epoch > look.leads_in)]
        )
        for offset, (at, who) in acknowledged.get(look.place, {}).items():
            expected = _covering(kept.batches, offset)
            if expected is None or at > until or expected.leader_epoch >= look.leads_in:
                continue
            if offset >= look.start and held.get(expected.base_offset) != expected:
                yield Broken(
                    f"I1: {look} leads in epoch {look.leads_in}, and offset {offset}, of which {who} was told in time, is "
                    f"{_shown(_covering(look.batches, offset))} there, {_shown(expected)} in the end",
                    look.topic,
                    look.at,
                )
                break


def _lacks(seen: Sightings) -> Iterator[Broken]:
    for one in seen.lacks:
        yield Broken(
            f"I1: {one.topic}-{one.place.partition} is committed up to {one.committed.end_offset}, the last record of epoch "
            f"{one.committed.epoch}; broker {one.broker} is in the ISR {list(one.isr)}, its log ends at {one.held.end_offset}, and "
            f"that record is of epoch {one.held.epoch}",
            one.topic,
            one.at,
        )


def _begun(seen: Sightings) -> dict[Place, dict[int, float]]:
    """When ZooKeeper had each leader epoch first."""
    found: dict[Place, dict[int, float]] = {}
    for one in seen.states:
        found.setdefault(one.place, {}).setdefault(one.leader_epoch, one.at)
    return found


def _acknowledged_offsets(history: History) -> dict[Place, dict[int, tuple[float, str]]]:
    """Of each partition: the offsets that were acknowledged, when, and to whom."""
    given = {(one.producer, one.batch): one for one in history.of(Given)}
    found: dict[Place, dict[int, tuple[float, str]]] = {}
    for settled in history.of(Settled):
        batch = given[settled.producer, settled.batch]
        topic_id = settled.topic_id or history.topic_at(batch.topic, settled.since, settled.at)
        if topic_id is None or settled.base_offset == UNKNOWN_OFFSET:
            continue
        offsets = found.setdefault(Place(topic_id, batch.partition), {})
        offsets.setdefault(settled.base_offset, (settled.at, f"{settled.producer} (batch {settled.batch})"))
    return found


def _longest(replicas: Iterable[ReplicaSeen]) -> dict[Place, ReplicaSeen]:
    found: dict[Place, ReplicaSeen] = {}
    for one in replicas:
        if one.place not in found or one.end > found[one.place].end:
            found[one.place] = one
    return found


def _covering(batches: tuple[BatchSeen, ...], offset: int) -> BatchSeen | None:
    """The batch that holds an offset."""
    index = bisect.bisect_right(batches, offset, key=lambda one: one.base_offset) - 1
    return batches[index] if index >= 0 and offset < batches[index].next_offset else None


def _shown(batch: BatchSeen | None) -> str:
    if batch is None:
        return "not"
    return f"in the batch [{batch.base_offset}, {batch.next_offset}) of epoch {batch.leader_epoch}, checksum {batch.crc:#x},"


# I2


def _committed(seen: Sightings) -> Iterator[Broken]:
    """Below high watermarks two looks differ, at one replica or at two."""
    known: dict[Place, dict[int, tuple[BatchSeen, ReplicaSeen]]] = {}
    for look in [*seen.looks, *seen.last]:
        committed = known.setdefault(look.place, {})
        for batch in look.batches:
            if batch.next_offset > look.high_watermark:
                break
            before, witness = committed.setdefault(batch.base_offset, (batch, look))
            if before != batch:
                yield Broken(
                    f"I2: offset {batch.base_offset} of {look} is {_shown(batch)} below its high watermark "
                    f"{look.high_watermark}; on broker {witness.broker} at {witness.at:.4f} s it was {_shown(before)} below "
                    f"{witness.high_watermark}",
                    look.topic,
                    look.at,
                )
                break


def _same_in_the_end(seen: Sightings) -> Iterator[Broken]:
    first: dict[Place, ReplicaSeen] = {}
    for one in seen.last:
        other = first.setdefault(one.place, one)
        start = max(one.start, other.start)
        ours = [batch for batch in one.batches if batch.next_offset > start]
        theirs = [batch for batch in other.batches if batch.next_offset > start]
        if ours == theirs and (one.end, one.high_watermark) == (other.end, other.high_watermark):
            continue
        differing = next((pair for pair in zip(ours, theirs, strict=False) if pair[0] != pair[1]), None)
        where = (
            f"they end at {one.end} and {other.end}, high watermarks {one.high_watermark} and {other.high_watermark}"
            if differing is None
            else f"offset {differing[0].base_offset} is {_shown(differing[0])} and {_shown(differing[1])}"
        )
        yield Broken(f"I2: in the end {one} is not as on broker {other.broker}: {where}", one.topic, one.at)


# I3


def _leaders(seen: Sightings) -> Iterator[Broken]:
    named = {(one.place, one.leader_epoch): one.leader for one in reversed(seen.states)}
    leaders: dict[tuple[Place, int], int] = {}
    for one in seen.led:
        key = (one.place, one.leader_epoch)
        other = leaders.setdefault(key, one.broker)
        what = f"{one.topic}-{one.place.partition} in epoch {one.leader_epoch}"
        if other != one.broker:
            yield Broken(f"I3: {what} is led by broker {one.broker} and by {other}", one.topic, one.at)
        elif one.ordered_at < one.alive_since:
            yield Broken(
                f"I3: {what} is led by broker {one.broker}, which was started at {one.alive_since:.4f} s: that was ordered before",
                one.topic,
                one.at,
            )
        elif one.again:
            yield Broken(
                f"I3: {what} is led by broker {one.broker} again: its time was over", one.topic, one.at
            )
        elif named.get(key, NO_LEADER) != one.broker:
            yield Broken(
                f"I3: {what} is led by broker {one.broker}, ZooKeeper names {named.get(key, 'nobody')}",
                one.topic,
                one.at,
            )


def _epochs_of_logs(seen: Sightings) -> Iterator[Broken]:
    for look in [*seen.looks, *seen.last]:
        for before, after in zip(look.batches, look.batches[1:], strict=False):
            if after.leader_epoch < before.leader_epoch:
                yield Broken(
                    f"I3: {look} has epoch {after.leader_epoch} at offset {after.base_offset} behind epoch "
                    f"{before.leader_epoch} at {before.base_offset}",
                    look.topic,
                    look.at,
                )
                break


def _news(seen: Sightings) -> Iterator[Broken]:
    for one in seen.went_back:
        yield Broken(
            f"I3: broker {one.broker} believes that {one.topic}-{one.place.partition} is led in epoch {one.now}, and knew epoch "
            f"{one.before} before",
            one.topic,
            one.at,
        )


# I4


def _moved_alone(seen: Sightings) -> Iterator[Broken]:
    for one in seen.moved_alone:
        yield Broken(
            f"I4: broker {one.broker} leads {one.topic}-{one.place.partition} with the ISR {list(one.isr)}, below "
            f"min.insync.replicas, and went from {one.before} to {one.now}",
            one.topic,
            one.at,
        )


def _ends(history: History, seen: Sightings) -> Iterator[Broken]:
    """Somebody was told an end, and whoever asked after that was told an earlier one. They asked by name.

    The answer of a leader that was deposed, and has not heard of it, proves nothing.
    """
    told: dict[tuple[Place, bool], list[tuple[float, int, int]]] = {}
    for one in sorted(seen.ends, key=lambda one: one.at):
        where = TopicPartition(one.topic, one.place.partition)
        if history.topic_at(one.topic, one.since, one.at) != one.place.topic_id:
            continue
        if not seen.led_all_the_time(one.leader, where, one.since, one.at):
            continue
        answers = told.setdefault((one.place, one.committed), [])
        before = max(
            (answer for answer in answers if answer[0] < one.since), key=lambda each: each[1], default=None
        )
        if before is not None and before[1] > one.offset:
            yield Broken(
                f"I4: broker {one.leader} told {one.who} that {one.topic}-{one.place.partition} may be read up to {one.offset}; it was "
                f"{before[1]} at {before[0]:.4f} s, as broker {before[2]} said",
                one.topic,
                one.at,
            )
        answers.append((one.at, one.offset, one.leader))


# I5


def _states(seen: Sightings) -> Iterator[Broken]:
    for one in seen.states:
        what = f"{one.topic}-{one.place.partition}, version {one.partition_epoch}"
        if not one.isr:
            yield Broken(f"I5: the ISR of {what} is empty", one.topic, one.at)
        if len(set(one.isr)) < len(one.isr):
            yield Broken(f"I5: the ISR of {what} names a broker twice: {list(one.isr)}", one.topic, one.at)
        if not set(one.isr) <= set(one.replicas):
            yield Broken(
                f"I5: the ISR {list(one.isr)} of {what} is not among its replicas {list(one.replicas)}",
                one.topic,
                one.at,
            )
        if one.leader not in (NO_LEADER, *one.isr):
            yield Broken(
                f"I5: broker {one.leader} leads {what}, and is not in its ISR {list(one.isr)}",
                one.topic,
                one.at,
            )


# I6


def _producers(seen: Sightings) -> Iterator[Broken]:
    """Replicas that hold the same, and have not begun at different offsets, and know other producers."""
    same: dict[tuple[Place, int, int, BatchSeen], ReplicaSeen] = {}
    for look in [*seen.looks, *seen.last]:
        if not look.batches:
            continue
        other = same.setdefault((look.place, look.start, look.end, look.batches[-1]), look)
        if look.producers != other.producers and look.batches == other.batches:
            ids = sorted({one.producer_id for one in {*look.producers} ^ {*other.producers}})
            yield Broken(
                f"I6: {look} ends at {look.end} and knows the producers {ids} otherwise than broker {other.broker} did at "
                f"{other.at:.4f} s:\n  {look.producers}\n  {other.producers}",
                look.topic,
                look.at,
            )
