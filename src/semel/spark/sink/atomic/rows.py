"""Which columns of a frame become which part of a record.

Role.   `shape_of` reads a schema: topic, key, value, headers, partition, timestamp, by the names Spark's own connector uses
        (timestamp is ours). `records_of` selects them from a frame, with structs as JSON or Avro.
Flow.   `topic_sink` calls both on the driver. Records of frames with ordinary columns: `pipelines.records`.
Rules.  * The sink's own topic wins over a topic column, as in Spark's connector; without either it is an error.
        * key and value are bytes or text. Structs, arrays, maps and variants become JSON, or Avro where Spark has it. A number's
          bytes are the user's decision, so a number is refused with the way out.
Elsewhere. The check that both sinks share: `common.rows`.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from semel.exceptions import ConfigException
from semel.spark.sink.atomic.avro import check_avro
from semel.spark.sink.common.rows import HEADERS, VOID, ColumnRules, check_columns, type_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

FORMATS: Final = ("json", "avro")
_NESTED: Final = ("struct", "array", "map", "variant")
_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_CONTENT: Final = ("string", "binary", VOID, *_NESTED)
RULES: Final = ColumnRules(
    types={
        "key": _CONTENT,
        "value": _CONTENT,
        "topic": ("string",),
        "partition": _WHOLE,
        "headers": (HEADERS,),
        "timestamp": ("timestamp", "bigint"),
    },
    one_topic="TopicSink('name', ...)",
    whole_rows="semel.spark.to_records(df, key=...)",
)


class Shape(NamedTuple):
    """Which parts of a record a frame has."""

    has_topic: bool
    has_key: bool
    has_headers: bool
    has_partition: bool
    has_timestamp: bool
    nested: tuple[str, ...]
    """Columns that are to be written as JSON or Avro first."""


def shape_of(schema: "StructType", topic: str | None, *, where: str) -> Shape:
    """The parts of a record in a frame of this schema; raises if its columns make no records."""
    check_columns(schema, topic, RULES, where=where)
    kinds = {one.name: type_name(one.dataType) for one in schema.fields}
    return Shape(
        has_topic=topic is None,
        has_key="key" in kinds,
        has_headers="headers" in kinds,
        has_partition="partition" in kinds,
        has_timestamp="timestamp" in kinds,
        nested=tuple(name for name in ("key", "value") if kinds.get(name) in _NESTED),
    )


def records_of(df: "DataFrame", shape: Shape, value_format: str) -> "DataFrame":
    """The columns of the frame that make records, keys and values as bytes or text."""
    from pyspark.sql import functions as sf

    if shape.nested and value_format == "avro":
        check_avro(df.sparkSession)
    columns: list[Column] = []
    for name, is_there in (("topic", shape.has_topic), ("key", shape.has_key), ("value", True)):
        if is_there:
            column = df[name]
            columns.append(encoded(column, value_format).alias(name) if name in shape.nested else column)
    if shape.has_headers:
        columns.append(df["headers"])
    if shape.has_partition:
        columns.append(df["partition"].cast("int").alias("partition"))
    if shape.has_timestamp:
        is_number = type_name(df.schema["timestamp"].dataType) == "bigint"
        # Spark's own form of a time is microseconds; records have milliseconds.
        in_ms = df["timestamp"] if is_number else sf.unix_millis(df["timestamp"])
        columns.append(in_ms.alias("timestamp"))
    return df.select(*columns)


def encoded(column: "Column", value_format: str) -> "Column":
    """A nested column as bytes or text."""
    from pyspark.sql import functions as sf

    if value_format == "json":
        return sf.to_json(column)
    from pyspark.sql.avro.functions import to_avro

    return to_avro(column)


def check_format(value_format: str) -> None:
    """Raise unless nested columns can be written so."""
    if value_format not in FORMATS:
        raise ConfigException(f"value_format={value_format}: use one of {', '.join(FORMATS)}")
