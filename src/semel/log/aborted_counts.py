"""Counts of aborted transactions per segment, which tell a lost transaction index from an empty one.

Role.   A segment without aborts has no transaction index, so a missing file alone does not show a loss, and
        read_committed consumers would get aborted records. `aborted-transactions-checkpoint` in the partition's
        directory stores the counts; Kafka ignores unknown files.
Flow.   Written on close and on truncation, read by `recovery`, which rebuilds the indexes of a segment that lists fewer
        than stored. A count that is too low (aborts since it was written) causes no rebuild.
"""

from collections.abc import Sequence

from semel.errors import CorruptLogError
from semel.log import names
from semel.log.checkpoints import read_lines, write_lines
from semel.log.segment import Segment
from semel.runtime.files import Files, join


def write_aborted_counts(files: Files, directory: str, segments: Sequence[Segment]) -> None:
    """Write the counts; without aborts there is no file."""
    path = join(directory, names.ABORTED_COUNTS)
    rows = [f"{s.base_offset} {len(s.txn_index.entries)}" for s in segments if s.txn_index.entries]
    if rows or files.exists(path):
        write_lines(files, path, rows)


def read_aborted_counts(files: Files, directory: str) -> dict[int, int]:
    """Base offset → minimum number of aborts its segment must list."""
    path = join(directory, names.ABORTED_COUNTS)
    try:
        return {int(base): int(count) for base, count in read_lines(files, path, fields=2)}
    except ValueError as error:
        raise CorruptLogError(f"{path}: {error}") from error
