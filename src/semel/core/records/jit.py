"""Kernels compiled by numba, for machines that the package brings no machine code for, and for making it.

Role.   `compiled` makes a kernel of a Python function, or takes it from numba's cache. `prepare` tells numba about
        helpers and memory; `tools/native_kernels.py` uses it as well.
Flow.   `memory.load` calls it. The shell may call `use_kernel_cache` before.
Rules.  * A kernel is cached below a folder that is named after the sources of all kernels: numba itself notices only
          changes of the file a kernel is in.
        * Loads and stores refuse anything but signed integers: numba turns a sum of signed and unsigned integers into
          a float, which loses bits of an address.
        * Without a cache each process compiles its kernels.
"""

from collections.abc import Callable
from typing import Any, Final

import llvmlite.ir as ir
from llvmlite.binding import get_host_cpu_features, get_process_triple
from numba import config, njit, types
from numba.core import cgutils
from numba.core.compiler_lock import global_compiler_lock
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable

from semel.core.records import checksum, memory, native

LONG: Final = types.int64
OPTIONS: Final = {"nogil": True, "error_model": "numpy"}
_INLINED: Final = {"forceinline": True, **OPTIONS}

_cache_directory: str | None = None
_is_cached = True
_known: set[Callable[..., Any]] = set()


def use_kernel_cache(directory: str | None) -> None:
    """Keep compiled kernels below this directory, or nowhere (None). Call it before the first kernel is compiled.

    Without it numba decides: `NUMBA_CACHE_DIR`, beside the source, or the user's cache.
    """
    global _cache_directory, _is_cached  # One process, one cache.
    _cache_directory, _is_cached = directory, directory is not None


def folder_name() -> str:
    """The name of the folder of kernels made of these sources."""
    return f"semel-{native.fingerprint()}"


def compiled(function: Callable[..., int]) -> Callable[..., int]:
    """The function compiled, or loaded from the cache if the sources of kernels are unchanged."""
    signature = LONG(*[LONG] * function.__code__.co_argcount)
    with global_compiler_lock:  # The setting is global to numba: restore it before releasing the lock.
        prepare()
        everybodys = config.CACHE_DIR
        is_cached = _is_cached and bool(native.fingerprint())
        if directory := _cache_directory or everybodys:
            config.CACHE_DIR = f"{directory}/{folder_name()}"
        try:
            made: Callable[..., int] = njit(signature, cache=is_cached, **OPTIONS)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            made = njit(signature, **OPTIONS)(function)
        finally:
            config.CACHE_DIR = everybodys
    return made


def prepare() -> None:
    """Tell numba what the helpers of kernels are."""
    for helper in memory.HELPERS:
        if helper not in _known:
            _known.add(helper)
            register_jitable(**_INLINED)(helper)


def signed_only(*arguments: Any) -> None:
    """Refuse other types."""
    for argument in arguments:
        if not (isinstance(argument, types.Integer) and argument.signed):
            raise TypingError(f"addresses and values in kernels are signed integers, not {argument}")


def _load_of(bits: int, extend: str) -> Any:
    def load(_typing: Any, address: Any) -> Any:
        signed_only(address)

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            loaded = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            loaded.align = 1
            return getattr(builder, extend)(loaded, ir.IntType(64)) if bits < 64 else loaded

        return LONG(LONG), generate

    return intrinsic(load)


def _store_of(bits: int) -> Any:
    def store(_typing: Any, address: Any, value: Any) -> Any:
        signed_only(address, value)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            low_bits = builder.trunc(arguments[1], ir.IntType(bits)) if bits < 64 else arguments[1]
            done = builder.store(low_bits, builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            done.align = 1
            return context.get_dummy_value()

        return types.void(LONG, LONG), generate

    return intrinsic(store)


def _copy(_typing: Any, target: Any, source: Any, size: Any) -> Any:
    signed_only(target, source, size)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        to, where_from = (builder.inttoptr(address, pointer) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, where_from, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(LONG, LONG, LONG), generate


def _crc_instruction(_typing: Any, crc: Any, word: Any) -> Any:
    signed_only(crc, word)

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        long = ir.IntType(64)
        kind = ir.FunctionType(long, [long, long])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse42.crc32.64.64")
        return builder.call(function, arguments)

    return LONG(LONG, LONG), generate


def _has_crc_instruction() -> bool:
    """Whether numba compiles for a processor that has the instruction, eight times as fast as tables."""
    if not get_process_triple().startswith("x86_64"):
        return False
    if config.CPU_NAME or config.CPU_FEATURES:
        return bool(config.CPU_NAME == BASELINE)
    return bool(get_host_cpu_features().get("sse4.2"))


BASELINE: Final = "x86-64-v2"
"""The least processor that compiled kernels of a wheel run on: pyarrow's wheels ask for as much."""

_crc_of_word: Final = intrinsic(_crc_instruction)


@memory.helper
def _crc_by_instruction(at: int, end: int, tables: int) -> int:
    crc = checksum.LOW_32
    while end - at >= 8:
        crc = _crc_of_word(crc, memory.load_long(at))
        at += 8
    while at < end:
        crc = memory.load_long(tables + 8 * ((crc ^ memory.load_byte(at)) & 0xFF)) ^ (crc >> 8)
        at += 1
    return crc ^ checksum.LOW_32


def _crc_32c(at: Any, end: Any, tables: Any) -> Any:
    signed_only(at, end, tables)
    if _has_crc_instruction():
        return _crc_by_instruction
    return checksum.crc_by_table


overload(checksum.crc_32c, jit_options=_INLINED, strict=False)(_crc_32c)


def _use_on_memory(function: Callable[..., Any], instruction: Any, arguments_count: int) -> None:
    """Compile an intrinsic in place of a Python function on memory."""
    made = {
        1: lambda _one: lambda one: instruction(one),  # noqa: PLW0108  # numba wants a function.
        2: lambda _one, _two: lambda one, two: instruction(one, two),  # noqa: PLW0108
        3: lambda _one, _two, _three: lambda one, two, three: instruction(one, two, three),  # noqa: PLW0108
    }[arguments_count]
    overload(function, jit_options=_INLINED, strict=False)(made)


for _function, _instruction, _count in (
    (memory.load_byte, _load_of(8, "zext"), 1),
    (memory.load_int, _load_of(32, "sext"), 1),
    (memory.load_long, _load_of(64, ""), 1),
    (memory.store_byte, _store_of(8), 2),
    (memory.store_int, _store_of(32), 2),
    (memory.store_long, _store_of(64), 2),
    (memory.copy, intrinsic(_copy), 3),
):
    _use_on_memory(_function, _instruction, _count)
