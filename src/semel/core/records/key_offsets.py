"""Compaction's view of records: the latest offset of every key, and batches without superseded records.

Role.   `KeyOffsets` is the record work of a cleaning: `PlainKeyOffsets` in plain Python, `compact_kernels` compiled.
        The function `key_offsets` chooses.
Flow.   `log.compaction.cleaning` notes the keys of the dirty part, then sieves the log up to the last noted offset.
Rules.  * A record stays if it lies above the last noted offset, or if no later record with its key was noted. A record
          without a key is removed.
        * A record without a value (a tombstone) stays until its batch's delete horizon has passed. The first cleaning
          that keeps it sets the horizon: a flag, and the time in place of the base timestamp. A batch with a time
          before 1970 keeps its tombstones, because a new base timestamp could overflow 64 bits.
        * A kept record keeps its offset, timestamp and bytes; its batch keeps first and last offset, producer and
          sequence. An empty batch is removed, unless its header must stay.
"""

from collections.abc import Collection
from enum import IntEnum
from hashlib import blake2b
from typing import Final, NamedTuple, Protocol

from semel.core.records import batch, build
from semel.core.records.batch import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    BatchHeader,
)
from semel.core.records.varint import append_varint, read_varint
from semel.types import NO_TIMESTAMP, BytesLike

SLOT_BYTES: Final = 24
"""Bytes per key: 16 of hash and 8 of offset, as in Kafka's map."""
_LONG_BITS: Final = 64
_INT_BITS: Final = 32


class Stop(IntEnum):
    """Why a run over a piece stopped. The numbers are shared with the kernels."""

    END = 0
    """No whole batch is left in the piece."""
    HARD = 1
    """The next batch is compressed, transactional or a control batch: the caller handles it alone."""
    FULL = 2
    """The map is full."""
    ROOM = 3
    """The kept records of the next batch may not fit the target."""
    DAMAGED = 4
    """The next batch does not match its header."""


class Progress(NamedTuple):
    """The progress of a run."""

    stop: Stop
    position: int
    """Position of the next batch in the piece."""
    used: int
    """Bytes written to the target."""
    records_read: int
    records_kept: int


class Sieving(NamedTuple):
    """The parameters of a sieving besides the keys."""

    now_ms: int
    """Tombstones with a delete horizon up to this time are removed."""
    horizon_ms: int
    """The delete horizon for tombstones without one."""
    kept_when_empty: Collection[int]
    """Last offsets of the batches whose header stays even without records."""


class IndexEntry(NamedTuple):
    """An entry for the offset index and one for the time index."""

    last_offset: int
    position: int
    largest_timestamp: int
    largest_offset: int


class KeyOffsets(Protocol):
    """The latest offset by key, up to a number of keys."""

    keys_max: int

    @property
    def keys(self) -> int: ...

    @property
    def latest_offset(self) -> int:
        """Keys are noted up to this offset; -1 if none are."""

    def reach(self, offset: int) -> None:
        """Mark all keys up to this offset as noted."""

    def note(self, data: BytesLike, position: int, end: int, start_offset: int) -> Progress:
        """Note keys at or above `start_offset`, up to the first batch that needs preparation."""

    def note_one(self, plain: BytesLike, start_offset: int) -> Progress:
        """Note the keys of one checked and decompressed batch."""

    def begin_sieving(self, sieving: Sieving) -> None: ...

    def sieve(self, data: BytesLike, position: int, end: int, out: bytearray) -> Progress:
        """Append kept records to `out`, up to the first batch that needs preparation."""

    def sieve_one(self, plain: BytesLike, out: bytearray) -> Progress:
        """Append kept records of one checked and decompressed batch."""

    def begin_entries(self) -> None:
        """Start a new segment."""

    def entries(self, data: BytesLike, file_position: int, interval_bytes: int) -> list[IndexEntry]:
        """The index entries of whole batches that will be written at `file_position`."""

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp since `begin_entries`, and the last offset of its batch."""


def key_offsets(*, bytes_max: int, load_factor: float, keys_expected: int, secret: bytes) -> KeyOffsets:
    """A map of at most `bytes_max` bytes, compiled if this process uses kernels.

    The first call may be slow: kernels are compiled, or loaded from the cache.
    """
    if build.kernels_loaded():
        from semel.core.records.compact_kernels import CompiledKeyOffsets

        return CompiledKeyOffsets(
            bytes_max=bytes_max, load_factor=load_factor, keys_expected=keys_expected, secret=secret
        )
    return PlainKeyOffsets(keys_max=int(bytes_max // SLOT_BYTES * load_factor), secret=secret)


class PlainKeyOffsets(KeyOffsets):
    """In plain Python: the caller handles every batch alone."""

    def __init__(self, *, keys_max: int, secret: bytes) -> None:
        self.keys_max = max(1, keys_max)
        self._secret = secret
        self._offsets: dict[bytes, int] = {}
        self._latest_offset = -1
        self._sieving = Sieving(0, 0, ())
        self._since = 0
        self._largest = (NO_TIMESTAMP, 0)

    @property
    def keys(self) -> int:
        return len(self._offsets)

    @property
    def latest_offset(self) -> int:
        return self._latest_offset

    def reach(self, offset: int) -> None:
        self._latest_offset = max(offset, self._latest_offset)

    def note(self, data: BytesLike, position: int, end: int, start_offset: int) -> Progress:  # noqa: ARG002  # The protocol's.
        return Progress(next_stop(data, position, end), position, 0, 0, 0)

    def note_one(self, plain: BytesLike, start_offset: int) -> Progress:
        header = batch.read_header(plain)
        section = memoryview(plain)[HEADER_SIZE:]
        for index, record in enumerate(build.parse(section, header, gaps=True)):
            offset = header.base_offset + record.offset_delta
            start, length = record.key
            if length >= 0 and offset >= start_offset:
                if len(self._offsets) >= self.keys_max:
                    return Progress(Stop.FULL, 0, 0, index, 0)
                self._offsets[self._digest(section[start : start + length])] = offset
                self._latest_offset = offset
        if header.last_offset >= start_offset:
            self.reach(header.last_offset)
        return Progress(Stop.END, len(plain), 0, header.records_count, 0)

    def _digest(self, key: BytesLike) -> bytes:
        return blake2b(key, digest_size=16, key=self._secret).digest()

    def begin_sieving(self, sieving: Sieving) -> None:
        self._sieving = sieving._replace(kept_when_empty=frozenset(sieving.kept_when_empty))

    def sieve(self, data: BytesLike, position: int, end: int, out: bytearray) -> Progress:  # noqa: ARG002  # As above.
        return Progress(next_stop(data, position, end), position, 0, 0, 0)

    def sieve_one(self, plain: BytesLike, out: bytearray) -> Progress:
        header = batch.read_header(plain)
        section = memoryview(plain)[HEADER_SIZE:]
        horizon_ms = header.delete_horizon_ms
        tombstones_stay = horizon_ms is None or self._sieving.now_ms < horizon_ms
        kept: list[tuple[int, int, int]] = []  # Timestamp delta, start and end of the rest of the record.
        largest, tombstones, possible, begin = NO_TIMESTAMP, False, True, 0
        for record in build.parse(section, header, gaps=True):
            length, after = read_varint(section, begin, len(section), _INT_BITS)
            end = after + length
            offset = header.base_offset + record.offset_delta
            if self._stays(section, offset, record, tombstones_stay):
                kept.append((record.timestamp_delta, after, end))
                tombstones = tombstones or record.value[1] < 0
                timestamp = header.base_timestamp + record.timestamp_delta
                largest = max(largest, timestamp)
                possible = possible and timestamp >= NO_TIMESTAMP
            begin = end
        sets_horizon = tombstones and possible and horizon_ms is None
        written = self._write(header, plain, section, kept, largest, sets_horizon)
        if len(written) > len(out):
            return Progress(Stop.ROOM, 0, 0, 0, 0)
        out[: len(written)] = written
        return Progress(Stop.END, len(plain), len(written), header.records_count, len(kept))

    def _stays(
        self, section: memoryview, offset: int, record: build.ParsedRecord, tombstones_stay: bool
    ) -> bool:
        if offset > self._latest_offset:
            return True
        start, length = record.key
        if length < 0 or (record.value[1] < 0 and not tombstones_stay):
            return False
        return offset >= self._offsets.get(self._digest(section[start : start + length]), -1)

    def _write(
        self,
        header: BatchHeader,
        plain: BytesLike,
        section: memoryview,
        kept: list[tuple[int, int, int]],
        largest: int,
        sets_horizon: bool,
    ) -> bytes | bytearray:
        if not kept:
            return empty_batch(header) if header.last_offset in self._sieving.kept_when_empty else b""
        if len(kept) == header.records_count and not sets_horizon:
            return bytes(plain)
        shift = header.base_timestamp - self._sieving.horizon_ms if sets_horizon else 0
        out = bytearray(HEADER_SIZE)
        for timestamp_delta, start, end in kept:
            _delta, rest = read_varint(section, start + 1, end, _LONG_BITS)
            body = bytearray(section[start : start + 1])
            append_varint(body, timestamp_delta + shift)
            body += section[rest:end]
            append_varint(out, len(body))
            out += body
        stamped = header.attributes & TIMESTAMP_TYPE_BIT
        batch.write_header(
            out,
            0,
            header._replace(
                batch_length=len(out) - LOG_OVERHEAD,
                attributes=header.attributes | (DELETE_HORIZON_BIT if sets_horizon else 0),
                base_timestamp=header.base_timestamp - shift,
                max_timestamp=header.max_timestamp if stamped else largest,
                records_count=len(kept),
            ),
        )
        batch.set_crc(out, 0, len(out))
        return out

    def begin_entries(self) -> None:
        self._since, self._largest = 0, (NO_TIMESTAMP, 0)

    def entries(self, data: BytesLike, file_position: int, interval_bytes: int) -> list[IndexEntry]:
        found = []
        for position, header in batch.headers(data):
            if header.max_timestamp > self._largest[0]:
                self._largest = header.max_timestamp, header.last_offset
            if self._since > interval_bytes:
                found.append(IndexEntry(header.last_offset, file_position + position, *self._largest))
                self._since = 0
            self._since += header.size_bytes
        return found

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        return self._largest


def next_stop(data: BytesLike, position: int, end: int) -> Stop:
    """HARD if a whole batch begins at this position of a piece, else END."""
    if end - position < HEADER_SIZE:
        return Stop.END
    header = batch.read_header(data, position)
    if header.size_bytes < HEADER_SIZE or header.magic != batch.MAGIC:
        return Stop.DAMAGED
    return Stop.HARD if header.size_bytes <= end - position else Stop.END


def empty_batch(header: BatchHeader) -> bytearray:
    """A batch without records that keeps the offsets, producer and last sequence of `header`."""
    out = bytearray(HEADER_SIZE)
    flags = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
    batch.write_header(
        out,
        0,
        header._replace(
            batch_length=HEADER_SIZE - LOG_OVERHEAD,
            attributes=header.attributes & flags,
            base_timestamp=NO_TIMESTAMP,
            records_count=0,
        ),
    )
    batch.set_crc(out, 0, HEADER_SIZE)
    return out
