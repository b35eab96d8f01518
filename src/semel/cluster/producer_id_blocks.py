"""Blocks of producer ids for this broker, set aside by the controller: AllocateProducerIds.

Role.   `ProducerIdBlocks.next_block` returns a range of ids that no other broker has, and this one never had.
Flow.   The broker's producer ids ask for the next block before the last one is used up.
Rules.  * The controller writes a block down before it answers. An answer that was lost leaves a gap, and the next try gets
          another block.
        * A block that lies below the end of an earlier one is refused here: its ids may have been given.
        * An error is logged and the question repeated, ever more slowly, with the broker epoch of then. A broker that is registered
          again goes on by itself.
Elsewhere. Giving the ids: `broker.producer_ids`. The way: `controller_channel`.
"""

import logging
from collections.abc import Callable
from typing import Final

from semel.cluster.controller_channel import ChannelBusyError, ControllerChannel
from semel.core.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, UnsupportedVersionError, error_code
from semel.runtime.bundle import Runtime
from semel.runtime.repeats import Repeats

_log: Final = logging.getLogger(__name__)
RETRY_SECONDS: Final = (0.05, 1.0)
"""The pause after a first error, and the longest."""


class ProducerIdBlocks:
    """The blocks of one run of this broker."""

    def __init__(
        self,
        runtime: Runtime,
        channel: ControllerChannel,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
    ) -> None:
        self._runtime = runtime
        self._channel = channel
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._end = 0
        self._repeats = Repeats()

    async def next_block(self) -> range:
        """A block, once a controller has given one. Raises `ChannelClosedError` when the broker stops."""
        pause, longest = RETRY_SECONDS
        while (block := await self._asked()) is None:
            await self._runtime.tasks.sleep(pause)
            pause = min(2 * pause, longest)
        self._end = block.stop
        return block

    async def _asked(self) -> range | None:
        epoch = -1

        def build(version: int) -> tuple[AllocateProducerIdsRequest, int]:
            nonlocal epoch
            epoch = self._broker_epoch()
            return AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=epoch), version

        try:
            answer = await self._channel.ask_built(ApiKey.ALLOCATE_PRODUCER_IDS, build, timeout_ms=None)
        except (UnsupportedVersionError, ChannelBusyError) as error:
            self._failed(str(error))
            return None
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            self._failed(
                f"the controller refuses it to broker {self._node_id} with broker epoch {epoch} ({code.name})"
            )
            return None
        first, length = answer.producer_id_start, answer.producer_id_len
        if length < 1 or first < self._end:
            self._failed(
                f"{length} ids from {first} on are no block: they begin at {self._end} at the earliest"
            )
            return None
        return range(first, first + length)

    def _failed(self, why: str) -> None:
        if times := self._repeats.due(self._runtime.clock.monotonic()):
            _log.warning(
                "producer ids wait, AllocateProducerIds is sent again: %s (%d times since the last such line)",
                why,
                times,
            )
