"""Memory that kernels and Python share: its place is the same whoever tells it, and tables that stay empty take none.

Method: the library's way and the one by ctypes side by side; what is written through the address is read through Python.
"""

import gc
import resource
from array import array
from ctypes import memset

import pytest

from semel.core.records import native

BUFFERS = (
    b"bytes",
    bytearray(b"array"),
    memoryview(b"a view")[2:],
    native.longs(3),
    native.longs(3)[1:],
    memoryview(array("q", [1, 2])),
    native.pages(100),
)


@pytest.mark.parametrize("buffer", BUFFERS, ids=lambda one: f"{type(one).__name__}-{len(one)}")
def test_the_place_of_a_buffer_is_the_same_with_and_without_the_library(
    buffer: bytes | bytearray | memoryview,
) -> None:
    assert native.address(buffer) == native._address_by_ctypes()(buffer)


@pytest.mark.parametrize("address", [native.address, native._address_by_ctypes()])
def test_a_place_is_where_python_s_bytes_are(address: object) -> None:
    assert callable(address)
    for shared in (bytearray(16), native.longs(2), native.pages(16)):
        assert bytes(shared) == bytes(16)
        memset(address(shared), 7, 16)
        assert bytes(shared) == b"\x07" * 16
    assert address(b"") >= 0


def test_an_empty_table_takes_no_memory_and_a_dropped_one_none_at_all() -> None:
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tables = [native.pages(1 << 30) for _ in range(3)]
    assert tables[2][-1] == 0
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (after - before) * 1024 < 256 << 20, "three gigabytes were asked for, and two megabytes touched"
    for _ in range(200):  # 200 GB in all: more than there is, unless each is given back.
        table = native.pages(1 << 30)
        memset(native.address(table), 1, 4096)
