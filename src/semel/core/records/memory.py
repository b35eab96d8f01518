"""Memory by address, Kafka's numbers, and kernels: one source that runs compiled or in plain Python.

Role.   The building blocks of every kernel: loads, stores and copies on plain addresses, the counterpart of `varint`
        on them, and `kernel`, which registers a loop to be compiled.
Flow.   A module declares its kernels with `kernel` and calls their `run`. `run` is machine code from the start where
        the package has some for this machine (`native`). Elsewhere it is the Python function itself, until `load` has
        it compiled by numba (`jit`).
Rules.  * A kernel takes and returns 64-bit integers only, addresses included: so every way of running it has the same
          calling convention, and no index is checked for wrap-around, which makes loops 4 to 10 times faster.
        * Addresses are not checked. `read_int` and `read_long` stay below `end`; the other functions trust their caller
          to check bounds first.
        * Everything a kernel calls is a `helper`, one of the functions on memory here, or a builtin of integers.
        * No intermediate value leaves 64 bits, except where it is cut by a mask or a store: Python's integers grow.
          Hashes do leave them: the kernels of `compact_kernels` run compiled only.
"""

from collections.abc import Callable
from ctypes import c_int32, c_int64, c_uint8, memmove
from typing import Any, Final, TypeVar

from semel.core.records import native
from semel.core.records.varint import CUT, TOO_LARGE

_Helper = TypeVar("_Helper", bound=Callable[..., Any])
_Integers = Callable[..., int]

SCRATCH_LONGS: Final = 16

_SIGN_OFF: Final = (1 << 63) - 1
_SEVEN_SIGNS_OFF: Final = (1 << 57) - 1


class Kernel:
    """A loop on memory, and the fastest way there is to run it now."""

    __slots__ = ("function", "is_compiled", "name", "run")

    def __init__(self, function: _Integers) -> None:
        self.function = function
        self.name = f"{function.__module__.rpartition('.')[2]}{function.__name__}"
        found = native.function(self.name, function.__code__.co_argcount)
        self.run: _Integers = found or function
        self.is_compiled = found is not None

    def __repr__(self) -> str:
        return f"<Kernel {self.name}, {'compiled' if self.is_compiled else 'in Python'}>"


HELPERS: Final[list[_Integers]] = []
"""Functions that are compiled into the kernels that call them."""


def kernel(function: _Integers) -> Kernel:
    """The function as a kernel."""
    return Kernel(function)


def helper(function: _Helper) -> _Helper:
    """A function that kernels may call."""
    HELPERS.append(function)
    return function


def load(*kernels: Kernel) -> None:
    """Have these kernels compiled, or taken from numba's cache, unless they are compiled already.

    Raises `ImportError` where there is neither machine code for them nor numba.
    """
    if missing := [one for one in kernels if not one.is_compiled]:
        from semel.core.records import jit

        for one in missing:
            one.run = jit.compiled(one.function)
            one.is_compiled = True


# Memory. Compiled, each of these is one instruction or a call of memcpy.


def load_byte(address: int) -> int:
    return c_uint8.from_address(address).value


def load_int(address: int) -> int:
    return c_int32.from_address(address).value


def load_long(address: int) -> int:
    return c_int64.from_address(address).value


def store_byte(address: int, value: int) -> None:
    c_uint8.from_address(address).value = value


def store_int(address: int, value: int) -> None:
    c_int32.from_address(address).value = value


def store_long(address: int, value: int) -> None:
    c_int64.from_address(address).value = value


def copy(target: int, source: int, size: int) -> None:
    memmove(target, source, size)


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
