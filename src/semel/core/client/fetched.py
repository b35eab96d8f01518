"""Fetched records, and the pieces of them that are handed to the user.

Role.   `Chunk` holds the bytes of one partition in one Fetch response, undecoded until records are taken. `take` gives
        the next ones as a `Piece`: Arrow columns by the kernels, or a few records read in plain Python while kernels
        are not loaded.
Flow.   the fetcher makes chunks -> `fetch_buffer` keeps them in order -> `take` -> the user's records or columns.
Rules.  * A chunk is decoded once, whole or in parts of at most `decode_max_bytes`; decoded records that were not taken
          yet stay as columns and are sliced later. A piece given back is the next to be taken.
        * Control batches and, for read_committed, batches of aborted transactions are left out; the next fetch offset
          is behind them.
        * A damaged batch raises only after every record before it was handed out.
"""

from collections.abc import Sequence
from enum import Enum
from itertools import repeat
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.core.records import batch
from semel.core.records.batch import BatchHeader, TimestampType
from semel.core.records.build import Record, iter_records
from semel.core.records.visibility import CommittedOnly
from semel.errors import CorruptBatchError, UnsupportedCompressionError
from semel.types import NO_PARTITION_LEADER_EPOCH, BytesLike, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

DECODE_BYTES_MAX: Final = 32 * 1024 * 1024
PLAIN_BYTES_MAX: Final = 256 * 1024
"""Chunks up to this size do not wait for kernels that are not loaded."""
DAMAGE: Final = (CorruptBatchError, UnsupportedCompressionError)
"""Errors raised by bytes that cannot be decoded."""
_PLACE: Final = Struct(">qi")
_LAST_OFFSET_DELTA: Final = Struct(">i")
_LAST_OFFSET_DELTA_POSITION: Final = 23

Headers = tuple[tuple[str, bytes | None], ...]
NO_HEADERS: Final[Headers] = ()


class Decoding(Enum):
    """How records are read."""

    KERNELS = "kernels"
    PLAIN = "plain"
    PLAIN_WHILE_SMALL = "plain while small"
    """Kernels are being loaded: small chunks are decoded without them, large ones wait."""


class Span(NamedTuple):
    """Timestamp type and leader epoch shared by the records up to an offset."""

    last_offset: int
    timestamp_type: TimestampType
    leader_epoch: int | None


class Lists(NamedTuple):
    """A piece as Python lists, one entry per record."""

    offsets: list[int]
    timestamps: list[int]
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: "Sequence[Headers]"


class Piece:
    """Some records of one partition, in order; either columns or a list of records."""

    __slots__ = ("_columns", "_records", "count", "next_offset", "spans", "where")

    def __init__(
        self,
        where: TopicPartition,
        spans: tuple[Span, ...],
        next_offset: int,
        *,
        columns: "pa.RecordBatch | None" = None,
        records: Sequence[Record] = (),
    ) -> None:
        self.where = where
        self.spans = spans
        self.next_offset = next_offset
        """The next offset once all of these are consumed."""
        self._columns = columns
        self._records = records
        self.count = len(records) if columns is None else columns.num_rows

    def split(self, count: int) -> "tuple[Piece, Piece]":
        """The first `count` records, and the others."""
        rest_at = self.offset_at(count)
        if self._columns is None:
            first = Piece(self.where, self.spans, rest_at, records=self._records[:count])
            return first, Piece(self.where, self.spans, self.next_offset, records=self._records[count:])
        first = Piece(self.where, self.spans, rest_at, columns=self._columns.slice(0, count))
        return first, Piece(self.where, self.spans, self.next_offset, columns=self._columns.slice(count))

    def offset_at(self, index: int) -> int:
        """The offset of a record."""
        if self._columns is None:
            return self._records[index].offset
        offset: int = self._columns.column(0)[index].as_py()
        return offset

    def columns(self) -> "pa.RecordBatch":
        """Arrow columns: offset, timestamp, key, value, headers."""
        if self._columns is None:
            from semel.core.records.arrow_schema import columns_of

            self._columns = columns_of(self._records)
        return self._columns

    def lists(self) -> Lists:
        """The columns as lists of Python values."""
        if self._columns is None:
            if not self._records:
                return Lists([], [], [], [], [])
            offsets, timestamps, keys, values, headers, _ = map(list, zip(*self._records, strict=True))
            return Lists(offsets, timestamps, keys, values, headers)
        from semel.core.records.arrow_schema import lists_of

        return Lists(*lists_of(self._columns, NO_HEADERS))

    def shared(self) -> "tuple[Sequence[TimestampType], Sequence[int | None]]":
        """Timestamp type and leader epoch of every record."""
        if len(self.spans) == 1:
            (span,) = self.spans
            return list(repeat(span.timestamp_type, self.count)), list(repeat(span.leader_epoch, self.count))
        types: list[TimestampType] = []
        epochs: list[int | None] = []
        spans = iter(self.spans)
        span = next(spans)
        for offset in self.lists().offsets:
            while offset > span.last_offset:
                span = next(spans)
            types.append(span.timestamp_type)
            epochs.append(span.leader_epoch)
        return types, epochs

    @property
    def last_leader_epoch(self) -> int | None:
        """Leader epoch of the last batch before `next_offset`, hidden batches included, as in the Java client.

        A position with the epoch of the last visible record would seem to lie beyond that epoch's end if a marker of the
        next leader follows.
        """
        last = self.offset_at(self.count - 1) if self.count else -1
        epoch: int | None = None
        passed = -1
        for span in self.spans:
            if span.last_offset >= self.next_offset and last <= passed:
                break
            epoch, passed = span.leader_epoch, span.last_offset
        return epoch


class Chunk:
    """The bytes of one partition in one Fetch response."""

    __slots__ = (
        "_aborted",
        "_check_crcs",
        "_data",
        "_decode_max_bytes",
        "_left",
        "_offset",
        "_position",
        "size_bytes",
        "turn",
        "where",
    )

    def __init__(
        self,
        where: TopicPartition,
        turn: int,
        data: BytesLike,
        fetch_offset: int,
        *,
        aborted: Sequence[tuple[int, int]] | None,
        check_crcs: bool,
        decode_max_bytes: int = DECODE_BYTES_MAX,
    ) -> None:
        self.where = where
        self.turn = turn
        self.size_bytes = len(data)
        self._data = data
        self._offset = fetch_offset
        self._position = 0
        self._aborted = None if aborted is None else CommittedOnly(aborted)
        self._check_crcs = check_crcs
        self._decode_max_bytes = decode_max_bytes
        self._left: list[Piece] = []

    def is_ready(self, decoding: Decoding) -> bool:
        """Whether records can be taken, or must wait for kernels."""
        return (
            decoding is not Decoding.PLAIN_WHILE_SMALL
            or bool(self._left)
            or self.size_bytes <= PLAIN_BYTES_MAX
        )

    def take(self, count_max: int | None, decoding: Decoding) -> Piece | None:
        """The next records, at most so many; None if there are no more. Raises `CorruptBatchError`.

        A piece may be empty: then everything up to its `next_offset` is hidden.
        """
        piece = self._left.pop() if self._left else self._decode(decoding)
        if piece is None or count_max is None or piece.count <= count_max:
            return piece
        first, rest = piece.split(count_max)
        self._left.append(rest)
        return first

    @property
    def is_unreadable(self) -> bool:
        """Whether no batch of the chunk could be read."""
        return self._position == 0

    def give_back(self, piece: Piece) -> None:
        """Make this piece, the last taken or a part of it, the next to be taken."""
        self._left.append(piece)

    def _decode(self, decoding: Decoding) -> Piece | None:
        if decoding is not Decoding.KERNELS:
            return self._decode_plain()
        from semel.core.records.arrow import Decoded, decode_batches

        spans: list[Span] = []
        aborted = self._aborted

        def visible(buffer: BytesLike, position: int, header: BatchHeader) -> bool:
            spans.append(_span(header))
            return aborted is None or aborted(buffer, position, header)

        def decode(end: int | None) -> Decoded:
            spans.clear()
            return decode_batches(
                self._data,
                position=self._position,
                end=end,
                fetch_offset=self._offset,
                visible=visible,
                check_crcs=self._check_crcs,
                size_max=self._decode_max_bytes,
            )

        try:
            decoded = decode(None)
        except DAMAGE:
            _, first = next(batch.headers(self._data, self._position))
            decoded = decode(self._position + first.size_bytes)  # Raises if this batch is the damaged one.
        if decoded.position == self._position:
            return None
        self._position, self._offset = decoded.position, decoded.next_offset
        return Piece(self.where, _merged(spans), decoded.next_offset, columns=decoded.records)

    def _decode_plain(self) -> Piece | None:
        records: list[Record] = []
        spans: list[Span] = []
        start = self._position
        try:
            for position, header in batch.headers(self._data, start):
                records += self._visible(position, header)
                spans.append(_span(header))
                self._position = position + header.size_bytes
                self._offset = max(self._offset, header.next_offset)
        except DAMAGE:
            if self._position == start:
                raise
        if self._position == start:
            return None
        return Piece(self.where, _merged(spans), self._offset, records=records)

    def _visible(self, position: int, header: BatchHeader) -> list[Record]:
        if self._check_crcs:
            batch.check_crc(self._data, position, header)
        shown = self._aborted is None or self._aborted(self._data, position, header)
        if header.is_control or not shown:
            return []
        found = iter_records(self._data, position, header)
        return [one for one in found if one.offset >= self._offset]


def end_of(data: BytesLike) -> int | None:
    """The offset after the last whole batch; None if there is no whole one."""
    position, last = 0, -1
    size = len(data)
    while size - position >= batch.HEADER_SIZE:
        _, length = _PLACE.unpack_from(data, position)
        end = position + batch.LOG_OVERHEAD + length
        if length < batch.SIZE_MIN - batch.LOG_OVERHEAD or end > size:
            break
        last, position = position, end
    if last < 0:
        return None
    base_offset: int = _PLACE.unpack_from(data, last)[0]
    delta: int = _LAST_OFFSET_DELTA.unpack_from(data, last + _LAST_OFFSET_DELTA_POSITION)[0]
    return base_offset + delta + 1


def _span(header: BatchHeader) -> Span:
    epoch = header.partition_leader_epoch
    known = None if epoch == NO_PARTITION_LEADER_EPOCH else epoch
    return Span(header.last_offset, header.timestamp_type, known)


def _merged(spans: list[Span]) -> tuple[Span, ...]:
    """Merge neighbours that differ only in their offsets."""
    found: list[Span] = []
    for span in spans:
        if found and found[-1][1:] == span[1:]:
            found[-1] = span
        else:
            found.append(span)
    return tuple(found)
