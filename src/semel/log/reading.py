"""Reading a log: a slice of a file from an offset, aborted transactions, offsets by time.

Role.   The reads of Fetch and ListOffsets on a partition's log. They change nothing.
Rules.  * A read returns a range of a file, not bytes: the network sends it without a copy.
        * A slice begins with the batch that holds the offset. It ends at the size limit, possibly inside a batch, but
          the first batch is always whole.
        * A slice ends below `upper_bound`: the high watermark, the last stable offset, or the log end for a replica.
        * A search by time may meet large batches or many headers, so it is a generator with pauses.
"""

from collections.abc import Generator, Iterator
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from semel.core.records import search
from semel.core.records.batch import BatchHeader, TimestampType
from semel.errors import OffsetOutOfRangeError
from semel.log.partition_log import PartitionLog
from semel.log.segment import Segment
from semel.log.txn_index import AbortedTxn
from semel.runtime.files import File
from semel.types import NO_TIMESTAMP

_HEADERS_AT_ONCE: Final = 1000


class LogSlice(NamedTuple):
    """A range of batches in a segment's file; the last one may be cut off."""

    file: File
    position: int
    size_bytes: int
    base_offset: int
    """The offset of its first batch, at or before the requested one."""
    end_offset: int
    """An upper bound of its offsets, for collecting aborted transactions."""

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size_bytes)


class TimestampOffset(NamedTuple):
    """A record's timestamp, offset and leader epoch."""

    timestamp_ms: int
    offset: int
    leader_epoch: int


def read(
    log: PartitionLog, offset: int, *, max_bytes: int, upper_bound: int, whole_first_batch: bool = True
) -> LogSlice | None:
    """The slice for a fetch at `offset`; None if there are no records below `upper_bound`, or they do not fit.

    Raises `OffsetOutOfRangeError` below the log start or above the log end.
    """
    if not log.log_start_offset <= offset <= log.log_end_offset:
        raise OffsetOutOfRangeError(
            f"{log.topic_partition}: offset {offset} is outside of [{log.log_start_offset}, {log.log_end_offset}]"
        )
    upper_bound = min(upper_bound, log.log_end_offset)
    if offset >= upper_bound:
        return None
    first = log.segment_index(offset)
    for index in range(first, len(log.segments)):
        segment = log.segments[index]
        found = segment.locate(offset)
        if found is None:
            continue  # Compaction can leave a segment without records at or above the offset.
        position, header = found
        if header.base_offset >= upper_bound:
            return None
        end_offset = (
            log.segments[index + 1].base_offset if index + 1 < len(log.segments) else log.log_end_offset
        )
        return _slice(
            segment, position, header, max_bytes, min(upper_bound, end_offset), end_offset, whole_first_batch
        )
    return None


def _slice(
    segment: Segment,
    position: int,
    header: BatchHeader,
    max_bytes: int,
    upper_bound: int,
    segment_end_offset: int,
    whole_first_batch: bool,
) -> LogSlice | None:
    end_position = segment.size_bytes
    if upper_bound < segment_end_offset:
        bound = segment.locate(upper_bound)
        end_position = segment.size_bytes if bound is None else bound[0]
    wanted = max(max_bytes, header.size_bytes) if whole_first_batch else max_bytes
    size_bytes = min(wanted, end_position - position)
    if size_bytes < header.size_bytes:
        return None  # As in Kafka: clients treat bytes without a whole batch as damage.
    end_offset = upper_bound
    if position + size_bytes < end_position:
        end_offset = min(upper_bound, segment.offset_index.offset_after(position + size_bytes) or upper_bound)
    return LogSlice(segment.file, position, size_bytes, header.base_offset, end_offset)


def aborted_transactions(log: PartitionLog, fetch_offset: int, upper_bound: int) -> list[AbortedTxn]:
    """The aborted transactions with records in [fetch_offset, upper_bound), also if they began before it."""
    return list(_aborted(log, fetch_offset, upper_bound))


def _aborted(log: PartitionLog, fetch_offset: int, upper_bound: int) -> Iterator[AbortedTxn]:
    for segment in log.segments[log.segment_index(fetch_offset) :]:
        for entry in segment.txn_index.collect(fetch_offset, upper_bound):
            if entry is None:
                return
            yield entry


def committed_bound(log: PartitionLog, fetch_offset: int, upper_bound: int, aborted_max: int) -> int:
    """The end of a slice with about `aborted_max` aborted transactions; at most `upper_bound`."""
    for entry in islice(_aborted(log, fetch_offset, upper_bound), aborted_max, None):
        return min(upper_bound, entry.last_offset + 1)
    return upper_bound


class BatchSearch(NamedTuple):
    """A batch to search for its first record at or after a time: by `find`, on the loop or on a thread."""

    batch: bytes
    header: BatchHeader
    timestamp_ms: int
    offset_min: int

    def find(self) -> tuple[int, int] | None:
        """Timestamp and offset of the record."""
        return search.first_at_or_after(self.batch, self.header, self.timestamp_ms, self.offset_min)


TimeSearch: TypeAlias = Generator[BatchSearch | None, tuple[int, int] | None, TimestampOffset | None]
"""Yields a batch and expects the result of its `find`, or yields None after many headers, for a pause."""


def searched(steps: TimeSearch) -> TimestampOffset | None:
    """Run a search without pauses."""
    found = None
    while True:
        try:
            wanted = steps.send(found)
        except StopIteration as done:
            result: TimestampOffset | None = done.value
            return result
        found = None if wanted is None else wanted.find()


def offset_for_timestamp(log: PartitionLog, timestamp_ms: int) -> TimeSearch:
    """The first record at or after a time, by offset; None if every record is older."""
    passed = 0
    for segment in list(log.segments):
        if segment.max_timestamp < timestamp_ms:
            continue
        start = segment.offset_index.position_before(segment.time_index.offset_before(timestamp_ms - 1))
        for position, header in segment.walk(start):
            passed += 1
            if passed % _HEADERS_AT_ONCE == 0:
                yield None
            if header.max_timestamp < timestamp_ms or header.last_offset < log.log_start_offset:
                continue
            found = yield from _first_record(segment, position, header, timestamp_ms, log.log_start_offset)
            if found is not None:
                return found
    return None


def _first_record(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, log_start_offset: int
) -> TimeSearch:
    is_whole = header.records_count == header.last_offset_delta + 1  # Not compacted.
    if is_whole and header.timestamp_type is TimestampType.LOG_APPEND_TIME:
        offset = max(header.base_offset, log_start_offset)
        return TimestampOffset(header.max_timestamp, offset, header.partition_leader_epoch)
    found = yield BatchSearch(segment.read_batch(position, header), header, timestamp_ms, log_start_offset)
    return None if found is None else TimestampOffset(*found, header.partition_leader_epoch)


def offset_of_max_timestamp(log: PartitionLog) -> TimeSearch:
    """The first record with the log's largest timestamp; None if no record has one."""
    newest = max(log.segments, key=lambda segment: segment.max_timestamp)
    if newest.max_timestamp < 0:
        return None
    found = yield from offset_for_timestamp(log, newest.max_timestamp)
    if found is not None:
        return found
    # An emptied batch keeps its timestamp: search for the largest among batches with records.
    largest = NO_TIMESTAMP
    passed = 0
    for segment in list(log.segments):
        for _position, header in segment.walk():
            passed += 1
            if passed % _HEADERS_AT_ONCE == 0:
                yield None
            if header.records_count and header.last_offset >= log.log_start_offset:
                largest = max(largest, header.max_timestamp)
    return (yield from offset_for_timestamp(log, largest))
