"""Recording a stored batch in the producers' state and the transaction index.

Role.   Appending, replicating and recovering all record batches through it, so replay gives the same state as live
        operation.
Rules.  A marker's effects keep Kafka's order: the last stable offset is computed, an abort enters the index,
        and only then does the transaction stop holding the last stable offset back.
"""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from semel.core.idempotence.producer_state import ProducerState
from semel.core.records import control
from semel.core.records.batch import CONTROL_BIT, BatchHeader
from semel.core.records.control import EndTxnMarker
from semel.log.halt import NEVER, Halt
from semel.log.segment import Segment
from semel.log.txn_index import AbortedTxn
from semel.types import BytesLike

ListAborted: TypeAlias = Callable[[AbortedTxn], object]
"""Receives an aborted transaction, for a transaction index or another collection."""


def record_batch(
    producers: ProducerState,
    header: BatchHeader,
    data: BytesLike,
    list_aborted: ListAborted | None,
    now_ms: int,
) -> None:
    """Record a stored batch. `data` is read only for control batches."""
    if not header.attributes & CONTROL_BIT or header.records_count == 0:
        producers.record(header, now_ms=now_ms)
        return
    marker = control.read_end(data, 0, header)
    if marker is not None:
        record_marker(producers, header, marker, list_aborted, now_ms)


def record_marker(
    producers: ProducerState,
    header: BatchHeader,
    marker: EndTxnMarker,
    list_aborted: ListAborted | None,
    now_ms: int,
) -> None:
    """Record a stored control batch whose marker is known, because the caller has just built it."""
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
    if completed.is_aborted and list_aborted is not None:
        last_stable_offset = producers.last_stable_offset_after(completed)
        list_aborted(
            AbortedTxn(
                completed.producer_id, completed.first_offset, completed.last_offset, last_stable_offset
            )
        )
    producers.complete(completed)


def replay(
    producers: ProducerState,
    segments: Iterable[Segment],
    now_ms: int,
    *,
    from_offset: int,
    up_to: int,
    halt: Halt = NEVER,
) -> None:
    """Record the batches in [from_offset, up_to). The transaction indexes already contain their aborts."""
    for segment in segments:
        if segment.base_offset >= up_to:
            return
        start = segment.offset_index.position_before(from_offset)
        for _position, header, data in segment.walk_control(start):
            if header.base_offset >= up_to:
                return
            if halt.is_asked:
                raise halt.error(segment.file.path)
            if header.base_offset >= from_offset and header.has_producer_id:
                record_batch(producers, header, data, None, now_ms)
