"""Expiry: transactions past their timeout, and transactional ids no longer used.

Role.   Says which transactions to abort and which ids to forget now.
Flow.   `shard.due` calls these.
Rules.  * A transaction is aborted once it has been open for longer than its timeout; never one of two-phase commit.
        * An id is forgotten `transactional.id.expiration.ms` after its last row, unless a transaction is open or being
          completed.
        * At most `FORGET_MAX` ids are forgotten in one step, so that one batch carries their tombstones. At most
          `ABORT_MAX` transactions are aborted in one, and fewer where they have many partitions: a batch over the
          topic's size limit would be retried for ever.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from semel.core.coordination.deadlines import Deadlines
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import Transaction

FORGET_MAX: Final = 1000
ABORT_MAX: Final = 100
_ABORTED_PARTITIONS_MAX: Final = 1000


def deadline_ms(transaction: Transaction) -> int | None:
    """When the transaction times out; None if it never does."""
    if transaction.state is not TransactionState.ONGOING or transaction.is_two_phase:
        return None
    return transaction.start_ms + transaction.timeout_ms + 1


def overdue(
    timeouts: Deadlines[str], transactions: Mapping[str, Transaction], now_ms: int
) -> Iterator[Transaction]:
    """Take out timed-out transactions, as many as fit one batch; the others stay due."""
    partitions = 0
    for _ in range(ABORT_MAX):
        transactional_id = timeouts.pop_first(now_ms)
        if transactional_id is None:
            return
        transaction = transactions[transactional_id]
        yield transaction
        partitions += len(transaction.partitions)
        if partitions >= _ABORTED_PARTITIONS_MAX:
            return


def expired(transactions: Iterable[Transaction], *, expiration_ms: int, now_ms: int) -> list[str]:
    """Ids to forget: at most `FORGET_MAX`, the longest known first."""
    before_ms = now_ms - expiration_ms
    found: list[str] = []
    for transaction in transactions:
        if transaction.state.may_expire and transaction.last_update_ms <= before_ms:
            found.append(transaction.transactional_id)
            if len(found) == FORGET_MAX:
                break
    return found
