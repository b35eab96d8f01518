"""The states of a transactional id, and every legal move between them.

Role.   `TransactionState` carries the numbers of `__transaction_state` and the names of ListTransactions; `MOVES` is
        the whole state machine.
Rules.  * What is not listed in `MOVES` cannot happen: `moved` in `transaction` raises.
        * EMPTY -> PREPARE_ABORT and COMPLETE_* -> PREPARE_ABORT are the empty aborts of transactions v2: a producer
          that is unsure aborts whatever may be there, and gets a new epoch.
        * DEAD and PREPARE_EPOCH_FENCE are Kafka's names for moments inside its coordinator. They are understood as
          filters of ListTransactions and never stored: here an id that expires is gone with its tombstone, and a
          fence is one row.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """Where a transactional id stands. The numbers are those of Kafka's rows."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """Kafka's spelling: PrepareCommit."""
        return _LABELS[self]

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided and its markers are on their way."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether an id that nobody uses may be forgotten: nothing of it is under way."""
        return self in (
            TransactionState.EMPTY,
            TransactionState.COMPLETE_COMMIT,
            TransactionState.COMPLETE_ABORT,
        )


_LABELS: Final[Mapping[TransactionState, str]] = {
    state: "".join(word.capitalize() for word in state.name.split("_")) for state in TransactionState
}
BY_LABEL: Final[Mapping[str, TransactionState]] = {label: state for state, label in _LABELS.items()}

_AFTER_REST: Final = frozenset(
    {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}
)

# Every legal move. What is not listed here cannot happen.
MOVES: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AFTER_REST,
    TransactionState.ONGOING: frozenset(
        {TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT}
    ),
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.COMPLETE_COMMIT}),
    TransactionState.PREPARE_ABORT: frozenset({TransactionState.COMPLETE_ABORT}),
    TransactionState.COMPLETE_COMMIT: _AFTER_REST,
    TransactionState.COMPLETE_ABORT: _AFTER_REST,
    TransactionState.DEAD: frozenset(),
    TransactionState.PREPARE_EPOCH_FENCE: frozenset(),
}
