"""Transactions during a cleaning: aborted batches, and markers that are no longer needed.

Role.   Follows the batches of a log, oldest first, and says for each whether it may be removed.
Rules.  * Records of an aborted transaction are removed, with any key.
        * A marker may be removed once no batch of its transaction is left in the log, and its delete horizon has
          passed. While one batch is left, even an empty one, the marker and the abort's index entry stay.
        * A walk begins at the start of the log, because a transaction is known by its first batch.
"""

from collections.abc import Sequence

from semel.core.records import control
from semel.core.records.batch import BatchHeader
from semel.core.records.control import ControlType
from semel.log.txn_index import AbortedTxn
from semel.types import BytesLike


class TransactionWalk:
    """One walk over the batches of a log."""

    def __init__(self, aborted: Sequence[AbortedTxn]) -> None:
        self._to_come = sorted(aborted, key=lambda entry: entry.first_offset, reverse=True)
        self._aborting: dict[int, AbortedTxn] = {}
        self._seen: set[int] = set()  # Producers with a kept batch of the transaction open at this point.

    def on_data(self, header: BatchHeader) -> bool:
        """Pass a transactional batch; whether its transaction was aborted."""
        self._reach(header.last_offset)
        self._seen.add(header.producer_id)
        return header.producer_id in self._aborting

    def on_control(self, header: BatchHeader, data: BytesLike) -> tuple[bool, AbortedTxn | None]:
        """Pass a control batch: whether no batch of its transaction is left, and the abort that must stay listed."""
        self._reach(header.last_offset)
        if header.records_count == 0:
            return True, None
        kind = control.read_control_type(data, 0, header)
        if kind not in (ControlType.ABORT, ControlType.COMMIT):
            return False, None
        seen = header.producer_id in self._seen
        self._seen.discard(header.producer_id)
        aborted = self._aborting.pop(header.producer_id, None)
        return not seen, aborted if seen else None

    def _reach(self, offset: int) -> None:
        """Begin the aborted transactions that begin up to here."""
        while self._to_come and self._to_come[-1].first_offset <= offset:
            entry = self._to_come.pop()
            self._aborting.setdefault(entry.producer_id, entry)
