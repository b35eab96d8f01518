"""The names of a partition's files, including marks and leftovers of a crash.

Role.   The only module that knows names such as `00000000000000000042.log`. They equal Kafka's.
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
"""Mark: a sync of this log failed, so bytes read back may differ from the disk."""
BEING_CUT: Final = "being-cut"
"""Mark: this log was being truncated, so an empty log may have held records."""
REBUILDING: Final = "indexes-rebuilding"
"""Mark: indexes of this log were being rebuilt, so existing ones may be incomplete."""


class SegmentName(NamedTuple):
    """A file that belongs to one segment, or the snapshot taken at an offset."""

    base_offset: int
    kind: str
    suffix: str = ""


def file_name(base_offset: int, kind: str) -> str:
    """Twenty digits and the kind: the base offset is the offset of the segment's first record."""
    return f"{base_offset:020d}{kind}"


def parse(name: str) -> SegmentName | None:
    """The segment file of a name, or None for other files."""
    digits, dot, rest = name.partition(".")
    if len(digits) != 20 or not digits.isdecimal() or not dot:
        return None
    kind, dot, suffix = rest.partition(".")
    if "." + kind not in (*SEGMENT_KINDS, SNAPSHOT):
        return None
    return SegmentName(int(digits), "." + kind, dot + suffix)
