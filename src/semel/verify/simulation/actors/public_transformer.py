"""A program that reads one topic and writes another, exactly once, with the public consumer and producer.

Role.   `PublicTransformer` is an actor of a `World`: a consumer in a group and a transactional producer. Every transaction holds
        the outputs of some inputs and the positions behind them.
Flow.   poll -> begin, send, `send_offsets_to_transaction`, commit -> again, until the positions of all inputs are stored.
Rules.  * A transaction that can be aborted is; then the consumer goes back to what is stored, or both are replaced.
        * A transaction that cannot be aborted, or has an unknown end, replaces both: the next pair learns the end by
          `init_transactions`.
        * An output lies in the partition of its input, and says which one it is of.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from semel.client.consumer.consumer import AsyncConsumer
from semel.client.producer.producer import AsyncProducer
from semel.client.values.consuming import ConsumerRecord
from semel.exceptions import KafkaException
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.public_writer import CLIENT, TOPIC, introduced, public_producer
from semel.verify.simulation.world import World

SOURCE: Final = "source"
_POLL_MS: Final = 200
_CLOSE_MS: Final = 500


def output_of(value: bytes) -> bytes:
    """The output value for an input."""
    return b"output of " + value


class _CannotGoOnError(Exception):
    """Consumer and producer must be replaced."""


@dataclass(slots=True)
class PublicTransformer:
    """A program that transforms, with one consumer and producer after the other."""

    world: World
    producer_settings: dict[str, Any]
    consumer_settings: dict[str, Any]
    is_older: bool
    """Whether it takes the broker for one that has transactions v1 only."""
    partitions: int
    inputs: int
    batch: int
    """How many records a transaction transforms at most."""
    name: str = CLIENT
    is_done: bool = False

    async def run(self, runtime: Runtime) -> None:
        while not self.is_done:
            producer = public_producer(self.producer_settings, runtime, is_older=self.is_older)
            consumer = AsyncConsumer(dict(self.consumer_settings), runtime=runtime)
            try:
                await self._work(runtime, consumer, producer)
                self.is_done = True
            except _CannotGoOnError as error:
                self.world.tell(f"the transformer begins anew: {error}")
                await runtime.tasks.sleep(0.05)
            await producer.close(0.0)
            await self._close(consumer)
        await asyncio.Event().wait()

    def finish(self) -> None:
        """It ends by itself, when everything is transformed."""

    def owes(self) -> str | None:
        return None if self.is_done else "outputs"

    async def _work(self, runtime: Runtime, consumer: AsyncConsumer, producer: AsyncProducer) -> None:
        if not await introduced(producer, self.world):
            raise _CannotGoOnError("it has no producer")
        consumer.subscribe([SOURCE])
        while True:
            try:
                records = list(await consumer.poll(_POLL_MS, self.batch))
                if not records and await self._is_through(consumer):
                    return
            except KafkaException as error:
                raise _CannotGoOnError(f"{error!r}") from error
            if records and not await self._transform(consumer, producer, records):
                if runtime.dice.random() < 0.5:
                    raise _CannotGoOnError("a transaction was aborted")
                await self._go_back(consumer)

    async def _is_through(self, consumer: AsyncConsumer) -> bool:
        stored = await consumer.committed([TopicPartition(SOURCE, index) for index in range(self.partitions)])
        return sum(one.offset for one in stored.values() if one is not None) == self.inputs

    async def _transform(
        self, consumer: AsyncConsumer, producer: AsyncProducer, records: Sequence[ConsumerRecord]
    ) -> bool:
        """One transaction; False if it was aborted."""
        committing = False
        try:
            await producer.begin_transaction()
            for record in records:
                await producer.send(TOPIC, output_of(record.value), partition=record.partition)
            after = {record.topic_partition: record.offset + 1 for record in records}
            await producer.send_offsets_to_transaction(after, consumer.group_metadata())
            committing = True
            await producer.commit_transaction()
        except KafkaException as error:
            self.world.tell(f"a transaction fails: {error!r}")
            if error.fatal or (committing and not error.abortable):
                raise _CannotGoOnError(f"{error!r}") from error
            try:
                await producer.abort_transaction()
            except KafkaException as second:
                raise _CannotGoOnError(f"{second!r}") from second
            return False
        return True

    async def _go_back(self, consumer: AsyncConsumer) -> None:
        """To the positions that are stored."""
        try:
            for where, stored in (await consumer.committed(consumer.assignment())).items():
                if where not in consumer.assignment():
                    continue  # It was taken away meanwhile.
                if stored is None:
                    consumer.seek_to_beginning([where])
                else:
                    consumer.seek(where, stored)
        except KafkaException as error:
            raise _CannotGoOnError(f"{error!r}") from error

    async def _close(self, consumer: AsyncConsumer) -> None:
        try:
            await consumer.close(timeout_ms=_CLOSE_MS)
        except KafkaException as error:
            self.world.tell(f"a consumer does not end well: {error!r}")
