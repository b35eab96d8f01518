"""Machine code of the kernels that came with the package, if it did.

Role.   `function` finds a kernel in the library that a platform's wheel brings and `make install` builds
        (`tools/native_kernels.py`); `address` gives kernels the place of a buffer.
Flow.   `memory.Kernel` asks once per kernel, when its module is imported.
Rules.  * The library is used only if it was made of these very sources: it has a symbol that names their checksum. A
          kernel that is out of step with its caller would corrupt records.
        * A library that is missing, foreign or out of date is no error: kernels are compiled by numba, or run in Python.
        * Kernels run without the interpreter's lock.
"""

import sys
from collections.abc import Callable
from ctypes import CDLL, PyDLL, c_int64, py_object
from functools import cache
from typing import Any, Final

from crc32c import crc32c

from semel.types import BytesLike

LIBRARY: Final = "semel_kernels.so"
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
    import numpy as np

    return lambda data: np.frombuffer(data, np.uint8).ctypes.data


address: Final = _address_of()
"""Where the bytes of a buffer are. The caller keeps the buffer alive, and unchanged while a kernel runs."""
