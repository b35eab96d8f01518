"""What the public client raises: Kafka's exceptions, under the names the Java client gives them.

Role.   `except ProducerFencedException` in Python means what it means in Java. Every one carries `.code` (Kafka's error
        code), `.retriable` (the same call may work in a moment), `.abortable` (abort the transaction and go on) and `.fatal`
        (close this client; a new one may go on).
Flow.   Inside, errors are those of `semel.errors`; `as_exception` turns them into these where they leave the client, and
        `exception_for` makes one from an error code. All are names of `semel` too.
Rules.  * Everything derives from `KafkaException`, and that from `SemelError`.
        * What an error means for a producer can depend on where it happened; whoever raises says so with keywords.
        * Codes of what this client never asks (controllers, share groups, streams) have no class of their own: they are an `ApiException` with the code.
"""

# ruff: noqa: N818 - the names are Java's.

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from semel.errors import (
    ConfigError,
    CorruptBatchError,
    DisconnectedError,
    ErrorCode,
    InvalidRecordError,
    RecordTooLargeError,
    RefusedError,
    RequestTimedOutError,
    SemelError,
    UnreachableError,
    UnsupportedCompressionError,
    UnsupportedVersionError,
    WireError,
)
from semel.types import UNKNOWN_OFFSET, TopicPartition


class KafkaException(SemelError):
    """Everything the client raises on purpose."""

    retriable: bool = False
    """The same call may succeed in a moment, without anything else being changed."""
    abortable: bool = False
    """A transaction this happened in must be aborted; then the producer goes on."""
    fatal: bool = False
    """This client cannot go on: close it. A new one may."""
    errors: "Mapping[Any, KafkaException]" = MappingProxyType({})
    """Where one call named many things: everything that was refused, this among it, by what it was about."""

    def __init__(
        self,
        message: str = "",
        *,
        code: ErrorCode | None = None,
        retriable: bool | None = None,
        abortable: bool | None = None,
        fatal: bool | None = None,
    ) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code
        if retriable is not None:
            self.retriable = retriable
        if abortable is not None:
            self.abortable = abortable
        if fatal is not None:
            self.fatal = fatal


# Trees


class ApiException(KafkaException):
    """A broker's answer with an error code, or what stands for one."""


class RetriableException(ApiException):
    """The same request may succeed in a moment."""

    retriable = True


class RefreshRetriableException(RetriableException):
    """It may succeed once it is known again who leads or coordinates."""


class InvalidMetadataException(RefreshRetriableException):
    """What this client knew about the cluster is out of date."""


class ApplicationRecoverableException(ApiException):
    """This client is done for; a new one in its place may go on."""

    fatal = True


class InvalidConfigurationException(ApiException):
    """A setting, or what the request rests on, cannot be."""

    code = ErrorCode.INVALID_CONFIG


class AuthenticationException(InvalidConfigurationException):
    """The broker does not believe who this client is."""

    fatal = True


class AuthorizationException(InvalidConfigurationException):
    """Who this client is may not do that."""


class InvalidOffsetException(ApiException):
    """A position that is not in the log."""


# The client's own: no broker answered


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


# Answers, by error code


class UnknownServerException(ApiException):
    """The broker failed in a way it has no code for; its own log says how."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class OffsetOutOfRangeException(InvalidOffsetException):
    """An offset before the first or after the last one."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncationException(OffsetOutOfRangeException):
    """A log that lost records this consumer has read."""


class CorruptRecordException(RetriableException):
    """A batch that does not match its checksum."""

    code = ErrorCode.CORRUPT_MESSAGE


class UnknownTopicOrPartitionException(InvalidMetadataException):
    """A topic or partition the broker does not have."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class InvalidFetchSizeException(ApiException):
    """A fetch of a size that cannot be."""

    code = ErrorCode.INVALID_FETCH_SIZE


class LeaderNotAvailableException(InvalidMetadataException):
    """A partition without a leader at the moment."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollowerException(InvalidMetadataException):
    """The broker does not lead the partition any more."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class TimeoutException(RetriableException):
    """Something did not happen in the time it was given."""

    code = ErrorCode.REQUEST_TIMED_OUT


class BufferExhaustedException(TimeoutException):
    """`buffer.memory` stayed full for `max.block.ms`."""


class BrokerNotAvailableException(ApiException):
    """The broker is not there."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class ReplicaNotAvailableException(InvalidMetadataException):
    """A replica that is not there."""

    code = ErrorCode.REPLICA_NOT_AVAILABLE


class RecordTooLargeException(ApiException):
    """A record or batch above `max.request.size`, `buffer.memory` or the topic's `max.message.bytes`."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    abortable = True


class OffsetMetadataTooLarge(ApiException):
    """The text stored with an offset is above the broker's limit."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class NetworkException(InvalidMetadataException):
    """A connection that ended before the answer came."""

    code = ErrorCode.NETWORK_EXCEPTION


class CoordinatorLoadInProgressException(RetriableException):
    """The coordinator is still reading its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableException(RefreshRetriableException):
    """There is no coordinator at the moment."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinatorException(RefreshRetriableException):
    """Another broker coordinates this group or transactional id."""

    code = ErrorCode.NOT_COORDINATOR


class InvalidTopicException(InvalidConfigurationException):
    """A name no topic may have."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    abortable = True


class RecordBatchTooLargeException(InvalidConfigurationException):
    """A batch longer than a segment of the log."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE
    abortable = True


class NotEnoughReplicasException(RetriableException):
    """Fewer replicas are in sync than `min.insync.replicas`; nothing was written."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS


class NotEnoughReplicasAfterAppendException(RetriableException):
    """Written, with fewer replicas in sync than demanded."""

    code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


class InvalidRequiredAcksException(InvalidConfigurationException):
    """A number of acknowledgements that cannot be."""

    code = ErrorCode.INVALID_REQUIRED_ACKS


class IllegalGenerationException(ApplicationRecoverableException):
    """The group is in another generation."""

    code = ErrorCode.ILLEGAL_GENERATION
    abortable = True
    fatal = False


class InconsistentGroupProtocolException(ApiException):
    """The group's other members share no assignor with this one."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class InvalidGroupIdException(ApiException):
    """A group id that cannot be."""

    code = ErrorCode.INVALID_GROUP_ID


class UnknownMemberIdException(ApplicationRecoverableException):
    """The group does not know this member, or not any more."""

    code = ErrorCode.UNKNOWN_MEMBER_ID
    abortable = True
    fatal = False


class InvalidSessionTimeoutException(ApiException):
    """A session timeout outside of the broker's limits."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


class RebalanceInProgressException(ApiException):
    """The group is being reassigned: poll, then try again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class InvalidCommitOffsetSizeException(ApiException):
    """Offsets too large to be stored."""

    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class TopicAuthorizationException(AuthorizationException):
    """No right to this topic."""

    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    abortable = True


class GroupAuthorizationException(AuthorizationException):
    """No right to this group."""

    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    abortable = True


class ClusterAuthorizationException(AuthorizationException):
    """No right to do this to the cluster."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    fatal = True


class InvalidTimestampException(ApiException):
    """A timestamp the topic does not take."""

    code = ErrorCode.INVALID_TIMESTAMP
    abortable = True


class UnsupportedSaslMechanismException(AuthenticationException):
    """A SASL mechanism the broker does not have."""

    code = ErrorCode.UNSUPPORTED_SASL_MECHANISM


class IllegalSaslStateException(AuthenticationException):
    """A request in the wrong phase of a SASL handshake."""

    code = ErrorCode.ILLEGAL_SASL_STATE


class UnsupportedVersionException(InvalidConfigurationException):
    """The broker does not speak what this call needs."""

    code = ErrorCode.UNSUPPORTED_VERSION
    fatal = True


class TopicExistsException(ApiException):
    """A topic of this name is there already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class InvalidPartitionsException(ApiException):
    """A number of partitions that cannot be."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorException(InvalidConfigurationException):
    """More copies than brokers, or none."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentException(ApiException):
    """Replicas that cannot be placed so."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class NotControllerException(RetriableException):
    """Another broker is the controller."""

    code = ErrorCode.NOT_CONTROLLER


class InvalidRequestException(ApiException):
    """A request that contradicts itself or the protocol."""

    code = ErrorCode.INVALID_REQUEST


class UnsupportedForMessageFormatException(InvalidConfigurationException):
    """The topic's records are of a format without this."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    fatal = True


class PolicyViolationException(ApiException):
    """A policy of the cluster forbids it."""

    code = ErrorCode.POLICY_VIOLATION


class OutOfOrderSequenceException(ApiException):
    """A batch whose sequence does not follow the last one: something before it is missing."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    abortable = True


class DuplicateSequenceException(ApiException):
    """A batch that is in the log already."""

    code = ErrorCode.DUPLICATE_SEQUENCE_NUMBER


class InvalidProducerEpochException(ApplicationRecoverableException):
    """A batch of an older epoch of its producer."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH
    abortable = True
    fatal = False


class InvalidTxnStateException(ApiException):
    """A step the transaction's state does not allow."""

    code = ErrorCode.INVALID_TXN_STATE
    fatal = True


class InvalidPidMappingException(ApplicationRecoverableException):
    """The transactional id belongs to another producer id, or to none any more."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTxnTimeoutException(ApiException):
    """`transaction.timeout.ms` above the broker's `transaction.max.timeout.ms`."""

    code = ErrorCode.INVALID_TRANSACTION_TIMEOUT
    fatal = True


class ConcurrentTransactionsException(RetriableException):
    """The last transaction is still being ended."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class TransactionCoordinatorFencedException(ApiException):
    """A coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class TransactionalIdAuthorizationException(AuthorizationException):
    """No right to this transactional id."""

    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    fatal = True


class SecurityDisabledException(ApiException):
    """The broker has no authorizer."""

    code = ErrorCode.SECURITY_DISABLED


class OperationNotAttemptedException(ApiException):
    """Not tried, because another part of the request was refused."""

    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class KafkaStorageException(InvalidMetadataException):
    """A disk of the broker failed."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class LogDirNotFoundException(ApiException):
    """A directory the broker does not have."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class SaslAuthenticationException(AuthenticationException):
    """Wrong credentials."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class UnknownProducerIdException(OutOfOrderSequenceException):
    """The broker has forgotten this producer."""

    code = ErrorCode.UNKNOWN_PRODUCER_ID


class ReassignmentInProgressException(ApiException):
    """Replicas of it are being moved."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class DelegationTokenDisabledException(ApiException):
    """The cluster has no delegation tokens."""

    code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED


class DelegationTokenNotFoundException(ApiException):
    """No such delegation token."""

    code = ErrorCode.DELEGATION_TOKEN_NOT_FOUND


class DelegationTokenOwnerMismatchException(ApiException):
    """A delegation token of somebody else."""

    code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


class UnsupportedByAuthenticationException(ApiException):
    """Not allowed over a connection like this one."""

    code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


class DelegationTokenAuthorizationException(AuthorizationException):
    """No right to this delegation token."""

    code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED


class DelegationTokenExpiredException(ApiException):
    """A delegation token that is too old."""

    code = ErrorCode.DELEGATION_TOKEN_EXPIRED


class InvalidPrincipalTypeException(ApiException):
    """A kind of principal that is not supported."""

    code = ErrorCode.INVALID_PRINCIPAL_TYPE


class GroupNotEmptyException(ApiException):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFoundException(ApiException):
    """There is no such group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class FetchSessionIdNotFoundException(RetriableException):
    """The broker has forgotten the fetch session."""

    code = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


class InvalidFetchSessionEpochException(RetriableException):
    """A fetch out of its session's order."""

    code = ErrorCode.INVALID_FETCH_SESSION_EPOCH


class ListenerNotFoundException(InvalidMetadataException):
    """The leader has no listener of the name this client uses."""

    code = ErrorCode.LISTENER_NOT_FOUND


class TopicDeletionDisabledException(ApiException):
    """The broker is set to delete no topics."""

    code = ErrorCode.TOPIC_DELETION_DISABLED


class FencedLeaderEpochException(InvalidMetadataException):
    """The partition has a newer leader."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochException(RetriableException):
    """The broker has not heard of that leader yet."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class UnsupportedCompressionTypeException(ApiException):
    """A codec this side or the other does not have."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


class OffsetNotAvailableException(RetriableException):
    """A new leader does not know its end yet."""

    code = ErrorCode.OFFSET_NOT_AVAILABLE


class MemberIdRequiredException(ApiException):
    """Join again with the id the answer gave."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class PreferredLeaderNotAvailableException(InvalidMetadataException):
    """The preferred leader is not there."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class GroupMaxSizeReachedException(ApiException):
    """The group has as many members as it may have."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class FencedInstanceIdException(ApplicationRecoverableException):
    """Another consumer took over this `group.instance.id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class EligibleLeadersNotAvailableException(InvalidMetadataException):
    """No replica may become leader at the moment."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeededException(InvalidMetadataException):
    """The right leader leads already."""

    code = ErrorCode.ELECTION_NOT_NEEDED


class NoReassignmentInProgressException(ApiException):
    """No replicas of it are being moved."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class GroupSubscribedToTopicException(ApiException):
    """The group reads the topic at the moment."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class InvalidRecordException(InvalidConfigurationException):
    """A record the topic does not take, as one without a key in a compacted topic."""

    code = ErrorCode.INVALID_RECORD
    abortable = True


class UnstableOffsetCommitException(RetriableException):
    """Offsets of a transaction that is not ended yet."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT


class ThrottlingQuotaExceededException(RetriableException):
    """More changes than the quota allows."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class ProducerFencedException(ApplicationRecoverableException):
    """A newer producer with the same `transactional.id` took over: close this one."""

    code = ErrorCode.PRODUCER_FENCED


class ResourceNotFoundException(ApiException):
    """There is no such thing."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResourceException(ApiException):
    """Named twice in one request."""

    code = ErrorCode.DUPLICATE_RESOURCE


class UnacceptableCredentialException(ApiException):
    """A credential the cluster does not take."""

    code = ErrorCode.UNACCEPTABLE_CREDENTIAL


class InvalidUpdateVersionException(ApiException):
    """A version that cannot be updated to."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailedException(ApiException):
    """Features that could not be changed."""

    code = ErrorCode.FEATURE_UPDATE_FAILED


class UnknownTopicIdException(InvalidMetadataException):
    """A topic id the broker does not have."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class InconsistentTopicIdException(InvalidMetadataException):
    """A topic made anew under the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InconsistentClusterIdException(ApiException):
    """A broker of another cluster."""

    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class TransactionalIdNotFoundException(ApiException):
    """No producer with this transactional id, or not any more."""

    code = ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


class FetchSessionTopicIdException(RetriableException):
    """A fetch session that mixes topic names and ids."""

    code = ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


class OffsetMovedToTieredStorageException(ApiException):
    """The offset is in tiered storage by now."""

    code = ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE


class FencedMemberEpochException(ApiException):
    """The coordinator has given this member up: join again."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class UnreleasedInstanceIdException(ApiException):
    """Another member still uses this `group.instance.id`."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID


class UnsupportedAssignorException(ApiException):
    """An assignor the broker does not have."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class StaleMemberEpochException(ApiException):
    """The group is in a newer epoch than this member."""

    code = ErrorCode.STALE_MEMBER_EPOCH
    abortable = True


class TransactionAbortableException(ApiException):
    """The transaction cannot be committed: abort it and go on."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    abortable = True


class InvalidRegularExpression(ApiException):
    """A pattern the broker cannot read."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class RebootstrapRequiredException(ApiException):
    """The cluster has changed so much that it must be found anew."""

    code = ErrorCode.REBOOTSTRAP_REQUIRED


EXCEPTIONS: Final[dict[str, type[KafkaException]]] = {
    name: one
    for name, one in list(globals().items())
    if isinstance(one, type) and issubclass(one, KafkaException)
}
"""Every exception of this module, by name."""
_CLIENT_MADE: Final = (ConfigException,)  # It shares its code with the class of an answer.
_BY_CODE: Final = {
    one.code: one for one in EXCEPTIONS.values() if "code" in vars(one) and one not in _CLIENT_MADE
}


def exception_for(code: ErrorCode | int, message: str = "") -> KafkaException:
    """The exception of an error code, with this text."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return UnknownServerException(f"{message or 'an answer'} (unknown error code {int(code)})")
    kind = _BY_CODE.get(known)
    text = message or f"{known.name} ({known.value})"
    return ApiException(text, code=known, retriable=known.retriable) if kind is None else kind(text)


_INNER: Final[tuple[tuple[type[SemelError], type[KafkaException]], ...]] = (
    (ConfigError, ConfigException),
    (RequestTimedOutError, TimeoutException),
    (UnreachableError, NetworkException),
    (DisconnectedError, NetworkException),
    (UnsupportedVersionError, UnsupportedVersionException),
    (CorruptBatchError, CorruptRecordException),
    (UnsupportedCompressionError, UnsupportedCompressionTypeException),
    (RecordTooLargeError, RecordTooLargeException),
    (InvalidRecordError, InvalidRecordException),
    (WireError, InvalidRequestException),
)
"""Errors from inside, and what a user of the client sees; the first that fits."""


def as_exception(error: SemelError) -> KafkaException:
    """The public exception for an error from inside; raise it `from error`."""
    if isinstance(error, KafkaException):
        return error
    if isinstance(error, RefusedError):
        return exception_for(error.code, str(error))
    for inner, public in _INNER:
        if isinstance(error, inner):
            return public(str(error))
    return KafkaException(str(error), code=error.code)
