"""Which leader wrote from which offset on: what a replica needs to find where two logs part.

Role.   The list (epoch, start offset) of one partition, kept in `leader-epoch-checkpoint`; `core.replication.epochs` reads it.
Flow.   `partition_log` assigns on append and truncates with the log; OffsetForLeaderEpoch asks `end_offset`. A flush takes what
        is `unwritten` along. After a crash `recovery` has it completed, after damage rebuilt, from the batches.
Rules.  * Epochs and start offsets rise together. An assignment that contradicts later entries removes them.
        * Changes are made in memory: an append waits for no sync. The file is right below the recovery point, because it is
          written before that moves; above it the file is believed where no batch contradicts it.
        * One writer at a time: the flushes of a log follow each other.
"""

from collections.abc import Iterator
from typing import NamedTuple

from semel.core.replication.epochs import EpochEnd, EpochStart, epoch_end, epoch_for
from semel.errors import CorruptLogError
from semel.log.checkpoints import read_lines, write_lines
from semel.runtime.files import Files
from semel.types import NO_PARTITION_LEADER_EPOCH, UNKNOWN_OFFSET


class EpochRuns:
    """Batches met one after the other, as runs of one leader epoch each: (epoch, first base offset, last base offset)."""

    def __init__(self) -> None:
        self._runs: list[tuple[int, int, int]] = []
        self._epoch = NO_PARTITION_LEADER_EPOCH
        self._first_offset = self._last_offset = UNKNOWN_OFFSET

    def note(self, epoch: int, base_offset: int) -> None:
        """The next batch of the log."""
        if epoch != self._epoch:
            if self._epoch != NO_PARTITION_LEADER_EPOCH:
                self._runs.append((self._epoch, self._first_offset, self._last_offset))
            self._epoch, self._first_offset = epoch, base_offset
        self._last_offset = base_offset

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        yield from self._runs
        if self._epoch != NO_PARTITION_LEADER_EPOCH:
            yield self._epoch, self._first_offset, self._last_offset


class LeaderEpochs:
    """The leader epochs of one partition's log."""

    __slots__ = ("_changes", "_files", "_path", "_written", "entries")

    def __init__(self, files: Files, path: str, entries: list[EpochStart]) -> None:
        self._files = files
        self._path = path
        self._changes = 0
        self._written = 0
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
        return epoch_end(self.entries, epoch, log_end_offset)

    def epoch_for(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        return epoch_for(self.entries, offset)

    def clear(self) -> None:
        """The log begins anew, with nothing."""
        if self.entries:
            self._replace([])

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

    def correct(self, runs: EpochRuns) -> None:
        """Learn what batches of the log tell. An entry they do not contradict stays: compaction may have taken the first batch.

        Offsets below every known entry are for `extend_down`.
        """
        known_from = self.entries[0].start_offset if self.entries else 0
        for epoch, run_from, last_offset in runs:
            if last_offset < known_from:
                continue
            first_offset = max(run_from, known_from)
            if self.epoch_for(first_offset) != epoch:
                self.truncate_from_end(first_offset)
                self.assign(epoch, first_offset)
            elif self.epoch_for(last_offset) != epoch:
                self.truncate_from_end(first_offset + 1)

    def extend_down(self, runs: EpochRuns) -> None:
        """Learn what batches below everything that is known tell: a power cut has brought deleted segments back."""
        known_from = self.entries[0].start_offset
        older = LeaderEpochs(self._files, self._path, [])
        for epoch, first_offset, _last_offset in runs:
            if first_offset < known_from and epoch > older.latest:
                older.assign(epoch, first_offset)
        if older.entries:
            self._replace([*older.entries, *(one for one in self.entries if one.epoch > older.latest)])

    def _replace(self, entries: list[EpochStart]) -> None:
        self.entries = entries
        self._changes += 1

    # The file

    @property
    def is_written(self) -> bool:
        """Whether the file says what is known."""
        return self._changes == self._written

    def unwritten(self) -> "EpochsToWrite | None":
        """The entries missing in the file."""
        if self._changes == self._written:
            return None
        return EpochsToWrite(self._files, self._path, self._changes, tuple(self.entries))

    def wrote(self, written: "EpochsToWrite") -> None:
        """The file says this now."""
        self._written = written.changes


class EpochsToWrite(NamedTuple):
    """The epochs at a moment, for a thread to write down."""

    files: Files
    path: str
    changes: int
    entries: tuple[EpochStart, ...]

    def write(self) -> None:
        """Replace the file, for good. Blocks."""
        write_lines(self.files, self.path, (f"{epoch} {start}" for epoch, start in self.entries))
