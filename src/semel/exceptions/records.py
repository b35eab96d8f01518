"""Answers about records: batches a log does not take, places it does not have.

Role.   What `send` can fail of besides its producer's state, and what a fetch can.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from semel.errors import ErrorCode
from semel.exceptions.cluster import TimeoutException
from semel.exceptions.tree import (
    ApiException,
    InvalidConfigurationException,
    InvalidOffsetException,
    RetriableException,
)
from semel.types import TopicPartition


class CorruptRecordException(RetriableException):
    """A batch that does not match its checksum."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecordException(InvalidConfigurationException):
    """A record the topic does not take, as one without a key in a compacted topic."""

    code = ErrorCode.INVALID_RECORD
    abortable = True


class InvalidTimestampException(ApiException):
    """A timestamp the topic does not take."""

    code = ErrorCode.INVALID_TIMESTAMP
    abortable = True


class RecordTooLargeException(ApiException):
    """A record or batch above `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    abortable = True


class RecordBatchTooLargeException(InvalidConfigurationException):
    """A batch longer than a segment of the log."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE
    abortable = True


class UnsupportedCompressionTypeException(ApiException):
    """A codec this side or the other does not have."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class UnsupportedForMessageFormatException(InvalidConfigurationException):
    """The topic's records are of a format without this."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    fatal = True


class InvalidRequiredAcksException(InvalidConfigurationException):
    """A number of acknowledgements that cannot be."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class NotEnoughReplicasException(RetriableException):
    """Fewer replicas are in sync than `min.insync.replicas`; nothing was written."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendException(RetriableException):
    """Written, with fewer replicas in sync than demanded."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class BufferExhaustedException(TimeoutException):
    """`buffer.memory` stayed full for `max.block.ms`."""


class OffsetOutOfRangeException(InvalidOffsetException):
    """An offset before the first or after the last one."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncationException(OffsetOutOfRangeException):
    """A log that lost records this consumer has read."""

    divergent_offsets: Mapping[TopicPartition, Any] = MappingProxyType({})
    """Up to where the log is the one that was read, as an `OffsetAndMetadata`; missing where nothing of it is."""


class OffsetNotAvailableException(RetriableException):
    """A new leader does not know its end yet."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class OffsetMovedToTieredStorageException(ApiException):
    """The offset is in tiered storage by now."""

    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class InvalidFetchSizeException(ApiException):
    """A fetch of a size that cannot be."""

    code = ErrorCode.INVALID_FETCH_SIZE


class FetchSessionIdNotFoundException(RetriableException):
    """The broker has forgotten the fetch session."""

    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpochException(RetriableException):
    """A fetch out of its session's order."""

    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class FetchSessionTopicIdException(RetriableException):
    """A fetch session that mixes topic names and ids."""

    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
