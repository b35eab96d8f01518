"""Deadlines by key, in a heap with lazy removal.

Role.   Sessions, rebalances and transactions time out. A coordinator shard keeps one `Deadlines`.
Rules.  * A key has one deadline: setting it again replaces it.
        * Moving a deadline is cheap, because heartbeats do it all the time: outdated heap entries are skipped when they
          come up, and swept out when they outnumber the live ones.
        * Keys that are due come in order of their deadlines, and of setting where those are equal.
"""

import heapq
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
_SWEEP_MIN: Final = 64


class Deadlines(Generic[K]):
    """The earliest first."""

    __slots__ = ("_count", "_heap", "_live")

    def __init__(self) -> None:
        self._live: dict[K, tuple[int, int]] = {}
        self._heap: list[tuple[int, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._live)

    def get(self, key: K) -> int | None:
        """The key's deadline."""
        live = self._live.get(key)
        return None if live is None else live[0]

    def set(self, key: K, deadline_ms: int) -> None:
        """Set the key's deadline, in place of any earlier one."""
        self._count += 1
        self._live[key] = (deadline_ms, self._count)
        heapq.heappush(self._heap, (deadline_ms, self._count, key))
        if len(self._heap) > _SWEEP_MIN + 2 * len(self._live):
            self._heap = [(at, count, key) for key, (at, count) in self._live.items()]
            heapq.heapify(self._heap)

    def cancel(self, key: K) -> None:
        """Remove the key's deadline, if there is one."""
        self._live.pop(key, None)

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        heap = self._heap
        while heap:
            deadline_ms, count, key = heap[0]
            if self._live.get(key) == (deadline_ms, count):
                return deadline_ms
            heapq.heappop(heap)
        return None

    def pop_first(self, now_ms: int) -> K | None:
        """Take out the key whose deadline passed first; for callers whose work may cancel other due keys."""
        deadline_ms = self.next_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        _, _, key = heapq.heappop(self._heap)
        del self._live[key]
        return key

    def pop_due(self, now_ms: int) -> list[K]:
        """Take out every key whose deadline is now or past."""
        due = []
        while (key := self.pop_first(now_ms)) is not None:
            due.append(key)
        return due
