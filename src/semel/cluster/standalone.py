"""A single broker's metadata: rows in one partition of its own log, replayed at start.

Role.   `StandaloneStore` is the `MetadataStore` of a broker without a cluster.
Flow.   decide (a handler) -> append the rows as one batch -> the image gives deltas -> once the rows are synced the deltas
        are carried out -> answer.
Rules.  * A batch is one change: after a crash all of its rows are there or none.
        * The image is changed before the sync ends, so that the next decision sees it. The consequences and the answer wait.
        * A start reads the last row of every key, as compaction would leave it.
        * The only broker is the controller.
        * If a sync fails, the log is offline and no later change is answered: the broker must start again.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Final

from semel.cluster.store import Applier
from semel.core.metadata import rows as metadata_rows
from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.deltas import Delta
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import alone
from semel.core.metadata.rows import BrokerRow, ControllerRow, Row, TopicGoneRow, TopicRow
from semel.core.records.build import Record, build_batch, iter_records
from semel.errors import ErrorCode, LogError, Refuse
from semel.log.config import NO_LIMIT, LogConfig
from semel.log.group_commit import GroupCommit
from semel.log.partition_log import Appended, PartitionLog
from semel.runtime.clock import Clock
from semel.runtime.tasks import Tasks

METADATA_CONFIG = LogConfig(
    cleanup_delete=False,
    cleanup_compact=True,
    retention_ms=NO_LIMIT,
    flush_messages=1,
    max_message_bytes=16 * 1024 * 1024,
    segment_bytes=16 << 20,  # So that it is compacted, and a start reads little more than what is true.
    delete_retention_ms=0,  # The broker reads it from the beginning or not at all: nobody misses a tombstone.
)

_INCOMPLETE: Final = (
    "The topic is there, but not all of its partitions could be made, which is tried again: {}"
)


class StandaloneStore:
    """Metadata in a log."""

    def __init__(self, log: PartitionLog, tasks: Tasks, clock: Clock, *, broker_id: int) -> None:
        self._log = log
        self._clock = clock
        self._broker_id = broker_id
        self._commits = GroupCommit(log, tasks, clock)
        self._applier: Applier | None = None
        self.image: Final = MetadataImage()
        last: dict[bytes | None, Record] = {}
        for segment in log.segments:
            for _position, header, data in segment.scan():
                last.update((record.key, record) for record in iter_records(data, 0, header))
        for record in last.values():
            self.image.apply(metadata_rows.decode(record, broker_id))

    @property
    def is_controller(self) -> bool:
        return True

    @property
    def draw(self) -> None:
        return None

    async def feed(self, applier: Applier) -> Mapping[str, OSError]:
        self._applier = applier
        return await applier.apply(self.image.snapshot())

    async def register(self, broker: RegisteredBroker) -> None:
        await self._follow(
            [*self.image.apply(BrokerRow(broker)), *self.image.apply(ControllerRow(broker.broker_id))]
        )

    async def create_topic(
        self,
        name: str,
        *,
        topic_id: uuid.UUID,
        partitions: int,
        replication_factor: int,  # noqa: ARG002  # There is one broker, so one replica, whatever is asked for.
        configs: Mapping[str, str],
    ) -> Refuse | None:
        failed = await self.commit(
            [TopicRow(name, topic_id, alone(self._broker_id, partitions), dict(configs))]
        )
        if name in failed:
            raise failed[name]
        return None

    async def change_topics(
        self,
        rows: Sequence[TopicRow | TopicGoneRow],
        *,
        timeout_ms: int,  # noqa: ARG002  # It is done when the disk has done it.
    ) -> Mapping[str, Refuse]:
        made = {row.name for row in rows if isinstance(row, TopicRow)}
        failed = (await self.commit(rows)).items()
        return {
            name: Refuse(
                ErrorCode.KAFKA_STORAGE_ERROR, _INCOMPLETE.format(error) if name in made else str(error)
            )
            for name, error in failed
        }

    async def commit(self, rows: Sequence[Row]) -> Mapping[str, OSError]:
        now_ms = self._clock.now_ms()
        data = build_batch([metadata_rows.encode(row, now_ms) for row in rows])
        appended = self._log.append(data, leader_epoch=0, now_ms=now_ms)
        if not isinstance(appended, Appended):
            raise LogError(f"the metadata log took no change: {appended}")
        self._log.advance_high_watermark(self._log.log_end_offset)
        deltas = [delta for row in rows for delta in self.image.apply(row)]
        await self._commits.durable(appended.last_offset + 1)
        return await self._follow(deltas)

    async def _follow(self, deltas: Sequence[Delta]) -> Mapping[str, OSError]:
        return {} if self._applier is None else await self._applier.apply(deltas)
