"""The end of the process, in stages: clients store what they were given while a broker of the same process still answers.

Role.   `at_exit` registers a call for a stage. All of them are made by one `atexit` function, so that the order in which modules
        were imported does not matter.
Flow.   imported: registered with `atexit` -> the main thread and every thread that is no daemon have ended -> the calls, stage by
        stage. Threads of loops are daemons, and still run then.
Rules.  * A child of `multiprocessing` that was forked ends without `atexit`: `cover_child` has the calls made there too.
        * A call that fails keeps none of the others from being made.
        * Nothing runs after `os._exit`, a signal that kills, or the end of the machine.
"""

import atexit
import os
import sys
from collections.abc import Callable
from enum import IntEnum
from typing import Final


class Stage(IntEnum):
    """What ends first."""

    CLIENTS = 0
    BROKERS = 1


_CALLS: Final[list[tuple[Stage, Callable[[], object]]]] = []
_COVERED_PIDS: Final[set[int]] = set()


def at_exit(stage: Stage, call: Callable[[], object]) -> None:
    """Have this called when the process ends."""
    _CALLS.append((stage, call))


def cover_child() -> None:
    """Have the calls made at the end of this process, if it is a child of `multiprocessing`. Again is harmless."""
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
        except BaseException as error:  # Ctrl-C as well: the rest is quick.
            failure = failure or error
    if failure is not None:
        raise failure
