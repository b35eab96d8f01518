"""Errors of administration: topics, replicas, log directories and features.

Role.   Raised by `Admin`, or part of its per-item results.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, InvalidConfigurationException


class InvalidTopicException(InvalidConfigurationException):
    """The topic name is invalid."""

    code = ErrorCode.INVALID_TOPIC_EXCEPTION
    abortable = True


class TopicExistsException(ApiException):
    """A topic of this name exists already."""

    code = ErrorCode.TOPIC_ALREADY_EXISTS


class TopicDeletionDisabledException(ApiException):
    """The broker does not allow deleting topics."""

    code = ErrorCode.TOPIC_DELETION_DISABLED


class InvalidPartitionsException(ApiException):
    """The partition count is invalid."""

    code = ErrorCode.INVALID_PARTITIONS


class InvalidReplicationFactorException(InvalidConfigurationException):
    """The replication factor is above the number of brokers, or below 1."""

    code = ErrorCode.INVALID_REPLICATION_FACTOR


class InvalidReplicaAssignmentException(ApiException):
    """The replica assignment is invalid."""

    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT


class ReassignmentInProgressException(ApiException):
    """A reassignment of the partition is in progress."""

    code = ErrorCode.REASSIGNMENT_IN_PROGRESS


class NoReassignmentInProgressException(ApiException):
    """No reassignment of the partition is in progress."""

    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


class LogDirNotFoundException(ApiException):
    """The broker does not have this log directory."""

    code = ErrorCode.LOG_DIR_NOT_FOUND


class PolicyViolationException(ApiException):
    """A policy of the cluster forbids the request."""

    code = ErrorCode.POLICY_VIOLATION


class OperationNotAttemptedException(ApiException):
    """Not tried, because another part of the request was refused."""

    code = ErrorCode.OPERATION_NOT_ATTEMPTED


class ResourceNotFoundException(ApiException):
    """The resource does not exist."""

    code = ErrorCode.RESOURCE_NOT_FOUND


class DuplicateResourceException(ApiException):
    """The resource is named twice in one request."""

    code = ErrorCode.DUPLICATE_RESOURCE


class InvalidUpdateVersionException(ApiException):
    """The feature level cannot be updated to."""

    code = ErrorCode.INVALID_UPDATE_VERSION


class FeatureUpdateFailedException(ApiException):
    """The features could not be updated."""

    code = ErrorCode.FEATURE_UPDATE_FAILED
