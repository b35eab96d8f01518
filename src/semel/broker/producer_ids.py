"""Producer ids, each given once: taken from blocks that are set aside durably before the first is used.

Role.   InitProducerId asks for the next id; the transaction coordinator takes what is at hand. Both know `ProducerIdGiver`.
        `ProducerIds` are those of a broker alone, whose blocks are rows of its own metadata. `MemberProducerIds` are those of a
        member, whose controller sets the blocks aside.
Rules.  * A block belongs to one run of one broker. Its rest is never given away after the broker stops, so no
          id is given twice.
        * A broker alone lets a caller wait for its disk. A member sends its caller away until a block has come, as Kafka
          does: a controller may be silent for long.
        * A member asks for the next block once 90 % of the present one is used, and for the first when an id is wanted.
"""

import asyncio
from typing import Final, Protocol

from semel.cluster.controller_channel import ChannelClosedError
from semel.cluster.store import MetadataStore
from semel.core.metadata.rows import ProducerIdsRow
from semel.core.transactions.coordinator.decision import ProducerIdSource
from semel.runtime.tasks import Tasks

BLOCK_SIZE: Final = 1000
_AHEAD_PERCENT: Final = 90
"""So much of a block is used when the next one is asked for."""


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


class Blocks(Protocol):
    """Sets blocks of ids aside. `cluster.producer_id_blocks` has the controller do it."""

    async def next_block(self) -> range:
        """Ids that nobody has; raises `ChannelClosedError` when the broker stops."""


class MemberProducerIds:
    """The ids of a member."""

    def __init__(self, blocks: Blocks, tasks: Tasks) -> None:
        self._blocks = blocks
        self._tasks = tasks
        self._block = range(0)
        self._ahead = range(0)
        """The block to use when the present one is used up."""
        self._ask_at = 0
        self._is_asking = False

    async def next(self) -> int | None:
        """An id nobody had before; None while no block has come."""
        return self.take()

    def take(self) -> int | None:
        """An id nobody had before, if one is at hand; else a block is asked for."""
        if not self._block:
            self._use(self._ahead)
            self._ahead = range(0)
        if not self._block:
            self._ask()
            return None
        given = self._block[0]
        self._block = self._block[1:]
        if self._block.start >= self._ask_at:
            self._ask()
        return given

    @property
    def is_at_hand(self) -> bool:
        """Whether `take` would give one."""
        return bool(self._block or self._ahead)

    async def ensure(self) -> None:
        """Nobody waits for a controller."""

    def _use(self, block: range) -> None:
        self._block = block
        self._ask_at = block.start + len(block) * _AHEAD_PERCENT // 100

    def _ask(self) -> None:
        if not self._is_asking and not self._ahead:
            self._is_asking = True
            self._tasks.spawn(self._fetch(), name="producer ids")

    async def _fetch(self) -> None:
        try:
            self._ahead = await self._blocks.next_block()
        except ChannelClosedError:
            pass  # The broker stops.
        finally:
            self._is_asking = False
