"""`semel broker` that profiles itself between two signals.

Role.   `python -m semel.bench.profiled_broker PROFILE …` is `semel broker …`; SIGUSR1 begins a profile of the broker's
        thread, SIGUSR2 ends it and writes it to PROFILE. `profile` starts it and sends the signals.
Rules.  The file appears whole or not at all: whoever waits for it may read it at once.
"""

import cProfile
import os
import runpy
import signal
import sys
from types import FrameType


def run(target: str) -> None:
    """The broker, until it ends."""
    profile = cProfile.Profile()

    def begin(_number: int, _frame: FrameType | None) -> None:
        profile.enable()

    def end(_number: int, _frame: FrameType | None) -> None:
        profile.disable()
        profile.dump_stats(f"{target}.part")
        os.replace(f"{target}.part", target)
        profile.clear()

    signal.signal(signal.SIGUSR1, begin)
    signal.signal(signal.SIGUSR2, end)
    runpy.run_module("semel", run_name="__main__")  # The command itself, which nothing below it may import.


if __name__ == "__main__":
    path = sys.argv.pop(1)
    sys.argv.insert(1, "broker")
    run(path)
