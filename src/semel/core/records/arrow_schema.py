"""Arrow columns of records, without kernels: their types, and the way from and to Python values.

Role.   Types of the client's records: `RECORDS_SCHEMA` for a whole poll, `columns_of` and `lists_of` for the records of
        one partition. `arrow` decodes batches into the same columns.
Rules.  * The import loads pyarrow and no compiler.
        * A record without headers has null headers.
"""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from semel.core.records.build import Record

HEADER_TYPE: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_TYPE: Final = pa.list_(HEADER_TYPE)
TIMESTAMP_TYPE: Final = pa.timestamp("ms", tz="UTC")
SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP_TYPE),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS_TYPE),
    ]
)
"""The records of one partition."""
RECORDS_SCHEMA: Final = pa.schema([("topic", pa.string()), ("partition", pa.int32()), *SCHEMA])
"""Records of any partitions."""


def columns_of(records: Sequence[Record]) -> pa.RecordBatch:
    """The columns of a few records."""
    headers = [[{"key": key, "value": value} for key, value in one.headers] or None for one in records]
    return pa.RecordBatch.from_arrays(
        [
            pa.array([one.offset for one in records], pa.int64()),
            pa.array([one.timestamp_ms for one in records], pa.int64()).cast(TIMESTAMP_TYPE),
            pa.array([one.key for one in records], pa.binary()),
            pa.array([one.value for one in records], pa.binary()),
            pa.array(headers, HEADERS_TYPE),
        ],
        schema=SCHEMA,
    )


def lists_of(columns: pa.RecordBatch, no_headers: Any) -> tuple[list[Any], ...]:
    """Offsets, timestamps in ms, keys, values and headers; `no_headers` for a record without."""
    headers = columns.column(4)
    if headers.null_count == len(headers):
        pairs = [no_headers] * len(headers)
    else:
        pairs = [
            no_headers if one is None else tuple((pair["key"], pair["value"]) for pair in one)
            for one in headers.to_pylist()
        ]
    return (
        columns.column(0).to_pylist(),
        columns.column(1).view(pa.int64()).to_pylist(),
        columns.column(2).to_pylist(),
        columns.column(3).to_pylist(),
        pairs,
    )
