"""Prevents long garbage collections in a broker's own process.

Role.   A full collection visits every container with all threads stopped: after the creation of a topic with 10,000
        partitions, 140 ms each. `keep_short` freezes the surviving objects as soon as collections grow long.
Flow.   `cli.broker` calls it once the broker serves.
Rules.  * A frozen object is still freed with its last reference; only cycles among frozen objects are not found. A
          broker's cycles (a task's error, a request in progress) are short-lived, so they rarely survive until a long
          collection.
        * Not for an embedded broker: the collector belongs to the user's process.
"""

import gc
import time
from collections.abc import Callable
from typing import Final, Literal

PASS_SECONDS_MAX: Final = 0.01
"""Duration of a full collection above which survivors are frozen: about 30,000 containers."""
_FULL: Final = 2


def keep_short(
    seconds_max: float = PASS_SECONDS_MAX, clock: Callable[[], float] = time.perf_counter
) -> Callable[[], None]:
    """Freeze the survivors of longer collections; returns a function that stops this."""
    began = 0.0

    def look(phase: Literal["start", "stop"], info: dict[str, int]) -> None:
        nonlocal began
        if info["generation"] != _FULL:
            return
        if phase == "start":
            began = clock()
        elif clock() - began > seconds_max:
            gc.freeze()

    gc.callbacks.append(look)
    return lambda: gc.callbacks.remove(look)
