"""Kafka's error codes, and the tree of Semel's exceptions.

Internal: programs catch the classes of `semel.exceptions`.

Role.   The table of error codes in responses, and the exceptions of the layers below the client.

    SemelError                      base of all errors below
    ├── ConfigError                 an invalid setting: names the key, the value and the remedy
    ├── WireError                   bytes that are not a valid message of the protocol
    │   ├── FrameTooLargeError      a frame above socket.request.max.bytes
    │   └── TooManyRowsError        a message with more rows than its reader allows
    ├── DisconnectedError           the connection ended before the response
    │   ├── UnreachableError        no broker of a cluster ever answered
    │   └── RequestTimedOutError    the response did not come in time; the connection is closed
    ├── RefusedError                a broker returned an error code: names the request, the broker and the reason
    │   └── HandshakeError          the TLS handshake failed: an untrusted certificate, or TLS on one side only
    ├── UnsupportedVersionError     an unsupported API or version
    ├── CorruptBatchError           a record batch that does not match its header
    ├── UnsupportedCompressionError an undefined codec id
    ├── InvalidRecordError          a record that cannot be written
    │   └── RecordTooLargeError     a record larger than the largest batch
    ├── LogError                    a log that cannot continue
    │   ├── CorruptLogError         damaged bytes on disk that recovery cannot repair
    │   ├── CorruptSnapshotError    a damaged producer snapshot, to be deleted and rebuilt
    │   ├── LogDirLockedError       another broker owns the directory
    │   └── OffsetOutOfRangeError   an offset outside [log start, log end]
    └── InvariantError              a broken invariant: stop the shard, never catch

Rules.  * A message names the thing, the value and the limit or the two values that disagree.
        * Expected refusals inside core are values (`Refuse(code, reason)`), not exceptions.
        * `code` is the error code a broker would return for it.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final


class ErrorCode(IntEnum):
    """Every error code of Apache Kafka 4.3, under Kafka's names."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133

    @property
    def retriable(self) -> bool:
        """Whether the same request may succeed later without any other change."""
        return self in RETRIABLE


RETRIABLE: Final = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ErrorCode.ELECTION_NOT_NEEDED,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)


@dataclass(frozen=True, slots=True)
class Refuse:
    """An expected refusal, as a value: the code to answer and the message for the user."""

    code: ErrorCode
    reason: str
    record_errors: tuple[tuple[int, str], ...] = ()
    """For single bad records of a batch: the index and the reason of each."""


class SemelError(Exception):
    """Base of all exceptions Semel raises on purpose."""

    code: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR


class ConfigError(SemelError):
    """An invalid setting; the message names the key, the value and the remedy."""

    code = ErrorCode.INVALID_CONFIG


class WireError(SemelError):
    """Bytes that are not a valid message of the protocol; the message says where and why."""

    code = ErrorCode.INVALID_REQUEST


class FrameTooLargeError(WireError):
    """A frame longer than `socket.request.max.bytes`, refused before a byte of it is buffered."""


class TooManyRowsError(WireError):
    """A message with more elements of arrays and tagged fields than its reader allows, not read to its end."""


class DisconnectedError(SemelError):
    """The connection ended before the response: the request may or may not have been carried out."""

    code = ErrorCode.NETWORK_EXCEPTION


class UnreachableError(DisconnectedError):
    """No broker of a cluster was ever reached: probably a wrong address."""


class RequestTimedOutError(DisconnectedError):
    """The response did not come in time. The connection is closed, because later responses would queue behind it."""

    code = ErrorCode.REQUEST_TIMED_OUT


class RefusedError(SemelError):
    """A broker returned an error code; the message names the request, the broker and a remedy if there is one."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        self.code = code
        super().__init__(text)


class HandshakeError(RefusedError):
    """The TLS handshake with a broker failed: a retry would fail too."""

    def __init__(self, text: str) -> None:
        super().__init__(ErrorCode.UNKNOWN_SERVER_ERROR, text)


class UnsupportedVersionError(SemelError):
    """An unsupported API key or version."""

    code = ErrorCode.UNSUPPORTED_VERSION


class CorruptBatchError(SemelError):
    """A record batch whose bytes do not match its header."""

    code = ErrorCode.CORRUPT_MESSAGE

    def __init__(self, reason: str, *, base_offset: int | None = None) -> None:
        self.reason = reason
        self.base_offset = base_offset
        where = "record batch" if base_offset is None else f"record batch at offset {base_offset}"
        super().__init__(f"{where}: {reason}")


class UnsupportedCompressionError(SemelError):
    """An undefined compression id, or one the request's version may not carry."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class InvalidRecordError(SemelError):
    """A record that cannot be written: the message names the row or column and the flaw."""

    code = ErrorCode.INVALID_RECORD


class RecordTooLargeError(InvalidRecordError):
    """Records larger than the largest batch."""

    code = ErrorCode.MESSAGE_TOO_LARGE


class LogError(SemelError):
    """A log that cannot continue."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class CorruptLogError(LogError):
    """Damaged bytes on disk that recovery cannot repair."""


class CorruptSnapshotError(LogError):
    """A damaged producer snapshot: delete it and rebuild the state from the log."""


class LogDirLockedError(LogError):
    """Another broker owns the data directory."""


class OffsetOutOfRangeError(LogError):
    """An offset below the log start or above the log end."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class RecoveryHaltedError(SemelError):
    """The broker was told to stop during the recovery of a log, which is neither open nor damaged."""


class InvariantError(SemelError):
    """A broken invariant. It stops the shard and is never caught."""


_REASONS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "it does not exist there; 'semel topics list' shows what does",
    ErrorCode.OFFSET_OUT_OF_RANGE: "there is no such offset; 'semel topics describe' shows where partitions begin and end",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "a name has 1 to 249 letters, digits, '.', '_' and '-' of ASCII",
}
"""What a code means for its reader where the broker gives no reason, as Kafka's seldom do for these."""


def error_code(number: int) -> ErrorCode:
    """The code of a number; an undefined number becomes UNKNOWN_SERVER_ERROR."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def refused(number: int, what: str, *, by: str, reason: str | None = None) -> RefusedError:
    """The exception for a response with an error code."""
    code = error_code(number)
    why = (reason or _REASONS.get(code, "no reason given")).rstrip(".")
    if reason and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        why += "; 'semel topics list' shows what is there"
    return RefusedError(code, f"{by} refuses {what}: {why} ({code.name}, {number})")
