"""The producer ids of a member, from blocks that its controller sets aside.

Role.   `MemberProducerIds` is the `producer_ids.ProducerIdGiver` of a broker in a cluster.
Flow.   `take` gives an id of the present block, and asks for the next block in time.
Rules.  * The first block is asked for when an id is wanted, each next one when 90 % of the present one are used. One is asked for
          at a time, and one waits to be used.
        * While there is none a caller is sent away to come back, as Kafka does: a controller may be silent for long.
        * Blocks are used in the order they came, each to its end. The rest of the last one is never given away.
Elsewhere. Asking the controller until it gives one: `cluster.producer_id_blocks`.
"""

from typing import Final, Protocol

from semel.cluster.controller_channel import ChannelClosedError
from semel.runtime.tasks import Tasks

_AHEAD_PERCENT: Final = 90
"""So much of a block is used when the next one is asked for."""
_NONE: Final = range(0)


class Blocks(Protocol):
    """Sets blocks of ids aside. `cluster.producer_id_blocks` has the controller do it."""

    async def next_block(self) -> range:
        """Ids that nobody has; raises `ChannelClosedError` when the broker stops."""


class MemberProducerIds:
    """The ids of a member."""

    def __init__(self, blocks: Blocks, tasks: Tasks) -> None:
        self._blocks = blocks
        self._tasks = tasks
        self._block = _NONE
        self._ahead = _NONE
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
            self._ahead = _NONE
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
