"""Compaction at memory speed: the latest offset of every key, and batches without superseded records.

Role.   The compiled `key_offsets.PlainKeyOffsets`: the record loops of a cleaning.
Flow.   `note` runs over the dirty part of a log, `sieve` over the whole log, both over pieces of a file with many
        batches. `entries` runs over the kept batches and gives their index entries.
Rules.  * A kernel stops at a batch it cannot handle: compressed, transactional, control or damaged. The caller handles
          that batch and calls again.
        * A batch is used only after its checksum and every bound in it are checked.
        * A key is known by 128 bits of SipHash under a secret of this process: even an attacker cannot make two keys
          collide. The table's capacity is fixed when it is made.
        * Kept records are copied unchanged. Only a batch that gets a delete horizon is re-encoded, because its
          timestamps are relative to the horizon.
Elsewhere. Transactions, compression and files: `log.compaction`. Compiling and memory access: `memory`, `big_endian`,
        `checksum`, `siphash`.
"""

from array import array
from ctypes import addressof, c_int64
from typing import Final

from semel.core.records import kernels
from semel.core.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    CONTROL_BIT,
    CRC_POSITION,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)
from semel.core.records.big_endian import int_at, long_at, set_int_at, set_long_at, set_short_at, short_at
from semel.core.records.checksum import crc_32c, crc_tables
from semel.core.records.key_offsets import SLOT_BYTES, IndexEntry, KeyOffsets, Progress, Sieving, Stop
from semel.core.records.memory import (
    SCRATCH_LONGS,
    copy,
    helper,
    kernel,
    load,
    load_byte,
    load_long,
    put,
    store_byte,
    store_long,
    take,
    width,
)
from semel.core.records.native import address, longs, pages
from semel.core.records.siphash import hash_128
from semel.types import NO_TIMESTAMP, BytesLike

_NEEDS_MORE: Final = COMPRESSION_MASK | TRANSACTIONAL_BIT | CONTROL_BIT
_KEPT_FLAGS: Final = TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
_GROWTH_MAX: Final = 16  # Bytes a record may grow by when its base timestamp changes.
_LOW_32: Final = 0xFFFFFFFF
_FLAW: Final = kernels.FOUND_FLAW

_END: Final = int(Stop.END)
_HARD: Final = int(Stop.HARD)
_FULL: Final = int(Stop.FULL)
_ROOM: Final = int(Stop.ROOM)
_DAMAGED: Final = int(Stop.DAMAGED)

# Layout of the state the kernels share with their caller, in longs.
_TABLE, _SLOTS, _KEYS, _KEYS_MAX, _LATEST, _SECRET_0, _SECRET_1, _CRC_TABLE = 0, 1, 2, 3, 4, 5, 6, 7
_STOP, _POSITION, _USED, _READ, _KEPT = 8, 9, 10, 11, 12
_NOW, _HORIZON, _EMPTY_OFFSETS, _EMPTY_COUNT, _MARKS, _TARGET, _TARGET_SIZE = 13, 14, 15, 16, 17, 18, 19
_FOUND_BY_SCAN: Final = 20
_STATE_SLOTS: Final = _FOUND_BY_SCAN + SCRATCH_LONGS
_State: Final = c_int64 * _STATE_SLOTS

# State of `_entries` between pieces.
_SINCE, _LARGEST, _LARGEST_OFFSET, _FOUND = 0, 1, 2, 3
_WALK_SLOTS: Final = 4
_Walk: Final = c_int64 * _WALK_SLOTS
_ENTRY_LONGS: Final = 4

# Positions of fields in a batch header.
_AT_LENGTH, _AT_MAGIC, _AT_DELTA, _AT_BASE_TIME, _AT_MAX_TIME, _AT_PRODUCER, _AT_COUNT = (
    8,
    16,
    23,
    27,
    35,
    43,
    57,
)


class CompiledKeyOffsets(KeyOffsets):
    """The latest offset by key, in one flat table."""

    def __init__(self, *, bytes_max: int, load_factor: float, keys_expected: int, secret: bytes) -> None:
        slots = max(16, min(bytes_max // SLOT_BYTES, 2 * keys_expected + 16))
        self._table = pages(slots * SLOT_BYTES)
        self._crc = crc_tables()
        self._marks = bytearray()
        self._state = _State()
        self._walk = _Walk()
        self._entries_out = longs(0)
        self._address = addressof(self._state)
        state = self._state
        state[_TABLE] = address(self._table)
        state[_SLOTS] = slots
        state[_KEYS_MAX] = self.keys_max = max(1, min(slots - 1, int(slots * load_factor)))
        state[_LATEST] = -1
        state[_SECRET_0], state[_SECRET_1] = memoryview(secret[:16]).cast("q")
        state[_CRC_TABLE] = address(self._crc)
        load(NOTE, SIEVE, ENTRIES)

    @property
    def keys(self) -> int:
        return self._state[_KEYS]

    @property
    def latest_offset(self) -> int:
        return self._state[_LATEST]

    def reach(self, offset: int) -> None:
        self._state[_LATEST] = max(offset, self.latest_offset)

    def note(self, data: BytesLike, position: int, end: int, start_offset: int) -> Progress:
        return self._note(data, position, end, start_offset, _NEEDS_MORE)

    def note_one(self, plain: BytesLike, start_offset: int) -> Progress:
        return self._note(plain, 0, len(plain), start_offset, 0)

    def _note(self, data: BytesLike, position: int, end: int, start_offset: int, hard: int) -> Progress:
        NOTE.run(address(data), position, end, start_offset, hard, self._address)
        return self._progress()

    def begin_sieving(self, sieving: Sieving) -> None:
        self._empty = memoryview(array("q", sorted(sieving.kept_when_empty)))
        state = self._state
        state[_NOW], state[_HORIZON] = sieving.now_ms, sieving.horizon_ms
        state[_EMPTY_OFFSETS], state[_EMPTY_COUNT] = address(self._empty), len(self._empty)

    def sieve(self, data: BytesLike, position: int, end: int, out: bytearray) -> Progress:
        return self._sieve(data, position, end, out, _NEEDS_MORE)

    def sieve_one(self, plain: BytesLike, out: bytearray) -> Progress:
        return self._sieve(plain, 0, len(plain), out, 0)

    def _sieve(self, data: BytesLike, position: int, end: int, out: bytearray, hard: int) -> Progress:
        if len(self._marks) < len(data):
            self._marks = bytearray(len(data))
            self._state[_MARKS] = address(self._marks)
        self._state[_TARGET], self._state[_TARGET_SIZE] = address(out), len(out)
        SIEVE.run(address(data), position, end, hard, self._address)
        return self._progress()

    def _progress(self) -> Progress:
        state = self._state
        return Progress(Stop(state[_STOP]), state[_POSITION], state[_USED], state[_READ], state[_KEPT])

    def begin_entries(self) -> None:
        self._walk[:] = [0, NO_TIMESTAMP, 0, 0]

    def entries(self, data: BytesLike, file_position: int, interval_bytes: int) -> list[IndexEntry]:
        room = _ENTRY_LONGS * (len(data) // HEADER_SIZE + 1)
        if len(self._entries_out) < room:
            self._entries_out = longs(room)
        ENTRIES.run(
            address(data),
            len(data),
            file_position,
            interval_bytes,
            addressof(self._walk),
            address(self._entries_out),
        )
        cells = iter(self._entries_out[: self._walk[_FOUND] * _ENTRY_LONGS])
        return [IndexEntry(*row) for row in zip(*[cells] * _ENTRY_LONGS, strict=True)]

    @property
    def largest_timestamp(self) -> tuple[int, int]:
        return self._walk[_LARGEST], self._walk[_LARGEST_OFFSET]


def _note(start: int, position: int, end: int, start_offset: int, hard: int, state: int) -> int:
    """Note the keys of the batches in [position, end) of a piece that begins at `start`."""
    found = state + 8 * _FOUND_BY_SCAN
    records_read = 0
    stop = _END
    while True:
        stop, size = _next_batch(start + position, start + end, hard, state, found)
        if stop != _END or size == 0:
            break
        at = start + position
        base_offset = long_at(at)
        record = at + HEADER_SIZE
        for _ in range(int_at(at + _AT_COUNT)):
            length, record = take(record)
            record_end = record + length
            _timestamp, record = take(record + 1)
            delta, record = take(record)
            key_length, record = take(record)
            if key_length >= 0 and base_offset + delta >= start_offset:
                if load_long(state + 8 * _KEYS) >= load_long(state + 8 * _KEYS_MAX):
                    stop = _FULL
                    break
                _put_key(state, record, key_length, base_offset + delta)
            records_read += 1
            record = record_end
        if stop == _FULL:
            break
        last_offset = base_offset + int_at(at + _AT_DELTA)
        if last_offset >= start_offset and last_offset > load_long(state + 8 * _LATEST):
            store_long(state + 8 * _LATEST, last_offset)
        position += size
    _report(state, stop, position, 0, records_read, 0)
    return 0


NOTE: Final = kernel(_note)


def _sieve(start: int, position: int, end: int, hard: int, state: int) -> int:
    """Copy the records to keep of the batches in [position, end) to the target."""
    target = load_long(state + 8 * _TARGET)
    target_size = load_long(state + 8 * _TARGET_SIZE)
    found = state + 8 * _FOUND_BY_SCAN
    used = records_read = records_kept = 0
    stop = _END
    while True:
        stop, size = _next_batch(start + position, start + end, hard, state, found)
        if stop != _END or size == 0:
            break
        at = start + position
        count = int_at(at + _AT_COUNT)
        if used + size + _GROWTH_MAX * count > target_size:
            stop = _ROOM
            break
        kept, written = _sieve_batch(at, size, count, target + used, state)
        used += written
        records_read += count
        records_kept += kept
        position += size
    _report(state, stop, position, used, records_read, records_kept)
    return 0


SIEVE: Final = kernel(_sieve)


@helper
def _report(state: int, stop: int, position: int, used: int, records_read: int, records_kept: int) -> None:
    store_long(state + 8 * _STOP, stop)
    store_long(state + 8 * _POSITION, position)
    store_long(state + 8 * _USED, used)
    store_long(state + 8 * _READ, records_read)
    store_long(state + 8 * _KEPT, records_kept)


@helper
def _next_batch(at: int, end: int, hard: int, state: int, found: int) -> tuple[int, int]:
    """(END, size) of a validated batch; (END, 0) if no whole one is left; else the reason to stop."""
    if end - at < HEADER_SIZE:
        return _END, 0
    size = LOG_OVERHEAD + int_at(at + _AT_LENGTH)
    if size < HEADER_SIZE or load_byte(at + _AT_MAGIC) != MAGIC:
        return _DAMAGED, 0
    if size > end - at:
        return _END, 0
    if short_at(at + ATTRIBUTES_POSITION) & hard != 0:
        return _HARD, 0
    if hard != 0 and crc_32c(at + ATTRIBUTES_POSITION, at + size, load_long(state + 8 * _CRC_TABLE)) != (
        int_at(at + CRC_POSITION) & _LOW_32
    ):
        return _DAMAGED, 0
    delta = int_at(at + _AT_DELTA)
    if delta < 0:
        return _DAMAGED, 0
    kernels.scan_records(
        at + HEADER_SIZE, at + size, int_at(at + _AT_COUNT), delta, long_at(at + _AT_BASE_TIME), 1, 0, found
    )
    if load_long(found + 8 * _FLAW) != 0:
        return _DAMAGED, 0
    return _END, size


@helper
def _sieve_batch(at: int, size: int, count: int, target: int, state: int) -> tuple[int, int]:
    """(records kept, bytes written)."""
    attributes = short_at(at + ATTRIBUTES_POSITION)
    base_offset = long_at(at)
    base_timestamp = long_at(at + _AT_BASE_TIME)
    latest = load_long(state + 8 * _LATEST)
    has_horizon = attributes & DELETE_HORIZON_BIT != 0
    tombstones_stay = not has_horizon or load_long(state + 8 * _NOW) < base_timestamp
    marks = load_long(state + 8 * _MARKS)
    kept = tombstones = impossible = 0
    largest = NO_TIMESTAMP
    record = at + HEADER_SIZE
    for index in range(count):
        length, record = take(record)
        record_end = record + length
        timestamp_delta, record = take(record + 1)
        delta, record = take(record)
        key_length, record = take(record)
        key = record
        value_length, record = take(record + max(key_length, 0))
        stays = base_offset + delta > latest
        if not stays and key_length >= 0 and (value_length >= 0 or tombstones_stay):
            stays = base_offset + delta >= _get_key(state, key, key_length)
        store_byte(marks + index, 1 if stays else 0)
        if stays:
            kept += 1
            tombstones += value_length < 0
            largest = max(largest, base_timestamp + timestamp_delta)
            impossible += base_timestamp + timestamp_delta < NO_TIMESTAMP
        record = record_end
    if kept == 0:
        if not _is_kept_when_empty(state, base_offset + int_at(at + _AT_DELTA)):
            return 0, 0
        _write_empty(at, target, attributes)
        _write_crc(target, HEADER_SIZE, state)
        return 0, HEADER_SIZE
    sets_horizon = tombstones > 0 and not has_horizon and impossible == 0
    if kept == count and not sets_horizon:
        copy(target, at, size)
        return kept, size
    shift = 0
    if sets_horizon:
        shift = base_timestamp - load_long(state + 8 * _HORIZON)
    written = HEADER_SIZE + _copy_records(at + HEADER_SIZE, count, marks, target + HEADER_SIZE, shift)
    copy(target, at, HEADER_SIZE)
    set_int_at(target + _AT_LENGTH, written - LOG_OVERHEAD)
    set_int_at(target + _AT_COUNT, kept)
    if sets_horizon:
        set_short_at(target + ATTRIBUTES_POSITION, attributes | DELETE_HORIZON_BIT)
        set_long_at(target + _AT_BASE_TIME, base_timestamp - shift)
    if attributes & TIMESTAMP_TYPE_BIT == 0:
        set_long_at(target + _AT_MAX_TIME, largest)
    _write_crc(target, written, state)
    return kept, written


@helper
def _copy_records(record: int, count: int, marks: int, target: int, shift: int) -> int:
    """Copy the marked records and add `shift` to their timestamp deltas; returns the number of bytes."""
    position = target
    for index in range(count):
        begin = record
        length, record = take(record)
        record_end = record + length
        if load_byte(marks + index) == 0:
            record = record_end
            continue
        if shift == 0:
            copy(position, begin, record_end - begin)
            position += record_end - begin
        else:
            attributes = load_byte(record)
            timestamp_delta, rest = take(record + 1)
            rest_size = record_end - rest
            position = put(position, 1 + width(timestamp_delta + shift) + rest_size)
            store_byte(position, attributes)
            position = put(position + 1, timestamp_delta + shift)
            copy(position, rest, rest_size)
            position += rest_size
        record = record_end
    return position - target


@helper
def _write_empty(at: int, target: int, attributes: int) -> None:
    """Write a batch without records that keeps its offsets, producer and last sequence."""
    copy(target, at, HEADER_SIZE)
    set_int_at(target + _AT_LENGTH, HEADER_SIZE - LOG_OVERHEAD)
    set_short_at(target + ATTRIBUTES_POSITION, attributes & _KEPT_FLAGS)
    set_long_at(target + _AT_BASE_TIME, NO_TIMESTAMP)
    set_int_at(target + _AT_COUNT, 0)


@helper
def _write_crc(at: int, size: int, state: int) -> None:
    set_int_at(
        at + CRC_POSITION, crc_32c(at + ATTRIBUTES_POSITION, at + size, load_long(state + 8 * _CRC_TABLE))
    )


@helper
def _is_kept_when_empty(state: int, last_offset: int) -> bool:
    offsets = load_long(state + 8 * _EMPTY_OFFSETS)
    low = 0
    high = load_long(state + 8 * _EMPTY_COUNT)
    while low < high:
        middle = (low + high) >> 1
        found = load_long(offsets + 8 * middle)
        if found == last_offset:
            return True
        if found < last_offset:
            low = middle + 1
        else:
            high = middle
    return False


def _entries(start: int, end: int, file_position: int, interval_bytes: int, walk: int, out: int) -> int:
    """The index entries of batches that will be written at `file_position`."""
    since = load_long(walk + 8 * _SINCE)
    largest = load_long(walk + 8 * _LARGEST)
    largest_offset = load_long(walk + 8 * _LARGEST_OFFSET)
    found = position = 0
    while position < end:
        at = start + position
        last_offset = long_at(at) + int_at(at + _AT_DELTA)
        timestamp = long_at(at + _AT_MAX_TIME)
        size = LOG_OVERHEAD + int_at(at + _AT_LENGTH)
        if timestamp > largest:
            largest = timestamp
            largest_offset = last_offset
        if since > interval_bytes:
            entry = out + 8 * _ENTRY_LONGS * found
            store_long(entry, last_offset)
            store_long(entry + 8, file_position + position)
            store_long(entry + 16, largest)
            store_long(entry + 24, largest_offset)
            found += 1
            since = 0
        since += size
        position += size
    store_long(walk + 8 * _SINCE, since)
    store_long(walk + 8 * _LARGEST, largest)
    store_long(walk + 8 * _LARGEST_OFFSET, largest_offset)
    store_long(walk + 8 * _FOUND, found)
    return 0


ENTRIES: Final = kernel(_entries)


# The table.


@helper
def _put_key(state: int, key: int, length: int, offset: int) -> None:
    first, second = hash_128(key, length, load_long(state + 8 * _SECRET_0), load_long(state + 8 * _SECRET_1))
    slot, is_new = _slot(state, first, second)
    if is_new:
        store_long(slot, first)
        store_long(slot + 8, second)
        store_long(state + 8 * _KEYS, load_long(state + 8 * _KEYS) + 1)
    store_long(slot + 16, offset + 1)
    store_long(state + 8 * _LATEST, offset)


@helper
def _get_key(state: int, key: int, length: int) -> int:
    """The offset noted for a key, or -1."""
    first, second = hash_128(key, length, load_long(state + 8 * _SECRET_0), load_long(state + 8 * _SECRET_1))
    slot, _is_new = _slot(state, first, second)
    return load_long(slot + 16) - 1


@helper
def _slot(state: int, first: int, second: int) -> tuple[int, bool]:
    """The slot of a hash, and whether it is free, that is, the key is unknown. One slot is always free."""
    table = load_long(state + 8 * _TABLE)
    slots = load_long(state + 8 * _SLOTS)
    number = (first & 0x7FFFFFFFFFFFFFFF) % slots
    while True:
        slot = table + SLOT_BYTES * number
        if load_long(slot + 16) == 0:
            return slot, True
        if load_long(slot) == first and load_long(slot + 8) == second:
            return slot, False
        number += 1
        if number == slots:
            number = 0
