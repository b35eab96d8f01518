"""Where a producer's records wait: batches per partition, within a bound on memory.

Role.   `Accumulator` puts records into the open batch of their partition and says which batches may leave: because they
        are full, because they have waited for `linger.ms`, or because somebody waits for them.
Flow.   `append` (a record) and `append_sealed` (a batch made elsewhere) from the application; `is_ready` and `take` from
        the sender; `free` once a batch's fate is known.
Rules.  * A batch has one partition. It is closed when the next record would take it over `batch.size`; a record that is
          larger than that has a batch of its own. Batches leave in the order they were opened.
        * The open batch grows for as long as it is not taken: a slow broker gets larger batches, not more of them.
        * What is not settled counts against `buffer.memory`. A record that does not fit has to wait; it is not taken.
        * Sizes are upper bounds of what is written, before compression; no record is encoded to learn its size.
        * Nothing here is safe between threads: the owner holds one lock around every call.
Elsewhere. Sequences and retries: `core.idempotence.in_flight`. Which partition: `sticky` and `murmur2`.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from semel.core.records.batch import HEADER_SIZE
from semel.errors import SemelError
from semel.types import NO_TIMESTAMP, UNKNOWN_OFFSET, TopicPartition, WritableBytes

Headers = Sequence[tuple[str, bytes | None]]

# What a record takes beside its key, value and headers, at most: lengths, deltas and attributes.
_SMALL_BYTES, _SMALL_OVERHEAD = 60, 12
_MEDIUM_BYTES, _MEDIUM_OVERHEAD = 8000, 14
_LARGE_OVERHEAD: Final = 23
_TIMESTAMP_OVERHEAD: Final = 7  # A timestamp of the application's may be far from its neighbours'.
_HEADER_OVERHEAD: Final = 10
_UTF8_BYTES_MAX: Final = 4


def record_size(key: bytes | None, value: bytes | None, headers: Headers, *, has_timestamp: bool) -> int:
    """How many bytes of a batch a record takes, at most."""
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
    """Records of one partition that travel together, and what became of them.

    Who wants to hear of its end appends to `listeners` and then calls `tell` if it `is_done` already: each listener is
    taken out by exactly one caller, so it is called once, whatever the threads do.
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
        """Where the end is told: whoever waits there would wait for ever."""
        self.partition = partition
        self.created_ms = created_ms
        self.size_bytes = HEADER_SIZE
        self.largest_bytes = 0
        """The size of the largest record, as far as single records were given."""
        self.records_count = 0
        self.keys: list[bytes | None] = []
        self.values: list[bytes | None] = []
        self.timestamps: list[int] = []
        self.headers: list[Headers] | None = None
        """None while no record has any."""
        self.max_timestamp_ms = NO_TIMESTAMP
        self.data: WritableBytes | None = None
        """Its bytes, once it was sent for the first time; a sealed batch has them from the start."""
        self.is_closed = False
        self.is_done = False
        self.attempts = 0
        self.base_offset = UNKNOWN_OFFSET
        self.log_append_time_ms = NO_TIMESTAMP
        self.error: SemelError | None = None
        self.trouble = ""
        """Why its last attempt failed, while it is tried again."""
        self.pieces: tuple[Batch, ...] = ()
        """What it became, if it was too large for the broker: the same records in the same order."""
        self.listeners: deque[Callable[[], object]] = deque()

    def place(self, index: int) -> "tuple[Batch, int]":
        """The batch a record was stored with in the end, and where in it."""
        for piece in self.pieces:
            if index < piece.records_count:
                return piece.place(index)
            index -= piece.records_count
        return self, index

    def leaves(self) -> "Iterator[Batch]":
        """What it became, or itself."""
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
        """It ends when all pieces have."""
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
        """Call everybody who waits for the end."""
        while self.listeners:
            try:
                listener = self.listeners.popleft()
            except IndexError:  # Somebody else was faster.
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
        """Only of partitions that have something, in the order in which they began to."""
        self._given = 0
        self.used_bytes = 0
        self.flushes = 0
        """How many callers wait until everything has left."""
        self.is_closing = False
        self.home: object = None
        self.waiting: deque[Callable[[], object]] = deque()
        """Who waits for memory; called when some is free, to try again."""

    @property
    def available_bytes(self) -> int:
        return self._buffer_bytes - self.used_bytes

    def has_room(self, size_bytes: int) -> bool:
        """Whether so much may be appended. An empty buffer takes anything: the size alone was judged before."""
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
        """The batch a record is in, its place there, and whether the sender should look; None without room."""
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
        """A batch that is encoded already, behind all that was given before it; None without room."""
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
        """A batch of bytes, in no queue and not counted: the caller does both, or it replaces one that is."""
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
        """Those that have batches."""
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
        """When the first batch of a partition will have lingered; None without one."""
        queue = self._queues.get(partition)
        return queue[0].created_ms + self._linger_ms if queue else None

    def first_size(self, partition: TopicPartition) -> int:
        """How large the first batch of a partition is, at most; 0 without one."""
        queue = self._queues.get(partition)
        return queue[0].size_bytes if queue else 0

    def batches(self) -> Iterator[Batch]:
        """All that have not left."""
        for queue in self._queues.values():
            yield from queue

    def oldest_ms(self) -> int | None:
        """When the oldest batch was opened; None without any."""
        return min((queue[0].created_ms for queue in self._queues.values()), default=None)

    def take(self, partition: TopicPartition) -> Batch:
        """The first batch, closed; it still counts."""
        queue = self._queues[partition]
        batch = queue.popleft()
        batch.is_closed = True
        del self._queues[partition]
        if queue:
            self._queues[partition] = queue  # At the end: partitions take turns.
        return batch

    def drop(self) -> list[Batch]:
        """Everything that has not left, taken out; it still counts."""
        dropped = list(self.batches())
        for batch in dropped:
            batch.is_closed = True
        self._queues.clear()
        return dropped

    def expired(self, born_before_ms: int) -> Iterator[Batch]:
        """Batches that were opened before this, taken out; they still count."""
        for partition in list(self._queues):
            queue = self._queues[partition]
            while queue and queue[0].created_ms <= born_before_ms:
                batch = queue.popleft()
                batch.is_closed = True
                yield batch
            if not queue:
                del self._queues[partition]

    def free(self, batch: Batch) -> None:
        """The batch's fate is known: its memory is free. The caller calls `waiting` when the lock is released."""
        self.used_bytes -= batch.size_bytes
