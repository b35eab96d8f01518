"""The partitions this broker leads: their logs, who waits for them, how far they are visible.

Role.   From a topic's name or id to a partition, and the life of partitions: made, grown, reconfigured, deleted.
Flow.   Handlers ask for a `Partition` and append to it or read its log. The metadata image says which there are.
Rules.  * Records become visible (high watermark) when they are as durable as the topic asks: in the page cache, or, with
          `flush.messages`, on disk.
        * After an unclean stop the leader epoch is higher, and no lost record ever had it: a consumer that read what
          was lost can tell. The metadata remembers it, because the log that was cut back may not.
        * Directories without a topic in the metadata are left-overs of a deletion or creation a crash interrupted: they go.
"""

import uuid
from collections.abc import Iterator

from semel.broker.config import BrokerConfig
from semel.broker.waiting import Waiters
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import TopicRow
from semel.core.metadata.topic_names import METADATA_TOPIC
from semel.errors import ErrorCode, Refuse
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.group_commit import GroupCommit
from semel.log.leader_epochs import EpochEnd
from semel.log.partition_log import Appended, AppendResult, PartitionLog
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition


class Partition:
    """One partition, led here."""

    __slots__ = ("_now_ms", "_segments", "commits", "leader_epoch", "log", "topic_id", "waiters")

    def __init__(self, log: PartitionLog, topic_id: uuid.UUID, leader_epoch: int, runtime: Runtime) -> None:
        self.log = log
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.commits = GroupCommit(log, runtime.tasks, runtime.clock)
        self.waiters = Waiters()
        self._now_ms = runtime.clock.now_ms
        self._segments = len(log.segments)
        log.advance_high_watermark(log.log_end_offset)

    def append(
        self, data: bytearray | memoryview, *, transactions_v2: bool = False, from_client: bool = True
    ) -> AppendResult:
        """Take a client's batch, or a coordinator's. Where `settled` says so, `settle` must follow before the answer."""
        log = self.log
        now_ms = self._now_ms()
        result = log.append(
            data,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            from_client=from_client,
            transactions_v2=transactions_v2,
        )
        if type(result) is Appended and not log.flush_due(now_ms):
            self._show(log.log_end_offset)
        return result

    def append_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        commit: bool,
        transaction_version: int = 0,
    ) -> Appended | Refuse:
        """End a producer's transaction here. As after `append`, `settle` may have to follow."""
        log = self.log
        now_ms = self._now_ms()
        result = log.append_marker(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            commit=commit,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            transaction_version=transaction_version,
        )
        if type(result) is Appended and not log.flush_due(now_ms):
            self._show(log.log_end_offset)
        return result

    @property
    def is_settled_at_once(self) -> bool:
        """Whether an append is visible when it returns, as long as the settings stay what they are."""
        return not self.log.config.flushes

    @property
    def settled(self) -> bool:
        """Whether everything appended is visible, so that answers need not wait."""
        return self.log.high_watermark == self.log.log_end_offset

    async def settle(self, end_offset: int) -> None:
        """Wait until what was appended is durable, then show it; raises `LogError` if it never will be."""
        await self.commits.durable(end_offset)
        self._show(end_offset)

    def _show(self, end_offset: int) -> None:
        if self.log.advance_high_watermark(end_offset) and self.waiters:
            self.waiters.wake()

    def rolled(self) -> bool:
        """Whether segments were closed since this was last asked: they want a sync in the background."""
        before, self._segments = self._segments, len(self.log.segments)
        return self._segments > before

    def epoch_for(self, offset: int) -> int:
        """The leader epoch that wrote `offset`, or will."""
        if offset >= self.log.log_end_offset:
            return self.leader_epoch
        return self.log.leader_epochs.epoch_for(offset)

    def epoch_end(self, epoch: int) -> EpochEnd:
        """Where a leader epoch ended. This leader's own begins with it, though it is noted at its first append."""
        log = self.log
        latest = log.leader_epochs.latest
        if not latest < epoch <= self.leader_epoch:
            return log.leader_epochs.end_offset(epoch, log.log_end_offset)
        return EpochEnd(epoch if epoch == self.leader_epoch or latest < 0 else latest, log.log_end_offset)

    def check_leader_epoch(self, epoch: int) -> ErrorCode:
        """What to answer a client that believes in this leader epoch (-1: in none)."""
        if epoch < 0 or epoch == self.leader_epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if epoch < self.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH


class Partitions:
    """Every partition of this broker."""

    def __init__(
        self, directory: LogDirectory, image: MetadataImage, config: BrokerConfig, runtime: Runtime
    ) -> None:
        self._directory = directory
        self._image = image
        self._config = config
        self._runtime = runtime
        self._by_topic: dict[str, list[Partition]] = {}
        self.changes = 0
        """Counts what makes a partition another one: made, deleted, with other settings."""

    def load(self) -> None:
        """Open the logs of all topics, and remove directories no topic owns."""
        now_ms = self._runtime.clock.now_ms()
        self._directory.load_all(self._log_config, now_ms)
        self._delete_logs(
            [tp for tp in self._directory.logs if tp.topic != METADATA_TOPIC and not self._is_owned(tp)]
        )

    def highest_leader_epoch(self) -> int:
        """The highest epoch any log knows of, whether its topic is made yet or not."""
        return max((log.leader_epochs.latest for log in self._directory.logs.values()), default=-1)

    def lead(self) -> None:
        """Lead the partitions of every topic there is."""
        for row in self._image:
            self.ensure(row)

    def _is_owned(self, topic_partition: TopicPartition) -> bool:
        """Whether a directory belongs to a topic there is: same name, same id, and a partition it has."""
        row = self._image.topic(topic_partition.topic)
        known_id = self._directory.topic_ids.get(topic_partition)
        return (
            row is not None
            and topic_partition.partition < row.partitions
            and known_id in (None, row.topic_id)
        )

    def _log_config(self, topic_partition: TopicPartition) -> LogConfig:
        row = self._image.topic(topic_partition.topic)
        return self._config.log_config(row.configs if row else {}, checked=True)

    def get(self, topic: str, index: int) -> Partition | None:
        partitions = self._by_topic.get(topic)
        return partitions[index] if partitions is not None and 0 <= index < len(partitions) else None

    def get_by_id(self, topic_id: bytes, index: int) -> Partition | ErrorCode:
        """The partition, or what to answer: a topic created again has another id."""
        row = self._image.topic_by_id(topic_id)
        if row is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        return self.get(row.name, index) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def of_topic(self, topic: str) -> list[Partition]:
        return self._by_topic.get(topic, [])

    def __iter__(self) -> Iterator[Partition]:
        return (partition for topic in sorted(self._by_topic) for partition in self._by_topic[topic])

    def ensure(self, row: TopicRow) -> None:
        """Make the partitions of a topic that are not there yet."""
        self.changes += 1
        partitions = self._by_topic.setdefault(row.name, [])
        now_ms = self._runtime.clock.now_ms()
        for index in range(len(partitions), row.partitions):
            topic_partition = TopicPartition(row.name, index)
            log = self._directory.logs.get(topic_partition)
            if log is not None and self._directory.topic_ids.get(topic_partition) not in (None, row.topic_id):
                # The disk failed when the topic of that name before was deleted.
                self._delete_logs([topic_partition])
                log = None
            leader_epoch = 0
            if log is None:
                log = self._directory.create(
                    topic_partition, row.topic_id, self._log_config(topic_partition), now_ms
                )
            else:
                leader_epoch = max(log.leader_epochs.latest, self._image.leader_epoch_min)
                if topic_partition not in self._directory.topic_ids:
                    self._directory.adopt(topic_partition, row.topic_id)
            partitions.append(Partition(log, row.topic_id, leader_epoch, self._runtime))

    def delete(self, topic: str) -> None:
        """Take a topic's partitions out, now; their files follow."""
        self.changes += 1
        gone = self._by_topic.pop(topic, [])
        self._delete_logs([partition.log.topic_partition for partition in gone])
        for partition in gone:
            partition.waiters.wake()

    def _delete_logs(self, topic_partitions: list[TopicPartition]) -> None:
        if topic_partitions:
            self._directory.delete(topic_partitions, f"{self._runtime.dice.getrandbits(128):032x}")

    def delete_records(self, partition: Partition, offset: int) -> None:
        """Move the log start; on disk when this returns."""
        self._directory.delete_records(partition.log.topic_partition, offset, self._runtime.clock.now_ms())

    def reconfigure(self, topic: str) -> None:
        """Let a topic's changed settings take effect."""
        self.changes += 1
        for partition in self._by_topic.get(topic, []):
            partition.log.reconfigure(self._log_config(partition.log.topic_partition))

    def use(self, config: BrokerConfig) -> None:
        """Let the broker's changed settings take effect on every topic."""
        self._config = config
        for topic in self._by_topic:
            self.reconfigure(topic)
