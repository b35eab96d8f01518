"""A producer id for a producer without transactions: asked for when the first batch waits, and again when it was lost.

Role.   `Identification` asks any broker for an id (InitProducerId) and gives it to the batches' bookkeeping.
Flow.   the sender: `if_needed` in every turn -> a task that asks until it has an answer -> `InFlight.use_identity`, and the
        sender is woken.
Rules.  * However long it takes: batches that wait for it expire by themselves. A refusal that will not pass ends the producer.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from semel.client.calls.init_producer_id import init_producer_id
from semel.client.cluster import Cluster
from semel.client.producer import answers
from semel.client.producer.outbox import Outbox
from semel.client.troubles import Kind
from semel.core.idempotence.delivery import NO_IDENTITY
from semel.core.idempotence.in_flight import InFlight
from semel.errors import ErrorCode, SemelError
from semel.exceptions import KafkaException, as_exception, exception_for
from semel.types import TopicPartition

_logger: Final = logging.getLogger(__name__)
_PRODUCER_ID: Final = "a broker that gives producer ids"


class Identification:
    """One producer's."""

    def __init__(
        self,
        cluster: Cluster,
        outbox: Outbox,
        in_flight: InFlight[TopicPartition],
        *,
        timeout_ms: int,
        pause_ms: Callable[[int], int],
        on_refusal: Callable[[KafkaException], None],
    ) -> None:
        self._cluster = cluster
        self._outbox = outbox
        self._in_flight = in_flight
        self._timeout_ms = timeout_ms
        self._pause_ms = pause_ms
        self._on_refusal = on_refusal
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def if_needed(self) -> None:
        """Ask, if something waits for an id and nobody asks."""
        if not self._in_flight.idempotent or self._in_flight.identity != NO_IDENTITY:
            return
        is_busy = self._task is not None and not self._task.done()
        if not is_busy and self._outbox.pending():
            self._task = self._cluster.runtime.tasks.spawn(self._ask(), name="producer id")

    def stop(self) -> None:
        """Ask no more."""
        self._is_over = True

    async def _ask(self) -> None:
        tries = 0
        while not self._is_over:
            try:
                code, identity = await init_producer_id(self._cluster, None, timeout_ms=self._timeout_ms)
            except answers.NO_ANSWER as error:
                _logger.debug("no producer id yet: %s", error)
            except SemelError as error:
                self._on_refusal(as_exception(error))
                return
            else:
                if code is ErrorCode.NONE:
                    self._cluster.troubles.over(Kind.RECORDS, _PRODUCER_ID)
                    self._in_flight.use_identity(*identity)
                    self._outbox.wake()
                    return
                if not code.retriable:
                    refusal = f"{self._cluster.where} refuses a producer id ({code.name})"
                    self._on_refusal(exception_for(code, refusal))
                    return
                what = f"{self._cluster.where} gives no producer id: {code.name}"
                self._cluster.troubles.met(Kind.RECORDS, _PRODUCER_ID, what, "it is asked again")
            tries += 1
            await self._cluster.runtime.tasks.sleep(self._pause_ms(tries) / 1000)
