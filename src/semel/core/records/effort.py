"""Estimate the work of reading a batch's records: on the event loop, or on a thread.

Role.   `is_heavy` decides from a batch's size, codec and count alone, without decompressing it.
Flow.   Produce calls it before it checks batches, ListOffsets before it searches one for a time.
Rules.  * A batch that is not heavy costs the loop at most a few milliseconds, for any bytes.
        * The estimate says nothing about validity: damaged bytes may give either answer.
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
"""Bytes of records checksummed on the loop: about a millisecond."""
RECORDS_MAX: Final = 100_000
"""Records scanned by the kernel on the loop: about five milliseconds."""
COMPRESSED_BYTES_MAX: Final = 1 << 15
"""Compressed bytes decompressed on the loop: twice a producer's default batch."""
UNPACKED_BYTES_MAX: Final = 1 << 21
PACKED_BYTES_MAX: Final = 1 << 16
"""Bytes of records compressed on the loop, if the topic stores another codec."""
RECORDS_IN_PYTHON_MAX: Final = 1000
"""Records parsed on the loop before the kernels are loaded."""


def is_heavy(data: BytesLike, codec_wanted: int | None = None) -> bool:
    """Whether a batch belongs on a thread. `codec_wanted`: the codec its topic stores, if it sets one."""
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
