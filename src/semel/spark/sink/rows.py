"""Which columns of a frame become which part of a record.

Role.   `shape_of` reads a schema: topic, key, value, headers, partition, timestamp, by the names Spark's own connector uses
        (timestamp is ours). `records_of` selects them from a frame, with structs as JSON or Avro.
Flow.   `topic_sink` calls both on the driver. Records of frames with ordinary columns: `pipelines.records`.
Rules.  * The sink's own topic wins over a topic column, as in Spark's connector; without either it is an error.
        * key and value are bytes or text. Structs, arrays, maps and variants become JSON, or Avro where Spark has it; how a
          number becomes bytes is the user's decision, so it is refused with the way out.
        * Other columns are ignored, as Spark's connector does. Names are matched exactly.
"""

from typing import TYPE_CHECKING, Final, NamedTuple

from semel.exceptions import ConfigException, IllegalArgumentException
from semel.spark.avro import check_avro

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

FORMATS: Final = ("json", "avro")
_BYTES: Final = ("binary", "string")
_NESTED: Final = ("struct", "array", "map", "variant")
_WHOLE: Final = ("byte", "short", "integer", "long", "tinyint", "smallint", "int", "bigint")
_TIMES: Final = ("timestamp", "long", "bigint")
_HEADERS_TEXT: Final = "array<struct<key:string,value:binary>>"


class Shape(NamedTuple):
    """Which parts of a record a frame has."""

    has_topic: bool
    has_key: bool
    has_headers: bool
    has_partition: bool
    has_timestamp: bool
    nested: tuple[str, ...]
    """Columns that are to be written as JSON or Avro first."""


def shape_of(schema: "StructType", topic: str | None) -> Shape:
    """What a frame of this schema has for records of the sink; raises if it cannot be written."""
    kinds = {one.name: one.dataType for one in schema.fields}
    if "value" not in kinds:
        raise IllegalArgumentException(
            f"the frame has columns {', '.join(kinds) or '(none)'} but no value: rename one, or make records of whole rows "
            "with semel.spark.to_records(df, key=...)"
        )
    if topic is None and "topic" not in kinds:
        raise IllegalArgumentException(
            f"the frame has columns {', '.join(kinds)} but no topic: add the column, or name one topic for all rows with "
            "TopicSink('name', ...)"
        )
    nested = [name for name in ("key", "value") if name in kinds and _is_nested(name, kinds[name])]
    if topic is None:
        _expect("topic", kinds["topic"], ("string",))
    if "partition" in kinds:
        _expect("partition", kinds["partition"], _WHOLE)
    if "timestamp" in kinds:
        _expect("timestamp", kinds["timestamp"], _TIMES)
    if "headers" in kinds and kinds["headers"].simpleString() != _HEADERS_TEXT:
        raise IllegalArgumentException(
            f"column headers is {kinds['headers'].simpleString()}: it must be {_HEADERS_TEXT}"
        )
    return Shape(
        has_topic=topic is None,
        has_key="key" in kinds,
        has_headers="headers" in kinds,
        has_partition="partition" in kinds,
        has_timestamp="timestamp" in kinds,
        nested=tuple(nested),
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
        is_number = df.schema["timestamp"].dataType.typeName() in _WHOLE
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


def _is_nested(name: str, kind: "DataType") -> bool:
    found = kind.typeName()
    if found in _NESTED:
        return True
    if found in _BYTES or found == "void":
        return False
    raise IllegalArgumentException(
        f"column {name} is {kind.simpleString()}: cast it to string or binary, or wrap it in a struct to have it as JSON"
    )


def _expect(name: str, kind: "DataType", allowed: tuple[str, ...]) -> None:
    if kind.typeName() not in allowed:
        raise IllegalArgumentException(
            f"column {name} is {kind.simpleString()}: it must be {' or '.join(dict.fromkeys(allowed))}"
        )
