"""The two tables of the controller: every state with every move.

Method: the moves of Kafka's state machines, written down once more by their first letters, and all pairs.
"""

from itertools import product

import pytest

from semel.core.cluster.controller.states import (
    PARTITION_MOVES,
    REPLICA_MOVES,
    IllegalMoveError,
    PartitionState,
    ReplicaState,
    check,
    may_move,
)

P, R = PartitionState, ReplicaState
_PARTITIONS = {
    (P.NON_EXISTENT, P.NEW),
    (P.NEW, P.ONLINE),
    (P.NEW, P.OFFLINE),
    (P.ONLINE, P.ONLINE),
    (P.ONLINE, P.OFFLINE),
    (P.OFFLINE, P.ONLINE),
    (P.OFFLINE, P.OFFLINE),
    (P.OFFLINE, P.NON_EXISTENT),
}
_REPLICAS = {
    (R.NON_EXISTENT, R.NEW),
    (R.NEW, R.ONLINE),
    (R.NEW, R.OFFLINE),
    (R.ONLINE, R.ONLINE),
    (R.ONLINE, R.OFFLINE),
    (R.OFFLINE, R.ONLINE),
    (R.OFFLINE, R.OFFLINE),
    (R.OFFLINE, R.DELETION_STARTED),
    (R.OFFLINE, R.DELETION_INELIGIBLE),
    (R.DELETION_STARTED, R.DELETION_SUCCESSFUL),
    (R.DELETION_STARTED, R.DELETION_INELIGIBLE),
    (R.DELETION_INELIGIBLE, R.ONLINE),
    (R.DELETION_INELIGIBLE, R.OFFLINE),
    (R.DELETION_SUCCESSFUL, R.NON_EXISTENT),
}


@pytest.mark.parametrize(("now", "to"), list(product(P, P)), ids=lambda one: one.name)
def test_partitions_move_as_the_table_says(now: PartitionState, to: PartitionState) -> None:
    assert may_move(PARTITION_MOVES, now, to) is ((now, to) in _PARTITIONS)
    if (now, to) in _PARTITIONS:
        check(PARTITION_MOVES, "t-0", now, to)
    else:
        with pytest.raises(IllegalMoveError, match=f"t-0: {now.value} cannot become {to.value}"):
            check(PARTITION_MOVES, "t-0", now, to)


@pytest.mark.parametrize(("now", "to"), list(product(R, R)), ids=lambda one: one.name)
def test_replicas_move_as_the_table_says(now: ReplicaState, to: ReplicaState) -> None:
    assert may_move(REPLICA_MOVES, now, to) is ((now, to) in _REPLICAS)
    if (now, to) not in _REPLICAS:
        with pytest.raises(IllegalMoveError):
            check(REPLICA_MOVES, "t-0", now, to)
