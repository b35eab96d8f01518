"""Kafka's variable-length numbers in plain Python: zig-zag, seven bits per byte, lowest first.

Role.   Used by `build` and `control`; the compiled form is in `memory`.
Rules.  * An int takes at most 5 bytes, a long at most 10, and both must fit their type: bits beyond it are
          refused, not dropped.
        * Overlong encodings are accepted, as in Kafka, and never written.
"""

from typing import Final

from semel.types import BytesLike

INT_BITS: Final = 32
LONG_BITS: Final = 64
CUT: Final = -1
TOO_LARGE: Final = -2


def append_varint(out: bytearray, value: int) -> None:
    """Append an encoded number of up to 64 bits."""
    zigzag = (value << 1) if value >= 0 else ((-value << 1) - 1)
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def varint(value: int) -> bytes:
    """The encoding of a number of up to 64 bits."""
    if -1 <= value < _SHORT_MAX:
        return _SHORT[value]
    return _encoded(value)


def read_varint(data: BytesLike, position: int, end: int, bits: int) -> tuple[int, int]:
    """(value, next position); a next position of `CUT` or `TOO_LARGE` says why there is no value."""
    zigzag = 0
    shift = 0
    while shift < bits:
        if position >= end:
            return 0, CUT
        byte = data[position]
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                return 0, TOO_LARGE
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7
    return 0, TOO_LARGE


def _encoded(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


# Lengths and deltas are nearly always small. The last entry encodes -1 (null), which Python indexes from the end.
_SHORT_MAX: Final = 1024
_SHORT: Final = (*(_encoded(value) for value in range(_SHORT_MAX)), _encoded(-1))
