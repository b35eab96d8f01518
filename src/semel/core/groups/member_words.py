"""What a member of a classic group is made of, and what it tells the shell around it to do.

Role.   The words of `member`: its settings, its identity in requests, its phases with their legal moves, and its
        instructions.
Flow.   The shell calls the member, carries out what comes back in that order, and reports what became of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.errors import ErrorCode
from semel.types import TopicPartition

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""

GroupRequest: TypeAlias = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
GroupResponse: TypeAlias = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """What a member runs with: Kafka's keys, underscores for dots."""

    group_id: str
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    """By preference. Members keep their partitions during a rebalance only if every one of these is cooperative."""
    group_instance_id: str | None = None
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100


class Identity(NamedTuple):
    """Who a member is, in the words of OffsetCommit and TxnOffsetCommit."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Phase(StrEnum):
    """Where a member stands."""

    OUT = "out"
    UNJOINED = "unjoined"  # It wants in and waits for a coordinator or for time to pass.
    REVOKING = "revoking"  # The user lets partitions go.
    JOINING = "joining"
    DECIDING = "deciding"  # It leads, and waits to hear what topics there are.
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


_ANYWHERE: Final = frozenset({Phase.OUT, Phase.FAILED, Phase.UNJOINED, Phase.REVOKING, Phase.LEAVING})

# Every legal move. What is not listed here cannot happen.
MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.OUT: frozenset({Phase.UNJOINED}),
    Phase.UNJOINED: _ANYWHERE | {Phase.JOINING},
    Phase.REVOKING: _ANYWHERE | {Phase.JOINING, Phase.STABLE},
    Phase.JOINING: _ANYWHERE | {Phase.JOINING, Phase.DECIDING, Phase.SYNCING},
    Phase.DECIDING: _ANYWHERE | {Phase.SYNCING},
    Phase.SYNCING: _ANYWHERE | {Phase.STABLE},
    Phase.STABLE: _ANYWHERE,
    Phase.LEAVING: frozenset({Phase.OUT}),
    Phase.FAILED: frozenset(),
}


class FindCoordinator(NamedTuple):
    """Find the group's coordinator; then `coordinator_found` or `coordinator_lost`."""


class Send(NamedTuple):
    """Send this to the coordinator; then `answered` or `unanswered`.

    The answer may take `wait_ms`, or `request.timeout.ms` if that is longer.
    """

    request: GroupRequest
    wait_ms: int = 0


class LookAtTopics(NamedTuple):
    """Ask for the partitions of these topics; then `topics_known`."""

    topics: tuple[str, ...]


class Revoke(NamedTuple):
    """Stop reading these, commit what is done; then `revoked`."""

    partitions: tuple[TopicPartition, ...]


class Lose(NamedTuple):
    """Stop reading these at once; somebody else may have them, so nothing can be committed."""

    partitions: tuple[TopicPartition, ...]


class Own(NamedTuple):
    """Begin to read these, from where the group has committed."""

    partitions: tuple[TopicPartition, ...]


class Fail(NamedTuple):
    """The member is out for good: tell the user."""

    code: ErrorCode
    reason: str


Instruction: TypeAlias = FindCoordinator | Send | LookAtTopics | Revoke | Lose | Own | Fail


def code_of(response: GroupResponse) -> ErrorCode:
    """The answer's code; one that nobody has defined yet is an unknown error."""
    try:
        return ErrorCode(response.error_code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
