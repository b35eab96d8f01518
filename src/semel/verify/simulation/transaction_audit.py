"""The transactions of a simulated broker, looked at from outside: open ones, the coordinator's, its rows.

Role.   Scenarios ask these once the world is calm. `OffsetsAuditor` asks the broker itself, over the network.
Rules.  * A broker is looked at only while no code of it runs, and only if it is there.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from semel.broker.app import Broker
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.records.build import iter_records
from semel.core.transactions.rows import FORMAT, TOPIC, transaction_of
from semel.core.transactions.transaction import Transaction
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.actors.client import Client
from semel.verify.simulation.actors.transactional_worker import stable_offsets
from semel.verify.simulation.transaction_invariants import fates_of
from semel.verify.simulation.world import World

INTERNAL_TOPICS: Final = (OFFSETS_TOPIC, TOPIC)
"""Their rows are the coordinators', no producer gave them."""
_REQUEST_TIMEOUT_MS: Final = 3000


def open_partitions(broker: Broker | None) -> list[str]:
    """Partitions that readers of committed records cannot read to the end."""
    if broker is None:
        return ["every partition, for the broker is down"]
    return [
        f"{partition.log.topic_partition} (stable up to {partition.log.last_stable_offset} of {partition.log.log_end_offset})"
        for partition in broker.parts.partitions
        if partition.log.last_stable_offset < partition.log.log_end_offset
    ]


def transactions_known(broker: Broker | None) -> dict[str, Transaction] | None:
    """The transactions the coordinator knows; None while it loads."""
    if broker is None:
        return None
    found = broker.parts.transactions.host.look(list)
    if isinstance(found, ErrorCode):
        return None
    return {one.transactional_id: one for shard in found for one in shard}


def stored_transactions(broker: Broker | None) -> list[Transaction]:
    """Every row of the coordinator's topic, in order."""
    if broker is None:
        return []
    rows = [
        FORMAT.decode(record)
        for partition in broker.parts.partitions
        if partition.log.topic_partition.topic == TOPIC
        for segment in partition.log.segments
        for _position, header, data in segment.scan()
        for record in iter_records(data, 0, header)
    ]
    return [one for row in rows if row is not None and (one := transaction_of(row)) is not None]


def last_committed(world: World, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """The offset of the last committed record of each partition that has one."""
    world.broker.read_logs(without=INTERNAL_TOPICS)
    found: dict[TopicPartition, int] = {}
    for place, (state, batches) in world.history.logs.items():
        here = TopicPartition(state.topic, place.partition)
        for _value, one in fates_of(place, state.topic, batches) if here in partitions else ():
            if one.committed:
                found[here] = one.offset
    return found


class OffsetsAuditor:
    """Asks for a group's offsets until they are stable and beyond what is expected."""

    name = "auditor"

    def __init__(
        self,
        world: World,
        group_id: str,
        partitions: list[TopicPartition],
        beyond: Mapping[TopicPartition, int],
    ) -> None:
        self.offsets: dict[TopicPartition, int] = {}
        self._world = world
        self._group_id = group_id
        self._partitions = partitions
        self._beyond = beyond

    async def run(self, runtime: Runtime) -> None:
        client = Client(runtime, self.name, _REQUEST_TIMEOUT_MS)
        while self.owes() is not None:
            try:
                found = await stable_offsets(client, self._group_id, self._partitions)
            except DisconnectedError:
                found = None
            self.offsets = found or {}
            await runtime.tasks.sleep(0.1)
        await asyncio.Event().wait()

    def finish(self) -> None:
        self._world.restart(self)

    def owes(self) -> str | None:
        behind = [
            f"{one} beyond {offset}"
            for one, offset in self._beyond.items()
            if self.offsets.get(one, -1) <= offset
        ]
        if behind:
            return f"offsets of {', '.join(behind)}, there are {self.offsets}"
        return None if self.offsets else "an answer to what is committed"
