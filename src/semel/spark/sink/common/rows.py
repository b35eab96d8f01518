"""Columns and rows that make records: the types both sinks allow, and the rows of each topic.

Role.   `check_columns` at planning; `by_topic` in a task, batch by batch, without an object per row.
Rules.  * Columns are those of Spark's own Kafka sink (value, key, topic, headers, partition) and timestamp. Others are left out.
          Names are matched exactly.
        * One topic for all rows wins over the column; without it every row must have one.
        * A TIMESTAMP_NTZ is UTC, as times without a zone are everywhere.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from semel.spark.sink.common.errors import ColumnsRefusedError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

RECORD_COLUMNS: Final = ("key", "value", "headers", "partition", "timestamp")
HEADERS: Final = "array<struct<key:string,value:binary>>"
VOID: Final = "void"


@dataclass(frozen=True, slots=True)
class ColumnRules:
    """The columns a sink takes, and the words in which it is set up."""

    types: Mapping[str, tuple[str, ...]]
    """Column -> the types it may have, by `type_name`."""
    one_topic: str
    """Names one topic for all rows."""
    whole_rows: str
    """Makes a value of columns that are none."""


def type_name(kind: "DataType") -> str:
    """Spark's name of a type without parameters; headers in full. A string with a collation, or of a length, is a string."""
    full = kind.simpleString()
    if full == HEADERS:
        return full
    head = full.partition("(")[0].partition(" ")[0].partition("<")[0]
    return "string" if head in ("varchar", "char") else head


def check_columns(schema: "StructType", topic: str | None, rules: ColumnRules, *, where: str) -> None:
    """Raise if these columns make no records. `topic` is that of all rows; `where` begins the text."""
    found = {field.name: field.dataType for field in schema.fields}
    named = ", ".join(found) or "(none)"
    if "value" not in found:
        raise ColumnsRefusedError(
            f"{where}: Required attribute 'value' not found, there is no value among the columns {named}",
            f"rename a column, or write whole rows with {rules.whole_rows}",
        )
    if topic is None and "topic" not in found:
        raise ColumnsRefusedError(
            f"{where}: topic option required when no 'topic' attribute is present, the columns are {named}",
            f"add a column topic, or name one topic for all rows with {rules.one_topic}",
        )
    for name, allowed in rules.types.items():
        if name not in found or (name == "topic" and topic is not None):
            continue
        if type_name(found[name]) not in allowed:
            shown = " or ".join(one for one in allowed if one != VOID)
            raise ColumnsRefusedError(
                f"{where}: column {name} is {found[name].simpleString()}, it must be {shown}",
                f"cast it, or write a struct with {rules.whole_rows}"
                if name in ("key", "value")
                else "cast it",
            )


def by_topic(
    batch: pa.RecordBatch, topic: str | None, rules: ColumnRules
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic, with the columns of records alone; the order within a topic is kept."""
    names = [name for name in RECORD_COLUMNS if name in batch.schema.names]
    rows = _in_utc(batch.select(names))
    if topic is not None:
        yield topic, rows
        return
    column = batch.column("topic")
    if column.null_count:
        first = int(pc.index(column.is_null(), True).as_py())
        raise ColumnsRefusedError(
            f"null topic present in the data: row {first} of a batch has no topic",
            f"filter rows without one, or name one topic for all rows with {rules.one_topic}",
        )
    topics = pc.unique(column).to_pylist()
    for one in topics:
        yield one, rows if len(topics) == 1 else rows.filter(pc.equal(column, one))


def _in_utc(rows: pa.RecordBatch) -> pa.RecordBatch:
    place = rows.schema.get_field_index("timestamp")
    if place < 0:
        return rows
    times = rows.column(place)
    if not pa.types.is_timestamp(times.type) or times.type.tz is not None:
        return rows
    return rows.set_column(place, "timestamp", times.cast(pa.timestamp(times.type.unit, "UTC")))
