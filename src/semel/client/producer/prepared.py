"""A transactional producer's identity, and the name of a prepared transaction.

Role.   `init_transactions` returns a `ProducerIdAndEpoch`. `prepare_transaction` gives a `PreparedTxnState` and
        `complete_transaction` takes it, after a restart too. An application stores it together with its own decision.
"""

from typing import NamedTuple

from semel.exceptions import IllegalArgumentException
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from semel.words import kind, shown


class ProducerIdAndEpoch(NamedTuple):
    """The coordinator's name of a producer: an instance with a higher epoch has taken over."""

    producer_id: int
    epoch: int


class PreparedTxnState(NamedTuple):
    """Which transaction was prepared. Its text, `producerId:epoch`, is what Java's class writes and reads."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @classmethod
    def of(cls, given: "PreparedTxnState | str") -> "PreparedTxnState":
        """A state, or its text."""
        if isinstance(given, PreparedTxnState):
            return given
        if not isinstance(given, str):
            raise IllegalArgumentException(
                f"prepared_txn_state={shown(given)} is {kind(given)}: it must be what prepare_transaction gave, or its text"
            )
        if not given:
            return cls()
        producer_id, colon, epoch = given.partition(":")
        if not colon or not producer_id.isdecimal() or not epoch.isdecimal():
            raise IllegalArgumentException(f"Invalid serialized transaction state format: {given}")
        return cls(int(producer_id), int(epoch))

    def has_transaction(self) -> bool:
        return self.producer_id != NO_PRODUCER_ID

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.has_transaction() else ""
