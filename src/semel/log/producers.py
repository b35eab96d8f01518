"""A batch that stands in the log, made known to the producers' state and the transaction index.

Role.   The one way from a stored batch to `ProducerState`: appending, replicating and recovering all use it,
        so a replayed log gives the state a live one had.
Rules.  A marker's effects keep Kafka's order: the last stable offset is computed, an abort enters the index,
        and only then does the transaction stop holding the last stable offset back.
"""

from collections.abc import Iterable

from semel.core.idempotence.producer_state import ProducerState
from semel.core.records import control
from semel.core.records.batch import CONTROL_BIT, BatchHeader
from semel.core.records.control import ControlType, EndTxnMarker
from semel.log.segment import Segment
from semel.log.txn_index import AbortedTxn, TxnIndex
from semel.types import BytesLike


def record_batch(
    producers: ProducerState, header: BatchHeader, data: BytesLike, txn_index: TxnIndex | None, now_ms: int
) -> None:
    """Record a stored batch. `data` is looked at for control batches only; without an index none is written."""
    if not header.attributes & CONTROL_BIT or header.records_count == 0:
        producers.record(header, now_ms=now_ms)
        return
    if control.read_control_type(data, 0, header) not in (ControlType.ABORT, ControlType.COMMIT):
        return
    record_marker(producers, header, control.read_marker(data, 0, header), txn_index, now_ms)


def record_marker(
    producers: ProducerState,
    header: BatchHeader,
    marker: EndTxnMarker,
    txn_index: TxnIndex | None,
    now_ms: int,
) -> None:
    """Record a stored control batch whose marker is known: who has just built it need not read it."""
    completed = producers.record_marker(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        commit=marker.commit,
        offset=header.last_offset,
        timestamp_ms=header.max_timestamp,
        now_ms=now_ms,
    )
    if completed is None:
        return
    last_stable_offset = producers.last_stable_offset_after(completed)
    if completed.is_aborted and txn_index is not None:
        txn_index.append(
            AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
            )
        )
    producers.complete(completed)


def replay(
    producers: ProducerState, segments: Iterable[Segment], now_ms: int, *, from_offset: int, up_to: int
) -> None:
    """Record the batches in [from_offset, up_to). The transaction indexes have their aborts already."""
    for segment in segments:
        if segment.base_offset >= up_to:
            return
        for position, header in segment.walk(segment.offset_index.position_before(from_offset)):
            if header.base_offset >= up_to:
                return
            if header.base_offset >= from_offset and header.has_producer_id:
                data = segment.read_batch(position, header) if header.is_control else b""
                record_batch(producers, header, data, None, now_ms)
