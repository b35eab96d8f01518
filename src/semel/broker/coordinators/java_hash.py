"""Which partition of a coordinator's topic a group or a transactional id belongs to, as Kafka decides.

Rules.  * Java's String.hashCode: over UTF-16 units, in 32 bits. Its absolute value, but 0 for the one that has none.
"""

from functools import lru_cache
from typing import Final

_INT_BITS: Final = 0xFFFFFFFF
_INT_MIN: Final = 0x80000000
_KEYS_REMEMBERED: Final = 4096


@lru_cache(maxsize=_KEYS_REMEMBERED)
def partition_for(key: str, partitions: int) -> int:
    """The partition of `partitions` that coordinates `key`."""
    value = java_hash(key)
    if value == _INT_MIN:
        return 0
    return (value if value < _INT_MIN else (1 << 32) - value) % partitions


def java_hash(text: str) -> int:
    """String.hashCode, as an unsigned number of 32 bits."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _INT_BITS
        return value
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    for unit in units:
        value = (31 * value + unit) & _INT_BITS
    return value
