"""Which offsets one task reads: ranges between two offsets, what got lost between them, and how ranges are divided.

Role.   Pure. `between` gives the ranges of a micro-batch and names what is missing; `plan_read` those of a batch query, whose ends a
        user may have chosen. `divided` cuts them for `minPartitions` and `maxRecordsPerPartition`; `gathered` puts small ones together.
Flow.   readers -> `between` or `plan_read` -> `divided` -> `gathered` -> the ranges of each task.
Rules.  * The same offsets and options give the same ranges, in the order of topics, partitions and offsets: a replayed batch is read
          by the same tasks.
        * Ranges are counted in offsets, not records: markers of transactions and compacted records have offsets too.
        * A loss is reported, never passed over here: `failOnDataLoss` decides whether the query stops.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from semel.exceptions import IllegalArgumentException, IllegalStateException
from semel.spark.source.offsets import Offsets
from semel.types import TopicPartition

TASKS_MAX: Final = 1_000_000
"""More tasks than that no driver survives."""
TASKS_ALONE: Final = 32
"""Up to so many ranges have a task each, however small they are."""
_SHOWN_MAX: Final = 10


class OffsetRange(NamedTuple):
    """Offsets of one partition, the last one left out."""

    where: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.where}[{self.start}, {self.end})"


class DataLossException(IllegalStateException):
    """Records were gone before they were read, and `failOnDataLoss` is true."""


class Batch(NamedTuple):
    """The ranges of a micro-batch, and what got lost, in words."""

    ranges: tuple[OffsetRange, ...]
    losses: tuple[str, ...]


def lost(message: str) -> DataLossException:
    """The error for a loss, with the way out."""
    return DataLossException(
        f"{message}. The records aged out, or the topic was deleted, before they were read: set failOnDataLoss to false "
        "to go on without them"
    )


def between(start: Offsets, end: Offsets, earliest_of_new: Offsets) -> Batch:
    """The ranges from `start` to `end`. Partitions that are new start at their beginning."""
    losses: list[str] = []
    new = [where for where in sorted(end) if where not in start]
    unknown = [where for where in new if where not in earliest_of_new]
    if unknown:
        losses.append(f"{_named(unknown)} came and went: where they began is not known")
    losses += [
        f"{where} is new and begins at {begin} instead of 0"
        for where in new
        if (begin := earliest_of_new.get(where, 0)) != 0
    ]
    gone = [where for where in sorted(start) if where not in end]
    if gone:
        losses.append(f"{_named(gone)} are gone")
    ranges: list[OffsetRange] = []
    begins = {**earliest_of_new, **start}
    for where in sorted(end):
        if where not in begins:
            continue
        begin = begins[where]
        if end[where] < begin:
            losses.append(
                f"{where} ends at {end[where]}, before {begin}, where reading was to go on: it was truncated or made anew, "
                "or the starting offset was set too high"
            )
        elif end[where] > begin:
            ranges.append(OffsetRange(where, begin, end[where]))
    return Batch(tuple(ranges), tuple(losses))


def plan_read(start: Offsets, end: Offsets) -> tuple[OffsetRange, ...]:
    """The ranges of a batch query between offsets of the same partitions; raises where they run backwards."""
    if set(start) != set(end):
        one_sided = sorted(set(start) ^ set(end))
        raise IllegalStateException(
            f"{_named(one_sided)} came or went while the read was planned: start it again"
        )
    for where in sorted(start):
        if start[where] > end[where]:
            raise IllegalArgumentException(
                f"{where} is to be read from {start[where]} to {end[where]}, which is backwards: the start is set too high "
                "(an offset beyond the end, or a later time than the end's)"
            )
    return tuple(
        OffsetRange(where, start[where], end[where]) for where in sorted(start) if end[where] > start[where]
    )


def divided(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> tuple[OffsetRange, ...]:
    """The ranges, cut: none longer than `max_records`, and about `min_partitions` of them if there are fewer."""
    whole = tuple(one for one in sorted(ranges) if one.size > 0)
    if max_records is not None:
        count = sum(-(-one.size // max_records) for one in whole)
        if count > TASKS_MAX:
            raise IllegalArgumentException(
                f"maxRecordsPerPartition={max_records} makes {count} tasks, more than {TASKS_MAX}: set it higher"
            )
        whole = tuple(part for one in whole for part in _cut(one, -(-one.size // max_records)))
    if min_partitions is None or len(whole) >= min_partitions:
        return whole
    total = sum(one.size for one in whole)
    small = {one for one in whole if _share(one.size, total, min_partitions) == 1}
    # Ranges that stay whole take no part in the division of the others.
    large_total = total - sum(one.size for one in small)
    large_parts = max(min_partitions - len(small), 1)
    return tuple(
        part
        for one in whole
        for part in _cut(one, 1 if one in small else _share(one.size, large_total, large_parts))
    )


def gathered(
    ranges: Sequence[OffsetRange],
    *,
    min_records: int,
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> tuple[tuple[OffsetRange, ...], ...]:
    """The ranges of each task: a task costs more than a few records do, so that small ranges share one until it has `min_records`.

    There are never fewer tasks than `min_partitions`, nor fewer than `TASKS_ALONE` because of this; none gets more than `max_records`;
    and pieces that `divided` has cut stay apart.
    """
    together_max = max(1, len(ranges) // max(min_partitions or 0, TASKS_ALONE))
    records_max = min_records if max_records is None else min(min_records, max_records)
    tasks: list[tuple[OffsetRange, ...]] = []
    together: list[OffsetRange] = []
    size = 0
    for one in ranges:
        if together and (len(together) == together_max or size + one.size > records_max):
            tasks.append(tuple(together))
            together, size = [], 0
        together.append(one)
        size += one.size
    if together:
        tasks.append(tuple(together))
    return tuple(tasks)


def _share(size: int, total: int, parts: int) -> int:
    """How many of the parts fall to this size, rounded as Java rounds."""
    return max(math.floor(size / total * parts + 0.5), 1)


def _cut(one: OffsetRange, parts: int) -> list[OffsetRange]:
    """Into so many ranges of about the same size; none is empty."""
    cuts: list[OffsetRange] = []
    start, left = one.start, one.size
    for part in range(parts):
        size = left // (parts - part)
        left -= size
        if size:
            cuts.append(OffsetRange(one.where, start, start + size))
        start += size
    return cuts


def _named(partitions: Sequence[TopicPartition]) -> str:
    more = f" and {len(partitions) - _SHOWN_MAX} more" if len(partitions) > _SHOWN_MAX else ""
    return ", ".join(map(str, partitions[:_SHOWN_MAX])) + more
