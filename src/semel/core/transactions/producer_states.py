"""The states of a transactional producer, the client's end, and every legal move between them.

Role.   `ProducerState` says what an application may do next; `MOVES` is the whole state machine. `Fate` is the outcome
        of a transaction, as far as its producer knows.
Rules.  * A move not listed in `MOVES` is illegal: `TransactionalProducer` raises.
        * ABORTABLE_ERROR is left by an abort. FATAL_ERROR is final: the application starts a new producer.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ProducerState(Enum):
    """The state of a transactional producer."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    PREPARING = "preparing"
    """Batches and offsets are being stored; another system then decides (KIP-939)."""
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    BUMPING = "bumping"
    """The transaction is over; the next one waits for a new epoch."""
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


class Fate(Enum):
    """The outcome of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Read_committed consumers never see its records."""
    UNKNOWN = "unknown"
    """The producer was fenced while its commit was unanswered."""


_S = ProducerState

# Every legal move; any other move raises.
MOVES: Final[Mapping[ProducerState, frozenset[ProducerState]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.IN_TRANSACTION}),  # The second: as a guest.
    _S.INITIALIZING: frozenset({_S.READY, _S.PREPARED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.PREPARING, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}
    ),
    _S.PREPARING: frozenset({_S.PREPARED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.BUMPING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.BUMPING, _S.FATAL_ERROR}),
    _S.BUMPING: frozenset({_S.READY, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}
