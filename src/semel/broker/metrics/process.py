"""The metrics Prometheus expects of every process: its CPU time, memory, files and start.

Role.   `process_values` for the page of a broker that has a process to itself.
Rules.  Read from /proc; a system without one tells its CPU time alone.
"""

import os
import resource
import time
from collections.abc import Iterator
from typing import Final

from semel.broker.metrics.text import Family

_STAT: Final = "/proc/self/stat"
_START_TICKS: Final = 19  # Of the fields behind the process's name, which may hold blanks.
_RESIDENT_PAGES: Final = 21


def process_values() -> Iterator[tuple[Family, float]]:
    """The values of this process, now."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    yield (
        Family("process_cpu_seconds_total", "counter", "CPU time, of the user and of the system."),
        used.ru_utime + used.ru_stime,
    )
    try:
        with open(_STAT, encoding="utf-8") as stat:
            fields = stat.read().rpartition(")")[2].split()
        open_files = len(os.listdir("/proc/self/fd"))
    except OSError:
        return
    up_seconds = time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START_TICKS]) / os.sysconf(
        "SC_CLK_TCK"
    )
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield from (
        (
            Family("process_resident_memory_bytes", "gauge", "Memory in use."),
            int(fields[_RESIDENT_PAGES]) * resource.getpagesize(),
        ),
        (Family("process_start_time_seconds", "gauge", "When it began."), time.time() - up_seconds),
        (Family("process_open_fds", "gauge", "Open files and sockets."), open_files),
        (Family("process_max_fds", "gauge", "How many there may be."), files_max),
    )
