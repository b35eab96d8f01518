"""Kernels compiled by numba, on disk: compiled once, so that later processes start fast.

Role.   `use_kernel_cache` points numba at a folder that can be written; `warm` fills it. Nothing of this is needed where
        the package brings machine code (`core.records.native`).
Flow.   `kernel_loading` uses the folder. `make install` runs this module where there is no C compiler, and
        `kernel_loading` runs it as a process of its own.
Rules.  * A configured folder that is not writable is not an error: kernels are kept beside the package, with a log line
          at INFO. If that is read-only too, every process compiles its kernels, with a warning.
        * Each folder is checked and logged once in a process.
        * One process fills a folder; others wait for it.
"""

import fcntl
import importlib
import logging
import os
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from semel.core.records.memory import Kernel, load
from semel.runtime.config import OWN_KERNEL_CACHE, kernel_cache_directory

KERNEL_MODULES: Final = (
    "semel.core.records.kernels",
    "semel.core.records.write_kernels",
    "semel.core.client.partition_kernels",
    "semel.core.records.search_kernels",
    "semel.core.records.compact_kernels",
)
_logger = logging.getLogger(__name__)
_lock = threading.Lock()
_chosen: dict[Path, Path | None] = {}
"""The folder used for each requested one: itself, another, or none."""


def use_kernel_cache(directory: Path | None = None) -> Path | None:
    """Keep compiled kernels in `directory` (the configured one if None), or beside the package. Returns the folder, or
    None. Imports numba."""
    directory = kernel_cache_directory() if directory is None else directory
    with _lock:
        if directory not in _chosen:
            _chosen[directory] = _choose(directory)
        chosen = _chosen[directory]
    from semel.core.records.jit import use_kernel_cache as use

    use(None if chosen is None else str(chosen))
    return chosen


def kernels_of(modules: Sequence[str] = KERNEL_MODULES) -> list[Kernel]:
    """Every kernel of these modules."""
    found = [vars(importlib.import_module(name)).values() for name in modules]
    return [one for values in found for one in values if isinstance(one, Kernel)]


def warm() -> None:
    """Compile every kernel that is not compiled, or in the cache, yet."""
    if missing := [one for one in kernels_of() if not one.is_compiled]:
        use_kernel_cache()
        load(*missing)


def is_filled(directory: Path) -> bool:
    """Whether the folder had all kernels, as numba would compile them in this process, when it was filled."""
    return _mark(directory).exists()


def fill(directory: Path) -> None:
    """Compile into the folder, or wait for the process that does."""
    with (directory / "filling").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        load(*kernels_of())
        with suppress(FileNotFoundError):  # Nothing is kept where numba cannot name the sources.
            _mark(directory).touch()


def _mark(directory: Path) -> Path:
    import llvmlite.binding as llvm
    import numba

    from semel.core.records.jit import folder_name

    made_by = f"{sys.implementation.cache_tag}-{numba.__version__}-{llvm.get_host_cpu_name()}"
    return directory / folder_name() / f"filled-{made_by}"


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


def beside(directory: str) -> None:
    """Fill the cache for another process, and let everybody else go first."""
    os.nice(5)
    use_kernel_cache(Path(directory))
    fill(Path(directory))


def main() -> None:
    started = time.monotonic()
    if all(one.is_compiled for one in kernels_of()):
        where = "part of the package"
    elif (kept := use_kernel_cache()) is None:
        load(*kernels_of())
        where = "kept nowhere"
    else:
        fill(kept)
        where = f"kept in {kept}"
    print(f"kernels ready in {time.monotonic() - started:.1f} s, {where}")


if __name__ == "__main__":
    main()
