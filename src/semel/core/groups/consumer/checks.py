"""Validation of a heartbeat by itself, before any group is consulted.

Role.   `request_flaw` checks a ConsumerGroupHeartbeat; the messages are Kafka's, because clients show them to users.
Rules.  * From version 1 on the client chooses its member id; in version 0 it may omit it when it joins.
        * A request with epoch 0 must carry every field: a member joins and rejoins with it.
"""

from collections.abc import Collection
from typing import Final, NamedTuple

from semel.core.groups.consumer.states import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH
from semel.core.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.errors import ErrorCode

_OWN_MEMBER_ID_SINCE: Final = 1
NOT_SENT: Final = -1


class Refusal(NamedTuple):
    """The reason for refusing a request."""

    code: ErrorCode
    message: str | None = None


def request_flaw(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]
) -> Refusal | None:
    """Why this request is invalid, or None."""
    said = _first_flaw(request, version)
    if said is not None:
        return Refusal(ErrorCode.INVALID_REQUEST, said)
    if request.server_assignor is not None and request.server_assignor not in assignors:
        known = ", ".join(assignors)
        return Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {known}.",
        )
    return None


def _first_flaw(request: ConsumerGroupHeartbeatRequest, version: int) -> str | None:
    epoch = request.member_epoch
    needs_member_id = version >= _OWN_MEMBER_ID_SINCE or epoch > JOIN_EPOCH or epoch == LEAVE_EPOCH
    if needs_member_id and _is_blank(request.member_id):
        return "MemberId can't be empty."
    if _is_blank(request.group_id):
        return "GroupId can't be empty."
    if _is_blank(request.instance_id):
        return "InstanceId can't be empty."
    if _is_blank(request.rack_id):
        return "RackId can't be empty."
    if epoch == JOIN_EPOCH:
        return _joining_flaw(request)
    if epoch == STATIC_LEAVE_EPOCH:
        return "InstanceId can't be null." if request.instance_id is None else None
    return "MemberEpoch is invalid." if epoch < STATIC_LEAVE_EPOCH else None


def _joining_flaw(request: ConsumerGroupHeartbeatRequest) -> str | None:
    if request.rebalance_timeout_ms == NOT_SENT:
        return "RebalanceTimeoutMs must be provided in first request."
    if request.topic_partitions is None or request.topic_partitions:
        return "TopicPartitions must be empty when (re-)joining."
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    return None


def _is_blank(text: str | None) -> bool:
    """As Java's trim, which strips every character up to the space."""
    return text is not None and all(character <= " " for character in text)
