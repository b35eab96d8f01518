"""A program that reads a topic with the public consumer, and writes down what it was handed.

Role.   `PublicReader` is an actor of a `World`: `semel.aio.Consumer`, assigned every partition of a topic, from the beginning on.
Flow.   polls for as long as the world is disturbed; told to finish, it goes on until its positions are the ends of the logs.
Rules.  * Trouble on the way to the broker is the consumer's own business: a poll that raises is a flaw.
Elsewhere. Its promises: `semel.verify.simulation.public_invariants.judge_reader`.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

from semel.client.consumer.consumer import AsyncConsumer
from semel.exceptions import KafkaException
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.world import World

READER: Final = "reader"
_POLL_MS: Final = 200


@dataclass(slots=True)
class PublicReader:
    """A program that reads everything, once."""

    world: World
    settings: dict[str, Any]
    topic: str
    partitions: int
    name: str = READER
    handed: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)
    is_finishing: bool = False
    is_done: bool = False

    async def run(self, runtime: Runtime) -> None:
        places = [TopicPartition(self.topic, index) for index in range(self.partitions)]
        consumer = AsyncConsumer(dict(self.settings), runtime=runtime)
        consumer.assign(places)
        while not (self.is_finishing and await self._is_at_end(consumer, places)):
            try:
                records = await consumer.poll(_POLL_MS)
            except KafkaException as error:
                self.world.flaw(f"a poll of {self.name} raised {error!r}")
                await runtime.tasks.sleep(_POLL_MS / 1000)
                continue
            for record in records:
                self.handed.setdefault(record.partition, []).append((record.offset, record.value))
        await consumer.close()
        self.is_done = True
        await asyncio.Event().wait()

    async def _is_at_end(self, consumer: AsyncConsumer, places: list[TopicPartition]) -> bool:
        try:
            ends = await consumer.end_offsets(places)
            return all([await consumer.position(where) == ends[where] for where in places])
        except KafkaException as error:
            self.world.tell(f"{self.name} does not know where the logs end: {error!r}")
            return False

    def finish(self) -> None:
        self.is_finishing = True

    def owes(self) -> str | None:
        return None if self.is_done else "the end of what it reads"
