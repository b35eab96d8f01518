"""What the tests of idempotence share: headers by their telling fields, and the plainest model of a partition."""

from dataclasses import dataclass, field

from semel.core.records.batch import CONTROL_BIT, MAGIC, TRANSACTIONAL_BIT, BatchHeader
from semel.errors import ErrorCode

NOW_MS = 1_800_000_000_000


def header(
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    *,
    offset: int = 0,
    timestamp_ms: int = NOW_MS,
    transactional: bool = False,
    control: bool = False,
) -> BatchHeader:
    """The header of a batch of `count` records; its length and checksum play no part here."""
    attributes = (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    return BatchHeader(
        base_offset=offset,
        batch_length=49,
        partition_leader_epoch=0,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        records_count=count,
    )


@dataclass(slots=True)
class PlainModel:
    """A partition as a list of everything appended; it forgets nothing and caches nothing."""

    appended: list[BatchHeader] = field(default_factory=list)

    def outcome(self, batch: BatchHeader) -> ErrorCode | int | None:
        """None: append. A number: the offset of the copy that is there. A code: refused."""
        mine = [one for one in self.appended if one.producer_id == batch.producer_id]
        if not mine:
            return None
        epoch = mine[-1].producer_epoch
        if batch.producer_epoch < epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.producer_epoch > epoch:
            return None if batch.base_sequence == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        of_epoch = [one for one in mine if one.producer_epoch == epoch]
        for one in of_epoch[-5:]:
            if (one.base_sequence, one.records_count) == (batch.base_sequence, batch.records_count):
                return one.base_offset
        expected = (of_epoch[-1].base_sequence + of_epoch[-1].records_count) % 2**31
        return None if batch.base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def append(self, batch: BatchHeader) -> None:
        self.appended.append(batch)
