"""How records are read now: by kernels, or in plain Python until these are there.

Role.   `load_decoding` is called on a thread with the first records: importing Arrow takes a tenth of a second or more.
        `decoding_now` is asked before every piece.
Rules.  * Nobody waits for a compiler: where kernels are not compiled yet, records are read in plain Python.
        * A failure is no error either: records are read in plain Python then.
"""

import logging
from typing import TYPE_CHECKING

from semel.core.client.fetched import Decoding
from semel.runtime.kernel_loading import load_beside

if TYPE_CHECKING:
    from semel.core.records.memory import Kernel

_logger = logging.getLogger(__name__)
_kernels: "tuple[Kernel, ...] | None" = None


def load_decoding() -> None:
    """Import the kernels, and have them compiled if they are not."""
    global _kernels  # noqa: PLW0603  # One process, one set of kernels.
    if _kernels is not None:
        return
    try:
        from semel.core.records import arrow as _needed  # noqa: F401
        from semel.core.records.kernels import FILL, SCAN
    except Exception:  # Whatever is wrong with the installation: plain Python does not need Arrow.
        _logger.exception("kernels could not be loaded: records are read in plain Python")
        _kernels = ()
        return
    load_beside(SCAN, FILL)
    _kernels = (SCAN, FILL)


def decoding_now() -> Decoding:
    """How to read records at this moment."""
    if _kernels is None:
        return Decoding.PLAIN_WHILE_SMALL
    return Decoding.KERNELS if _kernels and all(one.is_compiled for one in _kernels) else Decoding.PLAIN
