"""What the consumers that count once raise.

    OnceError                   everything below
    ├── PositionMovedError      another worker has stored a newer position: this batch is not ours any more
    ├── PositionError           the consumer and the stored position disagree: a record below it was delivered
    ├── ClaimBusyError          a message is being worked on by another one for longer than we wait
    ├── ClaimLostError          the lease ran out while we worked: another one may have done the same
    ├── InDoubtError            the ledger of an outbox is gone, and rows may or may not have been published
    ├── LedgerMismatchError     the ledger and the outbox do not belong together
    └── WorkFailedError         a record could not be processed; nothing from it on was committed

Rules.  * Each says what is untouched, and what to do.
"""

from semel.errors import SemelError


class OnceError(SemelError):
    """A promise of counting once that could not be kept without asking."""


class PositionMovedError(OnceError):
    """Another worker has stored a newer position; the transaction was rolled back."""


class PositionError(OnceError):
    """A record was delivered that the database has already counted."""


class ClaimBusyError(OnceError):
    """Another one works on the message for longer than we wait."""


class ClaimLostError(OnceError):
    """The claim's lease ran out before the work was marked done."""


class InDoubtError(OnceError):
    """Nobody knows whether some rows of an outbox were published."""


class LedgerMismatchError(OnceError):
    """The ledger is of another outbox, or the database is older than the topic."""


class WorkFailedError(OnceError):
    """The work on a record failed for good."""
