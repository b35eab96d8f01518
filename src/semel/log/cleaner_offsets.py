"""How far each log has been compacted: Kafka's `cleaner-offset-checkpoint`.

Role.   The first dirty offset of every log the cleaner has been over. Offsets below may be missing in the log.
Flow.   `broker.cleaner` asks and sets it; `directory` forgets a partition that is deleted, and lowers what is cut back.
Rules.  * The file is written whole after every change, from whichever thread: one at a time, with what is known then.
        * Losing it costs another cleaning of the whole log, nothing else. One that is too high would leave records alone
          that are superseded: so it never outlives the log it was true of.
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
            _logger.warning("%s is damaged, every log counts as dirty: %s", self._path, error)
            self._offsets = {}

    def get(self, topic_partition: TopicPartition) -> int | None:
        """Where the dirty part of a log begins; None if it was never cleaned."""
        return self._offsets.get(topic_partition)

    def set(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log is clean up to here. Blocks; may run on a thread."""
        with self._lock:
            self._offsets[topic_partition] = offset
            self._write()

    def lower(self, topic_partition: TopicPartition, offset: int) -> None:
        """A log was cut back to here. Blocks."""
        if self._offsets.get(topic_partition, offset) > offset:
            self.set(topic_partition, offset)

    def forget(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """These logs are gone, or others of that name begin. Blocks where one was known."""
        with self._lock:
            known = [tp for tp in topic_partitions if self._offsets.pop(tp, None) is not None]
            if known:
                self._write()

    def keep(self, topic_partitions: Iterable[TopicPartition]) -> None:
        """There are no other logs than these. Blocks where one was known."""
        kept = set(topic_partitions)
        self.forget([tp for tp in list(self._offsets) if tp not in kept])

    def _write(self) -> None:
        checkpoints.write_offsets(self._files, self._path, dict(self._offsets))
