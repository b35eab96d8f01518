"""The names of a partition's files: what belongs to which segment, what is left over from a crash.

Role.   The one place that knows `00000000000000000042.log` and its kin. Kafka's names to the letter.
"""

from typing import Final, NamedTuple

LOG: Final = ".log"
OFFSET_INDEX: Final = ".index"
TIME_INDEX: Final = ".timeindex"
TXN_INDEX: Final = ".txnindex"
SNAPSHOT: Final = ".snapshot"
DELETED: Final = ".deleted"
CLEANED: Final = ".cleaned"
SWAP: Final = ".swap"
TEMPORARY: Final = ".tmp"

SEGMENT_KINDS: Final = (LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX)
DELETED_DIRECTORY: Final = "-delete"
LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
ABORTED_COUNTS: Final = "aborted-transactions-checkpoint"
SYNC_FAILED: Final = "sync-failed"
"""Says that a sync of this log failed: what is read back need not be what the disk holds."""
BEING_CUT: Final = "being-cut"
"""Says that this log was being cut back: that it is empty does not mean that nothing was ever in it."""
REBUILDING: Final = "indexes-rebuilding"
"""Says that indexes of this log were being rebuilt: those that are there need not be whole."""


class SegmentName(NamedTuple):
    """A file that belongs to one segment, or the snapshot taken at an offset."""

    base_offset: int
    kind: str
    suffix: str = ""


def file_name(base_offset: int, kind: str) -> str:
    """Twenty digits and the kind: the base offset is the offset of the segment's first record."""
    return f"{base_offset:020d}{kind}"


def parse(name: str) -> SegmentName | None:
    """What a file name says, or None for a file that is no part of a segment."""
    digits, dot, rest = name.partition(".")
    if len(digits) != 20 or not digits.isdecimal() or not dot:
        return None
    kind, dot, suffix = rest.partition(".")
    if "." + kind not in (*SEGMENT_KINDS, SNAPSHOT):
        return None
    return SegmentName(int(digits), "." + kind, dot + suffix)
