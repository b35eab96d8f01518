"""Offsets in Spark's eyes: their JSON, where reading starts and ends, and how much of it one micro-batch takes.

Role.   Pure planning for the readers: `parse_offsets` and kin for users' options, `as_json` and `from_json` for Spark's checkpoint,
        `questions` and `resolved` for the two ends of a read, `limited` and `is_delayed` for a trigger.
Flow.   options -> bounds -> `questions` -> a leader's answers -> `resolved` -> offsets. Ranges of offsets: `ranges`.
Rules.  * The JSON is the one of Spark's own connector: topic -> partition -> the next offset to read. It is in order, so that equal
          offsets are equal text.
        * The offsets after a query's first micro-batch carry where that one began, under a key no topic can have. Spark keeps no
          start of a first batch, and asking the broker again after a crash might give another one.
        * -1 is the end and -2 the beginning, wherever a user may write an offset.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, TypeAlias

from semel.exceptions import IllegalArgumentException
from semel.types import UNKNOWN_OFFSET, TopicPartition

Offsets: TypeAlias = Mapping[TopicPartition, int]
"""Of each partition, the next offset to read."""

LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2
BEGAN: Final = "first batch began at"
"""In the JSON of the offsets after a first micro-batch. A topic's name has no spaces."""
_LONG_MAX: Final = (1 << 63) - 1
_PARTITION_MAX: Final = (1 << 31) - 1
_SHOWN_MAX: Final = 200


class Edge(Enum):
    """An end of the log; the value is what ListOffsets calls it."""

    EARLIEST = -2
    LATEST = -1


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """Offsets, one for every partition; -1 and -2 are the ends of the log."""

    offsets: Offsets


@dataclass(frozen=True, slots=True)
class AtTimestamps:
    """Times in ms, one for every partition: the first record at or after it."""

    timestamps: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """One time in ms for all partitions."""

    timestamp_ms: int


Bound: TypeAlias = Edge | AtOffsets | AtTimestamps | AtTimestamp


# JSON


def parse_partitions(name: str, content: str) -> tuple[TopicPartition, ...]:
    """`{"orders": [0, 1]}`, as the option `assign` takes it."""
    wrong = _wrong(name, content, '{"topicA": [0, 1], "topicB": [2]}')
    found: list[TopicPartition] = []
    for topic, partitions in _objects(content, wrong).items():
        if not isinstance(partitions, list) or not all(map(_is_partition, partitions)):
            raise wrong
        found += [TopicPartition(topic, partition) for partition in partitions]
    if not found:
        raise wrong
    return tuple(sorted(set(found)))


def parse_offsets(name: str, content: str) -> AtOffsets:
    """`{"orders": {"0": 23, "1": -1}}`."""
    wrong = _wrong(name, content, '{"topicA": {"0": 23, "1": -1}, "topicB": {"0": -2}}')
    found = _by_partition(content, wrong)
    for where, offset in found.items():
        if not EARLIEST_OFFSET <= offset <= _LONG_MAX:
            raise IllegalArgumentException(
                f"{name}: {offset} is not an offset of {where}; use 0 to {_LONG_MAX}, -1 for latest or -2 for earliest"
            )
    return AtOffsets(found)


def parse_timestamps(name: str, content: str) -> AtTimestamps:
    """`{"orders": {"0": 1700000000000}}`."""
    wrong = _wrong(name, content, '{"topicA": {"0": 1700000000000}, "topicB": {"0": 1700000000000}}')
    found = _by_partition(content, wrong)
    for where, timestamp_ms in found.items():
        check_timestamp(name, timestamp_ms, f" of {where}")
    return AtTimestamps(found)


def check_timestamp(name: str, timestamp_ms: int, what: str = "") -> None:
    """Raise if no record can have this time."""
    if not 0 <= timestamp_ms <= _LONG_MAX:
        raise IllegalArgumentException(
            f"{name}: {timestamp_ms} is not a time{what}; use milliseconds since 1970, 0 to {_LONG_MAX}"
        )


def as_json(offsets: Offsets, *, began: Offsets | None = None) -> dict[str, Any]:
    """Offsets as Spark keeps them; `began` is where a first micro-batch started."""
    found: dict[str, Any] = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    if began is not None:
        found[BEGAN] = as_json(began)
    return found


def from_json(kept: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Offsets as Spark gives them back."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in kept.items()
        if topic != BEGAN
        for partition, offset in partitions.items()
    }


def began_in(kept: Mapping[str, Any]) -> dict[TopicPartition, int] | None:
    """Where the first micro-batch started, if these offsets are its end."""
    return from_json(kept[BEGAN]) if BEGAN in kept else None


# The two ends of a read


def questions(bound: Bound, partitions: Iterable[TopicPartition], name: str) -> dict[TopicPartition, int]:
    """The questions for ListOffsets, by partition. Offsets the bound has itself are not asked. Raises if it does not fit the partitions."""
    wanted = sorted(partitions)
    match bound:
        case Edge():
            return dict.fromkeys(wanted, bound.value)
        case AtTimestamp(timestamp_ms):
            return dict.fromkeys(wanted, timestamp_ms)
        case AtTimestamps(timestamps):
            _check_same(name, timestamps, wanted, "a time")
            return {where: timestamps[where] for where in wanted}
        case AtOffsets(offsets):
            _check_same(name, offsets, wanted, "an offset (-1 for latest, -2 for earliest)")
            return {where: offsets[where] for where in wanted if offsets[where] < 0}


def resolved(bound: Bound, answers: Offsets) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Offsets from the bound and the answers to its questions, and the times of partitions where no record is that young."""
    found = dict(answers)
    if isinstance(bound, AtOffsets):
        found = {**bound.offsets, **answers}
    without: dict[TopicPartition, int] = {}
    if isinstance(bound, AtTimestamp | AtTimestamps):
        for where, offset in answers.items():
            if offset == UNKNOWN_OFFSET:
                times = bound.timestamps if isinstance(bound, AtTimestamps) else {}
                without[where] = times.get(where, getattr(bound, "timestamp_ms", UNKNOWN_OFFSET))
                del found[where]
    return dict(sorted(found.items())), without


# A trigger


def is_delayed(
    minimum: int, start: Offsets, latest: Offsets, *, waited_ms: int, max_trigger_delay_ms: int
) -> bool:
    """Whether there is too little to read yet, and still time to wait."""
    if waited_ms >= max_trigger_delay_ms:
        return False
    return sum(end - start.get(where, 0) for where, end in latest.items()) < minimum


def limited(
    maximum: int, start: Offsets, latest: Offsets, earliest_of_new: Callable[[list[TopicPartition]], Offsets]
) -> dict[TopicPartition, int]:
    """Where a micro-batch of about so many offsets ends: everybody gets its share, and at least one.

    `earliest_of_new` is asked where partitions begin that `start` does not have; those it does not know are taken whole.
    """
    new = sorted(where for where in latest if where not in start)
    begins = {**start, **(earliest_of_new(new) if new else {})}
    sizes = {
        where: end - begins[where] for where, end in latest.items() if where in begins and end > begins[where]
    }
    total = float(sum(sizes.values()))
    ends = dict(latest)
    for where, size in sizes.items():
        share = maximum * (size / total)
        count = math.ceil(share) if share < 1 else math.floor(share)
        ends[where] = min(latest[where], begins[where] + count)
    return ends


# Reading JSON


def _wrong(name: str, content: str, example: str) -> IllegalArgumentException:
    shown = content if len(content) <= _SHOWN_MAX else content[: _SHOWN_MAX - 1] + "…"
    return IllegalArgumentException(f"{name}: expected e.g. {example}, got {shown}")


def _objects(content: str, wrong: IllegalArgumentException) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise wrong from None
    if not isinstance(found, dict):
        raise wrong
    return found


def _by_partition(content: str, wrong: IllegalArgumentException) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    for topic, numbers in _objects(content, wrong).items():
        if not isinstance(numbers, dict):
            raise wrong
        for partition, number in numbers.items():
            is_whole = isinstance(number, int) and not isinstance(number, bool)
            if not partition.isdecimal() or not _is_partition(int(partition)) or not is_whole:
                raise wrong
            found[TopicPartition(topic, int(partition))] = number
    if not found:
        raise wrong
    return found


def _is_partition(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= _PARTITION_MAX


def _check_same(name: str, given: Iterable[TopicPartition], there: list[TopicPartition], what: str) -> None:
    said = set(given)
    if said == set(there):
        return
    missing = [str(one) for one in there if one not in said]
    unknown = [str(one) for one in sorted(said) if one not in set(there)]
    both = [
        f"{words} {', '.join(names[:10])}{' …' if len(names) > 10 else ''}"
        for words, names in (("it lacks", missing), ("there is no", unknown))
        if names
    ]
    raise IllegalArgumentException(
        f"{name} needs {what} for every partition that is read, and for no other: {'; '.join(both)}"
    )
