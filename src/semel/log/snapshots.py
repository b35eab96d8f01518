"""The producer snapshots of one partition: writing, loading and removing them.

Role.   Files `<offset>.snapshot`: the producers' state when the log ended at that offset.
Flow.   `partition_log` saves one on roll and on close, `recovery` starts from the newest intact one.
Rules.  * A new snapshot is written in place with a checksum. A torn one is detected and removed; an older one plus the
          log replaces it.
        * An existing snapshot is replaced atomically: after retention has emptied the log, it is the only copy of the
          state.
        * A snapshot above the log's end describes truncated batches. It must be durably removed before new batches take
          their offsets, so removals are synced.
        * A snapshot stays as long as its segment; the newest one always stays.
"""

import logging
from collections.abc import Iterable

from semel.core.idempotence import snapshot as snapshot_bytes
from semel.core.idempotence.producer_state import ProducerState
from semel.errors import CorruptSnapshotError
from semel.log import names
from semel.runtime.files import File, Files, join, read_whole, write_atomically

_logger = logging.getLogger(__name__)


class Snapshots:
    """The snapshot files in one partition's directory."""

    __slots__ = ("_directory", "_files", "_unsynced", "offsets")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        parsed = map(names.parse, files.list_directory(directory))
        self.offsets = sorted(
            n.base_offset for n in parsed if n and n.kind == names.SNAPSHOT and not n.suffix
        )
        self._unsynced = set(self.offsets)  # The last owner may not have synced them.

    def path(self, offset: int) -> str:
        return join(self._directory, names.file_name(offset, names.SNAPSHOT))

    def save(self, state: ProducerState, offset: int) -> None:
        """Write the state at the log end `offset`. Syncs only if it replaces a snapshot."""
        if offset in self.offsets:
            write_atomically(self._files, self.path(offset), _content(state))
            self._unsynced.discard(offset)
            return
        file = self._files.open(self.path(offset), create=True)
        try:
            file.truncate(0)
            file.write_at(0, _content(state))
        finally:
            file.close()
        self.offsets = sorted([*self.offsets, offset])
        self._unsynced.add(offset)

    def write_beside(self, state: ProducerState, offset: int) -> File:
        """Write the state at `offset` to a temporary file, to be synced and then `put_in_place`."""
        file = self._files.open(self.path(offset) + names.TEMPORARY, create=True)
        file.truncate(0)
        file.write_at(0, _content(state))
        return file

    def put_in_place(self, offset: int) -> None:
        """Rename the synced temporary file to the snapshot; durable once the directory is synced."""
        self._files.rename(self.path(offset) + names.TEMPORARY, self.path(offset))
        self.offsets = sorted({*self.offsets, offset})
        self._unsynced.discard(offset)

    def take_unsynced(self, offsets: Iterable[int]) -> list[str]:
        """The paths among these written since the last call, for the caller to sync."""
        taken = sorted(self._unsynced.intersection(offsets))
        self._unsynced.difference_update(taken)
        return [self.path(offset) for offset in taken]

    def load_newest(self, state: ProducerState, offset_max: int, now_ms: int) -> int | None:
        """Load the newest intact snapshot at or below `offset_max` into `state`; returns its offset, or None.

        Damaged snapshots found on the way are removed.
        """
        found = self.up_to(offset_max)
        start = found.load(state, now_ms)
        for offset, error in found.damaged.items():
            _logger.warning(
                "%s is damaged and removed, older state and the log replace it: %s", self.path(offset), error
            )
        self.remove(found.damaged)
        return start

    def up_to(self, offset_max: int) -> "FoundSnapshots":
        """The snapshots at or below an offset."""
        newest_first = [offset for offset in reversed(self.offsets) if offset <= offset_max]
        return FoundSnapshots(self._files, [(offset, self.path(offset)) for offset in newest_first])

    def remove(self, offsets: Iterable[int]) -> None:
        """Durably remove snapshots."""
        gone = set(offsets).intersection(self.offsets)
        for offset in sorted(gone):
            self._files.remove(self.path(offset))
        if gone:
            self._files.sync_directory(self._directory)
            self.offsets = [offset for offset in self.offsets if offset not in gone]
            self._unsynced.difference_update(gone)

    def forget(self, offsets: Iterable[int]) -> list[str]:
        """Forget these snapshots; returns their paths, for the caller to remove."""
        gone = set(offsets).intersection(self.offsets)
        self.offsets = [offset for offset in self.offsets if offset not in gone]
        self._unsynced.difference_update(gone)
        return [self.path(offset) for offset in sorted(gone)]

    def remove_above(self, log_end_offset: int) -> None:
        self.remove([offset for offset in self.offsets if offset > log_end_offset])

    def remove_strays(self, segment_base_offsets: Iterable[int]) -> None:
        """Keep the newest snapshot and the ones at a segment's base offset."""
        kept = {*segment_base_offsets, *self.offsets[-1:]}
        self.remove([offset for offset in self.offsets if offset not in kept])


class FoundSnapshots:
    """Snapshots to be read, newest first. It touches nothing but their files: a thread may use it."""

    def __init__(self, files: Files, newest_first: list[tuple[int, str]]) -> None:
        self._files = files
        self._newest_first = newest_first
        self.damaged: dict[int, CorruptSnapshotError] = {}
        """The offsets of those that could not be read, and why."""

    def load(self, state: ProducerState, now_ms: int) -> int | None:
        """Load the newest intact one into `state`; its offset, or None."""
        for offset, path in self._newest_first:
            try:
                entries = snapshot_bytes.decode(read_whole(self._files, path))
            except CorruptSnapshotError as error:
                self.damaged[offset] = error
                continue
            state.load(entries, map_end_offset=offset, now_ms=now_ms)
            return offset
        return None


def _content(state: ProducerState) -> bytes:
    return snapshot_bytes.encode(state.entries(), keep_windows=True)
