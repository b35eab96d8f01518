"""An idempotent producer at its plainest: batches made beforehand, sent until each is stored once.

Role.   Drives `core.idempotence.in_flight` over one connection that may break at any time. The application never sends
        anything twice; a batch sent again keeps its old sequence.
Flow.   `Writer.run` connects, gets an identity once, and keeps up to five batches of each partition under way.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from semel.core.idempotence.delivery import Answered, Fail, Lost, Send, Settle
from semel.core.idempotence.in_flight import InFlight
from semel.core.records import batch
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.errors import DisconnectedError, ErrorCode, RequestTimedOutError, SemelError
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.types import WritableBytes

_PRODUCE_VERSION: Final = 9
_INIT_VERSION: Final = 4
_TIMEOUT_MS: Final = 5000
_RECONNECT_SECONDS: Final = 0.1
_BROKEN: Final = (DisconnectedError, RequestTimedOutError, OSError)


class DeliveryFailedError(SemelError):
    """A batch that could not be stored: in a demonstration that is a finding."""


class Writer:
    """One producer with everything it has to say."""

    def __init__(
        self,
        runtime: Runtime,
        address: tuple[str, int],
        topic: str,
        batches: Mapping[int, Sequence[WritableBytes]],
        on_stored: Callable[[int], None],
    ) -> None:
        self._runtime = runtime
        self._address = address
        self._topic = topic
        self._batches = batches
        self._on_stored = on_stored
        self._in_flight: InFlight[int] = InFlight()
        self._unsettled = 0
        self._moved = asyncio.Event()
        self.sent_again = 0
        self.connections = 0
        for partition, made in batches.items():
            for number, data in enumerate(made):
                self._in_flight.enqueue(partition, number, batch.read_header(data).records_count)
                self._unsettled += 1

    async def run(self) -> None:
        """Return once every batch is stored; raises `DeliveryFailedError` if one cannot be."""
        identified = False
        while self._unsettled:
            try:
                connection = await connect(self._runtime, *self._address)
                self.connections += 1
                if not identified:
                    await self._identify(connection)
                    identified = True
                await self._drive(connection)
            except _BROKEN:
                pass  # The broker is away; batches under way are known to be unsettled.
            if self._unsettled:
                await self._runtime.tasks.sleep(_RECONNECT_SECONDS)

    async def _identify(self, connection: Connection) -> None:
        answer = await connection.send(
            InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0),
            _INIT_VERSION,
            timeout_ms=_TIMEOUT_MS,
        )
        if answer.error_code:
            raise DeliveryFailedError(f"no producer id: {ErrorCode(answer.error_code).name}")
        self._in_flight.use_identity(answer.producer_id, answer.producer_epoch)

    async def _drive(self, connection: Connection) -> None:
        """Send while the connection lasts."""
        async with asyncio.TaskGroup() as group:
            while self._unsettled and connection.is_open:
                self._moved.clear()
                for partition in self._batches:
                    while (send := self._in_flight.send(partition, self._runtime.clock.now_ms())) is not None:
                        group.create_task(self._deliver(connection, send))
                await self._moved.wait()
        with contextlib.suppress(*_BROKEN):
            connection.close()

    async def _deliver(self, connection: Connection, send: Send[int]) -> None:
        data = self._batches[send.partition][send.batch_id]
        _stamp(data, send)
        if send.attempt > 1:
            self.sent_again += 1
        request = ProduceRequest(
            acks=-1,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[
                TopicProduceData(
                    name=self._topic,
                    partition_data=[PartitionProduceData(index=send.partition, records=data)],
                )
            ],
        )
        event: Answered[int] | Lost[int]
        try:
            response = await connection.send(request, _PRODUCE_VERSION, timeout_ms=_TIMEOUT_MS)
            answer = response.responses[0].partition_responses[0]
            event = Answered(send.partition, send.batch_id, ErrorCode(answer.error_code), answer.base_offset)
        except _BROKEN:
            event = Lost(send.partition, send.batch_id)
        for decision in self._in_flight.handle(event, self._runtime.clock.now_ms()):
            match decision:
                case Settle():
                    self._unsettled -= 1
                    self._on_stored(batch.read_header(data).records_count)
                case Fail():
                    raise DeliveryFailedError(
                        f"partition {send.partition}, batch {send.batch_id}: {decision}"
                    )
        self._moved.set()


def _stamp(data: WritableBytes, send: Send[int]) -> None:
    """Write the identity and sequence into a finished batch."""
    header = batch.read_header(data)
    stamped = header._replace(
        base_offset=0,
        producer_id=send.identity.producer_id,
        producer_epoch=send.identity.producer_epoch,
        base_sequence=send.base_sequence,
    )
    if stamped != header:
        batch.write_header(data, 0, stamped)
        batch.set_crc(data, 0, header.size_bytes)
