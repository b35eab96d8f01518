"""How much work it is to look inside a batch: little enough for the loop, or a thread's.

Role.   `is_heavy` decides from a batch's size, codec and count alone, without decompressing it.
Flow.   Produce asks before it checks batches, ListOffsets before it looks for a time in one.
Rules.  * Whatever the bytes are, a batch that is not heavy costs the loop a few milliseconds.
        * The answer is a guess about work, not about soundness: damaged bytes may be called either.
"""

from typing import Final

from semel.core.records import build, compression
from semel.core.records.batch import (
    ATTRIBUTES_POSITION,
    COMPRESSION_MASK,
    HEADER_SIZE,
    RECORDS_COUNT_POSITION,
)
from semel.types import BytesLike

PLAIN_BYTES_MAX: Final = 1 << 23
"""Bytes of records whose checksum is taken on the loop: about a millisecond."""
RECORDS_MAX: Final = 100_000
"""Records that the kernel scans on the loop: some five milliseconds."""
COMPRESSED_BYTES_MAX: Final = 1 << 15
"""Compressed bytes that are unpacked on the loop: a producer's default batch, twice."""
UNPACKED_BYTES_MAX: Final = 1 << 21
PACKED_BYTES_MAX: Final = 1 << 16
"""Bytes of records that are compressed on the loop, where a topic stores another codec."""
RECORDS_IN_PYTHON_MAX: Final = 1000
"""Records that are looked at on the loop before the kernels are loaded."""


def is_heavy(data: BytesLike, codec_wanted: int | None = None) -> bool:
    """Whether one batch is work for a thread. `codec_wanted`: the codec its topic stores, if it asks for one."""
    if len(data) < HEADER_SIZE:
        return False
    codec = data[ATTRIBUTES_POSITION + 1] & COMPRESSION_MASK
    count = int.from_bytes(data[RECORDS_COUNT_POSITION : RECORDS_COUNT_POSITION + 4], "big")
    if count > (RECORDS_MAX if build.kernels_loaded() else RECORDS_IN_PYTHON_MAX):
        return True
    plain_max = UNPACKED_BYTES_MAX if codec_wanted in (None, codec) else PACKED_BYTES_MAX
    if not codec:
        return len(data) > (PLAIN_BYTES_MAX if codec_wanted in (None, codec) else PACKED_BYTES_MAX)
    if len(data) > COMPRESSED_BYTES_MAX:
        return True
    return compression.unpacked_bound(codec, memoryview(data)[HEADER_SIZE:], plain_max) > plain_max
