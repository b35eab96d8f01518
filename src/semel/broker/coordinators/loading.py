"""A shard is loaded: its partition's log replayed into it, a slice at a time.

Role.   `Loading` reads batch after batch and applies their rows; the host decides when to take the next slice.
Rules.  * Rows of transactions and their markers are applied as they were written.
        * A slice is small enough that the loop goes on serving others between two of them.
"""

from typing import Any, Final, Generic, TypeVar

from semel.core.coordination.outcome import Origin, Shard
from semel.core.coordination.row_format import RowFormat
from semel.core.coordination.row_times import RowTimes, moved
from semel.core.records import batch, control
from semel.core.records.batch import BatchHeader
from semel.core.records.build import iter_records
from semel.errors import CorruptLogError
from semel.log import reading
from semel.log.partition_log import PartitionLog
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

S = TypeVar("S", bound=Shard[Any])
SLICE_BYTES: Final = 64 * 1024


class Loading(Generic[S]):
    """The replay of one log into one shard."""

    __slots__ = ("_ahead_ms", "_format", "_log", "_next_offset", "_times", "records", "shard")

    def __init__(
        self, shard: S, log: PartitionLog, row_format: RowFormat, times: RowTimes, ahead_ms: int
    ) -> None:
        """`ahead_ms`: how far the wall clock, and so what the log holds in `times`, is ahead of the shard's time."""
        self.shard = shard
        self.records = 0
        self._log = log
        self._format = row_format
        self._times = times
        self._ahead_ms = ahead_ms
        self._next_offset = log.log_start_offset

    def step(self) -> bool:
        """Apply the next slice; whether that was the last.

        Raises `LogError` or `CorruptBatchError` if the log cannot be understood, and OSError if it cannot be read.
        """
        log = self._log
        end = log.log_end_offset
        start = max(self._next_offset, log.log_start_offset)
        if start >= end:
            return True
        found = reading.read(log, start, max_bytes=SLICE_BYTES, upper_bound=end)
        if found is None:
            return True  # Compaction left nothing at or above this offset.
        data = found.read()
        for position, header in batch.headers(data):
            batch.check_crc(data, position, header)
            self._apply(data, position, header, start)
            self._next_offset = header.next_offset
        if self._next_offset <= start:
            raise CorruptLogError(f"{log.topic_partition}: no batch could be read at offset {start}")
        return self._next_offset >= end

    def _apply(self, data: bytes, position: int, header: BatchHeader, start: int) -> None:
        if header.is_control:
            marker = control.read_end(data, position, header)
            if marker is not None:
                self.shard.apply_marker(header.producer_id, header.producer_epoch, commit=marker.commit)
            return
        in_transaction = header.is_transactional
        producer_id = header.producer_id if in_transaction else NO_PRODUCER_ID
        producer_epoch = header.producer_epoch if in_transaction else NO_PRODUCER_EPOCH
        for record in iter_records(data, position, header):
            if record.offset < start:
                continue
            self.records += 1
            row = self._format.decode(record)
            if row is not None:
                origin = Origin(record.offset, record.timestamp_ms, producer_id, producer_epoch)
                self.shard.apply(moved(row, self._times, -self._ahead_ms), origin)
