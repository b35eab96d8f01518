"""What a crash left of deletions and cleanings: finished where they had been decided, undone where not.

Role.   The first thing that happens to a partition's directory when it is opened, after Kafka's own crashes too.
Rules.  * `.deleted` and `.tmp` files go, and `.cleaned` ones: a cleaning that was not over has decided nothing.
        * `.log.swap` has decided: it was synced before it got that name, and stands for every segment within its offsets.
          Those go, for good, before it takes its final name. Indexes are rebuilt from it, whichever of them are there:
          after a power cut nobody knows which of them are its own.
        * A `.log.swap` above a `.log.cleaned` is a part of a split Kafka had not finished (KAFKA-6264): it goes.
        * An index without its log goes.
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
    """Leave nothing in the directory but segments, snapshots and checkpoints."""
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
