"""The result of `send`: a future of the record's partition and offset.

Role.   `SendFuture` is one record's, `ArrowFuture` that of a whole `send_arrow`. They are waited for with `result`, from any
        thread, or with `await`, from any loop.
Rules.  * A future costs a few slots: it reads a record's outcome from its batch, and makes nothing before somebody asks.
        * A listener is called exactly once, also when the producer closes: on the thread of the producer's loop, or at once
          if the record's fate is known.
        * `timeout` is for all futures waited for together, and a waiter that gave up leaves nothing behind.
        * Waiting on the loop's own thread would never end: it is refused.
"""

import asyncio
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from semel.client.arguments import seconds
from semel.core.client.accumulator import Batch
from semel.errors import SemelError
from semel.exceptions import IllegalStateException, TimeoutException
from semel.types import UNKNOWN_OFFSET, TopicPartition

_logger: Final = logging.getLogger(__name__)


class RecordMetadata(NamedTuple):
    """Where a record is. The offset is -1 where no broker said it: with `acks=0`, or after an answer that was a repeat."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: the record's own, or the broker's where the topic has LogAppendTime."""
    serialized_key_size: int
    """-1: no key."""
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def has_offset(self) -> bool:
        return self.offset != UNKNOWN_OFFSET


class BatchMetadata(NamedTuple):
    """Where consecutive rows of a `send_arrow` are."""

    topic: str
    partition: int
    base_offset: int
    records: int


Callback = Callable[[RecordMetadata | None, SemelError | None], object]


class _Waitable(ABC):
    """Waiting for batches to end."""

    __slots__ = ()

    @abstractmethod
    def done(self) -> bool:
        """Whether the fate is known."""

    @abstractmethod
    def _pending(self) -> Batch | None:
        """A batch whose end is waited for; None if all have ended."""

    def _wait(self, timeout: float | None) -> None:
        timeout = seconds(timeout)
        deadline = None if timeout is None else time.monotonic() + timeout
        while (batch := self._pending()) is not None:
            _refuse_own_loop(batch)
            ended = threading.Event()
            _listen(batch, ended.set)
            if not ended.wait(None if deadline is None else max(0.0, deadline - time.monotonic())):
                with suppress(ValueError):  # It is being told at this very moment.
                    batch.listeners.remove(ended.set)
                last = f"; the last error: {batch.trouble}" if batch.trouble else ""
                raise TimeoutException(f"no answer about {batch.partition} within {timeout} s{last}")

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        while (batch := self._pending()) is not None:
            ended: asyncio.Future[None] = loop.create_future()
            _listen(batch, lambda: _resolve(loop, ended))  # noqa: B023 - used up before the next turn.
            await ended


class SendFuture(_Waitable):
    """Where one record went, once it is known."""

    __slots__ = ("_batch", "_index", "_key_size", "_timestamp_ms", "_value_size")

    def __init__(
        self, batch: Batch, index: int, timestamp_ms: int, key: bytes | None, value: bytes | None
    ) -> None:
        self._batch = batch
        self._index = index
        self._timestamp_ms = timestamp_ms
        self._key_size = -1 if key is None else len(key)
        self._value_size = -1 if value is None else len(value)

    def done(self) -> bool:
        return self._batch.is_done

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """The record's place, waited for; raises what kept it from being stored. `timeout` in seconds."""
        if not self._batch.is_done:
            self._wait(timeout)
        metadata, error = self._outcome()
        if metadata is None:
            raise error or IllegalStateException("a record without a fate")
        return metadata

    def exception(self, timeout: float | None = None) -> SemelError | None:
        """The error that kept the record from being stored, or None; waited for."""
        self._wait(timeout)
        return self._outcome()[1]

    get = result

    def add_done_callback(self, callback: Callable[[Self], object]) -> None:
        """Call back with this future once it is done; at once if it is."""
        _listen(self._batch, lambda: _guarded(callback, self))

    def add_callback(self, callback: Callback) -> None:
        """As the callback of `send`."""
        _listen(self._batch, lambda: _guarded(callback, *self._outcome()))

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self._batch.is_done:
            yield from self._ended().__await__()
        return self.result()

    def _pending(self) -> Batch | None:
        return None if self._batch.is_done else self._batch

    def _outcome(self) -> tuple[RecordMetadata | None, SemelError | None]:
        batch, index = self._batch.place(self._index)
        if batch.error is not None:
            return None, batch.error
        offset = batch.base_offset
        stamped = batch.log_append_time_ms
        metadata = RecordMetadata(
            batch.partition.topic,
            batch.partition.partition,
            offset if offset == UNKNOWN_OFFSET else offset + index,
            self._timestamp_ms if stamped < 0 else stamped,
            self._key_size,
            self._value_size,
        )
        return metadata, None

    def __repr__(self) -> str:
        state = (
            "pending" if not self.done() else f"failed: {self._batch.error}" if self._batch.error else "done"
        )
        return f"<SendFuture {self._batch.partition} {state}>"


class ArrowFuture(_Waitable):
    """Where the rows of a `send_arrow` went, once all of it is known."""

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    def done(self) -> bool:
        return all(batch.is_done for batch in self._batches)

    def result(self, timeout: float | None = None) -> list[BatchMetadata]:
        """Ranges of offsets, waited for; raises the first thing that kept rows from being stored. `timeout` in seconds."""
        error = self.exception(timeout)
        if error is not None:
            raise error
        return [
            BatchMetadata(*one.partition, one.base_offset, one.records_count)
            for batch in self._batches
            for one in batch.leaves()
        ]

    def exception(self, timeout: float | None = None) -> SemelError | None:
        """The first thing that kept rows from being stored, or None; waited for."""
        self._wait(timeout)
        return next(
            (one.error for batch in self._batches for one in batch.leaves() if one.error is not None), None
        )

    get = result

    def __await__(self) -> Generator[Any, None, list[BatchMetadata]]:
        yield from self._ended().__await__()
        return self.result()

    def _pending(self) -> Batch | None:
        return next((batch for batch in self._batches if not batch.is_done), None)

    def __repr__(self) -> str:
        return f"<ArrowFuture of {sum(batch.records_count for batch in self._batches)} rows, {'done' if self.done() else 'pending'}>"


def _listen(batch: Batch, listener: Callable[[], object]) -> None:
    batch.listeners.append(listener)
    if batch.is_done:
        batch.tell()


def _guarded(callback: Callable[..., object], *arguments: object) -> None:
    """A callback that fails is the application's trouble, not that of other records: they are told too, whatever it raises.

    Only Ctrl-C goes on its way. It comes to the main thread, where a loop of the application's runs.
    """
    try:
        found = callback(*arguments)
    except BaseException as error:
        _logger.exception("a callback of send failed")
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        return
    if asyncio.iscoroutine(found):
        found.close()
        _logger.error(
            "a callback of send is a coroutine, and nobody awaits it: await the future of send instead"
        )


def _resolve(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]") -> None:
    def resolve() -> None:
        if not ended.done():
            ended.set_result(None)

    if asyncio._get_running_loop() is loop:
        resolve()
    else:
        loop.call_soon_threadsafe(resolve)


def _refuse_own_loop(batch: Batch) -> None:
    if batch.home is not None and asyncio._get_running_loop() is batch.home:
        raise IllegalStateException(
            f"the answer about {batch.partition} comes on this very loop: await the future, or wait on another thread"
        )
