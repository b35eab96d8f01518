"""Times in rows: a shard counts in time that does not jump, its topic holds what the wall clock says.

Role.   The host moves the times of a row by the difference, before it is written and after it is read.
Rules.  * Times that are not given (-1, 0) stay so. A row without times is the same row, and so is any row while the clocks
          agree, which they do unless somebody has set one or the machine has slept.
"""

import copy
from collections.abc import Mapping
from typing import TypeAlias

from semel.core.coordination.outcome import LogRow
from semel.core.wire.message import Row

RowTimes: TypeAlias = Mapping[type[Row], tuple[str, ...]]
"""By the class of a row's value: which of its fields are times."""


def moved(row: LogRow, times: RowTimes, by_ms: int) -> LogRow:
    """The row with its times so much later."""
    fields = times.get(type(row.value)) if row.value is not None and by_ms else None
    if fields is None:
        return row
    value = copy.copy(row.value)
    for name in fields:
        time_ms = getattr(value, name)
        if time_ms > 0:
            setattr(value, name, max(1, time_ms + by_ms))
    return row._replace(value=value)
