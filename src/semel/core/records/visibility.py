"""Which batches a reader of committed records sees.

Role.   Kafka's rule for `read_committed`: hide the data of aborted transactions, using the list a fetch
        response carries and the markers in the bytes themselves.
Flow.   `arrow.decode_batches` asks for each batch in log order.
Rules.  * A transaction is hidden from its first offset until its abort marker.
        * Asking again for the same batch gives the same answer, so that a reader may stop and go on.
        * Control batches themselves are shown to nobody; that is the reader's rule, for every isolation level.
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
        self._waiting = sorted(aborted, key=lambda one: one[1], reverse=True)  # The earliest is last.
        self._aborted_producers: set[int] = set()

    def __call__(self, buffer: BytesLike, position: int, header: BatchHeader) -> bool:
        """Whether the batch is to be shown."""
        if not header.has_producer_id:
            return True
        while self._waiting and self._waiting[-1][1] <= header.last_offset:
            self._aborted_producers.add(self._waiting.pop()[0])
        if header.is_control:
            # The cleaner leaves control batches without their marker: they end nothing.
            if header.records_count and read_control_type(buffer, position, header) is ControlType.ABORT:
                self._aborted_producers.discard(header.producer_id)
            return True
        return not (header.is_transactional and header.producer_id in self._aborted_producers)
