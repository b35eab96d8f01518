"""Times in rows: a shard uses monotonic time, its topic holds wall-clock time.

Role.   The host moves the times of a row by the difference, before it is written and after it is read.
Rules.  * Unset times (-1, 0) stay unset. The same row comes back if it has no times or the clocks agree; they differ
          only after a clock was set or the machine slept.
"""

import copy
from collections.abc import Mapping
from typing import TypeAlias

from semel.core.coordination.outcome import LogRow
from semel.core.wire.message import Row

RowTimes: TypeAlias = Mapping[type[Row], tuple[str, ...]]
"""Class of a row's value -> names of its fields that are times."""


def moved(row: LogRow, times: RowTimes, by_ms: int) -> LogRow:
    """The row with its times shifted by `by_ms`."""
    fields = times.get(type(row.value)) if row.value is not None and by_ms else None
    if fields is None:
        return row
    value = copy.copy(row.value)
    for name in fields:
        time_ms = getattr(value, name)
        if time_ms > 0:
            setattr(value, name, max(1, time_ms + by_ms))
    return row._replace(value=value)
