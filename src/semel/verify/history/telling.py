"""A line of words for each event of a simulated run, for the story of what is broken."""

from collections.abc import Mapping

from semel.types import UNKNOWN_OFFSET, TopicPartition
from semel.verify.history.events import (
    CommitAnswered,
    CommitAsked,
    CommittedSeen,
    Deciding,
    Elected,
    Ended,
    Event,
    Given,
    GivenUp,
    Happened,
    IdGiven,
    Owned,
    Place,
    Read,
    RecordsDeleted,
    Reopened,
    Settled,
    StableSeen,
    Took,
    Unsure,
    Wrote,
)


def moment(event: Event) -> float:
    """When it was known."""
    return event.until if isinstance(event, Unsure) else event.at


def concerns(event: Event, topic: str, batches: set[tuple[str, int]]) -> bool:
    """Whether it is about this topic, or about everything."""
    match event:
        case Given() | Read() | StableSeen() | Unsure():
            return event.topic == topic
        case Settled() | GivenUp():
            return (event.producer, event.batch) in batches
        case Owned():
            return any(one.topic == topic for one in event.partitions)
        case CommitAsked() | CommittedSeen():
            return any(one.topic == topic for one in event.offsets)
        case Deciding():
            return any((event.process, batch) in batches for batch in event.batches)
        case (
            Reopened()
            | Happened()
            | IdGiven()
            | RecordsDeleted()
            | CommitAnswered()
            | Took()
            | Ended()
            | Elected()
            | Wrote()
        ):
            return True


def line(event: Event) -> str:
    """Its time, and what happened."""
    return f"{moment(event):10.4f}  {_text(event)}"


def _text(event: Event) -> str:
    match event:
        case Given():
            return f"{event.producer} gives batch {event.batch} for {event.topic}-{event.partition}: {_values(event.values)}"
        case Settled():
            offset = (
                "an unknown offset" if event.base_offset == UNKNOWN_OFFSET else f"offset {event.base_offset}"
            )
            return f"{event.producer}: batch {event.batch} is stored at {offset}"
        case GivenUp():
            stored = "may be stored" if event.maybe_stored else "is not stored"
            return f"{event.producer}: batch {event.batch} failed ({event.code}), it {stored}"
        case Read():
            first, last = event.records[0][0], event.records[-1][0]
            values = _values(tuple(value for _offset, value in event.records))
            return (
                f"{event.reader}/{event.turn} reads {event.topic}-{event.partition} from {first} to "
                f"{last} of {event.limit}: {values}"
            )
        case StableSeen():
            return f"{event.reader} may read {event.topic}-{event.partition} up to {event.offset}"
        case Unsure():
            return f"{event.topic} is {event.topic_id.hex()}, unsure since {event.since:.4f}"
        case IdGiven():
            return f"{event.producer} has the producer id {event.producer_id}"
        case RecordsDeleted():
            return f"{_place(event.place)} begins at {event.low_watermark} by request"
        case Reopened():
            return _text_of_opening(event)
        case Owned() | CommitAsked() | CommitAnswered() | CommittedSeen():
            return _text_of_group(event)
        case Took() | Deciding() | Ended():
            return _text_of_transaction(event)
        case Elected() | Wrote():
            return _text_of_leader(event)
        case Happened():
            return event.what


def _text_of_opening(event: Reopened) -> str:
    logs = ", ".join(
        f"{state.topic}-{place.partition} [{state.start}, {state.end})"
        + (f" was {before.end}" if (before := event.before.get(place)) and before.end != state.end else "")
        for place, state in event.after.items()
    )
    return f"{event.broker} serves after {' and '.join(event.endings) or 'nothing'}: {logs}"


def _text_of_group(event: Owned | CommitAsked | CommitAnswered | CommittedSeen) -> str:
    match event:
        case Owned():
            names = " ".join(map(_partition, event.partitions)) or "nothing"
            return f"{event.member} as {event.owner} owns {names} in generation {event.generation_id}"
        case CommitAsked():
            return (
                f"{event.member} commits {_offsets(event.offsets)} in generation "
                f"{event.generation_id} (commit {event.commit})"
            )
        case CommitAnswered():
            return f"commit {event.commit}: {event.code}"
        case CommittedSeen():
            return f"{event.who} is told, asked at {event.since:.4f}: {_offsets(event.offsets)}"


def _text_of_transaction(event: Took | Deciding | Ended) -> str:
    match event:
        case Took():
            return (
                f"{event.process} is {event.transactional_id} with producer {event.producer_id}, epoch "
                f"{event.producer_epoch}, asked at {event.since:.4f}"
            )
        case Deciding():
            what = "will commit" if event.is_final else "commits" if event.commit else "aborts"
            return (
                f"{event.process} {what} transaction {event.transaction}: batches "
                f"{event.batches}, {_offsets(event.offsets)}"
            )
        case Ended():
            return f"{event.process}: transaction {event.transaction} is {event.outcome}"


def _text_of_leader(event: Elected | Wrote) -> str:
    match event:
        case Elected():
            return f"ZooKeeper has {event.elector} lead with epoch {event.epoch}, zxid {event.zxid}"
        case Wrote():
            return f"{event.elector} has written {event.number} with epoch {event.epoch}, zxid {event.zxid}"


def _place(place: Place) -> str:
    return f"{place.topic_id.hex()[:8]}-{place.partition}"


def _partition(one: TopicPartition) -> str:
    return f"{one.topic}-{one.partition}"


def _offsets(offsets: Mapping[TopicPartition, int]) -> str:
    return " ".join(f"{_partition(one)}@{offset}" for one, offset in offsets.items()) or "nothing"


def _values(values: tuple[bytes, ...]) -> str:
    return " ".join(value.partition(b" ")[0].decode() for value in values)
