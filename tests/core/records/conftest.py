"""For the tests of records: `every_way` has a module's kernels run as machine code, by numba and in plain Python."""

from support.records.kernel_ways import every_way

__all__ = ["every_way"]
