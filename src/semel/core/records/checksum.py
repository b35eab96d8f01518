"""CRC-32C inside a kernel: by tables here, by the processor's instruction where the compiler finds it.

Role.   The checksum of a batch for kernels over many batches (`compact_kernels`). Python code uses the package
        `crc32c`.
Flow.   The caller keeps `crc_tables()` alive and passes their address. `jit` puts the instruction in place of `crc_32c`
        if the processor it compiles for has it.
"""

from array import array
from functools import cache
from typing import Final

from semel.core.records.memory import helper, load_byte, load_int, load_long

LOW_32: Final = 0xFFFFFFFF


@cache
def crc_tables() -> memoryview:
    """CRC-32C by eight bytes at a time: eight tables of 256 longs."""
    polynomial = 0x82F63B78
    first = []
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = (crc >> 1) ^ (polynomial if crc & 1 else 0)
        first.append(crc)
    tables = [first]
    for _table in range(7):
        before = tables[-1]
        tables.append([(crc >> 8) ^ first[crc & 0xFF] for crc in before])
    return memoryview(array("q", [crc for table in tables for crc in table]))


@helper
def crc_by_table(at: int, end: int, tables: int) -> int:
    crc = LOW_32
    while end - at >= 8:
        low = (load_int(at) & LOW_32) ^ crc
        high = load_int(at + 4) & LOW_32
        crc = (
            load_long(tables + 8 * (7 * 256 + (low & 0xFF)))
            ^ load_long(tables + 8 * (6 * 256 + ((low >> 8) & 0xFF)))
            ^ load_long(tables + 8 * (5 * 256 + ((low >> 16) & 0xFF)))
            ^ load_long(tables + 8 * (4 * 256 + (low >> 24)))
            ^ load_long(tables + 8 * (3 * 256 + (high & 0xFF)))
            ^ load_long(tables + 8 * (2 * 256 + ((high >> 8) & 0xFF)))
            ^ load_long(tables + 8 * (256 + ((high >> 16) & 0xFF)))
            ^ load_long(tables + 8 * (high >> 24))
        )
        at += 8
    while at < end:
        crc = load_long(tables + 8 * ((crc ^ load_byte(at)) & 0xFF)) ^ (crc >> 8)
        at += 1
    return crc ^ LOW_32


def crc_32c(at: int, end: int, tables: int) -> int:
    """The checksum of the bytes between two addresses."""
    return crc_by_table(at, end, tables)
