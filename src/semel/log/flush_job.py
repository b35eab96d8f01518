"""One sync of a log: its files are collected on the loop and synced on a thread.

Role.   `PartitionLog.begin_flush` fills it, a thread runs it, `finish_flush` moves the recovery point.
Rules.  * It holds open files, so that a segment deleted meanwhile can still be synced; a file known only by name may be
          gone by then.
        * Data before names: a durable name never points at bytes that are not durable.
"""

import contextlib
from dataclasses import dataclass, field

from semel.log.leader_epochs import EpochsToWrite
from semel.runtime.files import File, Files


@dataclass(slots=True)
class FlushJob:
    """The files of one sync. `run` blocks and may run on a thread; it touches only these files."""

    end_offset: int
    truncations: int
    files: list[File]
    paths: list[str]
    directory: str | None
    epochs: EpochsToWrite | None
    _files: Files = field(repr=False)

    def run(self) -> None:
        """Sync everything. Blocks."""
        if self.epochs is not None:
            with contextlib.suppress(FileNotFoundError):  # The partition was deleted meanwhile.
                self.epochs.write()
        for file in self.files:
            file.sync()
        for path in self.paths:
            try:
                file = self._files.open(path)
            except FileNotFoundError:
                continue  # Retention removed it meanwhile.
            try:
                file.sync()
            finally:
                file.close()
        if self.directory is not None:
            self._files.sync_directory(self.directory)
