"""Errors the client raises itself, without a broker's answer.

Role.   Illegal calls, invalid settings and arguments, unreadable records, interrupted waits, and failed records or
        offset commits after a transaction or group membership has ended.
"""

# ruff: noqa: N818 - the names are Java's.

from semel.errors import ConfigError, ErrorCode
from semel.exceptions.tree import ApiException, InvalidOffsetException, KafkaException, RetriableException
from semel.types import UNKNOWN_OFFSET, TopicPartition


class ConfigException(KafkaException, ConfigError):
    """A setting is invalid; the message names the key and the remedy."""

    code = ErrorCode.INVALID_CONFIG


class IllegalStateException(KafkaException):
    """The call is not allowed in the client's state."""


class IllegalArgumentException(KafkaException):
    """An argument is invalid."""


class ConcurrentModificationException(KafkaException):
    """Two threads use a consumer at the same time."""


class WakeupException(KafkaException):
    """`wakeup` ended a blocking call."""


class InterruptException(KafkaException):
    """An interrupt ended a blocking call."""


class SerializationException(KafkaException):
    """The serializer or deserializer refuses a key or value."""


class RecordDeserializationException(SerializationException):
    """A record cannot be read: `seek` past it to continue."""

    topic_partition: TopicPartition | None = None
    offset: int = UNKNOWN_OFFSET


class TransactionAbortedException(ApiException):
    """The record was not sent before its transaction was aborted."""


class CommitFailedException(KafkaException):
    """The offsets were not stored, because the group has rebalanced and reassigned the partitions."""

    abortable = True


class RetriableCommitFailedException(RetriableException):
    """The offsets were not stored, because of a transient error."""


class NoOffsetForPartitionException(InvalidOffsetException):
    """The partition has no committed offset, and `auto.offset.reset=none`."""
