"""Compiled kernels on disk: found or compiled once, so that the next process starts in a moment.

Role.   `use_kernel_cache` points the pure kernels at a folder that can be written; `warm` fills it.
Flow.   `make install` runs this module. A broker or client calls `use_kernel_cache` before its first kernel.
Rules.  A folder that cannot be written is no error: the kernels are then compiled anew in every process, and a line in
        the log says so.
"""

import logging
import os
import tempfile
import time
from pathlib import Path

from semel.runtime.config import kernel_cache_directory

_logger = logging.getLogger(__name__)


def use_kernel_cache(directory: Path | None = None) -> bool:
    """Keep compiled kernels in `directory` (the configured one if None); whether it can be written."""
    directory = kernel_cache_directory() if directory is None else directory
    if not _writable(directory):
        _logger.warning("%s cannot be written: kernels are compiled anew by every process", directory)
        return False
    from semel.core.records.memory import use_kernel_cache as use

    use(str(directory))
    return True


def warm() -> None:
    """Compile every kernel that is not in the cache yet."""
    from semel.core.client import partition_kernels
    from semel.core.records import compact_kernels, kernels, search_kernels, write_kernels

    kernels.scan_kernel()
    kernels.survey_kernel()
    kernels.fill_kernel()
    write_kernels.plan_kernel()
    write_kernels.write_kernel()
    partition_kernels.partitions_kernel()
    compact_kernels.note_kernel()
    compact_kernels.sieve_kernel()
    compact_kernels.entries_kernel()
    search_kernels.first_kernel()
    search_kernels.outlaws_kernel()


def _writable(directory: Path) -> bool:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory)
    except OSError:
        return False
    os.close(descriptor)
    Path(name).unlink()
    return True


def main() -> None:
    started = time.monotonic()
    use_kernel_cache()
    warm()
    print(f"kernels ready in {time.monotonic() - started:.1f} s, kept in {kernel_cache_directory()}")


if __name__ == "__main__":
    main()
