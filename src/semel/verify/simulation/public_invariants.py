"""The promises of the public client: its answers to an application, held against the log.

Role.   Functions over what the actors of `semel.verify.simulation.actors.public_*` wrote down and what the broker's logs hold; each gives
        the sentences of what is broken.
Rules.  * Once: no record lies at two offsets. An acknowledged record lies where its future says.
        * Never silently: a record that failed and was never sent, or was refused for certain, lies nowhere.
        * In order: records of one producer lie in the order in which they were sent.
        * All or nothing: all records of a transaction whose commit returned are committed. No record of an aborted
          transaction is, or of one that nobody ended. Where the end is not known, all are or none.
        * A reader is handed what is visible to it, each record once, in the order of the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from semel.client.producer.answers import MAY_BE_STORED
from semel.types import UNKNOWN_OFFSET
from semel.verify.history.run import History, StoredBatch
from semel.verify.simulation.actors.public_writer import LAST_WORDS, PublicWriter, Sent

Lies = Mapping[bytes, Sequence[tuple[int, int]]]


@dataclass(slots=True)
class TopicContent:
    """The records in the partitions of a topic."""

    lies: dict[bytes, list[tuple[int, int]]] = field(default_factory=dict)
    """Value -> the partitions and offsets it lies at."""
    committed: dict[bytes, bool] = field(default_factory=dict)
    visible: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    """Partition -> offset and value of what is committed, in order."""


def content(history: History, topic: str) -> TopicContent:
    """The content of a topic at the end of a run."""
    found = TopicContent()
    for place, (state, batches) in sorted(history.logs.items()):
        if state.topic != topic:
            continue
        seen = found.visible.setdefault(place.partition, [])
        for batch, is_committed in _with_ends(batches):
            for index, value in enumerate(batch.values):
                offset = batch.base_offset + index
                found.lies.setdefault(value, []).append((place.partition, offset))
                found.committed[value] = is_committed
                if is_committed:
                    seen.append((offset, value))
        seen.sort()
    return found


def judge_writer(writer: PublicWriter, held: TopicContent) -> list[str]:
    """The broken promises to a writer."""
    broken = [
        f"{value!r} lies at {places}"
        for value, places in held.lies.items()
        if len(places) > 1 and not value.startswith(LAST_WORDS)
    ]
    broken += _told_truly(writer, held.lies)
    broken += _in_order(writer, held.lies)
    if writer.transactional:
        broken += _all_or_nothing(writer, held.committed)
    return broken


def judge_reader(
    handed: Mapping[int, Sequence[tuple[int, bytes]]], held: TopicContent, *, who: str
) -> list[str]:
    """The broken promises to a reader of everything; `handed`: partition -> offsets and values, in the order they came."""
    broken = []
    for partition, visible in held.visible.items():
        got = list(handed.get(partition, ()))
        if got == visible:
            continue
        missing = [one for one in visible if one not in got]
        extra = [one for one in got if one not in visible]
        twice = len(got) - len(set(got))
        what = f"missing {missing[:3]}, not there {extra[:3]}, {twice} twice"
        broken.append(f"{who} was handed {len(got)} of {len(visible)} records of {partition}: {what}")
    return broken


def _told_truly(writer: PublicWriter, lies: Lies) -> list[str]:
    broken = []
    for one in writer.sent:
        if not one.future.done():
            continue  # Its process was killed, or its producer replaced, before it heard.
        error = one.future.exception()
        places = lies.get(one.value, ())
        if error is not None:
            if places and MAY_BE_STORED not in str(error) and not writer.transactional:
                broken.append(f"{one.value!r} failed for certain ({error}) and lies at {places}")
            continue
        told = one.future.result()
        if not places:
            broken.append(
                f"{one.value!r} was told to lie at {told.partition}, {told.offset} and lies nowhere"
            )
        elif told.offset != UNKNOWN_OFFSET and (told.partition, told.offset) != places[0]:
            broken.append(f"{one.value!r} lies at {places[0]}, told was {told}")
    return broken


def _in_order(writer: PublicWriter, lies: Lies) -> list[str]:
    broken = []
    last: dict[tuple[int, int], tuple[int, bytes]] = {}
    for one in writer.sent:  # In the order in which they were sent.
        for partition, offset in lies.get(one.value, ())[:1]:
            before = last.get((one.process, partition))
            if before is not None and before[0] > offset:
                broken.append(
                    f"{one.value!r} lies at {offset} of {partition}, behind it {before[1]!r} at {before[0]}"
                )
            last[one.process, partition] = offset, one.value
    return broken


def _all_or_nothing(writer: PublicWriter, committed: Mapping[bytes, bool]) -> list[str]:
    broken = []
    by_transaction: dict[tuple[int, int], list[Sent]] = {key: [] for key in writer.ends}
    for one in writer.sent:
        if one.transaction is not None:
            by_transaction[one.process, one.transaction].append(one)
    for key, records in by_transaction.items():
        seen = sum(committed.get(one.value, False) for one in records)
        match writer.ends[key]:
            case "committed" if seen != len(records):
                broken.append(f"transaction {key} was committed, {seen} of its {len(records)} records are")
            case "aborted" | "aborting" | "unended" if seen:
                broken.append(f"transaction {key} was not committed, {seen} of its records are")
            case _ if seen not in (0, len(records)):
                broken.append(f"transaction {key}: {seen} of {len(records)} records are committed")
    return broken


def _with_ends(batches: list[StoredBatch]) -> list[tuple[StoredBatch, bool]]:
    """Batches of records, each with whether it is committed."""
    found: list[tuple[StoredBatch, bool]] = []
    open_batches: dict[int, list[StoredBatch]] = {}
    for batch in batches:
        if batch.commits is not None:
            found += [(one, batch.commits) for one in open_batches.pop(batch.producer_id, [])]
        elif batch.is_transactional:
            open_batches.setdefault(batch.producer_id, []).append(batch)
        else:
            found.append((batch, True))
    return found + [(one, False) for many in open_batches.values() for one in many]
