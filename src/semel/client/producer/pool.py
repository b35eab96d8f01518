"""A pool of transactional producers: an id for each that works at the same time, made once and used again.

Role.   `AsyncTransactionalProducerPool` for asyncio; `semel.client.sync.pool` has the blocking twin. Both keep their producers on
        a `Shelf`.
Flow.   `async with pool.transaction() as producer` -> an idle producer, or a new one with the next number behind the prefix ->
        begin -> the block -> commit or abort -> back on the shelf.
Rules.  * A transactional id belongs to one producer at a time: the pool's own, `prefix0`, `prefix1`, …. Two programs must not share
          a prefix: they would fence each other.
        * Within a block, the same task (or thread) that asks again joins the transaction that is open; the outermost ends it.
          A task or thread that was started within it has a transaction of its own: it may outlive this one.
        * A producer that is fenced, or failed for good, is closed and its number is not used again: the next caller gets a new
          one. A producer that was idle for `idle_seconds` is closed.
        * At most `producers_max` exist; the next caller waits until one is free. A caller interrupted while it borrows gives
          its producer back.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from semel.client.config_keys import Given
from semel.client.producer.producer import AsyncProducer
from semel.client.settings import check_mapping
from semel.exceptions import ConfigException, IllegalStateException
from semel.runtime.bundle import Runtime
from semel.runtime.clock import RealClock

PRODUCERS_MAX: Final = 100
IDLE_SECONDS: Final = 600.0
ProducerT = TypeVar("ProducerT")


class Shelf(Generic[ProducerT]):
    """Which producers are idle, how many there are, and which number is next. Its owner guards it."""

    def __init__(
        self, prefix: str, producers_max: int, idle_seconds: float, now: Callable[[], float]
    ) -> None:
        if not prefix:
            raise ConfigException("a pool needs a prefix of its own for its transactional ids")
        if producers_max < 1:
            raise ConfigException(f"producers_max={producers_max}: a pool has at least one producer")
        self._prefix = prefix
        self._producers_max = producers_max
        self._idle_seconds = idle_seconds
        self._now = now
        self._idle: deque[tuple[float, ProducerT]] = deque()
        self._next = 0
        self._made = 0
        self.is_closed = False

    def take(self) -> ProducerT | None:
        """The one that was used last, or None."""
        return self._idle.pop()[1] if self._idle else None

    def may_make(self) -> bool:
        """Whether there may be one more."""
        return self._made < self._producers_max

    def new_id(self) -> str:
        """The transactional id of a producer that is to be made."""
        self._made += 1
        number = self._next
        self._next += 1
        return f"{self._prefix}{number}"

    def put(self, producer: ProducerT) -> None:
        self._idle.append((self._now(), producer))

    def drop(self) -> None:
        """One of those made is no more."""
        self._made -= 1

    def outdated(self) -> list[ProducerT]:
        """The producers that were idle for too long, taken off."""
        gone = []
        while self._idle and self._now() - self._idle[0][0] >= self._idle_seconds:
            gone.append(self._idle.popleft()[1])
            self._made -= 1
        return gone

    def empty(self) -> list[ProducerT]:
        """All that are idle, taken off."""
        gone = [producer for _since, producer in self._idle]
        self._idle.clear()
        self._made -= len(gone)
        return gone

    def check_open(self) -> None:
        if self.is_closed:
            raise IllegalStateException(f"the pool of {self._prefix}… is closed")


def pool_settings(settings: Mapping[str, Given] | None, keywords: Mapping[str, Given]) -> dict[str, Given]:
    """A producer's settings without a transactional id."""
    check_mapping("TransactionalProducerPool", settings)
    given = {**(settings or {}), **keywords}
    for name, value in given.items():
        if name.replace("_", ".") == "transactional.id":
            raise ConfigException(f"{name}={value}: a pool gives out the ids itself, set its prefix")
    return given


class AsyncTransactionalProducerPool:
    """Transactional producers for as many tasks as need one at a time."""

    def __init__(
        self,
        settings: Mapping[str, Given] | None = None,
        /,
        *,
        prefix: str,
        producers_max: int = PRODUCERS_MAX,
        idle_seconds: float = IDLE_SECONDS,
        runtime: Runtime | None = None,
        **keywords: Given,
    ) -> None:
        clock = RealClock() if runtime is None else runtime.clock
        self._settings = pool_settings(settings, keywords)
        self._runtime = runtime
        self._shelf: Shelf[AsyncProducer] = Shelf(prefix, producers_max, idle_seconds, clock.monotonic)
        self._free = asyncio.Condition()
        self._bound: dict[asyncio.Task[Any] | None, AsyncProducer] = {}

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncProducer]:
        """A transaction with a producer of its own: committed at the end, aborted if an exception leaves it."""
        task = asyncio.current_task()
        joined = self._bound.get(task)
        if joined is not None:
            yield joined
            return
        producer = await self._borrow()
        self._bound[task] = producer
        try:
            async with producer.transaction():
                yield producer
        finally:
            del self._bound[task]
            await self._give_back(producer, is_well=producer.is_ready)

    async def _borrow(self) -> AsyncProducer:
        async with self._free:
            while True:
                self._shelf.check_open()
                outdated = self._shelf.outdated()
                idle = self._shelf.take()
                if idle is not None or self._shelf.may_make():
                    break
                await self._turn()
            transactional_id = None if idle is not None else self._shelf.new_id()
        producer = idle
        try:
            await _close_all(outdated)
            if producer is None:
                producer = AsyncProducer(
                    {**self._settings, "transactional.id": transactional_id}, runtime=self._runtime
                )
                await producer.init_transactions()
        except BaseException:
            await self._give_back(producer, is_well=idle is not None)
            raise
        return producer

    async def _turn(self) -> None:
        """Wait until one is free; a caller interrupted then passes the word on."""
        try:
            await self._free.wait()
        except BaseException:
            self._free.notify()
            raise

    async def _give_back(self, producer: AsyncProducer | None, *, is_well: bool) -> None:
        async with self._free:
            keeps = is_well and not self._shelf.is_closed
            if keeps and producer is not None:
                self._shelf.put(producer)
            else:
                self._shelf.drop()
            self._free.notify()
        if not keeps and producer is not None:
            await producer.close(None if is_well else 0.0)

    async def close(self) -> None:
        """Close idle producers; a producer in use is closed when it comes back."""
        async with self._free:
            self._shelf.is_closed = True
            idle = self._shelf.empty()
            self._free.notify_all()
        await _close_all(idle)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        await self.close()


async def _close_all(producers: list[AsyncProducer]) -> None:
    """Close them one by one; interrupted, the rest at once."""
    left = deque(producers)
    try:
        while left:
            await left.popleft().close()
    finally:
        for one in left:
            await one.close(0.0)
