"""Producer ids, each given once: taken from blocks that are set aside durably before the first is used.

Role.   InitProducerId asks for the next id; the transaction coordinator takes what is at hand. Both know `ProducerIdGiver`.
        `ProducerIds` are those of a broker alone: its blocks are rows of its own metadata.
Rules.  * A block belongs to one run of one broker. Its rest is never given away after the broker stops, so no
          id is given twice.
        * A broker alone lets a caller wait for its disk.
Elsewhere. The ids of a member, whose controller sets the blocks aside: `member_producer_ids`.
"""

import asyncio
from typing import Final, Protocol

from semel.cluster.store import MetadataStore
from semel.core.metadata.rows import ProducerIdsRow
from semel.core.transactions.coordinator.decision import ProducerIdSource

BLOCK_SIZE: Final = 1000


class ProducerIdGiver(ProducerIdSource, Protocol):
    """The ids of this run."""

    @property
    def is_at_hand(self) -> bool:
        """Whether `take` would give one."""

    async def ensure(self) -> None:
        """Wait for one to be at hand, where that is a matter of this broker's disk; raises `LogError` if it fails."""

    async def next(self) -> int | None:
        """An id nobody had before; None if the caller is to come back."""


class ProducerIds:
    """The ids of a broker alone."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def next(self) -> int:
        """An id nobody had before."""
        while (given := self.take()) is None:
            await self.ensure()
        return given

    def take(self) -> int | None:
        """An id nobody had before, if one is at hand."""
        if self._next == self._end:
            return None
        given = self._next
        self._next += 1
        return given

    @property
    def is_at_hand(self) -> bool:
        """Whether `take` would give one."""
        return self._next != self._end

    async def ensure(self) -> None:
        """Have at least one at hand; raises `LogError` if no block can be set aside."""
        async with self._reserving:
            if self._next == self._end:
                first = self._store.image.next_producer_id_block
                await self._store.commit([ProducerIdsRow(first + BLOCK_SIZE)])
                self._next, self._end = first, first + BLOCK_SIZE
