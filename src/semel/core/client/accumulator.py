"""The producer's record accumulator: batches per partition, bounded by `buffer.memory`.

Role.   `Accumulator` puts records into the open batch of their partition and says which batches may leave: because they
        are full, because they have waited for `linger.ms`, or because a flush, a close or a caller short of memory
        waits.
Flow.   `append` (a record) and `append_sealed` (a batch made elsewhere) from the application; `is_ready` and `take` from
        the sender; `free` once a batch's fate is known.
Rules.  * A batch has one partition. It is closed when the next record would take it over `batch.size`; a larger record
          gets a batch to itself. Batches leave in the order they were opened.
        * The open batch grows until the sender takes it: a slow broker gets larger batches, not more of them.
        * Unsettled batches count against `buffer.memory`. `append` refuses a record that does not fit; the caller
          waits.
        * Sizes are upper bounds of what is written, before compression; no record is encoded to learn its size.
        * The accumulator is not thread-safe: the owner holds one lock around every call.
Elsewhere. Sequences and retries: `core.idempotence.in_flight`. Choosing partitions: `sticky` and `murmur2`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from semel.core.records.batch import HEADER_SIZE
from semel.errors import SemelError
from semel.types import NO_TIMESTAMP, UNKNOWN_OFFSET, TopicPartition, WritableBytes

Headers = Sequence[tuple[str, bytes | None]]

# Upper bound of a record's bytes beside its key, value and headers: lengths, deltas and attributes.
_SMALL_BYTES, _SMALL_OVERHEAD = 60, 12
_MEDIUM_BYTES, _MEDIUM_OVERHEAD = 8000, 14
_LARGE_OVERHEAD: Final = 23
_TIMESTAMP_OVERHEAD: Final = 7  # A timestamp set by the application may be far from its neighbours'.
_HEADER_OVERHEAD: Final = 10
_UTF8_BYTES_MAX: Final = 4


def record_size(key: bytes | None, value: bytes | None, headers: Headers, *, has_timestamp: bool) -> int:
    """Upper bound of the bytes a record takes in a batch."""
    size = (len(key) if key else 0) + (len(value) if value else 0)
    if headers:
        size += _HEADER_OVERHEAD
        for name, content in headers:
            size += _HEADER_OVERHEAD + len(name) * _UTF8_BYTES_MAX + (len(content) if content else 0)
    if has_timestamp:
        size += _TIMESTAMP_OVERHEAD
    if size < _SMALL_BYTES:
        return size + _SMALL_OVERHEAD
    return size + (_MEDIUM_OVERHEAD if size < _MEDIUM_BYTES else _LARGE_OVERHEAD)


class Batch:
    """Records of one partition that are sent together, and their result.

    A caller that waits for the end appends to `listeners`, then calls `tell` if the batch `is_done` already. Each
    listener is popped by exactly one thread, so it is called once.
    """

    __slots__ = (
        "attempts",
        "base_offset",
        "batch_id",
        "created_ms",
        "data",
        "error",
        "headers",
        "home",
        "is_closed",
        "is_done",
        "keys",
        "largest_bytes",
        "listeners",
        "log_append_time_ms",
        "max_timestamp_ms",
        "partition",
        "pieces",
        "records_count",
        "size_bytes",
        "timestamps",
        "trouble",
        "values",
    )

    def __init__(
        self, batch_id: int, partition: TopicPartition, created_ms: int, home: object = None
    ) -> None:
        self.batch_id = batch_id
        self.home = home
        """The owner's event loop, where listeners run: blocking on this batch there would deadlock."""
        self.partition = partition
        self.created_ms = created_ms
        self.size_bytes = HEADER_SIZE
        self.largest_bytes = 0
        """Size bound of the largest record; 0 in a sealed batch, whose records were not given one by one."""
        self.records_count = 0
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] | None = None
        """None while no record of the batch has headers."""
        self.max_timestamp_ms = NO_TIMESTAMP
        self.data: WritableBytes | None = None
        """The encoded batch: set when it is sent for the first time, in a sealed batch from the start."""
        self.is_closed = False
        self.is_done = False
        self.attempts = 0
        self.base_offset = UNKNOWN_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: SemelError | None = None
        self.trouble = ""
        """Why the last attempt to send the batch failed, while it is retried."""
        self.pieces: tuple[Batch, ...] = ()
        """The smaller batches this one was split into, if it was too large for the broker: same records, same order."""
        self.listeners: deque[Callable[[], object]] = deque()

    def place(self, index: int) -> "tuple[Batch, int]":
        """The batch in which a record was finally stored, and its index there."""
        for piece in self.pieces:
            if index < piece.records_count:
                return piece.place(index)
            index -= piece.records_count
        return self, index

    def leaves(self) -> "Iterator[Batch]":
        """The batches this one was split into, recursively; itself if it was not split."""
        if not self.pieces:
            yield self
        for piece in self.pieces:
            yield from piece.leaves()

    def forget_records(self) -> None:
        """The records are in `data` now."""
        self.keys, self.values, self.timestamps, self.headers = [], [], [], None

    def settle(self, base_offset: int, log_append_time_ms: int) -> None:
        """The batch is stored."""
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._end()

    def fail(self, error: SemelError) -> None:
        """The batch is given up."""
        self.error = error
        self._end()

    def split_into(self, pieces: "Sequence[Batch]") -> None:
        """Split the batch: it ends when all pieces have ended."""
        self.pieces = tuple(pieces)
        left = len(pieces)

        def ended() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._end()
                self.tell()

        for piece in pieces:
            piece.listeners.append(ended)

    def _end(self) -> None:
        self.forget_records()
        self.data = None
        self.is_done = True

    def tell(self) -> None:
        """Call every listener once."""
        while self.listeners:
            try:
                listener = self.listeners.popleft()
            except IndexError:  # Another thread took the last listener.
                return
            listener()


class Accumulator:
    """The batches of one producer that have not left."""

    __slots__ = (
        "_batch_size_bytes",
        "_buffer_bytes",
        "_given",
        "_linger_ms",
        "_queues",
        "flushes",
        "home",
        "is_closing",
        "used_bytes",
        "waiting",
    )

    def __init__(self, *, batch_size_bytes: int, linger_ms: int, buffer_bytes: int) -> None:
        self._batch_size_bytes = batch_size_bytes
        self._buffer_bytes = buffer_bytes
        self._linger_ms = linger_ms
        self._queues: dict[TopicPartition, deque[Batch]] = {}
        """Only partitions with batches, in the order in which they got their first one."""
        self._given = 0
        self.used_bytes = 0
        self.flushes = 0
        """How many callers wait until everything has left."""
        self.is_closing = False
        self.home: object = None
        self.waiting: deque[Callable[[], object]] = deque()
        """Callbacks of callers that wait for memory; called when some is free, to try again."""

    @property
    def available_bytes(self) -> int:
        return self._buffer_bytes - self.used_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether so many bytes may be appended. An empty buffer takes any size: `max.request.size` was checked
        before."""
        return self.used_bytes + size_bytes <= self._buffer_bytes or not self.used_bytes

    def append(
        self,
        partition: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int,
        headers: Headers,
        size_bytes: int,
        now_ms: int,
    ) -> tuple[Batch, int, bool] | None:
        """The record's batch, its index there, and whether to wake the sender; None without room."""
        used = self.used_bytes + size_bytes
        if used > self._buffer_bytes and self.used_bytes:
            return None
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        look = False
        batch = queue[-1] if queue else None
        if batch is None or batch.is_closed or batch.size_bytes + size_bytes > self._batch_size_bytes:
            if batch is not None:
                batch.is_closed = True
            batch = Batch(self._given, partition, now_ms, self.home)
            self._given += 1
            queue.append(batch)
            used += HEADER_SIZE
            look = len(queue) <= 2  # The first begins to linger; the second proves the first full.
        self.used_bytes = used
        batch.size_bytes += size_bytes
        if size_bytes > batch.largest_bytes:
            batch.largest_bytes = size_bytes
        batch.keys.append(key)
        batch.values.append(value)
        batch.timestamps.append(timestamp_ms)
        if timestamp_ms > batch.max_timestamp_ms:
            batch.max_timestamp_ms = timestamp_ms
        index = batch.records_count
        batch.records_count = index + 1
        if headers or batch.headers is not None:
            self._add_headers(batch, headers)
        if batch.size_bytes >= self._batch_size_bytes:
            batch.is_closed = True
            look = look or len(queue) == 1
        return batch, index, look

    def _add_headers(self, batch: Batch, headers: Headers) -> None:
        if batch.headers is None:
            batch.headers = [()] * (batch.records_count - 1)
        batch.headers.append(headers)

    def append_sealed(
        self,
        partition: TopicPartition,
        data: WritableBytes,
        records_count: int,
        max_timestamp_ms: int,
        now_ms: int,
    ) -> Batch | None:
        """Queue a batch that is already encoded, behind everything appended before; None without room."""
        if not self.has_room(len(data)):
            return None
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        if queue:
            queue[-1].is_closed = True
        batch = self.sealed(partition, data, records_count, max_timestamp_ms, now_ms)
        self.used_bytes += batch.size_bytes
        queue.append(batch)
        return batch

    def sealed(
        self,
        partition: TopicPartition,
        data: WritableBytes,
        records_count: int,
        max_timestamp_ms: int,
        created_ms: int,
    ) -> Batch:
        """An encoded batch that is neither queued nor counted: the caller does both, or replaces a counted batch with
        it."""
        batch = Batch(self._given, partition, created_ms, self.home)
        self._given += 1
        batch.data = data
        batch.size_bytes = len(data)
        batch.records_count = records_count
        batch.max_timestamp_ms = max_timestamp_ms
        batch.is_closed = True
        return batch

    # The sender

    def partitions(self) -> list[TopicPartition]:
        """Partitions with batches."""
        return list(self._queues)

    def queued(self, partition: TopicPartition) -> int:
        """How many batches of a partition wait."""
        queue = self._queues.get(partition)
        return len(queue) if queue else 0

    def is_ready(self, partition: TopicPartition, now_ms: int) -> bool:
        """Whether the first batch of a partition should leave now."""
        queue = self._queues.get(partition)
        if not queue:
            return False
        first = queue[0]
        return (
            len(queue) > 1
            or first.is_closed
            or now_ms - first.created_ms >= self._linger_ms
            or self.flushes > 0
            or self.is_closing
            or bool(self.waiting)
        )

    def due_ms(self, partition: TopicPartition) -> int | None:
        """When `linger.ms` of the partition's first batch ends; None without a batch."""
        queue = self._queues.get(partition)
        return queue[0].created_ms + self._linger_ms if queue else None

    def first_size(self, partition: TopicPartition) -> int:
        """Size bound of the partition's first batch; 0 without one."""
        queue = self._queues.get(partition)
        return queue[0].size_bytes if queue else 0

    def batches(self) -> Iterator[Batch]:
        """Every batch that was not taken yet."""
        for queue in self._queues.values():
            yield from queue

    def oldest_ms(self) -> int | None:
        """When the oldest batch was opened; None without any."""
        return min((queue[0].created_ms for queue in self._queues.values()), default=None)

    def take(self, partition: TopicPartition) -> Batch:
        """Take the first batch out and close it; it still counts against `buffer.memory`."""
        queue = self._queues[partition]
        batch = queue.popleft()
        batch.is_closed = True
        del self._queues[partition]
        if queue:
            self._queues[partition] = queue  # At the end: partitions take turns.
        return batch

    def drop(self) -> list[Batch]:
        """Take every batch out; they still count against `buffer.memory`."""
        dropped = list(self.batches())
        for batch in dropped:
            batch.is_closed = True
        self._queues.clear()
        return dropped

    def expired(self, born_before_ms: int) -> Iterator[Batch]:
        """Take out the batches opened at this time or before; they still count against `buffer.memory`."""
        for partition in list(self._queues):
            queue = self._queues[partition]
            while queue and queue[0].created_ms <= born_before_ms:
                batch = queue.popleft()
                batch.is_closed = True
                yield batch
            if not queue:
                del self._queues[partition]

    def free(self, batch: Batch) -> None:
        """Release the memory of a settled or failed batch. The caller runs `waiting` after releasing the lock."""
        self.used_bytes -= batch.size_bytes
