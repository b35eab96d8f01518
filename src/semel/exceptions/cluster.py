"""Answers about the cluster: who leads and coordinates, whether anybody answers, what it understands.

Role.   Most pass: the client asks again who leads, and repeats by itself. The user sees them when there is no time left.
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
    """The broker failed in a way it has no code for; its own log says how."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class UnsupportedVersionException(InvalidConfigurationException):
    """The broker does not speak what this call needs."""

    code = ErrorCode.UNSUPPORTED_VERSION
    fatal = True


class InvalidRequestException(ApiException):
    """A request that contradicts itself or the protocol."""

    code = ErrorCode.INVALID_REQUEST


class TimeoutException(RetriableException):
    """Something did not happen in the time it was given."""

    code = ErrorCode.REQUEST_TIMED_OUT


class NetworkException(InvalidMetadataException):
    """A connection that ended before the answer came."""

    code = ErrorCode.NETWORK_EXCEPTION


class BrokerNotAvailableException(ApiException):
    """The broker is not there."""

    code = ErrorCode.BROKER_NOT_AVAILABLE


class UnknownTopicOrPartitionException(InvalidMetadataException):
    """A topic or partition the broker does not have."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


class UnknownTopicIdException(InvalidMetadataException):
    """A topic id the broker does not have."""

    code = ErrorCode.UNKNOWN_TOPIC_ID


class InconsistentTopicIdException(InvalidMetadataException):
    """A topic made anew under the same name."""

    code = ErrorCode.INCONSISTENT_TOPIC_ID


class InconsistentClusterIdException(ApiException):
    """A broker of another cluster."""

    code = ErrorCode.INCONSISTENT_CLUSTER_ID


class LeaderNotAvailableException(InvalidMetadataException):
    """A partition without a leader at the moment."""

    code = ErrorCode.LEADER_NOT_AVAILABLE


class NotLeaderOrFollowerException(InvalidMetadataException):
    """The broker does not lead the partition any more."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ReplicaNotAvailableException(InvalidMetadataException):
    """A replica that is not there."""

    code = ErrorCode.REPLICA_NOT_AVAILABLE


class FencedLeaderEpochException(InvalidMetadataException):
    """The partition has a newer leader."""

    code = ErrorCode.FENCED_LEADER_EPOCH


class UnknownLeaderEpochException(RetriableException):
    """The broker has not heard of that leader yet."""

    code = ErrorCode.UNKNOWN_LEADER_EPOCH


class ListenerNotFoundException(InvalidMetadataException):
    """The leader has no listener of the name this client uses."""

    code = ErrorCode.LISTENER_NOT_FOUND


class PreferredLeaderNotAvailableException(InvalidMetadataException):
    """The preferred leader is not there."""

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


class EligibleLeadersNotAvailableException(InvalidMetadataException):
    """No replica may become leader at the moment."""

    code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


class ElectionNotNeededException(InvalidMetadataException):
    """The right leader leads already."""

    code = ErrorCode.ELECTION_NOT_NEEDED


class NotControllerException(RetriableException):
    """Another broker is the controller."""

    code = ErrorCode.NOT_CONTROLLER


class CoordinatorLoadInProgressException(RetriableException):
    """The coordinator is still reading its log."""

    code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


class CoordinatorNotAvailableException(RefreshRetriableException):
    """There is no coordinator at the moment."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


class NotCoordinatorException(RefreshRetriableException):
    """Another broker coordinates this group or transactional id."""

    code = ErrorCode.NOT_COORDINATOR


class KafkaStorageException(InvalidMetadataException):
    """A disk of the broker failed."""

    code = ErrorCode.KAFKA_STORAGE_ERROR


class ThrottlingQuotaExceededException(RetriableException):
    """More changes than the quota allows."""

    code = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class RebootstrapRequiredException(ApiException):
    """The cluster has changed so much that it must be found anew."""

    code = ErrorCode.REBOOTSTRAP_REQUIRED
