"""The kernels that decode records, loaded beside a consumer's first answers.

Role.   `load_decoding` is called on a thread, once per consumer: importing the compiler costs a third of a second and 60 MB.
Rules.  A failure of the compiler is no error: records are read in plain Python then.
"""

import logging

from semel.core.client.fetched import Decoding

_logger = logging.getLogger(__name__)


def load_decoding() -> Decoding:
    """Load the kernels; how records are read from now on."""
    from semel.runtime.kernel_cache import use_kernel_cache

    try:
        use_kernel_cache()
        from semel.core.records import kernels

        kernels.scan_kernel()
        kernels.fill_kernel()
    except Exception:  # Any failure of the compiler: everything works without it.
        _logger.exception("kernels could not be loaded: records are read in plain Python")
        return Decoding.PLAIN
    return Decoding.KERNELS
