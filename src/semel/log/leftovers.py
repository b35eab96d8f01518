"""Finishes or undoes deletions and cleanings that a crash interrupted.

Role.   The first step of opening a partition's directory; it handles leftovers of Kafka's crashes too.
Rules.  * `.deleted`, `.tmp` and `.cleaned` files are removed: an unfinished cleaning has no effect.
        * A `.log.swap` file was synced before it got that name, and replaces every segment within its offsets. These
          are durably removed before it gets its final name. Its indexes are always rebuilt, because after a power cut
          existing ones may belong to the old segments.
        * A `.log.swap` above a `.log.cleaned` is part of an unfinished split by Kafka (KAFKA-6264) and is removed.
        * An index without its log is removed.
"""

import logging
from struct import Struct
from typing import Final

from semel.core.records.batch import HEADER_SIZE, LOG_OVERHEAD
from semel.log import names
from semel.runtime.files import Files, join

_logger = logging.getLogger(__name__)
_PASSING: Final = Struct(">qi11xi")  # Base offset, length and last offset delta of a batch header.


def settle_leftovers(files: Files, directory: str) -> None:
    """Settle all leftovers: only segments, snapshots and checkpoints remain."""
    found = [(name, names.parse(name)) for name in files.list_directory(directory)]
    cleaned = [p.base_offset for _name, p in found if p and p.kind == names.LOG and p.suffix == names.CLEANED]
    for name, parsed in found:
        if name.endswith((names.DELETED, names.TEMPORARY)) or (
            parsed and parsed.suffix.endswith(names.CLEANED)
        ):
            files.remove(join(directory, name))
    for name, parsed in found:
        if parsed is None or parsed.suffix != names.SWAP:
            continue
        if parsed.kind != names.LOG or (cleaned and parsed.base_offset > min(cleaned)):
            files.remove(join(directory, name))
        else:
            _finish_swap(files, directory, name, parsed.base_offset)
    present = set(files.list_directory(directory))
    for name in sorted(present):
        parsed = names.parse(name)
        if (
            parsed
            and parsed.kind in names.SEGMENT_KINDS
            and names.file_name(parsed.base_offset, names.LOG) not in present
        ):
            files.remove(join(directory, name))


def _finish_swap(files: Files, directory: str, swap_name: str, base_offset: int) -> None:
    swap_path = join(directory, swap_name)
    end_offset = _end_offset(files, swap_path, base_offset)
    _logger.info("%s replaces the segments from %d to %d", swap_path, base_offset, end_offset - 1)
    for name in files.list_directory(directory):
        parsed = names.parse(name)
        if (
            parsed
            and not parsed.suffix
            and parsed.kind in names.SEGMENT_KINDS
            and base_offset <= parsed.base_offset < end_offset
        ):
            files.remove(join(directory, name))
    files.sync_directory(directory)
    files.rename(swap_path, join(directory, names.file_name(base_offset, names.LOG)))
    files.sync_directory(directory)


def _end_offset(files: Files, path: str, base_offset: int) -> int:
    """The offset after the last batch of a file."""
    end_offset = base_offset + 1
    file = files.open(path, read_only=True)
    try:
        position, size = 0, file.size()
        while size - position >= HEADER_SIZE:
            first_offset, length, last_offset_delta = _PASSING.unpack(file.read_at(position, _PASSING.size))
            if length < HEADER_SIZE - LOG_OVERHEAD:
                break
            end_offset = first_offset + last_offset_delta + 1
            position += LOG_OVERHEAD + length
    finally:
        file.close()
    return end_offset
