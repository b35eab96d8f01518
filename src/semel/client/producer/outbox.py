"""The application's side of a producer: records go in on any thread, and the sender hears of them once.

Role.   `Outbox` guards the accumulator with one lock, refuses what may not be sent now, and wakes the sender only where
        there is something new for it to do.
Flow.   `append` and `append_sealed` on the caller's thread; `take`, `finish` and `pending` on the loop.
Rules.  * No record crosses threads by itself: it is put into its batch, and the loop is woken once for many.
        * `gate` says why nothing may be sent: closed, failed, or not in a transaction. It is looked at under the lock, so a
          record appended before a transaction ends belongs to it. A record that had to wait is appended only while the gate
          has been open ever since it was given: it does not slip into the next transaction.
"""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from semel.client.producer.future import SendFuture
from semel.client.producer.topics import KnownTopic
from semel.core.client.accumulator import Accumulator, Batch, Headers, record_size
from semel.errors import SemelError
from semel.exceptions import IllegalStateException, KafkaException
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition, WritableBytes

Gate = Callable[[], KafkaException]


class Outbox:
    """Records that were given and are not under way yet."""

    def __init__(self, runtime: Runtime, *, batch_size_bytes: int, linger_ms: int, buffer_bytes: int) -> None:
        self.accumulator = Accumulator(
            batch_size_bytes=batch_size_bytes, linger_ms=linger_ms, buffer_bytes=buffer_bytes
        )
        self.gate: Gate | None = None
        self.openings = 0
        """How often the gate was opened."""
        self.under_way: dict[int, Batch] = {}
        """Batches the sender has taken, until their fate is known."""
        self._lock = threading.Lock()
        self._now_ms = runtime.clock.monotonic_ms
        self._wall_ms = runtime.clock.now_ms
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looks = asyncio.Event()
        self._is_called = False

    @property
    def lock(self) -> AbstractContextManager[bool]:
        return self._lock

    # Any thread

    def append(
        self,
        topic: KnownTopic,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        timestamp_ms: int | None,
        headers: Headers,
        opening: int | None = None,
    ) -> SendFuture | None:
        """Take a record, or None while there is no room for it. Without a partition the topic's sticky one is used.

        `opening`: how often the gate had been opened when a record that had to wait was given.
        """
        size_bytes = record_size(key, value, headers, has_timestamp=timestamp_ms is not None)
        if timestamp_ms is None:
            timestamp_ms = self._wall_ms()
        now_ms = self._now_ms()
        topic.used_ms = now_ms
        with self._lock:
            self._check(opening)
            index = topic.sticky.partition(topic.count, topic.available) if partition is None else partition
            placed = self.accumulator.append(
                topic.partitions[index], key, value, timestamp_ms, headers, size_bytes, now_ms
            )
            if placed is None:
                return None
            batch, place, looks = placed
            if partition is None:
                topic.sticky.appended(
                    size_bytes,
                    batch_is_full=batch.is_closed,
                    partitions_count=topic.count,
                    available=topic.available,
                )
        if looks:
            self.wake()
        return SendFuture(batch, place, timestamp_ms, key, value)

    def append_sealed(
        self,
        topic: KnownTopic,
        partition: int | None,
        data: WritableBytes,
        records_count: int,
        max_timestamp_ms: int,
        opening: int,
    ) -> Batch | None:
        """Take a finished batch, or None while there is no room for it. Without a partition it goes where keyless rows go."""
        topic.used_ms = now_ms = self._now_ms()
        with self._lock:
            self._check(opening)
            index = topic.sticky.partition(topic.count, topic.available) if partition is None else partition
            batch = self.accumulator.append_sealed(
                topic.partitions[index], data, records_count, max_timestamp_ms, now_ms
            )
            if batch is None:
                return None
            if partition is None:
                topic.sticky.appended(
                    len(data), batch_is_full=True, partitions_count=topic.count, available=topic.available
                )
        self.wake()
        return batch

    def _check(self, opening: int | None) -> None:
        """Raise unless what was given then may be sent now."""
        if self.gate is not None:
            raise self.gate()
        if opening is not None and opening != self.openings:
            raise IllegalStateException(
                "the transaction a record was given in ended while the record waited for its topic or for memory: it was not "
                "sent. End a transaction when every send() in it has returned"
            )

    def call_when_free(self, size_bytes: int, callback: Callable[[], object]) -> None:
        """Call back when some memory is free, at once if there is room by now."""
        with self._lock:
            if not self.accumulator.has_room(size_bytes) and self.gate is None:
                self.accumulator.waiting.append(callback)
                callback = self.wake  # Batches that linger leave: somebody waits.
        callback()

    def wake(self) -> None:
        """Have the sender look."""
        if self._is_called or self._loop is None:
            return
        self._is_called = True
        if asyncio._get_running_loop() is self._loop:
            self._looks.set()
        else:
            self._loop.call_soon_threadsafe(self._looks.set)

    def shut(self, gate: Gate | None) -> None:
        """From now on nothing is taken, for this reason; None opens it again."""
        with self._lock:
            self.openings += gate is None and self.gate is not None
            self.gate = gate
            waiting = list(self.accumulator.waiting) if gate is not None else []
            if gate is not None:
                self.accumulator.waiting.clear()
        for callback in waiting:
            callback()

    # The loop

    def attach(self) -> None:
        """From now on the running loop is the one to wake."""
        self._loop = asyncio.get_running_loop()
        self.accumulator.home = self._loop
        self.wake()

    def begin_turn(self) -> None:
        """Records given from now on need another look."""
        self._is_called = False
        self._looks.clear()

    async def called(self) -> None:
        """Return once there is something to look at."""
        await self._looks.wait()

    def take_ready(self, partition: TopicPartition, now_ms: int, room_bytes: int | None) -> Batch | None:
        """The partition's first batch, if it should leave and is not larger than there is room for."""
        with self._lock:
            if not self.accumulator.is_ready(partition, now_ms):
                return None
            if room_bytes is not None and self.accumulator.first_size(partition) > room_bytes:
                return None
            batch = self.accumulator.take(partition)
            self.under_way[batch.batch_id] = batch
            return batch

    def take_all(self) -> list[Batch]:
        """Everything that has not left, as when a transaction is to be committed."""
        with self._lock:
            batches = self.accumulator.drop()
            self.under_way.update((batch.batch_id, batch) for batch in batches)
            return batches

    def replace(self, batch: Batch, pieces: list[tuple[WritableBytes, int, int]]) -> list[Batch]:
        """Put the pieces of a batch in its place."""
        with self._lock:
            made = [
                self.accumulator.sealed(batch.partition, data, count, largest, batch.created_ms)
                for data, count, largest in pieces
            ]
            batch.split_into(made)
            self.under_way.pop(batch.batch_id, None)
            self.accumulator.used_bytes -= batch.size_bytes
            for piece in made:
                self.accumulator.used_bytes += piece.size_bytes
                self.under_way[piece.batch_id] = piece
        return made

    def settle(self, batch_id: int, base_offset: int, log_append_time_ms: int) -> Batch | None:
        """A batch is stored; None if its fate was told before."""
        batch = self.under_way.pop(batch_id, None)
        if batch is not None:
            batch.settle(base_offset, log_append_time_ms)
            self._end(batch)
        return batch

    def fail(self, batch_id: int, error: SemelError) -> Batch | None:
        """A batch is given up; None if its fate was told before."""
        batch = self.under_way.pop(batch_id, None)
        if batch is not None:
            batch.fail(error)
            self._end(batch)
        return batch

    def expire(self, born_before_ms: int) -> list[Batch]:
        """Batches that waited too long without having left; taken out."""
        with self._lock:
            found = list(self.accumulator.expired(born_before_ms))
            self.under_way.update((batch.batch_id, batch) for batch in found)
            return found

    def pending(self) -> list[Batch]:
        """All batches whose fate is not known."""
        with self._lock:
            return [*self.under_way.values(), *self.accumulator.batches()]

    def _end(self, batch: Batch) -> None:
        with self._lock:
            self.accumulator.free(batch)
            waiting = list(self.accumulator.waiting)
            self.accumulator.waiting.clear()
        batch.tell()
        for callback in waiting:
            callback()

    def update_loads(self, topics: Iterator[KnownTopic]) -> None:
        """Tell the sticky partitioners how many batches wait for each partition."""
        with self._lock:
            for topic in topics:
                queued = [self.accumulator.queued(topic.partitions[index]) for index in topic.available]
                topic.sticky.update_load(topic.available, queued, topic.count)
