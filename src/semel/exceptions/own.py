"""What the client raises by itself: no broker answered.

Role.   Calls that are not allowed, settings and arguments that cannot be, records that cannot be read, waits that were ended,
        and what became of the records and offsets of a transaction or a group that is over.
"""

# ruff: noqa: N818 - the names are Java's.

from semel.errors import ConfigError, ErrorCode
from semel.exceptions.tree import ApiException, InvalidOffsetException, KafkaException, RetriableException
from semel.types import UNKNOWN_OFFSET, TopicPartition


class ConfigException(KafkaException, ConfigError):
    """A setting that cannot be; the text names the key and the way out."""

    code = ErrorCode.INVALID_CONFIG


class IllegalStateException(KafkaException):
    """A call that is not allowed in the state the client is in."""


class IllegalArgumentException(KafkaException):
    """An argument that cannot be."""


class ConcurrentModificationException(KafkaException):
    """A consumer used by two threads at a time."""


class WakeupException(KafkaException):
    """A blocking call ended by `wakeup`."""


class InterruptException(KafkaException):
    """A blocking call ended by an interrupt."""


class SerializationException(KafkaException):
    """A key or value its serializer or deserializer cannot take."""


class RecordDeserializationException(SerializationException):
    """A record that cannot be read: `seek` past it to go on."""

    topic_partition: TopicPartition | None = None
    offset: int = UNKNOWN_OFFSET


class TransactionAbortedException(ApiException):
    """A record that had not left when its transaction was aborted."""


class CommitFailedException(KafkaException):
    """Offsets that were not stored: the group has moved on, and so have its partitions."""

    abortable = True


class RetriableCommitFailedException(RetriableException):
    """Offsets that were not stored because of something that passes."""


class NoOffsetForPartitionException(InvalidOffsetException):
    """A partition without a stored position, and `auto.offset.reset=none`."""
