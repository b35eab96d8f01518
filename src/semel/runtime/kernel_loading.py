"""Loading kernels in the background: a broker serves at once and gets faster when they are loaded.

Role.   Importing numba costs a third of a second and 60 MB, so no request waits for it: until `load_kernels` is done,
        records are checked in plain Python.
Flow.   `semel broker` starts the loading with the first batch, the embedded broker after it has run for a while.
"""

import logging
import threading
from collections.abc import Callable

from semel.core.records.build import load_kernels
from semel.runtime.kernel_cache import use_kernel_cache

_logger = logging.getLogger(__name__)


def load_kernels_beside(*, daemon: bool, then: Callable[[], object] | None = None) -> threading.Thread:
    """Load the compiled kernels on a thread; `then` is called on it once they are in use.

    The process waits for a non-daemon thread at its end, because the compiler may crash without its interpreter.
    """

    def load() -> None:
        use_kernel_cache()
        try:
            load_kernels()
        except Exception:  # Any compiler error: plain Python still works.
            _logger.exception("kernels could not be loaded: records are checked in plain Python, more slowly")
            return
        _logger.info("compiled kernels are in use")
        if then is not None:
            then()

    thread = threading.Thread(target=load, name="semel-kernels", daemon=daemon)
    thread.start()
    return thread
