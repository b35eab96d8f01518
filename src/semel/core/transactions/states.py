"""The states of a transactional id, and every legal move between them.

Role.   `TransactionState` carries the numbers of `__transaction_state` and the names of ListTransactions; `MOVES` is
        the whole state machine.
Rules.  * A move not listed in `MOVES` is illegal: `_moved` in `transaction` raises.
        * EMPTY -> PREPARE_ABORT and COMPLETE_* -> PREPARE_ABORT are the empty aborts of transactions v2: an unsure
          producer aborts any open transaction, and gets a new epoch.
        * DEAD and PREPARE_EPOCH_FENCE are Kafka's names for moments inside its coordinator. ListTransactions accepts
          them as filters, and they are never stored: an expired id ends with its tombstone, and a fence is one row.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class TransactionState(IntEnum):
    """The state of a transactional id, with the numbers of Kafka's rows."""

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
        """Whether the outcome is decided and markers are being written."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def may_expire(self) -> bool:
        """Whether an idle id may expire: no transaction is open or being completed."""
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

# Every legal move; any other move raises.
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
