"""A pool of transactional producers for threads: `semel.TransactionalProducerPool`.

Role.   The blocking twin of `client.producer.pool`, with the same rules: `prefix` + number, used again, joined by the same
        thread, replaced when fenced.
Rules.  * A task that runs in the thread has a transaction of its own, as has a thread that a task or block started.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from semel.client.config_keys import Given
from semel.client.producer.pool import IDLE_SECONDS, PRODUCERS_MAX, Shelf, pool_settings
from semel.client.sync.producer import Producer
from semel.runtime.clock import RealClock
from semel.runtime.closing import Closing


class TransactionalProducerPool(Closing):
    """Transactional producers for as many threads as need one at a time."""

    def __init__(
        self,
        settings: Mapping[str, Given] | None = None,
        /,
        *,
        prefix: str,
        producers_max: int = PRODUCERS_MAX,
        idle_seconds: float = IDLE_SECONDS,
        **keywords: Given,
    ) -> None:
        self._settings = pool_settings(settings, keywords)
        self._shelf: Shelf[Producer] = Shelf(prefix, producers_max, idle_seconds, RealClock().monotonic)
        self._free = threading.Condition()
        self._bound: dict[tuple[threading.Thread, asyncio.Task[Any] | None], Producer] = {}

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """A transaction with a producer of its own: committed at the end, aborted if an exception leaves it."""
        caller = _caller()
        joined = self._bound.get(caller)
        if joined is not None:
            yield joined
            return
        producer = self._borrow()
        self._bound[caller] = producer
        try:
            with producer.transaction():
                yield producer
        finally:
            del self._bound[caller]
            self._give_back(producer, is_well=producer.is_ready)

    def _borrow(self) -> Producer:
        with self._free:
            while True:
                self._shelf.check_open()
                outdated = self._shelf.outdated()
                idle = self._shelf.take()
                if idle is not None or self._shelf.may_make():
                    break
                self._free.wait()
            transactional_id = None if idle is not None else self._shelf.new_id()
        producer = idle
        try:
            _close_all(outdated)
            if producer is None:
                settings: dict[str, Any] = {**self._settings, "transactional.id": transactional_id}
                producer = Producer(settings)
                producer.init_transactions()
        except BaseException:
            self._give_back(producer, is_well=idle is not None)
            raise
        return producer

    def _give_back(self, producer: Producer | None, *, is_well: bool) -> None:
        with self._free:
            keeps = is_well and not self._shelf.is_closed
            if keeps and producer is not None:
                self._shelf.put(producer)
            else:
                self._shelf.drop()
            self._free.notify()
        if not keeps and producer is not None:
            producer.close(None if is_well else 0.0)

    def close(self) -> None:
        """Close idle producers; a producer in use is closed when it comes back."""
        with self._free:
            self._shelf.is_closed = True
            idle = self._shelf.empty()
            self._free.notify_all()
        _close_all(idle)


def _caller() -> tuple[threading.Thread, asyncio.Task[Any] | None]:
    task = None if asyncio._get_running_loop() is None else asyncio.current_task()
    return threading.current_thread(), task


def _close_all(producers: list[Producer]) -> None:
    """Close them one by one; interrupted, the rest at once."""
    left = deque(producers)
    try:
        while left:
            left.popleft().close()
    finally:
        for one in left:
            one.close(0.0)
