"""The states of a transactional producer, the client's end, and every legal move between them.

Role.   `ProducerState` says what an application may do next; `MOVES` is the whole state machine. `Fate` is what became of
        a transaction, as far as its producer knows.
Rules.  * What is not listed in `MOVES` cannot happen: `TransactionalProducer` raises.
        * ABORTABLE_ERROR leads on by an abort, FATAL_ERROR nowhere: the application starts a new producer.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ProducerState(Enum):
    """Where a transactional producer stands."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    PREPARING = "preparing"
    """What was given is being stored; another system decides then (KIP-939)."""
    PREPARED = "prepared"
    COMMITTING = "committing"
    ABORTING = "aborting"
    BUMPING = "bumping"
    """The transaction is over; the next one waits for an epoch of its own."""
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


class Fate(Enum):
    """What became of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    """Nothing of it will ever be seen by those who read what is committed."""
    UNKNOWN = "unknown"
    """A commit was asked for, and its producer was fenced before it heard the answer."""


_S = ProducerState

# Every legal move. What is not listed here cannot happen.
MOVES: Final[Mapping[ProducerState, frozenset[ProducerState]]] = {
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING, _S.IN_TRANSACTION}),  # The second: by joining another's.
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
