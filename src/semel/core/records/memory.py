"""Compiling kernels: memory by address, Kafka's numbers, and the kernel cache.

Role.   The building blocks of `kernels`, `write_kernels` and `compact_kernels`: loads, stores and copies on plain
        addresses, the compiled counterpart of `varint`, and `compiled`, which turns a function into a kernel.
Flow.   The shell may call `use_kernel_cache`; a kernel is compiled, or loaded from the cache, on first use. An import
        compiles nothing.
Rules.  * Every number in a kernel is an int64, addresses included. Numba's arrays check each index for
          wrap-around and do not become tight loops; on addresses the same loop is 4 to 10 times faster.
        * Addresses are not checked. `read_int` and `read_long` stay below `end`; the other functions trust their caller
          to check bounds first.
        * Without a cache each process compiles the kernel.
"""

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final, TypeVar, cast

import llvmlite.ir as ir
import numpy as np
from crc32c import crc32c
from numba import config, njit, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.extending import intrinsic

from semel.core.records.varint import CUT, TOO_LARGE

Kernel = Callable[..., Any]
_Function = TypeVar("_Function", bound=Callable[..., Any])

LONG: Final = types.int64
BYTES: Final = types.Array(types.uint8, 1, "C", readonly=True)
SCRATCH_LONGS: Final = 16

_OPTIONS: Final = {"nogil": True, "error_model": "numpy"}
_SIGN_OFF: Final = (1 << 63) - 1
_SEVEN_SIGNS_OFF: Final = (1 << 57) - 1
_cache_directory: str | None = None
_is_cached = True


def use_kernel_cache(directory: str | None) -> None:
    """Keep compiled kernels below this directory, or nowhere (None). Call it before the first kernel is used.

    Without it numba decides: `NUMBA_CACHE_DIR`, beside the source, or the user's cache.
    """
    global _cache_directory, _is_cached  # One process, one cache.
    _cache_directory, _is_cached = directory, directory is not None


def compiled(function: Callable[..., Any], signature: Any, sources: Sequence[ModuleType]) -> Kernel:
    """The function compiled for this signature, or loaded from the cache if these sources are unchanged."""
    with global_compiler_lock:  # The setting is global to numba: restore it before releasing the lock.
        everybodys = config.CACHE_DIR
        if directory := _cache_directory or everybodys:
            config.CACHE_DIR = f"{directory}/semel-{_fingerprint(sources)}"
        try:
            kernel: Kernel = njit(signature, cache=_is_cached, **_OPTIONS)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            kernel = njit(signature, **_OPTIONS)(function)
        finally:
            config.CACHE_DIR = everybodys
    return kernel


def _fingerprint(sources: Sequence[ModuleType]) -> str:
    """A name for a state of the sources. Numba itself only notices a change of the file a kernel is in."""
    return f"{crc32c(''.join(map(inspect.getsource, sources)).encode()):08x}"


def helper(function: _Function) -> _Function:
    """A function that is compiled into the kernels that call it."""
    return cast("_Function", njit(forceinline=True, **_OPTIONS)(function))


def signed_only(*arguments: Any) -> None:
    """Refuse other types: numba turns a sum of signed and unsigned integers into a float, which loses bits of an
    address."""
    for argument in arguments:
        if not (isinstance(argument, types.Integer) and argument.signed):
            raise TypingError(f"addresses and values in kernels are signed integers, not {argument}")


def _load_of(bits: int, extend: str) -> Callable[[int], int]:
    def load(_typing: Any, address: Any) -> Any:
        signed_only(address)

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            loaded.align = 1
            return getattr(builder, extend)(loaded, ir.IntType(64)) if bits < 64 else loaded

        return LONG(LONG), generate

    return cast("Callable[[int], int]", intrinsic(load))


def _store_of(bits: int) -> Callable[[int, int], None]:
    def store(_typing: Any, address: Any, value: Any) -> Any:
        signed_only(address, value)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            low_bits = builder.trunc(arguments[1], ir.IntType(bits)) if bits < 64 else arguments[1]
            done = builder.store(low_bits, builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            done.align = 1
            return context.get_dummy_value()

        return types.void(LONG, LONG), generate

    return cast("Callable[[int, int], None]", intrinsic(store))


def _copy(_typing: Any, target: Any, source: Any, size: Any) -> Any:
    signed_only(target, source, size)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, where_from = (builder.inttoptr(address, pointer) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, where_from, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(LONG, LONG, LONG), generate


def _scratch(_typing: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        longs = cgutils.alloca_once(builder, ir.ArrayType(ir.IntType(64), SCRATCH_LONGS), zfill=True)
        return builder.ptrtoint(longs, ir.IntType(64))

    return LONG(), generate


load_byte: Final = _load_of(8, "zext")
load_int: Final = _load_of(32, "sext")
load_long: Final = _load_of(64, "")
store_byte: Final = _store_of(8)
store_int: Final = _store_of(32)
store_long: Final = _store_of(64)
copy: Final = cast("Callable[[int, int, int], None]", intrinsic(_copy))  # Target, source, size.
as_long: Final = cast("Callable[[int], int]", np.int64)  # From unsigned, as array addresses are.
scratch: Final = cast("Callable[[], int]", intrinsic(_scratch))  # Zeroed longs on the kernel's own stack.


@helper
def read_int(position: int, end: int) -> tuple[int, int]:
    """As `varint.read_varint` for 32 bits: (value, next), or next is CUT or TOO_LARGE."""
    if position >= end:
        return 0, CUT
    byte = load_byte(position)
    position += 1
    zigzag = byte & 127
    shift = 7
    while byte > 127:
        if shift == 35:
            return 0, TOO_LARGE
        if position >= end:
            return 0, CUT
        byte = load_byte(position)
        position += 1
        zigzag |= (byte & 127) << shift
        shift += 7
    if zigzag >> 32 != 0:
        return 0, TOO_LARGE
    return (zigzag >> 1) ^ -(zigzag & 1), position


@helper
def read_long(position: int, end: int) -> tuple[int, int]:
    """The same for 64 bits."""
    if position >= end:
        return 0, CUT
    byte = load_byte(position)
    position += 1
    zigzag = byte & 127
    shift = 7
    while byte > 127:
        if shift == 70:
            return 0, TOO_LARGE
        if position >= end:
            return 0, CUT
        byte = load_byte(position)
        position += 1
        if shift == 63 and byte & 126 != 0:
            return 0, TOO_LARGE
        zigzag |= (byte & 127) << shift
        shift += 7
    return ((zigzag >> 1) & _SIGN_OFF) ^ -(zigzag & 1), position


@helper
def take(position: int) -> tuple[int, int]:
    """Read a validated number of either width: (value, next)."""
    byte = load_byte(position)
    position += 1
    zigzag = byte & 127
    shift = 7
    while byte > 127:
        byte = load_byte(position)
        position += 1
        zigzag |= (byte & 127) << shift
        shift += 7
    return ((zigzag >> 1) & _SIGN_OFF) ^ -(zigzag & 1), position


@helper
def put(position: int, value: int) -> int:
    """Write a number of either width; returns the next position."""
    zigzag = (value << 1) ^ (value >> 63)
    while zigzag & ~127 != 0:
        store_byte(position, zigzag | 128)
        position += 1
        zigzag = (zigzag >> 7) & _SEVEN_SIGNS_OFF
    store_byte(position, zigzag)
    return position + 1


@helper
def width(value: int) -> int:
    """Encoded size of a number in bytes."""
    zigzag = (value << 1) ^ (value >> 63)
    count = 1
    while zigzag & ~127 != 0:
        zigzag = (zigzag >> 7) & _SEVEN_SIGNS_OFF
        count += 1
    return count
