"""The settings of one partition's log, under Kafka's topic keys.

Role.   A frozen value handed to `PartitionLog`; the broker builds it from topic and broker settings and
        replaces it when they change. Units are in the names, defaults are Kafka 4.3's.
Rules.  Values are checked where they enter (the broker's configuration); here they are taken as good.
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
    """What governs rolling, indexing, retention and flushing of one log."""

    segment_bytes: int = 1024 * 1024 * 1024
    """`segment.bytes`: a segment never grows beyond this."""
    segment_ms: int = 7 * _DAY_MS
    """`segment.ms`: a segment whose records span more than this is closed at the next append."""
    segment_jitter_ms: int = 0
    """`segment.jitter.ms`: a segment is closed earlier by any time below this, so that not all are at once."""
    segment_index_bytes: int = 10 * 1024 * 1024
    """`segment.index.bytes`: a segment is closed when an index reaches this."""
    index_interval_bytes: int = 4096
    """`index.interval.bytes`: about one index entry per so many bytes of log."""
    retention_ms: int = 7 * _DAY_MS
    """`retention.ms`: older segments are deleted; -1 keeps them."""
    retention_bytes: int = NO_LIMIT
    """`retention.bytes`: the oldest segments beyond this size are deleted; -1 keeps them."""
    flush_messages: int = _LONG_MAX
    """`flush.messages`: an fsync at the latest after so many records; 1 acknowledges only what is on disk."""
    flush_ms: int = _LONG_MAX
    """`flush.ms`: an fsync at the latest after so long."""
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
    """`compression.type`: the codec id everything is stored in; None keeps the producer's."""
    compression_level: int | None = None
    """`compression.gzip.level` and its kin: how hard to compress; None as each codec does by itself."""
    cleanup_delete: bool = True
    """`cleanup.policy` contains `delete`."""
    cleanup_compact: bool = False
    """`cleanup.policy` contains `compact`: every record needs a key."""
    min_cleanable_dirty_ratio: float = 0.5
    """`min.cleanable.dirty.ratio`: a log is compacted once a larger share of its bytes is dirty."""
    min_compaction_lag_ms: int = 0
    """`min.compaction.lag.ms`: younger records are not compacted."""
    max_compaction_lag_ms: int = _LONG_MAX
    """`max.compaction.lag.ms`: older ones are, however clean the log is."""
    delete_retention_ms: int = _DAY_MS
    """`delete.retention.ms`: how long tombstones and markers stay after the cleaning that could have removed them."""
    producer_id_expiration_ms: int = _DAY_MS
    """`producer.id.expiration.ms`: a producer silent for longer is forgotten."""

    @property
    def flushes(self) -> bool:
        """Whether appends may have to wait for an fsync."""
        return self.flush_messages != _LONG_MAX or self.flush_ms != _LONG_MAX

    def batch_rules(self) -> BatchRules:
        """What a batch is held against before it is appended."""
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
