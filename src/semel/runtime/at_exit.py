"""The end of the process, in stages: clients flush their records while a broker of the same process still answers.

Role.   `at_exit` registers a call for a stage. One `atexit` function runs all calls, so that the import order of
        modules does not matter.
Flow.   imported: registered with `atexit` -> the main thread and all non-daemon threads have ended -> the calls, stage
        by stage. Loop threads are daemons and still run then.
Rules.  * A forked child of `multiprocessing` ends without `atexit`: `cover_child` registers the calls there too.
        * A call that fails does not prevent the others.
        * No call runs after `os._exit`, a fatal signal, or a power cut.
"""

import atexit
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Final


class Stage(IntEnum):
    """The stages, in order."""

    CLIENTS = 0
    BROKERS = 1


_CALLS: Final[list[tuple[Stage, Callable[[], object]]]] = []
_COVERED_PIDS: Final[set[int]] = set()


def at_exit(stage: Stage, call: Callable[[], object]) -> None:
    """Register a call for the end of the process."""
    _CALLS.append((stage, call))


def cover_child() -> None:
    """Run the calls at the end of this process too, if it is a child of `multiprocessing`. Idempotent."""
    process, util = (sys.modules.get(f"multiprocessing.{name}") for name in ("process", "util"))
    if process is None or util is None or os.getpid() in _COVERED_PIDS or process.parent_process() is None:
        return
    _COVERED_PIDS.add(os.getpid())
    util.Finalize(None, _run, exitpriority=0)


@atexit.register
def _run() -> None:
    failure: BaseException | None = None
    for _stage, call in sorted(_CALLS, key=lambda one: one[0]):
        try:
            call()
        except BaseException as error:  # Ctrl-C as well: the other calls are quick.
            failure = failure or error
    if failure is not None:
        raise failure
