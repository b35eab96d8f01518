"""Errors about the cluster: leaders, coordinators, reachability and supported versions.

Role.   Most are transient: the client refreshes its metadata and retries. The user sees them after the timeout.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import (
    ApiException,
    InvalidConfigurationException,
    InvalidMetadataException,
    RefreshRetriableException,
    RetriableException,
)


class UnknownServerException(ApiException):
    """The broker failed without a specific code; its log has the cause."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnsupportedVersionException(InvalidConfigurationException):
    """The broker does not support the API version this call needs."""

    code = ErrorCode.UNSUPPORTED_VERSION
    fatal = True


class InvalidRequestException(ApiException):
    """The request contradicts itself or the protocol."""

    code = ErrorCode.INVALID_REQUEST


class TimeoutException(RetriableException):
    """The operation did not finish within its timeout."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NetworkException(InvalidMetadataException):
    """The connection ended before the response."""

    code = ErrorCode.NETWORK_EXCEPTION


class BrokerNotAvailableException(ApiException):
    """The broker is not available."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class UnknownTopicOrPartitionException(InvalidMetadataException):
    """The broker does not have this topic or partition."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicIdException(InvalidMetadataException):
    """The broker does not have this topic id."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class InconsistentTopicIdException(InvalidMetadataException):
    """The topic was recreated under the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InconsistentClusterIdException(ApiException):
    """The broker belongs to another cluster."""

    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class LeaderNotAvailableException(InvalidMetadataException):
    """The partition has no leader now."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollowerException(InvalidMetadataException):
    """The broker does not lead the partition any more."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ReplicaNotAvailableException(InvalidMetadataException):
    """The replica is not available."""

    code = ErrorCode.REPLICA_NOT_AVAILABLE


class FencedLeaderEpochException(InvalidMetadataException):
    """The partition has a newer leader."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochException(RetriableException):
    """The broker does not know this leader epoch yet."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class ListenerNotFoundException(InvalidMetadataException):
    """The leader has no listener of the name this client used."""

    code = ErrorCode.LISTENER_NOT_FOUND


class PreferredLeaderNotAvailableException(InvalidMetadataException):
    """The preferred leader is not available."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class EligibleLeadersNotAvailableException(InvalidMetadataException):
    """No replica may become leader now."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeededException(InvalidMetadataException):
    """The elected leader leads already."""

    code = ErrorCode.ELECTION_NOT_NEEDED


class NotControllerException(RetriableException):
    """Another broker is the controller."""

    code = ErrorCode.NOT_CONTROLLER


class CoordinatorLoadInProgressException(RetriableException):
    """The coordinator is still reading its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableException(RefreshRetriableException):
    """There is no coordinator now."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinatorException(RefreshRetriableException):
    """Another broker coordinates this group or transactional id."""

    code = ErrorCode.NOT_COORDINATOR


class KafkaStorageException(InvalidMetadataException):
    """A disk of the broker failed."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class ThrottlingQuotaExceededException(RetriableException):
    """The request exceeds a quota."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class RebootstrapRequiredException(ApiException):
    """The client must bootstrap again, because the cluster has changed too much."""

    code = ErrorCode.REBOOTSTRAP_REQUIRED
