"""Environment variables: the only module below the command line that reads them.

Role.   Finds the folder of compiled kernels, and the service manager that started the process. All other settings are arguments.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

OWN_KERNEL_CACHE: Final = Path(__file__).parent.parent / "__pycache__" / "kernels"
"""The folder of compiled kernels beside the package, used if the configured one is not writable."""


def kernel_cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """`SEMEL_KERNEL_CACHE`, else numba's own setting, else the user's cache folder."""
    for name in ("SEMEL_KERNEL_CACHE", "NUMBA_CACHE_DIR"):
        if given := environment.get(name):
            return Path(given)
    base = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or "~").expanduser() / ".cache"
    return Path(base) / "semel" / "kernels"


def notify_socket(environment: Mapping[str, str] = os.environ) -> str | None:
    """`NOTIFY_SOCKET`: where systemd reads notifications; None if it does not."""
    given = environment.get("NOTIFY_SOCKET", "")
    return given if given.startswith(("/", "@")) else None


def watchdog_seconds(environment: Mapping[str, str], process_id: int) -> float | None:
    """`WATCHDOG_USEC` in seconds, if systemd's watchdog is of this process."""
    given = environment.get("WATCHDOG_USEC", "")
    if not given.isdecimal() or int(given) == 0:
        return None
    return int(given) / 1e6 if environment.get("WATCHDOG_PID", str(process_id)) == str(process_id) else None
