"""States of partitions and replicas, and the moves between them: two tables.

Role.   `check` is asked before every move. `partitions` and `replicas` carry the moves out.
Rules.  * A move that is not listed cannot happen: it raises `IllegalMoveError`, and the controller gives up its office.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

from semel.errors import InvariantError


class IllegalMoveError(InvariantError):
    """A partition or a replica was to be moved to a state that cannot follow its present one."""


class PartitionState(Enum):
    """Kafka's states of a partition."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class ReplicaState(Enum):
    """Kafka's states of a replica."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"
    DELETION_STARTED = "ReplicaDeletionStarted"
    DELETION_SUCCESSFUL = "ReplicaDeletionSuccessful"
    DELETION_INELIGIBLE = "ReplicaDeletionIneligible"


_P: Final = PartitionState
_R: Final = ReplicaState
S = TypeVar("S", PartitionState, ReplicaState)

PARTITION_MOVES: Final[Mapping[PartitionState, tuple[PartitionState, ...]]] = {
    _P.NEW: (_P.NON_EXISTENT,),
    _P.ONLINE: (_P.NEW, _P.ONLINE, _P.OFFLINE),
    _P.OFFLINE: (_P.NEW, _P.ONLINE, _P.OFFLINE),
    _P.NON_EXISTENT: (_P.OFFLINE,),
}
"""To each state: the states it may be reached from."""

REPLICA_MOVES: Final[Mapping[ReplicaState, tuple[ReplicaState, ...]]] = {
    _R.NEW: (_R.NON_EXISTENT,),
    _R.ONLINE: (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
    _R.OFFLINE: (_R.NEW, _R.ONLINE, _R.OFFLINE, _R.DELETION_INELIGIBLE),
    _R.DELETION_STARTED: (_R.OFFLINE,),
    _R.DELETION_SUCCESSFUL: (_R.DELETION_STARTED,),
    _R.DELETION_INELIGIBLE: (_R.OFFLINE, _R.DELETION_STARTED),
    _R.NON_EXISTENT: (_R.DELETION_SUCCESSFUL,),
}


def may_move(moves: Mapping[S, tuple[S, ...]], now: S, to: S) -> bool:
    """Whether the table lists the move."""
    return now in moves[to]


def check(moves: Mapping[S, tuple[S, ...]], what: object, now: S, to: S) -> None:
    """Raises `IllegalMoveError` for a move that the table does not list."""
    if now not in moves[to]:
        raise IllegalMoveError(f"{what}: {now.value} cannot become {to.value}")
