"""The end of a process that was started here: by a signal it may answer, or at once.

Role.   `end` and `kill` for the runners of brokers beside them: a peer that does not end in time is killed.
"""

import subprocess
from typing import Final

_STOP_TIMEOUT_SECONDS: Final = 180.0


def end(process: subprocess.Popen[bytes] | None, *, seconds: float = _STOP_TIMEOUT_SECONDS) -> None:
    """SIGTERM; killed if it takes too long. A process that has ended is left alone."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process: subprocess.Popen[bytes] | None) -> None:
    """SIGKILL, and wait until it is gone."""
    if process is not None:
        process.kill()
        process.wait()
