"""A keyed hash of 128 bits, compiled: SipHash-1-3.

Role.   Compaction identifies keys by this hash: `compact_kernels` keeps hashes in its table.
Rules.  * With the caller's secret no client can craft two keys with one hash (docs/decisions/0008).
        * `hash_128` reads `length` bytes at an address without a check.
"""

from semel.core.records.memory import helper, load_byte, load_long


@helper
def hash_128(at: int, length: int, key_0: int, key_1: int) -> tuple[int, int]:
    """The two halves of the hash of `length` bytes at an address, under a key of two longs."""
    v0 = key_0 ^ 0x736F6D6570736575
    v1 = key_1 ^ 0x646F72616E646F6D ^ 0xEE
    v2 = key_0 ^ 0x6C7967656E657261
    v3 = key_1 ^ 0x7465646279746573
    end = at + (length & ~7)
    while at < end:
        word = load_long(at)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        at += 8
    word = (length & 0xFF) << 56
    for index in range(length & 7):
        word |= load_byte(at + index) << (8 * index)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in range(3):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@helper
def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 += v1
    v1 = _turned(v1, 13) ^ v0
    v0 = _turned(v0, 32)
    v2 += v3
    v3 = _turned(v3, 16) ^ v2
    v0 += v3
    v3 = _turned(v3, 21) ^ v0
    v2 += v1
    v1 = _turned(v1, 17) ^ v2
    v2 = _turned(v2, 32)
    return v0, v1, v2, v3


@helper
def _turned(value: int, bits: int) -> int:
    """Rotated to the left."""
    return (value << bits) | ((value >> (64 - bits)) & ((1 << bits) - 1))
