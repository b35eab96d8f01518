"""CRC-32C inside a kernel, by the processor's instruction where it has one, by tables elsewhere.

Role.   The checksum of a batch for kernels over many batches (`compact_kernels`). Python code uses the package
        `crc32c`.
Flow.   The caller keeps `crc_tables()` alive and passes their address.
Rules.  The instruction is used only if numba compiles for the processor it runs on.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final, cast

import llvmlite.ir as ir
import numpy as np
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import config
from numba.core import cgutils
from numba.extending import intrinsic

from semel.core.records.memory import LONG, helper, load_byte, load_int, load_long, signed_only

_LOW_32: Final = 0xFFFFFFFF


@cache
def crc_tables() -> "np.ndarray[Any, Any]":
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
    return np.array(tables, np.int64)


def _crc_by_table(at: int, end: int, tables: int) -> int:
    crc = _LOW_32
    while end - at >= 8:
        low = (load_int(at) & _LOW_32) ^ crc
        high = load_int(at + 4) & _LOW_32
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
    return crc ^ _LOW_32


def _crc_by_instruction(at: int, end: int, tables: int) -> int:
    crc = _LOW_32
    while end - at >= 8:
        crc = _crc_of_word(crc, load_long(at))
        at += 8
    while at < end:
        crc = load_long(tables + 8 * ((crc ^ load_byte(at)) & 0xFF)) ^ (crc >> 8)
        at += 1
    return crc ^ _LOW_32


def _crc_instruction(_typing: Any, crc: Any, word: Any) -> Any:
    signed_only(crc, word)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        long = ir.IntType(64)
        kind = ir.FunctionType(long, [long, long])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
        return builder.call(function, arguments)

    return LONG(LONG, LONG), generate


def _has_crc_instruction() -> bool:
    """Whether numba compiles for this processor, and it has the instruction, eight times as fast as tables."""
    if config.CPU_NAME or config.CPU_FEATURES:
        return False
    return bool(get_host_cpu_features().get("sse4.2")) and get_process_triple().startswith("x86_64")


_crc_of_word: Final = cast("Callable[[int, int], int]", intrinsic(_crc_instruction))
crc_32c: Final = helper(_crc_by_instruction if _has_crc_instruction() else _crc_by_table)
