"""Answers to orders about topics, replicas, directories and features.

Role.   What `Admin` raises, or puts into the answer of each thing that was ordered.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, InvalidConfigurationException


class InvalidTopicException(InvalidConfigurationException):
    """A name no topic may have."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    abortable = True


class TopicExistsException(ApiException):
    """A topic of this name is there already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class TopicDeletionDisabledException(ApiException):
    """The broker is set to delete no topics."""

    code = ErrorCode.TOPIC_DELETION_DISABLED


class InvalidPartitionsException(ApiException):
    """A number of partitions that cannot be."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorException(InvalidConfigurationException):
    """More copies than brokers, or none."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentException(ApiException):
    """Replicas that cannot be placed so."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class ReassignmentInProgressException(ApiException):
    """Replicas of it are being moved."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class NoReassignmentInProgressException(ApiException):
    """No replicas of it are being moved."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class LogDirNotFoundException(ApiException):
    """A directory the broker does not have."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class PolicyViolationException(ApiException):
    """A policy of the cluster forbids it."""

    code = ErrorCode.POLICY_VIOLATION


class OperationNotAttemptedException(ApiException):
    """Not tried, because another part of the request was refused."""

    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class ResourceNotFoundException(ApiException):
    """There is no such thing."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResourceException(ApiException):
    """Named twice in one request."""

    code = ErrorCode.DUPLICATE_RESOURCE


class InvalidUpdateVersionException(ApiException):
    """A version that cannot be updated to."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailedException(ApiException):
    """Features that could not be changed."""

    code = ErrorCode.FEATURE_UPDATE_FAILED
