"""Partitions of many keys at once: the Java client's murmur2 over an Arrow column.

Role.   `partitions_of_keys` gives the partition of every key of a column, `NO_KEY` where it is null.
Flow.   `client.producer` partitions the rows of `send_arrow` with it. One key at a time: `semel.client.partitioner`.
Rules.  * A column that points outside its data raises; nothing outside it is read.
"""

from typing import TYPE_CHECKING, Final

from semel.core.records.memory import (
    helper,
    kernel,
    load_byte,
    load_int,
    load_long,
    store_int,
)
from semel.errors import InvalidRecordError

if TYPE_CHECKING:
    import pyarrow as pa

NO_KEY: Final = -1
_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_MASK: Final = 0xFFFFFFFF
_POSITIVE: Final = 0x7FFFFFFF


def partitions_of_keys(keys: "pa.Array", partitions_count: int) -> "pa.Array":
    """The partition of each key, of so many, as an int32 each; `keys` is a column of bytes or text with 32- or 64-bit offsets."""
    import pyarrow as pa

    if not len(keys):
        return pa.array([], pa.int32())
    found = pa.allocate_buffer(4 * len(keys))
    keys.validate()
    validity, offsets, data = keys.buffers()
    wide = pa.types.is_large_binary(keys.type) or pa.types.is_large_string(keys.type)
    bad_row: int = PARTITIONS.run(
        offsets.address,
        data.address if data else 0,
        data.size if data else 0,
        validity.address if validity and keys.null_count else 0,
        keys.offset,
        len(keys),
        int(wide),
        partitions_count,
        found.address,
    )
    if bad_row >= 0:
        raise InvalidRecordError(
            f"row {bad_row}: its key points outside its column: the Arrow array is damaged"
        )
    return pa.Array.from_buffers(pa.int32(), len(keys), [None, found], 0)


def _partitions(
    offsets: int,
    data: int,
    data_size: int,
    validity: int,
    first: int,
    rows: int,
    wide: int,
    partitions_count: int,
    found: int,
) -> int:
    """Write the partition of each row at `found`; the first row that is outside the data, or -1."""
    for row in range(rows):
        at = first + row
        if validity != 0 and (load_byte(validity + (at >> 3)) >> (at & 7)) & 1 == 0:
            store_int(found + 4 * row, NO_KEY)
            continue
        if wide != 0:
            start = load_long(offsets + 8 * at)
            end = load_long(offsets + 8 * at + 8)
        else:
            start = load_int(offsets + 4 * at)
            end = load_int(offsets + 4 * at + 4)
        if start < 0 or end < start or end > data_size:
            return row
        store_int(found + 4 * row, (_murmur2(data + start, end - start) & _POSITIVE) % partitions_count)
    return -1


PARTITIONS: Final = kernel(_partitions)


@helper
def _murmur2(position: int, length: int) -> int:
    h = _SEED ^ (length & _MASK)
    end = position + (length & ~3)
    while position < end:
        k = (load_int(position) * _M) & _MASK
        k ^= k >> 24
        h = ((h * _M) & _MASK) ^ ((k * _M) & _MASK)
        position += 4
    rest = length & 3
    if rest != 0:
        if rest == 3:
            h ^= load_byte(position + 2) << 16
        if rest >= 2:
            h ^= load_byte(position + 1) << 8
        h ^= load_byte(position)
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    return h ^ (h >> 15)
