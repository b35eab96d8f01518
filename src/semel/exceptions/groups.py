"""Answers about groups, their members and the offsets they store.

Role.   Most are the member's business, which joins again; the user meets them on commits and in administration.
"""

from semel.errors import ErrorCode
from semel.exceptions.tree import ApiException, ApplicationRecoverableException, RetriableException


class IllegalGenerationException(ApplicationRecoverableException):
    """The group is in another generation."""

    code = ErrorCode.ILLEGAL_GENERATION
    abortable = True
    fatal = False


class UnknownMemberIdException(ApplicationRecoverableException):
    """The group does not know this member, or not any more."""

    code = ErrorCode.UNKNOWN_MEMBER_ID
    abortable = True
    fatal = False


class RebalanceInProgressException(ApiException):
    """The group is being reassigned: poll, then try again."""

    code = ErrorCode.REBALANCE_IN_PROGRESS


class MemberIdRequiredException(ApiException):
    """Join again with the id the answer gave."""

    code = ErrorCode.MEMBER_ID_REQUIRED


class FencedInstanceIdException(ApplicationRecoverableException):
    """Another consumer took over this `group.instance.id`."""

    code = ErrorCode.FENCED_INSTANCE_ID


class FencedMemberEpochException(ApiException):
    """The coordinator has given this member up: join again."""

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
    """An assignor the broker does not have."""

    code = ErrorCode.UNSUPPORTED_ASSIGNOR


class InvalidRegularExpression(ApiException):
    """A pattern the broker cannot read."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


class InvalidGroupIdException(ApiException):
    """A group id that cannot be."""

    code = ErrorCode.INVALID_GROUP_ID


class InvalidSessionTimeoutException(ApiException):
    """A session timeout outside of the broker's limits."""

    code = ErrorCode.INVALID_SESSION_TIMEOUT


class GroupMaxSizeReachedException(ApiException):
    """The group has as many members as it may have."""

    code = ErrorCode.GROUP_MAX_SIZE_REACHED


class GroupNotEmptyException(ApiException):
    """The group still has members."""

    code = ErrorCode.NON_EMPTY_GROUP


class GroupIdNotFoundException(ApiException):
    """There is no such group."""

    code = ErrorCode.GROUP_ID_NOT_FOUND


class GroupSubscribedToTopicException(ApiException):
    """The group reads the topic at the moment."""

    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC


class OffsetMetadataTooLarge(ApiException):
    """The text stored with an offset is above the broker's limit."""

    code = ErrorCode.OFFSET_METADATA_TOO_LARGE


class InvalidCommitOffsetSizeException(ApiException):
    """Offsets too large to be stored."""

    code = ErrorCode.INVALID_COMMIT_OFFSET_SIZE


class UnstableOffsetCommitException(RetriableException):
    """Offsets of a transaction that is not ended yet."""

    code = ErrorCode.UNSTABLE_OFFSET_COMMIT
