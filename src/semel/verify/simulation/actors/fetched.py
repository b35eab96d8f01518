"""The answer to a fetch, as a client takes it: whole batches, without markers and aborted records.

Role.   `records_of` gives the records of a fetched partition from a position on, and where to go on.
Rules.  * A batch that is cut off at its end is left out.
        * A reader of committed records drops a producer's transactional batches from the first offset of an aborted transaction
          to its marker, as Kafka's clients do.
        * Markers are nobody's records, and yet have offsets: the position moves over them.
"""

from semel.core.records import batch
from semel.core.records.build import iter_records
from semel.core.records.control import read_marker
from semel.core.wire.messages.fetch import PartitionData


def records_of(data: PartitionData, position: int, *, committed: bool) -> tuple[list[tuple[int, bytes]], int]:
    """(offset, value) of every record, and the next position; raises `CorruptBatchError`."""
    content = data.records or b""
    coming = sorted(data.aborted_transactions or (), key=lambda one: one.first_offset) if committed else []
    aborted: set[int] = set()
    records: list[tuple[int, bytes]] = []
    for at, header in batch.headers(content):
        batch.check_crc(content, at, header)
        while coming and coming[0].first_offset <= header.last_offset:
            aborted.add(coming.pop(0).producer_id)
        if header.is_control:
            if not read_marker(content, at, header).commit:
                aborted.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborted):
            records += [
                (record.offset, record.value or b"")
                for record in iter_records(content, at, header)
                if record.offset >= position
            ]
        position = max(position, header.next_offset)
    return records, position
