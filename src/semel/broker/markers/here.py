"""Markers on the partitions that this broker leads.

Role.   The last step of every marker: of this broker's coordinators, and of those elsewhere, who send WriteTxnMarkers.
Rules.  * Data partitions append a marker themselves; the partitions of `__consumer_offsets` through the group coordinator, whose
          pending offsets count from then on.
        * A marker is written once it is as durable as its topic asks, and on every replica in sync. A leader that loses its role
          before says so: the next leader may not have the marker.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.replicas.led_partition import LedPartition
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.metadata.brokers import RegisteredBroker
from semel.errors import ErrorCode, LogError, Refuse
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition


class Leaders(Protocol):
    """Knows where partitions are led. `Partitions` does."""

    def where(self, topic_partition: TopicPartition) -> LedPartition | RegisteredBroker | ErrorCode:
        """Here, by another broker, or nowhere: then the code to answer."""


class Marker(NamedTuple):
    """The end of a producer's transaction, for any partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int


class MarkersHere:
    """Writes markers to the logs of this broker."""

    def __init__(
        self,
        leaders: Leaders,
        groups: GroupCoordinator,
        runtime: Runtime,
        exists: Callable[[TopicPartition], bool],
        answer_seconds: float | None,
    ) -> None:
        """`exists`: whether a partition may still be there, for all that is known. `answer_seconds`: for how long a coordinator
        elsewhere may wait for its markers; None: until they are written."""
        self._leaders = leaders
        self._groups = groups
        self._runtime = runtime
        self._exists = exists
        self._answer_seconds = answer_seconds

    def write(self, topic_partition: TopicPartition, marker: Marker) -> ErrorCode | asyncio.Future[ErrorCode]:
        """End a producer's transaction on one partition; NONE once that will stay."""
        partition = self._leaders.where(topic_partition)
        if isinstance(partition, RegisteredBroker):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if topic_partition.topic == OFFSETS_TOPIC and self._exists(topic_partition):
            return self._groups.host.append_marker(
                topic_partition.partition,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                commit=marker.commit,
                transaction_version=marker.transaction_version,
            )
        if isinstance(partition, ErrorCode):
            return partition
        result = partition.append_marker(
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            commit=marker.commit,
            transaction_version=marker.transaction_version,
        )
        if isinstance(result, Refuse):
            return result.code
        if partition.settled:
            return ErrorCode.NONE
        settling = _settled(partition, result.last_offset + 1)
        return self._runtime.tasks.spawn(settling, name=f"marker on {topic_partition}")

    def deadline(self) -> float | None:
        """When a coordinator elsewhere that has just asked is to be answered, as the loop's time."""
        if self._answer_seconds is None:
            return None
        return asyncio.get_running_loop().time() + self._answer_seconds

    def is_open(self, topic_partition: TopicPartition, producer_id: int) -> bool:
        """Whether a partition led here waits for the end of this producer's transaction."""
        partition = self._leaders.where(topic_partition)
        if not isinstance(partition, LedPartition):
            return False
        window = partition.log.producers.producers.get(producer_id)
        return window is not None and window.has_open_transaction


async def _settled(partition: LedPartition, end_offset: int) -> ErrorCode:
    try:
        await partition.settle(end_offset)
    except LogError:
        is_offline = partition.log.offline is not None
        return ErrorCode.KAFKA_STORAGE_ERROR if is_offline else ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE
