"""The compaction progress of each log: Kafka's `cleaner-offset-checkpoint`.

Role.   The first dirty offset of every log that was cleaned. Offsets below it may be missing in the log.
Flow.   `broker.cleaner` reads and sets it; `directory` forgets deleted partitions, and lowers the offsets of truncated
        ones.
Rules.  * The file is rewritten after every change, by any thread: one at a time, with the current offsets.
        * A lost offset costs only another cleaning of the whole log. An offset that is too high would keep superseded
          records, so it never outlives its log.
"""

import logging
import threading
from collections.abc import Iterable

from semel.errors import CorruptLogError
from semel.log import checkpoints
from semel.runtime.files import Files, join
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)


class CleanerOffsets:
    """The first dirty offsets of one data directory."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._path = join(directory, checkpoints.CLEANER_OFFSETS)
        self._lock = threading.Lock()
        try:
            self._offsets = checkpoints.read_offsets(files, self._path)
        except CorruptLogError as error:
            _logger.warning("%s is damaged, so every log is treated as dirty: %s", self._path, error)
            self._offsets = {}

    def get(self, topic_partition: TopicPartition) -> int | None:
        """The first dirty offset of a log; None if it was never cleaned."""
        return self._offsets.get(topic_partition)

    def set(self, topic_partition: TopicPartition, offset: int) -> None:
        """Record that a log is clean up to this offset. Blocks; may run on a thread."""
        with self._lock:
            self._offsets[topic_partition] = offset
            self._write()

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """Lower the offset of a truncated log. Blocks."""
        if self._offsets.get(topic_partition, offset) > offset:
            self.set(topic_partition, offset)

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget logs that are deleted or recreated. Blocks if one was known."""
        with self._lock:
            known = [tp for tp in topic_partitions if self._offsets.pop(tp, None) is not None]
            if known:
                self._write()

    def keep(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """Forget all logs but these. Blocks if another was known."""
        kept = set(topic_partitions)
        self.forget([tp for tp in list(self._offsets) if tp not in kept])

    def _write(self) -> None:
        checkpoints.write_offsets(self._files, self._path, dict(self._offsets))
