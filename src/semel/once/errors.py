"""Errors of exactly-once consumers.

    OnceError                   base of all errors below
    ├── PositionMovedError      another worker has stored a newer position and owns this batch now
    ├── PositionError           the consumer and the stored position disagree: a record below it was delivered
    ├── ClaimBusyError          another worker holds the message for longer than the wait
    ├── ClaimLostError          the lease ran out during the work: another worker may have repeated it
    ├── InDoubtError            the ledger of an outbox is gone, and rows may or may not have been published
    ├── LedgerMismatchError     the ledger and the outbox do not belong together
    └── WorkFailedError         a record could not be processed; nothing from it on was committed

Rules.  * Each message says which state is unchanged, and what to do.
"""

from semel.errors import SemelError


class OnceError(SemelError):
    """Exactly-once processing cannot continue without a decision of the user."""


class PositionMovedError(OnceError):
    """Another worker has stored a newer position; the transaction was rolled back."""


class PositionError(OnceError):
    """A record was delivered that the database has already counted."""


class ClaimBusyError(OnceError):
    """Another worker holds the message for longer than the wait."""


class ClaimLostError(OnceError):
    """The claim's lease ran out before the work was marked done."""


class InDoubtError(OnceError):
    """It is unknown whether some rows of an outbox were published."""


class LedgerMismatchError(OnceError):
    """The ledger belongs to another outbox, or the database is older than the topic."""


class WorkFailedError(OnceError):
    """The work on a record failed permanently."""
