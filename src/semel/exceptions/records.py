"""Errors about records: batches a log refuses, and offsets it does not have.

Role.   Errors of `send` that do not come from the producer's state, and errors of fetches.
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
    """The batch does not match its checksum."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecordException(InvalidConfigurationException):
    """The topic refuses the record, for example without a key in a compacted topic."""

    code = ErrorCode.INVALID_RECORD
    abortable = True


class InvalidTimestampException(ApiException):
    """The topic refuses the timestamp."""

    code = ErrorCode.INVALID_TIMESTAMP
    abortable = True


class RecordTooLargeException(ApiException):
    """The record or batch is above `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    abortable = True


class RecordBatchTooLargeException(InvalidConfigurationException):
    """The batch is larger than a segment of the log."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE
    abortable = True


class UnsupportedCompressionTypeException(ApiException):
    """The client or the broker does not have the codec."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class UnsupportedForMessageFormatException(InvalidConfigurationException):
    """The topic's message format does not support the request."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    fatal = True


class InvalidRequiredAcksException(InvalidConfigurationException):
    """The value of `acks` is invalid."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class NotEnoughReplicasException(RetriableException):
    """Fewer replicas are in sync than `min.insync.replicas`; the batch was not written."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendException(RetriableException):
    """The batch was written, with fewer replicas in sync than `min.insync.replicas`."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class BufferExhaustedException(TimeoutException):
    """`buffer.memory` stayed full for `max.block.ms`."""


class OffsetOutOfRangeException(InvalidOffsetException):
    """The offset is before the first or after the last one."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncationException(OffsetOutOfRangeException):
    """The log has lost records this consumer has read."""

    divergent_offsets: Mapping[TopicPartition, Any] = MappingProxyType({})
    """The end of the part of the log that still matches the consumed records, as an `OffsetAndMetadata`; absent for a
    partition without such a part."""


class OffsetNotAvailableException(RetriableException):
    """A new leader does not know its end yet."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class OffsetMovedToTieredStorageException(ApiException):
    """The offset has moved to tiered storage."""

    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class InvalidFetchSizeException(ApiException):
    """The fetch size is invalid."""

    code = ErrorCode.INVALID_FETCH_SIZE


class FetchSessionIdNotFoundException(RetriableException):
    """The broker has forgotten the fetch session."""

    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpochException(RetriableException):
    """The fetch has the wrong session epoch."""

    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class FetchSessionTopicIdException(RetriableException):
    """The fetch session mixes topic names and ids."""

    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
