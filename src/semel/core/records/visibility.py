"""The batches a read_committed reader sees.

Role.   Kafka's rule for `read_committed`: hide the data of aborted transactions, by the list in the Fetch response and
        the markers in the batches.
Flow.   `arrow.decode_batches` calls it for each batch in log order.
Rules.  * A transaction is hidden from its first offset until its abort marker.
        * A repeated call for the same batch gives the same answer, so that a reader may stop and resume.
        * Control batches are hidden at every isolation level; the reader does that itself.
"""

from collections.abc import Iterable

from semel.core.records.batch import BatchHeader
from semel.core.records.control import ControlType, read_control_type
from semel.types import BytesLike


class CommittedOnly:
    """Says of each batch, in log order, whether it belongs to an aborted transaction.

    `aborted` has (producer id, first offset) per transaction, as in a fetch response.
    """

    __slots__ = ("_aborted_producers", "_waiting")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(aborted, key=lambda one: one[1], reverse=True)  # Earliest last.
        self._aborted_producers: set[int] = set()

    def __call__(self, buffer: BytesLike, position: int, header: BatchHeader) -> bool:
        """Whether the batch is to be shown."""
        if not header.has_producer_id:
            return True
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._aborted_producers.add(self._waiting.pop()[0])
        if header.is_control:
            # The cleaner may leave a control batch without its marker, which ends no transaction.
            if header.records_count and read_control_type(buffer, position, header) is ControlType.ABORT:
                self._aborted_producers.discard(header.producer_id)
            return True
        return not (header.is_transactional and header.producer_id in self._aborted_producers)
