"""Machine code of the kernels that came with the package, if it did.

Role.   `function` finds a kernel in the library that a platform's wheel brings and `make install` builds
        (`tools/native_kernels.py`); `address` gives kernels the place of a buffer, `longs` and `pages` are buffers for
        them.
Flow.   `memory.Kernel` asks once per kernel, when its module is imported.
Rules.  * The library is used only if it was made of these very sources: it has a symbol that names their checksum. A
          kernel that is out of step with its caller would corrupt records.
        * A library that is missing, foreign or out of date is no error: kernels are compiled by numba, or run in Python.
        * Kernels run without the interpreter's lock.
"""

import mmap
import sys
from collections.abc import Callable
from contextlib import suppress
from ctypes import (
    CDLL,
    POINTER,
    PyDLL,
    Structure,
    byref,
    c_char_p,
    c_int,
    c_int64,
    c_ssize_t,
    c_void_p,
    py_object,
)
from functools import cache
from typing import Any, Final

from crc32c import crc32c

from semel.types import BytesLike

LIBRARY: Final = "semel_kernels.so"
_HUGE_BYTES: Final = 4 << 20
SOURCES: Final = (
    "types.py",
    "core/client/partition_kernels.py",
    *(
        f"core/records/{name}.py"
        for name in (
            "batch", "big_endian", "checksum", "compact_kernels", "flaws", "jit", "kernels", "key_offsets", "memory",
            "search_kernels", "siphash", "varint", "write_kernels",
        )
    ),
)  # fmt: skip
"""Everything kernels are made of, below the package."""
_PACKAGE: Final = __file__.removesuffix("core/records/native.py")


@cache
def fingerprint() -> str:
    """A name for this state of the sources; empty if the package has none, as in a zip of bytecode."""
    loader: Any = globals()["__loader__"]
    checksum = 0
    try:
        for name in SOURCES:
            checksum = crc32c(loader.get_data(f"{_PACKAGE}{name}"), checksum)
    except OSError:
        return ""
    return f"{checksum:08x}"


def symbol_of(sources: str) -> str:
    """The symbol that says what a library was made of."""
    return f"semel_kernels_of_{sources}"


@cache
def library() -> str | None:
    """The path of the library, if it is usable here."""
    path = f"{_PACKAGE}core/records/{LIBRARY}"
    if sys.platform != "linux" or sys.byteorder != "little":
        return None
    try:
        found = CDLL(path)
    except OSError:
        return None
    return path if hasattr(found, symbol_of(fingerprint())) else None


def function(name: str, arguments_count: int) -> Callable[..., int] | None:
    """A kernel of the library, or None."""
    if (path := library()) is None:
        return None
    found = CDLL(path)[name]
    found.argtypes = [c_int64] * arguments_count
    found.restype = c_int64
    return found


def _address_of() -> Callable[[BytesLike], int]:
    if (path := library()) is not None:
        found = PyDLL(path)["semel_address"]
        found.argtypes = [py_object]
        found.restype = c_int64
        return found
    return _address_by_ctypes()


class _Buffer(Structure):
    """What Python's stable ABI says of a buffer."""

    _fields_ = (
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("suboffsets", c_void_p),
        ("internal", c_void_p),
    )


def _address_by_ctypes() -> Callable[[BytesLike], int]:
    """The same without the library."""
    python = PyDLL(None)
    get, release = python["PyObject_GetBuffer"], python["PyBuffer_Release"]
    get.argtypes = [py_object, POINTER(_Buffer), c_int]
    release.argtypes = [POINTER(_Buffer)]
    release.restype = None

    def look(data: BytesLike) -> int:
        found = _Buffer()
        get(data, byref(found), 0)
        place: int | None = found.buf
        release(byref(found))
        return place or 0

    return look


address: Final = _address_of()
"""Where the bytes of a buffer are. The caller keeps the buffer alive, and unchanged while a kernel runs."""


def longs(count: int) -> memoryview:
    """So many 64-bit integers, all 0: memory that kernels and Python share."""
    return memoryview(bytearray(8 * count)).cast("q")


def pages(size_bytes: int) -> memoryview:
    """Zeros that take up memory only where something is written, for tables that may stay empty."""
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size_bytes >= _HUGE_BYTES and hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # A kernel without huge pages: the table is a little slower.
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(memory)
