"""What the environment says: the one place below the command line that reads it.

Role.   Where compiled kernels are kept. Everything else is configured by arguments.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OWN_KERNEL_CACHE: Final = Path(__file__).parent.parent / "__pycache__" / "kernels"
"""Beside the package: where compiled kernels are kept if the configured folder cannot be written."""


def kernel_cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`SEMEL_KERNEL_CACHE`, else numba's own setting, else the user's cache folder."""
    for name in ("SEMEL_KERNEL_CACHE", "NUMBA_CACHE_DIR"):
        if given := environment.get(name):
            return Path(given)
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "~").expanduser() / ".cache"
    return Path(base) / "semel" / "kernels"
