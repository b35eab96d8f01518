"""The settings of one partition's log, under Kafka's topic keys.

Role.   A frozen value handed to `PartitionLog`; the broker builds it from topic and broker settings and
        replaces it when they change. Units are in the names, defaults are Kafka 4.3's.
Rules.  The broker's configuration checks the values; this class does not.
"""

from dataclasses import dataclass
from typing import Final

from semel.core.records.batch import TimestampType
from semel.core.records.validation import BatchRules

NO_LIMIT: Final = -1
_DAY_MS: Final = 24 * 60 * 60 * 1000
_LONG_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Settings for rolling, indexing, retention and flushing of one log."""

    segment_bytes: int = 1024 * 1024 * 1024
    """`segment.bytes`: a segment never grows beyond this."""
    segment_ms: int = 7 * _DAY_MS
    """`segment.ms`: a segment whose records span more than this is closed at the next append."""
    segment_jitter_ms: int = 0
    """`segment.jitter.ms`: a segment is closed earlier by a time below this, so that segments do not all roll at
    once."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """`segment.index.bytes`: a segment is closed when an index reaches this."""
    index_interval_bytes: int = 4096
    """`index.interval.bytes`: about one index entry per this many bytes of log."""
    retention_ms: int = 7 * _DAY_MS
    """`retention.ms`: older segments are deleted; -1 keeps them."""
    retention_bytes: int = NO_LIMIT
    """`retention.bytes`: the oldest segments beyond this size are deleted; -1 keeps them."""
    flush_messages: int = _LONG_MAX
    """`flush.messages`: fsync after at most this many records; with 1, only records on disk are acknowledged."""
    flush_ms: int = _LONG_MAX
    """`flush.ms`: fsync after at most this time."""
    min_insync_replicas: int = 1
    """`min.insync.replicas`: with acks=all fewer replicas in sync take nothing, as long as there are so many at all."""
    file_delete_delay_ms: int = 60_000
    """`file.delete.delay.ms`: how long a deleted segment's files stay under their `.deleted` name."""
    max_message_bytes: int = 1024 * 1024 + 12
    """`max.message.bytes`: the largest batch a client may append, after compression."""
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    """`message.timestamp.type`: whether the producer's timestamps stay or the broker's clock replaces them."""
    message_timestamp_before_max_ms: int = _LONG_MAX
    """`message.timestamp.before.max.ms`: how far a record's timestamp may lie before the broker's clock."""
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    """`message.timestamp.after.max.ms`: how far it may lie ahead."""
    compression_type: int | None = None
    """`compression.type`: the codec id of stored batches; None keeps the producer's."""
    compression_level: int | None = None
    """`compression.gzip.level` and its siblings; None uses the codec's default."""
    cleanup_delete: bool = True
    """`cleanup.policy` contains `delete`."""
    cleanup_compact: bool = False
    """`cleanup.policy` contains `compact`: every record needs a key."""
    min_cleanable_dirty_ratio: float = 0.5
    """`min.cleanable.dirty.ratio`: a log is compacted once a larger share of its bytes is dirty."""
    min_compaction_lag_ms: int = 0
    """`min.compaction.lag.ms`: younger records are not compacted."""
    max_compaction_lag_ms: int = _LONG_MAX
    """`max.compaction.lag.ms`: older records make the log due for compaction, even if it is mostly clean."""
    delete_retention_ms: int = _DAY_MS
    """`delete.retention.ms`: how long tombstones and markers stay after the cleaning that could have removed them."""
    producer_id_expiration_ms: int = _DAY_MS
    """`producer.id.expiration.ms`: a producer silent for longer is forgotten."""

    @property
    def flushes(self) -> bool:
        """Whether appends may have to wait for an fsync."""
        return self.flush_messages != _LONG_MAX or self.flush_ms != _LONG_MAX

    def batch_rules(self) -> BatchRules:
        """The rules a batch is checked against before it is appended."""
        return BatchRules(
            max_message_bytes=self.max_message_bytes,
            segment_bytes=self.segment_bytes,
            timestamp_type=self.message_timestamp_type,
            timestamp_before_max_ms=self.message_timestamp_before_max_ms,
            timestamp_after_max_ms=self.message_timestamp_after_max_ms,
            compression_type=self.compression_type,
            keys_required=self.cleanup_compact,
            compression_level=self.compression_level,
        )
