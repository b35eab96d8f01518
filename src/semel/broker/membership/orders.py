"""Orders of the controller: which replicas here lead, which follow, and which are to go.

Role.   Carries out LeaderAndIsr and StopReplica. Their handlers hand them over as values, the same for every version.
Flow.   fence -> per partition: is the order newer than the last one that was obeyed? -> `assigned` is changed -> leaders, then
        followers, take their roles -> logs that are not there are made, and take theirs -> coordinators follow -> answer.
Rules.  * An order counts if it is for this life of this broker, from the latest controller known, and of a later leader epoch than
          the last one for its partition (`core.cluster.fencing`). The id in the replica's directory must be the order's.
        * Nothing counts before this life is registered: a request that comes earlier waits. It may be for the former life, whose log
          it names leader; or for this one, for the controller may hear of a registration before this broker has the answer.
        * One request at a time: the order in which two controllers' requests are obeyed is that of their epochs.
        * An order may come twice, the second time late. A replica that was deleted is not made again by an order from before, nor
          one of a deleted topic by any: its id does not come back.
        * A role ends without a wait. A replica with a new log takes its role when the log is on disk.
        * A partition that the disk refuses, or whose log is offline, is answered KAFKA_STORAGE_ERROR: the controller counts the replica
          as offline. Every other one is obeyed.
        * A broker that stops obeys, so that it leads no longer than it may; but it fetches nothing for new roles (`joined`).
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from semel.broker.partitions import Partitions, Quiet
from semel.broker.turns import Turn
from semel.core.cluster import fencing
from semel.core.cluster.fencing import Order
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import PartitionState
from semel.core.metadata.rows import TopicStatesRow
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import NO_PARTITION_LEADER_EPOCH, TopicPartition

_logger: Final = logging.getLogger(__name__)
_DELETED_MAX: Final = 10_000
"""Replicas that were deleted in this life, and are remembered."""
_EVERY_EPOCH: Final = 1 << 31


class Sender(NamedTuple):
    """The controller that sent a request, and the life of this broker that the request is for."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int


class TopicOrders(NamedTuple):
    """The partitions of one topic in LeaderAndIsr."""

    name: str
    topic_id: uuid.UUID
    states: Mapping[int, PartitionState]


class StopOrder(NamedTuple):
    """One partition in StopReplica."""

    topic_partition: TopicPartition
    leader_epoch: int
    delete: bool


class Roles(Protocol):
    """Carries out a change of `assigned`. `membership.applier` does."""

    def change_roles(self, name: str, indexes: Sequence[int]) -> None:
        """Have these replicas of a topic lead, follow or neither, as is assigned now."""

    def coordinate(self, topic: str) -> None:
        """Have the coordinators of a topic's partitions come and go."""


class Orders:
    """The roles of this broker's replicas, as controllers ordered them."""

    def __init__(
        self,
        *,
        node_id: int,
        runtime: Runtime,
        assigned: MetadataImage,
        partitions: Partitions,
        roles: Roles,
        quiet: Quiet,
        broker_epoch: Callable[[], int],
        load_configs: Callable[[Iterable[str]], Awaitable[None]],
    ) -> None:
        """`load_configs` has the settings of topics in the metadata before their logs are made."""
        self._node_id = node_id
        self._runtime = runtime
        self._assigned = assigned
        self._partitions = partitions
        self.roles: Final = roles
        self._quiet = quiet
        self._broker_epoch = broker_epoch
        self._load_configs = load_configs
        self._lock = asyncio.Lock()
        self._registered = asyncio.Event()
        self._deleted: dict[tuple[uuid.UUID, int], int] = {}
        """Up to which leader epoch orders for replicas that were deleted are old, the latest last."""
        self.controller_epoch = 0
        """The highest that was seen."""

    def begin(self) -> None:
        """This life of the broker is registered: requests that wait are looked at."""
        self._registered.set()

    async def until_registered(self) -> None:
        """Wait until a request can be judged."""
        await self._registered.wait()

    def fence(self, sender: Sender) -> ErrorCode:
        """Whether a controller's request counts; its epoch is remembered then."""
        code = fencing.control_request(
            broker_epoch=sender.broker_epoch,
            own_broker_epoch=self._broker_epoch(),
            controller_epoch=sender.controller_epoch,
            known_controller_epoch=self.controller_epoch,
        )
        if code:
            _logger.warning(
                "a request of controller %d is refused with %s: it is of controller epoch %d for broker epoch %d; known are %d and %d",
                sender.controller_id,
                code.name,
                sender.controller_epoch,
                sender.broker_epoch,
                self.controller_epoch,
                self._broker_epoch(),
            )
        elif sender.controller_epoch > self.controller_epoch:
            self.controller_epoch = sender.controller_epoch
            _logger.info("controller %d of epoch %d is obeyed", sender.controller_id, sender.controller_epoch)
        return code

    # LeaderAndIsr

    async def change_roles(
        self, sender: Sender, topics: Sequence[TopicOrders]
    ) -> dict[TopicPartition, ErrorCode] | ErrorCode:
        """Obey; the code of each partition, or of the whole request."""
        await self.until_registered()
        async with self._lock:
            if code := self.fence(sender):
                return code
            await self._load_configs([one.name for one in topics])
            if code := self.fence(sender):
                return code  # A later controller was heard in the meantime.
            codes = {
                TopicPartition(topic.name, index): self._judge(topic, index, state)
                for topic in topics
                for index, state in topic.states.items()
            }
            obeyed = [
                TopicOrders(
                    topic.name,
                    topic.topic_id,
                    {
                        index: state
                        for index, state in topic.states.items()
                        if codes[TopicPartition(topic.name, index)] is None
                    },
                )
                for topic in topics
            ]
            await self._obey([topic for topic in obeyed if topic.states])
            return {
                topic_partition: self._outcome(topic_partition) if code is None else code
                for topic_partition, code in codes.items()
            }

    def _judge(self, topic: TopicOrders, index: int, state: PartitionState) -> ErrorCode | None:
        """The answer to an order that changes nothing; None: it is to be obeyed."""
        topic_partition = TopicPartition(topic.name, index)
        if self._is_offline(topic_partition):
            return ErrorCode.KAFKA_STORAGE_ERROR
        known_id = self._partitions.topic_id(topic_partition)
        if known_id is not None and known_id != topic.topic_id:
            _logger.error(
                "%s is ordered with topic id %s, and its directory here is of %s: it is left as it is until the controller has it deleted",
                topic_partition,
                topic.topic_id,
                known_id,
            )
            return ErrorCode.INCONSISTENT_TOPIC_ID
        known = self._known(topic_partition, topic.topic_id)
        known_epoch = NO_PARTITION_LEADER_EPOCH if known is None else known.leader_epoch
        known_epoch = max(known_epoch, self._deleted.get((topic.topic_id, index), known_epoch))
        match fencing.new_role(state.leader_epoch, known_epoch):
            case Order.OLD | Order.SAME:
                return ErrorCode.STALE_CONTROLLER_EPOCH
            case Order.OBEY:
                pass
        if self._node_id not in state.replicas:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if known is not None and state.partition_epoch < known.partition_epoch:
            return ErrorCode.NONE  # Kafka skips it in silence.
        return None

    def _known(self, topic_partition: TopicPartition, topic_id: uuid.UUID) -> PartitionState | None:
        """The last order that was obeyed for a partition."""
        row = self._assigned.topic(topic_partition.topic)
        if row is None or row.topic_id != topic_id:
            return None
        return self._assigned.partition(topic_partition)

    def _is_offline(self, topic_partition: TopicPartition) -> bool:
        if topic_partition in self._partitions.offline:
            return True
        replica = self._partitions.replica(*topic_partition)
        return replica is not None and replica.log.offline is not None

    async def _obey(self, topics: Sequence[TopicOrders]) -> None:
        here = self._node_id
        turn = Turn(self._runtime.clock)
        for topic in topics:
            self._assigned.apply(TopicStatesRow(topic.name, topic.topic_id, topic.states))
        for is_leading in (True, False):
            for topic in topics:
                if turn.is_over:
                    await self._runtime.tasks.sleep(0)
                    turn.begin()
                indexes = [one for one, state in topic.states.items() if (state.leader == here) is is_leading]
                if indexes:
                    self.roles.change_roles(topic.name, indexes)
        rows = [row for topic in topics if (row := self._assigned.topic(topic.name)) is not None]
        for name, error in (await self._partitions.make(rows)).items():
            _logger.error("the disk refused replicas of topic %s, which is tried again: %s", name, error)
        for topic in topics:
            self.roles.coordinate(topic.name)

    def _outcome(self, topic_partition: TopicPartition) -> ErrorCode:
        is_there = self._partitions.replica(*topic_partition) is not None
        return ErrorCode.NONE if is_there else ErrorCode.KAFKA_STORAGE_ERROR

    # StopReplica

    async def stop(
        self, sender: Sender, orders: Sequence[StopOrder]
    ) -> dict[TopicPartition, ErrorCode] | ErrorCode:
        """Obey; the code of each partition, or of the whole request."""
        await self.until_registered()
        async with self._lock:
            if code := self.fence(sender):
                return code
            codes = {one.topic_partition: self._judge_stop(one) for one in orders}
            obeyed = [one for one in orders if not codes[one.topic_partition]]
            self._stop_roles([one for one in obeyed if not one.delete])
            doomed = [one for one in obeyed if one.delete]
            for one in doomed:
                self._remember_deletion(one)
            failed = await self._delete([one.topic_partition for one in doomed])
            return {**codes, **failed}

    def _judge_stop(self, order: StopOrder) -> ErrorCode:
        topic_partition = order.topic_partition
        if self._is_offline(topic_partition) and not order.delete:
            return ErrorCode.KAFKA_STORAGE_ERROR
        known = self._assigned.partition(topic_partition)
        if known is None or not known.is_known:
            return ErrorCode.NONE
        return fencing.stop(order.leader_epoch, known.leader_epoch)

    def _remember_deletion(self, order: StopOrder) -> None:
        """Orders from before this one are old from now on."""
        name, index = order.topic_partition
        row, state = self._assigned.topic(name), self._assigned.partition(order.topic_partition)
        topic_id = self._partitions.topic_id(order.topic_partition) or (None if row is None else row.topic_id)
        if topic_id is None:
            return
        epoch = order.leader_epoch
        if epoch == fencing.DURING_DELETION:
            epoch = _EVERY_EPOCH
        elif epoch == fencing.NOT_GIVEN and state is not None:
            epoch = state.leader_epoch
        before = self._deleted.pop((topic_id, index), epoch)
        self._deleted[topic_id, index] = max(before, epoch)
        while len(self._deleted) > _DELETED_MAX:
            del self._deleted[next(iter(self._deleted))]

    def _stop_roles(self, orders: Sequence[StopOrder]) -> None:
        for order in orders:
            self._partitions.idle(
                order.topic_partition, is_to_go=order.leader_epoch == fencing.DURING_DELETION
            )
        for topic in dict.fromkeys(one.topic_partition.topic for one in orders):
            self.roles.coordinate(topic)

    async def _delete(self, doomed: Sequence[TopicPartition]) -> dict[TopicPartition, ErrorCode]:
        """Have replicas no more, on disk either; the partitions that the disk refused to let go."""
        by_topic: dict[str, list[int]] = {}
        for topic_partition in doomed:
            by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        on_disk: list[TopicPartition] = []
        for name, indexes in by_topic.items():
            on_disk += self._partitions.drop(name, indexes)
            row = self._assigned.topic(name)
            if row is not None:
                self._assigned.apply(TopicStatesRow(name, row.topic_id, dict.fromkeys(indexes)))
            self.roles.coordinate(name)
        try:
            await self._partitions.remove(on_disk, self._quiet)
        except OSError as error:
            _logger.error("the disk does not let go of %s: %s", ", ".join(map(str, on_disk)), error)
            return dict.fromkeys(on_disk, ErrorCode.KAFKA_STORAGE_ERROR)
        return {}
