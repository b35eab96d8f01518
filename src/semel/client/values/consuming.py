"""The values between a consumer and its user: records, offsets with their epochs and metadata, a listener.

Role.   Plain values under Java's names; all of them are names of `semel`.
Rules.  Tuples, so that they are cheap to make by the thousand, compare by content and cannot be changed.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self, TypeAlias

from semel.client.chain import Chain
from semel.core.records.batch import TimestampType
from semel.types import TopicPartition

NO_GENERATION: Final = -1

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class ConsumerRecord(NamedTuple):
    """One record. A size of -1 is that of a null key or value."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970, UTC."""
    timestamp_type: TimestampType
    """Whether the producer or the broker set it."""
    key: Any
    value: Any
    headers: Headers
    leader_epoch: int | None
    serialized_key_size: int
    serialized_value_size: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class OffsetAndMetadata(NamedTuple):
    """A position to store, or stored, with a remark of the user's."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time."""

    offset: int
    timestamp: int
    leader_epoch: int | None = None


class ConsumerGroupMetadata(NamedTuple):
    """A consumer's identity in its group, by which a transaction that stores its positions is fenced."""

    group_id: str
    generation_id: int = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None


class OwnGroupMetadata(ConsumerGroupMetadata):
    """The same, of a consumer in this process: its steps beside the transaction can be noticed."""

    chain: Chain

    @classmethod
    def of(cls, chain: Chain, *values: Any) -> Self:
        found = cls(*values)
        found.chain = chain
        return found

    def __reduce__(self) -> tuple[type[ConsumerGroupMetadata], tuple[Any, ...]]:
        return ConsumerGroupMetadata, tuple(self)  # Elsewhere it is a name like any other.


class PartitionInfo(NamedTuple):
    """A partition as the cluster describes it; brokers by their ids, -1 for no leader."""

    topic: str
    partition: int
    leader: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class SubscriptionPattern(NamedTuple):
    """A regular expression in RE2's words, matched by the broker: for `group.protocol=consumer`."""

    pattern: str


class ConsumerRebalanceListener:
    """The calls to a consumer's user when partitions come and go; override the ones that matter. Methods may be coroutines
    where the consumer is asynchronous."""

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Any:
        """These were added; `seek` here to begin elsewhere than at what is committed."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Any:
        """These are about to go: commit what is done."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Any:
        """These are gone already, and somebody else may have them: nothing can be committed."""
        return self.on_partitions_revoked(partitions)


Told: TypeAlias = Callable[[Sequence[TopicPartition]], Any]
CommitCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], BaseException | None], Any]
