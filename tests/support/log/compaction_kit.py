"""Cleanings to test with: run at once, with or without kernels, and a log told record by record."""

from typing import Any, NamedTuple

from semel.core.records import key_offsets as key_offsets_module
from semel.core.records.batch import BatchHeader
from semel.core.records.build import Record, iter_records
from semel.core.records.key_offsets import KeyOffsets, PlainKeyOffsets
from semel.log.compaction.cleaning import CleanerLimits, Cleaning
from semel.log.compaction.plan import dirtiness
from semel.log.partition_log import PartitionLog
from semel.log.segment import Segment
from semel.verify.simulation.scenarios.compaction_crash import clean_in_steps

SECRET = bytes(range(16))


def clean(
    log: PartitionLog, *, now_ms: int, cleaned_offset: int | None = None, limits: CleanerLimits | None = None
) -> Cleaning:
    """Clean a log, whether it is due or not. What is not synced is not cleaned."""
    dirt = dirtiness(log, cleaned_offset, now_ms)
    cleaning = Cleaning.begin(
        log, dirt, files=log._files, limits=limits or CleanerLimits(), secret=SECRET, now_ms=now_ms
    )
    for _step in clean_in_steps(cleaning, log, now_ms):
        pass
    return cleaning


def without_kernels(**limits: Any) -> KeyOffsets:
    keys_max = int(limits["bytes_max"] // key_offsets_module.SLOT_BYTES * limits["load_factor"])
    return PlainKeyOffsets(keys_max=keys_max, secret=limits["secret"])


def with_kernels(**limits: Any) -> KeyOffsets:
    from semel.core.records.compact_kernels import CompiledKeyOffsets

    return CompiledKeyOffsets(**limits)


class Told(NamedTuple):
    """A batch of a log."""

    segment: Segment
    header: BatchHeader
    records: list[Record]


def told(log: PartitionLog) -> list[Told]:
    """Every batch of a log, with its records."""
    return [
        Told(segment, header, list(iter_records(data, 0, header)))
        for segment in log.segments
        for _position, header, data in segment.scan()
    ]
