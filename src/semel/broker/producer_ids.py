"""Producer ids, each given once: taken from blocks that are set aside durably before the first is used.

Role.   InitProducerId asks for the next id; the transaction coordinator takes what is at hand.
Rules.  A block belongs to one run of one broker. Its rest is never given away after the broker stops, so no
        id is given twice.
"""

import asyncio
from typing import Final

from semel.cluster.store import MetadataStore
from semel.core.metadata.rows import ProducerIdsRow

BLOCK_SIZE: Final = 1000


class ProducerIds:
    """The ids of this run."""

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
