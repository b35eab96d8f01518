"""Planning an offset reset of a group.

Role.   Computes the offset to commit from the facts of a partition and the target; `semel offsets reset` and `import`
        show the plan and carry it out.
Rules.  As Kafka's own tool:
        * An offset outside the log becomes the nearest one inside, with a remark.
        * A time after the last record means the end.
        * A partition without a committed offset cannot be shifted; "current" without an offset means the end.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from semel.types import TopicPartition


class Kind(StrEnum):
    """The kinds of targets."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"
    OFFSET = "offset"
    TIME = "time"
    SHIFT = "shift"


class Target(NamedTuple):
    """A target; `value` is an offset, a time in milliseconds or a distance."""

    kind: Kind
    value: int = 0


class Facts(NamedTuple):
    """One partition: its start, its end, its committed offset, and the first offset at the target's time."""

    earliest: int
    latest: int
    committed: int | None
    at_time: int | None = None


class Step(NamedTuple):
    """The change of one offset; without `target` it stays."""

    partition: TopicPartition
    committed: int | None
    target: int | None
    remark: str | None = None


def plan(targets: Mapping[TopicPartition, Target], facts: Mapping[TopicPartition, Facts]) -> list[Step]:
    """A step for each partition, in order."""
    return [_step(partition, target, facts[partition]) for partition, target in sorted(targets.items())]


def _step(partition: TopicPartition, target: Target, facts: Facts) -> Step:
    committed = facts.committed
    match target.kind:
        case Kind.EARLIEST:
            return Step(partition, committed, facts.earliest)
        case Kind.LATEST:
            return Step(partition, committed, facts.latest)
        case Kind.TIME:
            if facts.at_time is None:
                remark = f"{partition} has no record at or after that time: its end, {facts.latest}, is taken"
                return Step(partition, committed, facts.latest, remark)
            return Step(partition, committed, facts.at_time)
        case Kind.CURRENT:
            if committed is None:
                remark = f"nothing is committed for {partition}: its end, {facts.latest}, is taken"
                return Step(partition, committed, facts.latest, remark)
            return _clamped(partition, facts, committed)
        case Kind.OFFSET:
            return _clamped(partition, facts, target.value)
        case Kind.SHIFT:
            if committed is None:
                remark = f"nothing is committed for {partition}: there is no offset to shift"
                return Step(partition, committed, None, remark)
            return _clamped(partition, facts, committed + target.value)


def _clamped(partition: TopicPartition, facts: Facts, offset: int) -> Step:
    if offset < facts.earliest:
        remark = f"{offset} is before the first offset of {partition}: {facts.earliest} is taken"
        return Step(partition, facts.committed, facts.earliest, remark)
    if offset > facts.latest:
        remark = f"{offset} is behind the end of {partition}: {facts.latest} is taken"
        return Step(partition, facts.committed, facts.latest, remark)
    return Step(partition, facts.committed, offset)
