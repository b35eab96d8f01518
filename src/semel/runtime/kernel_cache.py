"""Compiled kernels on disk: compiled once, so that later processes start fast.

Role.   `use_kernel_cache` points the pure kernels at a folder that can be written; `warm` fills it.
Flow.   `make install` runs this module. A broker or client calls `use_kernel_cache` before its first kernel.
Rules.  * A configured folder that is not writable is not an error: kernels are kept beside the package, with a log line
          at INFO. If that is read-only too, every process compiles its kernels, with a warning.
        * Broker, producers and consumers of a process all call `use_kernel_cache`. Each folder is checked and logged
          once.
"""

import logging
import os
import tempfile
import threading
import time
from pathlib import Path

from semel.runtime.config import OWN_KERNEL_CACHE, kernel_cache_directory

_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_chosen: dict[Path, Path | None] = {}
"""The folder used for each requested one: itself, another, or none."""


def use_kernel_cache(directory: Path | None = None) -> Path | None:
    """Keep compiled kernels in `directory` (the configured one if None), or beside the package. Returns the folder, or
    None."""
    directory = kernel_cache_directory() if directory is None else directory
    with _lock:
        if directory not in _chosen:
            _chosen[directory] = _choose(directory)
        chosen = _chosen[directory]
    from semel.core.records.memory import use_kernel_cache as use

    use(None if chosen is None else str(chosen))
    return chosen


def _choose(directory: Path) -> Path | None:
    why = _obstacle(directory)
    if why is None:
        return directory
    why_beside = _obstacle(OWN_KERNEL_CACHE)
    if why_beside is None:
        _logger.info(
            "compiled kernels are kept in %s: %s is not writable (%s)", OWN_KERNEL_CACHE, directory, why
        )
        return OWN_KERNEL_CACHE
    _logger.warning(
        "compiled kernels are not cached, so every process compiles them again: %s is not writable (%s), nor is %s (%s); "
        "set SEMEL_KERNEL_CACHE to a writable folder",
        directory,
        why,
        OWN_KERNEL_CACHE,
        why_beside,
    )
    return None


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


def _obstacle(directory: Path) -> str | None:
    """Why the folder is not writable; None if it is."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=directory)
    except OSError as error:
        return error.strerror or str(error)
    os.close(descriptor)
    Path(name).unlink()
    return None


def main() -> None:
    started = time.monotonic()
    kept = use_kernel_cache()
    warm()
    where = "kept nowhere" if kept is None else f"kept in {kept}"
    print(f"kernels ready in {time.monotonic() - started:.1f} s, {where}")


if __name__ == "__main__":
    main()
