"""Kernels loaded beside the work: a broker serves from its first moment and gets faster when they are there.

Role.   Importing numba costs a third of a second and 60 MB, so nobody waits for it: until `load_kernels` is done,
        records are checked in plain Python.
Flow.   `semel broker` begins a loading when the first batch comes, the embedded broker once it has lived for a while.
"""

import logging
import threading
from collections.abc import Callable

from semel.core.records.build import load_kernels
from semel.runtime.kernel_cache import use_kernel_cache

_logger = logging.getLogger(__name__)


def load_kernels_beside(*, daemon: bool, then: Callable[[], object] | None = None) -> threading.Thread:
    """Load the compiled kernels on a thread; `then` is called on it once they are in use.

    A thread that is no daemon is waited for when the process ends: the compiler does not like to lose its interpreter.
    """

    def load() -> None:
        use_kernel_cache()
        try:
            load_kernels()
        except Exception:  # Whatever the compiler could not do: everything works without it.
            _logger.exception("kernels could not be loaded: records go on being checked in plain Python")
            return
        _logger.info("compiled kernels are in use")
        if then is not None:
            then()

    thread = threading.Thread(target=load, name="semel-kernels", daemon=daemon)
    thread.start()
    return thread
