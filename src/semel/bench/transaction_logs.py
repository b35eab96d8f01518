"""Logs of many transactions, written without a broker: what recovery is measured and tested with.

Role.   `TransactionLog` makes the bytes of a segment: one small batch per transaction and the marker that ends it, in Kafka's
        format, so that either broker recovers the same file.
Flow.   A bench or a test makes a topic, kills its broker, writes such a segment into the partition's directory, and starts again.
Rules.  * As transactions v2 leave a log: every marker raises its producer's epoch, and a producer whose epochs are used up goes on
          under another id.
        * `OPEN_TOGETHER` transactions overlap: the last stable offset has to wait for the slowest.
        * The same arguments give the same bytes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from semel.core.coordination.row_format import RowFormat
from semel.core.groups.rows import GROUP_ROWS, CommittedOffset, offset_row
from semel.core.records import batch, control
from semel.core.records.build import RecordInput, build_batch

OPEN_TOGETHER: Final = 10
FIRST_PRODUCER_ID: Final = 1_000
_EPOCHS_MAX: Final = 32_000
_PRODUCER: Final = Struct(">qhi")  # Producer id, epoch and base sequence, as they stand in a batch header.
_PRODUCER_POSITION: Final = 43
_PLACE: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_COMMITTED: Final = Struct(">q")
_COMMITTED_MARK: Final = 0x5E4E15E4E15E4E1
_PIECE_BYTES: Final = 1 << 20

Patch = Callable[[bytearray, int], None]
"""Make a copy of the template the batch of transaction number so and so."""


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """`count` transactions of one batch each; `aborts` says which of them are aborted."""

    count: int
    aborts: Callable[[int], bool]
    template: bytes
    """The batch of a transaction; its offset, producer and checksum are set for each."""
    now_ms: int
    sequenced: bool = True
    patch: Patch | None = None

    @classmethod
    def of_records(
        cls, count: int, *, aborts: Callable[[int], bool], now_ms: int, value: bytes = b"0123456789"
    ) -> "TransactionLog":
        """Transactions of one record."""
        template = build_batch(
            [RecordInput(None, value, now_ms)], transactional=True, producer_id=0, partition_leader_epoch=0
        )
        return cls(count, aborts, bytes(template), now_ms)

    @classmethod
    def of_offsets(
        cls, count: int, group_id: str, topic: str, *, aborts: Callable[[int], bool], now_ms: int
    ) -> "TransactionLog":
        """Transactions in which a group commits an offset, for `__consumer_offsets`: number n commits offset n."""
        row = offset_row(group_id, topic, 0, CommittedOffset(_COMMITTED_MARK, -1, "", now_ms))
        rows: RowFormat = GROUP_ROWS
        template = bytes(
            build_batch(
                [rows.encode(row, now_ms)], transactional=True, producer_id=0, partition_leader_epoch=0
            )
        )
        position = template.index(_COMMITTED.pack(_COMMITTED_MARK))

        def patch(data: bytearray, number: int) -> None:
            _COMMITTED.pack_into(data, position, number)

        return cls(count, aborts, template, now_ms, sequenced=False, patch=patch)

    @property
    def end_offset(self) -> int:
        """Where the log ends: a record and a marker per transaction."""
        return 2 * self.count

    @property
    def aborted_count(self) -> int:
        return sum(map(self.aborts, range(self.count)))

    def pieces(self) -> Iterator[bytes]:
        """The bytes of the segment, about a megabyte at a time."""
        made = bytearray()
        offset = 0
        for first in range(0, self.count, OPEN_TOGETHER):
            numbers = range(first, min(first + OPEN_TOGETHER, self.count))
            for number in numbers:
                made += self._batch(number, offset)
                offset += 1
            for number in numbers:
                producer_id, epoch = _producer_of(number)
                made += control.build_marker(
                    producer_id=producer_id,
                    producer_epoch=epoch + 1,
                    coordinator_epoch=0,
                    commit=not self.aborts(number),
                    timestamp_ms=self.now_ms,
                    base_offset=offset,
                    partition_leader_epoch=0,
                )
                offset += 1
            if len(made) >= _PIECE_BYTES:
                yield bytes(made)
                made.clear()
        yield bytes(made)

    def _batch(self, number: int, offset: int) -> bytearray:
        data = bytearray(self.template)
        producer_id, epoch = _producer_of(number)
        _PLACE.pack_into(data, 0, offset)
        _PRODUCER.pack_into(data, _PRODUCER_POSITION, producer_id, epoch, 0 if self.sequenced else -1)
        if self.patch is not None:
            self.patch(data, number)
        batch.set_crc(data, 0, len(data))
        return data

    def write(self, path: Path) -> int:
        """Write the segment; its size."""
        with path.open("wb") as file:
            return sum(file.write(piece) for piece in self.pieces())


def _producer_of(number: int) -> tuple[int, int]:
    """Producer id and epoch of a transaction: `OPEN_TOGETHER` producers take turns, and each has an epoch per transaction."""
    turn, place = divmod(number, OPEN_TOGETHER)
    life, epoch = divmod(turn, _EPOCHS_MAX)
    return FIRST_PRODUCER_ID + life * OPEN_TOGETHER + place, epoch
