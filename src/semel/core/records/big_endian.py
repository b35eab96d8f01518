"""Kafka's fixed-width numbers at an address, compiled: the large end first.

Role.   How kernels read and patch the header of a batch.
Rules.  * Numbers are signed, except `short_at`: attributes are flags.
        * Addresses are not checked, as in `memory`, which has the varints.
"""

from typing import Final

from semel.core.records.memory import helper, load_byte, store_byte

_LOW_32: Final = 0xFFFFFFFF


@helper
def short_at(at: int) -> int:
    return load_byte(at) << 8 | load_byte(at + 1)


@helper
def int_at(at: int) -> int:
    unsigned = load_byte(at) << 24 | load_byte(at + 1) << 16 | load_byte(at + 2) << 8 | load_byte(at + 3)
    return unsigned - ((unsigned & 0x80000000) << 1)


@helper
def long_at(at: int) -> int:
    return (int_at(at) << 32) | (int_at(at + 4) & _LOW_32)


@helper
def set_short_at(at: int, value: int) -> None:
    store_byte(at, value >> 8)
    store_byte(at + 1, value)


@helper
def set_int_at(at: int, value: int) -> None:
    set_short_at(at, value >> 16)
    set_short_at(at + 2, value)


@helper
def set_long_at(at: int, value: int) -> None:
    set_int_at(at, value >> 32)
    set_int_at(at + 4, value)
