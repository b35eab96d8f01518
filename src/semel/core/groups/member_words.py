"""The types of a group member: settings, phases, and instructions to the shell.

Role.   Holds the settings, the identity in requests, the phases with their legal moves, and the instructions of
        `member`.
Flow.   The shell calls the member, carries out the returned instructions in order, and reports the results.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from semel.core.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from semel.core.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from semel.core.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from semel.core.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from semel.errors import ErrorCode, error_code
from semel.types import TopicPartition

NO_GENERATION: Final = -1
NO_MEMBER_ID: Final = ""

GroupRequest: TypeAlias = JoinGroupRequest | SyncGroupRequest | HeartbeatRequest | LeaveGroupRequest
GroupResponse: TypeAlias = JoinGroupResponse | SyncGroupResponse | HeartbeatResponse | LeaveGroupResponse


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberConfig:
    """A member's settings: Kafka's keys, with underscores for dots."""

    group_id: str
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    """In order of preference. Members keep their partitions during a rebalance only if all of these are cooperative."""
    group_instance_id: str | None = None
    client_rack: str | None = None
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    retry_backoff_ms: int = 100


class Identity(NamedTuple):
    """A member's identity, as in OffsetCommit and TxnOffsetCommit."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


class Phase(StrEnum):
    """The phase of a member."""

    OUT = "out"
    UNJOINED = "unjoined"  # Waits for a coordinator or a backoff, then joins.
    REVOKING = "revoking"  # The user is releasing partitions.
    JOINING = "joining"
    DECIDING = "deciding"  # Leads, and waits for the topics.
    SYNCING = "syncing"
    STABLE = "stable"
    LEAVING = "leaving"
    FAILED = "failed"


_ANYWHERE: Final = frozenset({Phase.OUT, Phase.FAILED, Phase.UNJOINED, Phase.REVOKING, Phase.LEAVING})

# Every legal move; any other move raises.
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
    """Stop reading these and commit their offsets; then `revoked`."""

    partitions: tuple[TopicPartition, ...]


class Lose(NamedTuple):
    """Stop reading these at once, without a commit: another member may own them."""

    partitions: tuple[TopicPartition, ...]


class Own(NamedTuple):
    """Start reading these from the group's committed offsets."""

    partitions: tuple[TopicPartition, ...]


class Fail(NamedTuple):
    """The member has failed for good: tell the user."""

    code: ErrorCode
    reason: str


Instruction: TypeAlias = FindCoordinator | Send | LookAtTopics | Revoke | Lose | Own | Fail


def code_of(response: GroupResponse) -> ErrorCode:
    """The response's error code; an undefined number becomes UNKNOWN_SERVER_ERROR."""
    return error_code(response.error_code)
