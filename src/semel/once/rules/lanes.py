"""Ordering of concurrent work: items of one lane run one after the other, lanes run concurrently.

Role.   The order of work inside the worker pool. A lane is a key, a partition, or None.
Flow.   `workers` offers every polled record, takes as many as it has workers, and calls `done` for finished ones.
Rules.  * At most one item of a lane is out; the next follows in the order of offers.
        * An item without a lane never waits for another.
        * Ready items are taken in the order they became ready, so no lane starves.
"""

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from semel.errors import InvariantError

Item = TypeVar("Item")


@dataclass(slots=True)
class Lanes(Generic[Item]):
    """Waiting items, by lane."""

    _ready: deque[tuple[Hashable, Item]] = field(default_factory=deque)
    _behind: dict[Hashable, deque[Item]] = field(default_factory=dict)  # Lanes with an item out or ready.

    def offer(self, item: Item, lane: Hashable = None) -> None:
        if lane is not None:
            if lane in self._behind:
                self._behind[lane].append(item)
                return
            self._behind[lane] = deque()
        self._ready.append((lane, item))

    def take(self) -> tuple[Hashable, Item] | None:
        """The next item that may run, with its lane; None if there is none now."""
        return self._ready.popleft() if self._ready else None

    def done(self, lane: Hashable) -> None:
        """The item taken from this lane is done."""
        if lane is None:
            return
        behind = self._behind.get(lane)
        if behind is None:
            raise InvariantError(f"nothing of lane {lane!r} is out")
        if behind:
            self._ready.append((lane, behind.popleft()))
        else:
            del self._behind[lane]

    def __len__(self) -> int:
        """Number of waiting items, ready or not."""
        return len(self._ready) + sum(len(behind) for behind in self._behind.values())
