"""Which leader wrote from which offset on: what a replica needs to find where two logs part.

Role.   The list (epoch, start offset) of one partition, kept in `leader-epoch-checkpoint`.
Flow.   `partition_log` assigns on append and truncates with the log; OffsetForLeaderEpoch asks `end_offset`.
        After damage `recovery` has it rebuilt from the batches.
Rules.  Epochs and start offsets rise together. An assignment that contradicts later entries removes them.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from semel.errors import CorruptLogError
from semel.log.checkpoints import read_lines, write_lines
from semel.runtime.files import Files
from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET


class EpochStart(NamedTuple):
    """The first offset a leader epoch wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch at or below the asked one, and where it ended."""

    epoch: int
    end_offset: int


NO_EPOCH_END: Final = EpochEnd(NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET)


class LeaderEpochs:
    """The leader epochs of one partition's log."""

    __slots__ = ("_files", "_path", "entries")

    def __init__(self, files: Files, path: str, entries: list[EpochStart]) -> None:
        self._files = files
        self._path = path
        self.entries = entries

    @classmethod
    def open(cls, files: Files, path: str) -> "LeaderEpochs":
        try:
            rows = [EpochStart(int(epoch), int(start)) for epoch, start in read_lines(files, path, fields=2)]
        except ValueError as error:
            raise CorruptLogError(f"{path}: {error}") from error
        return cls(files, path, sorted(rows))

    @property
    def latest(self) -> int:
        """The epoch of the last batch, or -1."""
        return self.entries[-1].epoch if self.entries else NO_PARTITION_LEADER_EPOCH

    def assign(self, epoch: int, start_offset: int) -> None:
        """Batches from `start_offset` on are written by the leader of `epoch`."""
        if epoch < 0 or (self.entries and self.entries[-1].epoch == epoch):
            return
        kept = [entry for entry in self.entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._replace([*kept, EpochStart(epoch, start_offset)])

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """Where the given epoch ended here; the log end for the latest, unknown for one yet to come."""
        if epoch < 0 or not self.entries or epoch > self.entries[-1].epoch:
            return NO_EPOCH_END
        if epoch == self.entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        higher = bisect_right(self.entries, epoch, key=lambda entry: entry.epoch)
        end_offset = self.entries[higher].start_offset
        return EpochEnd(self.entries[higher - 1].epoch if higher else epoch, end_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        index = bisect_right(self.entries, offset, key=lambda entry: entry.start_offset)
        return self.entries[index - 1].epoch if index else NO_PARTITION_LEADER_EPOCH

    def truncate_from_end(self, end_offset: int) -> None:
        """The log now ends at `end_offset`."""
        kept = [entry for entry in self.entries if entry.start_offset < end_offset]
        if len(kept) != len(self.entries):
            self._replace(kept)

    def truncate_from_start(self, start_offset: int) -> None:
        """The log now begins at `start_offset`; the epoch it falls into begins there too."""
        gone = [entry for entry in self.entries if entry.start_offset <= start_offset]
        if not gone or gone == [EpochStart(gone[0].epoch, start_offset)]:
            return
        self._replace([EpochStart(gone[-1].epoch, start_offset), *self.entries[len(gone) :]])

    def rebuild(self, batches: Iterable[tuple[int, int]]) -> None:
        """Read the epochs from the log's batches, each (leader epoch, first offset), in their order."""
        entries: list[EpochStart] = []
        for epoch, start_offset in batches:
            if epoch > (entries[-1].epoch if entries else NO_PARTITION_LEADER_EPOCH):
                entries.append(EpochStart(epoch, start_offset))
        if entries:
            self._replace(entries)

    def clear(self) -> None:
        if self.entries:
            self._replace([])

    def _replace(self, entries: list[EpochStart]) -> None:
        write_lines(self._files, self._path, (f"{epoch} {start}" for epoch, start in entries))
        self.entries = entries
