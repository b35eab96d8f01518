"""The partitions this broker leads: their logs, who waits for them, how far they are visible.

Role.   From a topic's name or id to a partition, and the life of partitions: made, grown, reconfigured, deleted.
Flow.   Handlers ask for a `Partition` and append to it or read its log. The metadata image says which there are.
Rules.  * Records become visible (high watermark) when they are as durable as the topic asks: in the page cache, or, with
          `flush.messages`, on disk.
        * After an unclean stop the leader epoch is higher, and no lost record ever had it: a consumer that read what
          was lost can tell. The metadata remembers it, because the log that was cut back may not.
        * Directories without a topic in the metadata are left-overs of a deletion or creation a crash interrupted: they go.
        * A partition that cannot be opened has no leader and answers KAFKA_STORAGE_ERROR; every other one is served.
        * A partition the disk refused to make is made later: `complete` tries again.
        * New partitions are made on threads, a few at a time, and their names synced together: a topic may have thousands.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from semel.broker.config import BrokerConfig
from semel.broker.metrics import PartitionCounts
from semel.broker.waiting import Waiters
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.rows import TopicRow
from semel.core.metadata.topic_names import INTERNAL, METADATA_TOPIC
from semel.core.records.validation import Inspection
from semel.errors import CorruptBatchError, ErrorCode, LogError, RecoveryHaltedError, Refuse
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.group_commit import GroupCommit
from semel.log.halt import Halt
from semel.log.leader_epochs import EpochEnd
from semel.log.partition_log import Appended, AppendResult, PartitionLog
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition

_logger = logging.getLogger(__name__)
NO_LEADER: Final = -1
"""Who leads a partition that is offline, or not made yet."""
_OPENERS: Final = 8  # Threads that open logs after an unclean stop.
_MAKERS: Final = 8  # Threads that make partitions: as many syncs as a disk takes together.


class Partition:
    """One partition, led here."""

    __slots__ = ("_now_ms", "_segments", "commits", "counts", "leader_epoch", "log", "topic_id", "waiters")

    def __init__(self, log: PartitionLog, topic_id: uuid.UUID, leader_epoch: int, runtime: Runtime) -> None:
        self.log = log
        self.topic_id = topic_id
        self.leader_epoch = leader_epoch
        self.commits = GroupCommit(log, runtime.tasks, runtime.clock)
        self.waiters = Waiters()
        self.counts = PartitionCounts(log.log_end_offset)
        self._now_ms = runtime.clock.now_ms
        self._segments = log.active.base_offset
        log.advance_high_watermark(log.log_end_offset)

    def append(
        self,
        data: bytearray | memoryview,
        *,
        transactions_v2: bool = False,
        from_client: bool = True,
        verification_token: int | None = None,
        inspection: Inspection | None = None,
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
            verification_token=verification_token,
            inspection=inspection,
        )
        if type(result) is Appended:
            counts = self.counts
            counts.batches_in += 1
            counts.bytes_in += len(data)
            if not log.flush_due(now_ms):
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
        before, self._segments = self._segments, self.log.active.base_offset
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
        self._by_topic: dict[str, list[Partition | None]] = {}
        self._making = asyncio.Lock()
        self._incomplete: dict[str, None] = {}
        self.changes = 0
        """Counts what makes a partition another one: made, deleted, with other settings."""

    async def load(self) -> None:
        """Open the logs of all topics, and remove directories no topic owns.

        On threads: after an unclean stop every log is read and waits for syncs, and there may be thousands. A caller that is
        cancelled has them leave off, and is let go when they have.
        """
        directory, now_ms = self._directory, self._runtime.clock.now_ms()
        wanted = [(one, self._log_config(one)) for one in directory.begin_load()]
        openers = 1 if directory.was_clean else _OPENERS  # Then next to nothing is read.
        parts = [wanted[first::openers] for first in range(min(openers, len(wanted)))]
        halt, tasks = Halt(), self._runtime.tasks
        reading = asyncio.gather(
            *(tasks.in_thread(directory.read_some, part, now_ms, halt) for part in parts),
            return_exceptions=True,
        )
        try:
            pieces = await asyncio.shield(reading)
        except BaseException:
            halt.ask()
            await asyncio.wait([reading])  # Until then the directory is not free.
            raise
        together: dict[TopicPartition, PartitionLog | Exception] = {}
        for piece in pieces:
            if isinstance(piece, BaseException):
                raise piece
            together.update(piece)
        directory.finish_load({one: together[one] for one, _config in wanted})
        found = [*directory.logs, *directory.damaged]
        self._delete_logs([tp for tp in found if tp.topic != METADATA_TOPIC and not self._is_owned(tp)])

    def highest_leader_epoch(self) -> int:
        """The highest epoch any log knows of, whether its topic is made yet or not."""
        return max((log.leader_epochs.latest for log in self._directory.logs.values()), default=-1)

    def lead(self) -> None:
        """Lead the partitions of every topic there is; what the disk refuses to make is made later."""
        for row in self._image:
            try:
                self.ensure(row)
            except OSError as error:
                _logger.error("topic %s is not complete, which is tried again: %s", row.name, error)

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
        return self.get(row.name, index) or self.missing(row.name, index)

    @property
    def offline(self) -> list[TopicPartition]:
        """The partitions that could not be opened."""
        return list(self._directory.damaged)

    def missing(self, topic: str, index: int) -> ErrorCode:
        """What to answer for a partition `get` does not find: it is offline, or there is none."""
        damaged = TopicPartition(topic, index) in self._directory.damaged and topic in self._by_topic
        return ErrorCode.KAFKA_STORAGE_ERROR if damaged else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def of_topic(self, topic: str) -> list[Partition]:
        """The partitions of a topic that are led here."""
        return [partition for partition in self._by_topic.get(topic, ()) if partition is not None]

    def places(self, topic: str) -> Sequence[Partition | None]:
        """The partitions of a topic by their index; None where one is offline or not made yet."""
        return self._by_topic.get(topic, ())

    @property
    def topics(self) -> list[str]:
        """Their names, in order."""
        return sorted(self._by_topic)

    def __iter__(self) -> Iterator[Partition]:
        return (partition for topic in sorted(self._by_topic) for partition in self.of_topic(topic))

    def ensure(self, row: TopicRow) -> None:
        """Make the partitions of a topic that are not there yet. Blocks: for the start, where nobody waits."""
        now_ms = self._runtime.clock.now_ms()
        made: list[PartitionLog] = []
        try:
            for topic_partition in self._to_make(row):
                config = self._log_config(topic_partition)
                made.append(self._directory.prepare(topic_partition, row.topic_id, config, now_ms))
        finally:
            if made:
                self._directory.sync_names()
                self._admit(row, made)

    async def make(self, rows: Sequence[TopicRow]) -> dict[str, OSError]:
        """Make the partitions of topics that are not there yet; which topics are not complete now, and why.

        One call at a time: a topic that was deleted while it was made, and created again, gets directories of its own.
        """
        failed: dict[str, OSError] = {}
        async with self._making:
            # What was deleted is forgotten on disk first: else a log of the same name would inherit its start.
            await self._on_disk(lambda: None)
            for row in rows:
                current = self._image.topic(row.name)
                if current is None or current.topic_id != row.topic_id:
                    continue  # Something has happened to it since.
                try:
                    await self._make(current)
                except OSError as error:
                    failed[row.name] = error
        return failed

    async def reopen(self) -> list[PartitionLog]:
        """Try again to open what the disk refused to; the logs that are there now, to be led in a new epoch."""
        refused = [tp for tp, error in self._directory.damaged.items() if isinstance(error, OSError)]
        reopened: list[PartitionLog] = []
        halt = Halt()
        for topic_partition in refused:
            config, now_ms = self._log_config(topic_partition), self._runtime.clock.now_ms()
            try:
                log = await self._runtime.tasks.in_thread(
                    self._read_again, topic_partition, config, now_ms, halt
                )
                # Else its topic was deleted meanwhile.
                if log is not None and topic_partition in self._directory.damaged:
                    self._directory.take(log)
                    reopened.append(log)
            except asyncio.CancelledError:
                halt.ask()  # The broker stops, and waits for its threads.
                raise
            except OSError as error:
                self._directory.damaged[topic_partition] = error
            except (LogError, CorruptBatchError) as error:
                self._directory.damaged[topic_partition] = error
                _logger.error("%s stays offline: %s", topic_partition, error)
        return reopened

    def _read_again(
        self, topic_partition: TopicPartition, config: LogConfig, now_ms: int, halt: Halt
    ) -> PartitionLog | None:
        """Open one log on a thread; None if nobody waits for it any more."""
        try:
            return self._directory.read(topic_partition, config, now_ms, halt)
        except RecoveryHaltedError:
            return None

    async def complete(self) -> None:
        """Try again to make what the disk refused to."""
        rows = [row for name in self._incomplete if (row := self._image.topic(name)) is not None]
        if rows and not self._making.locked():
            for name, error in (await self.make(rows)).items():
                _logger.error("topic %s is still not complete: %s", name, error)

    async def _make(self, row: TopicRow) -> None:
        now_ms = self._runtime.clock.now_ms()
        wanted = [(one, self._log_config(one)) for one in self._to_make(row)]
        if not wanted:
            return
        parts = [wanted[first::_MAKERS] for first in range(min(_MAKERS, len(wanted)))]
        tasks = self._runtime.tasks
        outcomes = await asyncio.gather(
            *(tasks.in_thread(self._prepare, part, row.topic_id, now_ms) for part in parts)
        )
        await tasks.in_thread(self._directory.sync_names)
        self._admit(row, [log for logs, _error in outcomes for log in logs])
        for _logs, error in outcomes:
            if error is not None:
                raise error

    def _prepare(
        self, wanted: Sequence[tuple[TopicPartition, LogConfig]], topic_id: uuid.UUID, now_ms: int
    ) -> tuple[list[PartitionLog], OSError | None]:
        """On a thread: make partitions one after the other, up to the first the disk refuses."""
        made: list[PartitionLog] = []
        try:
            for topic_partition, config in wanted:
                made.append(self._directory.prepare(topic_partition, topic_id, config, now_ms))
        except OSError as error:
            return made, error
        return made, None

    def _to_make(self, row: TopicRow) -> list[TopicPartition]:
        """Lead what is there of a topic; what is not, and can be made."""
        directory = self._directory
        places = self._by_topic.setdefault(row.name, [])
        places.extend([None] * (row.partitions - len(places)))
        self._incomplete[row.name] = None
        self.changes += 1
        wanted: list[TopicPartition] = []
        for index in range(row.partitions):
            topic_partition = TopicPartition(row.name, index)
            if places[index] is not None:
                continue
            if directory.topic_ids.get(topic_partition, row.topic_id) != row.topic_id:
                # The disk failed when the topic of that name before was deleted.
                self._delete_logs([topic_partition])
            log = directory.logs.get(topic_partition)
            if log is not None:
                if topic_partition not in directory.topic_ids:
                    directory.adopt(topic_partition, row.topic_id)
                leader_epoch = max(log.leader_epochs.latest, self._image.leader_epoch_min)
                places[index] = Partition(log, row.topic_id, leader_epoch, self._runtime)
                self._guard(log)
                log.producers.doubt_all()
            elif topic_partition not in directory.damaged:
                wanted.append(topic_partition)
        if not wanted:
            self._incomplete.pop(row.name, None)
        return wanted

    def _admit(self, row: TopicRow, made: Sequence[PartitionLog]) -> None:
        """Lead what was made; what belongs to a topic that is gone by now goes too."""
        self.changes += 1
        for log in made:
            self._directory.admit(log, row.topic_id)
        current = self._image.topic(row.name)
        if current is None or current.topic_id != row.topic_id:
            self._delete_logs([log.topic_partition for log in made])
            return
        places = self._by_topic[row.name]
        for log in made:
            places[log.topic_partition.partition] = Partition(log, row.topic_id, 0, self._runtime)
            self._guard(log)
        damaged = self._directory.damaged
        if all(
            place is not None or TopicPartition(row.name, index) in damaged
            for index, place in enumerate(places)
        ):
            self._incomplete.pop(row.name, None)

    def _guard(self, log: PartitionLog) -> None:
        """Let no transaction be opened that its coordinator does not know. Coordinators see to their own topics.

        Two-phase commit fences by this question, so it is asked wherever two-phase commit is on.
        """
        wanted = bool(
            self._config.value("transaction.partition.verification.enable")
            or self._config.value("transaction.two.phase.commit.enable")
        )
        log.producers.verification_required = wanted and log.topic_partition.topic not in INTERNAL

    async def delete(self, topics: Sequence[str]) -> None:
        """Take topics' partitions out, now; done when that survives a power cut. Their files follow."""
        self.changes += 1
        doomed: list[TopicPartition] = []
        known = self._directory.logs.keys() | self._directory.damaged.keys()
        for topic in topics:
            places = self._by_topic.pop(topic, [])
            self._incomplete.pop(topic, None)
            doomed += [tp for index in range(len(places)) if (tp := TopicPartition(topic, index)) in known]
            for partition in places:
                if partition is not None:
                    partition.waiters.wake()
        if doomed:
            await self._on_disk(self._directory.begin_delete(doomed, self._unique()))

    def _delete_logs(self, topic_partitions: list[TopicPartition]) -> None:
        if topic_partitions:
            self._directory.delete(topic_partitions, self._unique())

    def _unique(self) -> str:
        return f"{self._runtime.dice.getrandbits(128):032x}"

    async def delete_records(self, partition: Partition, offset: int) -> bool:
        """Move the log start, which is on disk then; False if the partition was deleted meanwhile.

        What lies below `offset` must be synced.
        """
        directory, log = self._directory, partition.log
        write = directory.begin_delete_records(log, offset)
        try:
            await self._on_disk(write)
        finally:
            directory.end_delete_records(log, offset)
        if directory.logs.get(log.topic_partition) is not log:
            return False
        # In one step with the line above: a checkpoint would say where it began before.
        log.advance_log_start(offset)
        return True

    async def checkpoint(self) -> None:
        """Write down what the next start wants to know of every log."""
        await self._on_disk(self._directory.begin_checkpoint())

    async def _on_disk(self, write: Callable[[], None]) -> None:
        """On a thread, one after the other: what was true earlier must not be written over what is true now."""
        await self._runtime.tasks.in_thread(write, order=self._directory.path)

    def reconfigure(self, topic: str) -> None:
        """Let a topic's changed settings take effect."""
        self.changes += 1
        for partition in self.of_topic(topic):
            partition.log.reconfigure(self._log_config(partition.log.topic_partition))
            self._guard(partition.log)

    def use(self, config: BrokerConfig) -> None:
        """Let the broker's changed settings take effect on every topic."""
        self._config = config
        for topic in self._by_topic:
            self.reconfigure(topic)
