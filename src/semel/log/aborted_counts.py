"""How many aborted transactions each segment lists: the one thing that tells a lost index from an empty one.

Role.   A segment without aborts has no transaction index, so a deleted one cannot be noticed by looking for it, and
        readers of committed records would be handed aborted ones. `aborted-transactions-checkpoint` in the
        partition's directory notes the counts; Kafka passes over files it does not know.
Flow.   Written on close and on truncation, read by `recovery`, which rebuilds the indexes of a segment that lists
        fewer than noted. A count that is too low (aborts since the note was written) asks for nothing.
"""

from collections.abc import Sequence

from semel.errors import CorruptLogError
from semel.log import names
from semel.log.checkpoints import read_lines, write_lines
from semel.log.segment import Segment
from semel.runtime.files import Files, join


def write_aborted_counts(files: Files, directory: str, segments: Sequence[Segment]) -> None:
    """Note the counts; no file where there is nothing to note."""
    path = join(directory, names.ABORTED_COUNTS)
    rows = [f"{s.base_offset} {len(s.txn_index.entries)}" for s in segments if s.txn_index.entries]
    if rows or files.exists(path):
        write_lines(files, path, rows)


def read_aborted_counts(files: Files, directory: str) -> dict[int, int]:
    """Base offset → how many aborts its segment lists at least."""
    path = join(directory, names.ABORTED_COUNTS)
    try:
        return {int(base): int(count) for base, count in read_lines(files, path, fields=2)}
    except ValueError as error:
        raise CorruptLogError(f"{path}: {error}") from error
