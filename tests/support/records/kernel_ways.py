"""The ways kernels run: machine code of the package, numba, and plain Python. Tests hold each to the same answers.

A module of tests that uses the fixture `every_way` runs once per way.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from semel.core.records import jit, native
from semel.core.records.memory import Kernel
from semel.runtime.kernel_cache import kernels_of, use_kernel_cache

WAYS = ("native", "numba", "python")


def run_of(kernel: Kernel, way: str) -> object:
    """What runs this kernel so, or None where it cannot."""
    if way == "python":
        return kernel.function
    if way == "native":
        return native.function(kernel.name, kernel.function.__code__.co_argcount)
    use_kernel_cache()
    return jit.compiled(kernel.function)


@contextmanager
def running(way: str) -> Iterator[None]:
    """All kernels run this way meanwhile. Those of compaction are hashes, which plain Python does not have."""
    kernels = [one for one in kernels_of() if way != "python" or not one.name.startswith("compact")]
    before = [(one, one.run, one.is_compiled) for one in kernels]
    found = [(one, run_of(one, way)) for one in kernels]
    if any(run is None for _one, run in found):
        pytest.skip("no library of kernels was made here: tools/native_kernels.py says why")
    try:
        for one, run in found:
            one.run, one.is_compiled = run, way != "python"  # type: ignore[assignment]
        yield
    finally:
        for one, run_before, was_compiled in before:
            one.run, one.is_compiled = run_before, was_compiled


@pytest.fixture(scope="module", params=WAYS)
def every_way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of the module runs each way."""
    with running(request.param):
        yield
