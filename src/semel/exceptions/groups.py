"""Errors about groups, their members and committed offsets.

Role.   The consumer handles most of them by rejoining; the user sees them on commits and in administration.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, ApplicationRecoverableException, RetriableException


class IllegalGenerationException(ApplicationRecoverableException):
    """The group is in another generation."""

    code = ErrorCode.ILLEGAL_GENERATION
    abortable = True
    fatal = False


class UnknownMemberIdException(ApplicationRecoverableException):
    """The group does not know this member, or no longer."""

    code = ErrorCode.UNKNOWN_MEMBER_ID
    abortable = True
    fatal = False


class RebalanceInProgressException(ApiException):
    """The group is being reassigned: poll, then try again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class MemberIdRequiredException(ApiException):
    """Rejoin with the member id of the response."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class FencedInstanceIdException(ApplicationRecoverableException):
    """Another consumer took over this `group.instance.id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class FencedMemberEpochException(ApiException):
    """The coordinator has fenced this member: rejoin."""

    code = ErrorCode.FENCED_MEMBER_EPOCH


class StaleMemberEpochException(ApiException):
    """The group is in a newer epoch than this member."""

    code = ErrorCode.STALE_MEMBER_EPOCH
    abortable = True


class UnreleasedInstanceIdException(ApiException):
    """Another member still uses this `group.instance.id`."""

    code = ErrorCode.UNRELEASED_INSTANCE_ID


class InconsistentGroupProtocolException(ApiException):
    """The group's other members share no assignor with this one."""

    code = ErrorCode.INCONSISTENT_GROUP_PROTOCOL


class UnsupportedAssignorException(ApiException):
    """The broker does not have this assignor."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpression(ApiException):
    """The regular expression is invalid."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class InvalidGroupIdException(ApiException):
    """The group id is invalid."""

    code = ErrorCode.INVALID_GROUP_ID


class InvalidSessionTimeoutException(ApiException):
    """The session timeout is outside of the broker's limits."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


class GroupMaxSizeReachedException(ApiException):
    """The group has its maximum number of members."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class GroupNotEmptyException(ApiException):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFoundException(ApiException):
    """The group does not exist."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupSubscribedToTopicException(ApiException):
    """The group is subscribed to the topic."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class OffsetMetadataTooLarge(ApiException):
    """The metadata of an offset is above the broker's limit."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class InvalidCommitOffsetSizeException(ApiException):
    """The offset commit is too large to be stored."""

    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class UnstableOffsetCommitException(RetriableException):
    """An open transaction has offsets of this partition."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
