"""Markers: every partition of a transaction is told how it ended, until each of them knows.

Role.   Carries out `SendMarkers` of the transaction coordinator: data partitions append the marker themselves, the
        partitions of `__consumer_offsets` through the group coordinator, whose pending offsets count from then on.
Flow.   `coordinators.transactions` calls `send` once the decision is committed; when all are written it is told by
        `on_written`, and decides that the transaction is complete.
Rules.  * Where every log takes its marker at once, everything is done when `send` returns: the producer's next request
          finds the transaction complete.
        * A marker that a partition cannot take now is tried again, ever more slowly, for as long as this coordinator leads the
          transaction's partition. Partitions that took theirs are not asked again.
        * Each try asks where the partition is led. A partition that another broker leads takes no marker from here yet: the try
          fails with NOT_LEADER_OR_FOLLOWER, and the transaction stays open there.
        * Of two sends for one transactional id the later one counts: a shard that is loaded again sends its markers
          again, and the rest of the first send must not meet the next transaction.
        * A partition whose topic is gone needs none. A partition that refuses the epoch has seen a later one of this
          producer: its transaction has ended there. A partition that has seen a later coordinator is looked at: its transaction is
          not given up as ended while it is open.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Protocol

from semel.broker.coordinators.groups import GroupCoordinator
from semel.broker.replicas.led_partition import LedPartition
from semel.cluster.store import MetadataStore
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.transactions.coordinator.decision import SendMarkers
from semel.errors import ErrorCode, LogError, Refuse
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
_BACKOFF_SECONDS: Final = 0.02
_BACKOFF_MAX_SECONDS: Final = 1.0
_AT_ONCE: Final = 500
"""Partitions that are told in one turn of the loop: some milliseconds of work."""
_ENDED: Final = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)


class Leaders(Protocol):
    """Knows where partitions are led. `Partitions` does."""

    def where(self, topic_partition: TopicPartition) -> LedPartition | RegisteredBroker | ErrorCode:
        """Here, by another broker, or nowhere: then the code to answer."""


class Markers:
    """Writes the markers of this broker's transactions."""

    def __init__(
        self, store: MetadataStore, leaders: Leaders, groups: GroupCoordinator, runtime: Runtime
    ) -> None:
        self._store = store
        self._leaders = leaders
        self._groups = groups
        self._runtime = runtime
        self._under_way: dict[str, object] = {}

    def send(
        self,
        markers: SendMarkers,
        *,
        coordinator_epoch: int,
        is_wanted: Callable[[], bool],
        on_written: Callable[[], object],
    ) -> None:
        """Have every partition end the transaction; `is_wanted` is asked before each further try."""
        self._under_way.pop(markers.transactional_id, None)
        partitions = list(markers.partitions)
        missing, pending = self._write_all(markers, partitions[:_AT_ONCE], coordinator_epoch)
        left = partitions[_AT_ONCE:]
        if missing:
            _logger.warning(
                "%s: %d partitions do not take the marker of producer %d now, %s among them; tried until they do",
                markers.transactional_id,
                len(missing),
                markers.producer_id,
                missing[0],
                extra={
                    "transactional_id": markers.transactional_id,
                    "producer_id": markers.producer_id,
                    "producer_epoch": markers.producer_epoch,
                },
            )
        if missing or pending or left:
            self._runtime.tasks.spawn(
                self._persist(markers, left, missing, pending, coordinator_epoch, is_wanted, on_written),
                name=f"markers of {markers.transactional_id}",
            )
        else:
            on_written()

    async def _persist(
        self,
        markers: SendMarkers,
        left: list[TopicPartition],
        missing: list[TopicPartition],
        pending: list[tuple[TopicPartition, Awaitable[ErrorCode]]],
        coordinator_epoch: int,
        is_wanted: Callable[[], bool],
        on_written: Callable[[], object],
    ) -> None:
        """Wait for what is under way, go on with what is left, and try again what failed."""
        this = self._under_way[markers.transactional_id] = object()
        seconds = _BACKOFF_SECONDS
        while True:
            for topic_partition, result in pending:
                if _must_be_repeated(await result):
                    missing.append(topic_partition)
            if left:
                await self._runtime.tasks.sleep(0)
            elif missing:
                await self._runtime.tasks.sleep(seconds)
                seconds = min(seconds * 2, _BACKOFF_MAX_SECONDS)
                left, missing = missing, []
            else:
                break
            if self._under_way.get(markers.transactional_id) is not this:
                return
            if not is_wanted():  # Another coordinator has them written.
                del self._under_way[markers.transactional_id]
                return
            refused, pending = self._write_all(markers, left[:_AT_ONCE], coordinator_epoch)
            missing += refused
            left = left[_AT_ONCE:]
        if self._under_way.get(markers.transactional_id) is this:
            del self._under_way[markers.transactional_id]
            on_written()

    def _write_all(
        self, markers: SendMarkers, partitions: Iterable[TopicPartition], coordinator_epoch: int
    ) -> tuple[list[TopicPartition], list[tuple[TopicPartition, Awaitable[ErrorCode]]]]:
        """Which could not be written, and which are being synced."""
        missing: list[TopicPartition] = []
        pending: list[tuple[TopicPartition, Awaitable[ErrorCode]]] = []
        for topic_partition in partitions:
            result = self.write(
                topic_partition,
                producer_id=markers.producer_id,
                producer_epoch=markers.producer_epoch,
                coordinator_epoch=coordinator_epoch,
                commit=markers.commit,
                transaction_version=markers.transaction_version,
            )
            if not isinstance(result, ErrorCode):
                pending.append((topic_partition, result))
                continue
            if result is ErrorCode.NONE or not self._exists(topic_partition):
                continue
            if result in _ENDED and not self._is_open(topic_partition, markers.producer_id, result):
                _logger.warning(
                    "%s takes no marker of producer %d, epoch %d (%s): it has seen a later one",
                    topic_partition,
                    markers.producer_id,
                    markers.producer_epoch,
                    result.name,
                    extra={
                        "transactional_id": markers.transactional_id,
                        "producer_id": markers.producer_id,
                        "producer_epoch": markers.producer_epoch,
                    },
                )
            else:
                missing.append(topic_partition)
        return missing, pending

    def _exists(self, topic_partition: TopicPartition) -> bool:
        image = self._store.image
        if image.is_told:  # A partition it does not know of may be there.
            return not image.is_gone(topic_partition.topic)
        return image.partition(topic_partition) is not None

    def _is_open(self, topic_partition: TopicPartition, producer_id: int, refused: ErrorCode) -> bool:
        """Whether a partition that knows a later coordinator still waits for the end of this producer's transaction."""
        partition = self._leaders.where(topic_partition)
        if refused is not ErrorCode.TRANSACTION_COORDINATOR_FENCED or not isinstance(partition, LedPartition):
            return False
        window = partition.log.producers.producers.get(producer_id)
        return window is not None and window.has_open_transaction

    def write(
        self,
        topic_partition: TopicPartition,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int,
    ) -> ErrorCode | Awaitable[ErrorCode]:
        """End a producer's transaction on one partition; NONE once that is as durable as the topic asks."""
        partition = self._leaders.where(topic_partition)
        if isinstance(partition, RegisteredBroker):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if topic_partition.topic == OFFSETS_TOPIC and self._exists(topic_partition):
            return self._groups.host.append_marker(
                topic_partition.partition,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                commit=commit,
                transaction_version=transaction_version,
            )
        if isinstance(partition, ErrorCode):
            return partition
        result = partition.append_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            transaction_version=transaction_version,
        )
        if isinstance(result, Refuse):
            return result.code
        if partition.settled:
            return ErrorCode.NONE
        settling = _settled(partition, result.last_offset + 1)
        return self._runtime.tasks.spawn(settling, name=f"marker on {topic_partition}")


def _must_be_repeated(code: ErrorCode) -> bool:
    return code is not ErrorCode.NONE and code not in _ENDED


async def _settled(partition: LedPartition, end_offset: int) -> ErrorCode:
    try:
        await partition.settle(end_offset)
    except LogError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
