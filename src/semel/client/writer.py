"""Records to a topic, each exactly once: the small producer behind the command line.

Role.   `Writer.send` cuts records into batches and brings them to their partitions, one batch of a partition at a time.
Flow.   `send` -> InitProducerId, once -> a batch with its sequence -> Produce -> the same bytes again while it is open
        whether they arrived.
Rules.  * A batch keeps its sequence for all its attempts: the broker answers a repeated one with its first offset.
        * The next batch of a partition leaves when the one before it is settled, so order is kept through every retry.
        * Keys decide the partition as in Kafka's clients; records without one go to one partition per call, in turn.
        * With acks other than all nothing is promised, and nothing is numbered.
Elsewhere. Five batches in flight, lingering and memory bounds: the public producer.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from semel.client.cluster import Cluster, TopicView, passes, refused
from semel.client.config import COMPRESSION_TYPES, command_config
from semel.client.partitioner import partition_for_key
from semel.core.idempotence.sequence import increment
from semel.core.records.build import RecordInput, build_batch
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.errors import DisconnectedError, ErrorCode, RefusedError
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, UNKNOWN_OFFSET, TopicPartition

BATCH_BYTES_MAX: Final = 512 * 1024  # Half of what a topic takes by default.
_RECORD_OVERHEAD: Final = 24
_BY_NAME_VERSION: Final = 12  # From 13 on a topic is named by its id.
_ACKS_ALL: Final = -1
_STORED: Final = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


class Stored(NamedTuple):
    """Where a batch went; the offset is -1 where nobody said it."""

    partition: int
    base_offset: int
    records: int


class Writer:
    """Writes to one topic."""

    def __init__(self, cluster: Cluster, topic: TopicView) -> None:
        self._cluster = cluster
        self._topic = topic
        self._identity: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._next_keyless = 0

    async def send(self, records: Iterable[RecordInput], *, partition: int | None = None) -> list[Stored]:
        """Bring these records to the log, in order per partition; returns once all are acknowledged."""
        if self._identity is None:
            self._identity = await self._identified()
        lanes = self._lanes(records, partition)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._send_lane(index, lane)) for index, lane in lanes.items()]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [stored for task in tasks for stored in task.result()]

    async def _identified(self) -> tuple[int, int]:
        if command_config(self._cluster.config).acks != _ACKS_ALL:
            return NO_PRODUCER_ID, NO_PRODUCER_EPOCH

        async def ask() -> tuple[int, int]:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
            answer = await self._cluster.send(request)
            if answer.error_code:
                raise refused(answer.error_code, "a producer id", by=self._cluster.where)
            return answer.producer_id, answer.producer_epoch

        return await self._cluster.patiently(ask)

    def _lanes(self, records: Iterable[RecordInput], partition: int | None) -> dict[int, list[RecordInput]]:
        count = len(self._topic.partitions)
        keyless = self._next_keyless
        self._next_keyless = (keyless + 1) % count
        lanes: dict[int, list[RecordInput]] = {}
        for record in records:
            if partition is not None:
                index = partition
            else:
                index = keyless if record.key is None else partition_for_key(record.key, count)
            lanes.setdefault(index, []).append(record)
        return lanes

    async def _send_lane(self, partition: int, records: Sequence[RecordInput]) -> list[Stored]:
        return [await self._send_batch(partition, piece) for piece in _pieces(records)]

    async def _send_batch(self, partition: int, records: Sequence[RecordInput]) -> Stored:
        producer_id, epoch = self._identity or (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
        is_numbered = producer_id != NO_PRODUCER_ID
        sequence = self._sequences.get(partition, 0)
        batch = build_batch(
            records,
            compression=COMPRESSION_TYPES.index(command_config(self._cluster.config).compression_type),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence if is_numbered else NO_SEQUENCE,
        )
        base_offset = await self._deliver(TopicPartition(self._topic.name, partition), bytes(batch))
        self._sequences[partition] = increment(sequence, len(records))
        return Stored(partition, base_offset, len(records))

    async def _deliver(self, where: TopicPartition, batch: bytes) -> int:
        """Send until the broker has it or says why not; the offset of its first record."""
        cluster, config = self._cluster, command_config(self._cluster.config)
        deadline_ms = cluster.runtime.clock.monotonic_ms() + config.delivery_timeout_ms
        tries = 0
        while True:
            try:
                return await self._attempt(where, batch)
            except (RefusedError, DisconnectedError) as error:
                tries += 1
                pause_ms = cluster.backoff_ms(tries)
                again = passes(error) or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                is_over = cluster.runtime.clock.monotonic_ms() + pause_ms >= deadline_ms
                if not again or is_over or tries > config.retries or config.acks == 0:
                    raise
            await cluster.runtime.tasks.sleep(pause_ms / 1000)
            self._topic = await cluster.topic(where.topic)  # Another broker may lead by now.

    async def _attempt(self, where: TopicPartition, batch: bytes) -> int:
        config = command_config(self._cluster.config)
        data = PartitionProduceData(index=where.partition, records=batch)
        request = ProduceRequest(
            transactional_id=None,
            acks=config.acks,
            timeout_ms=config.request_timeout_ms,
            topic_data=[TopicProduceData(name=where.topic, partition_data=[data])],
        )
        leader = self._topic.partitions[where.partition].leader
        if config.acks == 0:
            await self._cluster.send_unanswered(request, node_id=leader, version_max=_BY_NAME_VERSION)
            return UNKNOWN_OFFSET
        answer = await self._cluster.send(request, node_id=leader, version_max=_BY_NAME_VERSION)
        ((result,),) = [topic.partition_responses for topic in answer.responses]
        if result.error_code not in _STORED:
            raise refused(
                result.error_code,
                f"a batch of {len(batch)} bytes for {where}",
                by=self._cluster.where,
                reason=result.error_message,
            )
        return result.base_offset


def _pieces(records: Sequence[RecordInput]) -> Iterator[Sequence[RecordInput]]:
    """Runs of records of about `BATCH_BYTES_MAX`; a larger record goes alone, and the broker judges it."""
    start = size = 0
    for index, record in enumerate(records):
        length = len(record.key or b"") + len(record.value or b"") + _RECORD_OVERHEAD
        if index > start and size + length > BATCH_BYTES_MAX:
            yield records[start:index]
            start, size = index, 0
        size += length
    if start < len(records):
        yield records[start:]
