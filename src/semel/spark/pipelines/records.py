"""A topic as rows with columns of their own, and rows as records again.

Role.   `stream`, `read`: a topic through `format("semel")`, its values parsed by a schema. `to_records`: the way back, to what
        `TopicSink` and `format("semel")` write.

            orders = stream(spark, "orders", bootstrap=server, schema="id string, product string, price double")
            dear = orders.where("price > 100").select("id", "price")
            to_records(dear, key="id")                     # columns key and value, ready for a sink

Rules.  * A row has the columns of the schema, and `_record`: the record it came from (key, value, topic, partition, offset,
          timestamp, headers where asked for). Names of ours begin with `_`, so that they meet none of yours.
        * Values are JSON objects. A null value is a row without values: a deletion, for tables.
        * Columns named by `key=` are read from the record's key, and written to it: one column as its text, several as a JSON
          object. The same row gives the same bytes, always: compaction and partitioning depend on it.
        * A row that does not parse stops the query, unless `bad_rows` says otherwise (`dead_letters`).
        * A stream begins at the earliest record, not at the latest as Spark's connector does: records written before the query
          started count too.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from semel.errors import ConfigError
from semel.spark.pipelines.column_names import columns, names_of, quoted
from semel.spark.pipelines.parsing import ERROR, RECORD, BadRows, parsed
from semel.spark.registration import make_known
from semel.spark.source.options import SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

TOPIC: Final = "_topic"
DELETED: Final = "_deleted"
OURS: Final = frozenset({RECORD, ERROR, TOPIC, DELETED})
_HEADERS_TYPE: Final = "array<struct<key:string,value:binary>>"


def stream(
    spark: "SparkSession",
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    schema: "StructType | str | None" = None,
    key: str | Sequence[str] = (),
    bad_rows: BadRows = "fail",
    headers: bool = False,
    **options: Any,
) -> "DataFrame":
    """A topic, or several, as a stream of rows. Without a schema: the connector's columns as they are.

    `options` are those of the connector (`startingOffsets`, `maxOffsetsPerTrigger`, `kafka.…` in a mapping with `**`).
    """
    make_known(spark)
    reader = spark.readStream.format("semel").options(
        **_options(topic, bootstrap, bad_rows, headers, {"startingOffsets": "earliest", **options})
    )
    return parsed(reader.load(), schema, key=names_of(key), bad_rows=bad_rows)


def read(
    spark: "SparkSession",
    topic: str | Sequence[str],
    *,
    bootstrap: str,
    schema: "StructType | str | None" = None,
    key: str | Sequence[str] = (),
    bad_rows: BadRows = "fail",
    headers: bool = False,
    **options: Any,
) -> "DataFrame":
    """The records now in a topic, as rows: `stream` for once."""
    make_known(spark)
    reader = spark.read.format("semel").options(**_options(topic, bootstrap, bad_rows, headers, options))
    return parsed(reader.load(), schema, key=names_of(key), bad_rows=bad_rows)


def to_records(
    rows: "DataFrame",
    *,
    key: "str | Sequence[str] | Column | None" = None,
    value: "str | Column | None" = None,
    topic: "str | Column | None" = None,
    headers: "Column | None" = None,
    timestamp: "str | Column | None" = None,
    dead_letters: str | None = None,
) -> "DataFrame":
    """Rows as records: columns key and value; topic, headers and timestamp where they are known.

    Without `key` a row keeps the key of the record it came from. Without `value` all columns but ours are its JSON object; a
    row whose `_deleted` is true has none. Without `topic` it is the one `branch` chose, or the sink's. With `dead_letters` rows
    that did not parse (`bad_rows="keep"`) go to that topic as they came.
    """
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    from semel.spark.pipelines.dead_letters import error_headers

    known = set(rows.columns)
    key_column = _key_column(rows, key)
    value_column = _value_column(rows, value)
    if DELETED in known:
        value_column = F.when(~F.coalesce(F.col(DELETED), F.lit(False)), value_column)
    topic_column = F.lit(topic) if isinstance(topic, str) else topic
    if topic_column is None and TOPIC in known:
        topic_column = F.col(TOPIC)
    if dead_letters is not None:
        if ERROR not in known:
            raise ConfigError(
                'dead_letters= needs rows that were read with bad_rows="keep": these have no column _error'
            )
        if topic_column is None:
            raise ConfigError("dead_letters= needs topic= for the rows that are good, too")
        bad = F.col(ERROR).isNotNull()
        key_column = F.when(bad, F.col(f"{RECORD}.key")).otherwise(key_column)
        value_column = F.when(bad, F.col(f"{RECORD}.value")).otherwise(value_column)
        topic_column = F.when(bad, F.lit(dead_letters)).otherwise(topic_column)
        good_headers = F.lit(None).cast(_HEADERS_TYPE) if headers is None else headers
        headers = F.when(bad, error_headers()).otherwise(good_headers)
    made = [key_column.alias("key"), value_column.alias("value")]
    for name, column in (("topic", topic_column), ("headers", headers)):
        if column is not None:
            made.append(column.alias(name))
    if timestamp is not None:
        at = F.col(timestamp) if isinstance(timestamp, str) else timestamp
        made.append(at.alias("timestamp"))
    return rows.select(*made)


def own_columns(rows: "DataFrame") -> list[str]:
    """The columns that are the user's."""
    return [name for name in rows.columns if name not in OURS]


def key_bytes(rows: "DataFrame", names: Sequence[str]) -> "Column":
    """The columns of a key as bytes: one as its text, several as a JSON object."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.
    from pyspark.sql.types import BinaryType

    if missing := [name for name in names if name not in rows.columns]:
        raise ConfigError(
            f"there is no column {', '.join(missing)} for a key: there are {', '.join(own_columns(rows))}"
        )
    if len(names) > 1:
        return F.to_json(F.struct(*columns(names)), {"ignoreNullFields": "false"}).cast("binary")
    column = F.col(quoted(names[0]))
    if isinstance(rows.schema[names[0]].dataType, BinaryType):
        return column
    return column.cast("string").cast("binary")


def _key_column(rows: "DataFrame", key: "str | Sequence[str] | Column | None") -> "Column":
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if isinstance(key, Column):
        return key.cast("binary")
    if key is not None:
        return key_bytes(rows, names_of(key))
    if RECORD in rows.columns:
        return F.col(f"{RECORD}.key")
    return F.lit(None).cast("binary")


def _value_column(rows: "DataFrame", value: "str | Column | None") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    if value is not None:
        return (F.col(quoted(value)) if isinstance(value, str) else value).cast("binary")
    names = own_columns(rows)
    if not names:
        raise ConfigError("these rows have no columns to make a value of: say value=")
    return F.to_json(F.struct(*columns(names))).cast("binary")


def _options(
    topic: str | Sequence[str],
    bootstrap: str,
    bad_rows: BadRows,
    headers: bool,
    options: Mapping[str, Any],
) -> dict[str, str]:
    """The options of the source, checked here: Spark passes their names on in lower case, and errors would name them so."""
    from pyspark.sql.utils import to_str

    topics = topic if isinstance(topic, str) else ",".join(topic)
    keeps = {"includeHeaders": "true"} if headers or bad_rows == "keep" else {}
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topics, **keeps, **options}
    texts = {name: text for name, value in given.items() if (text := to_str(value)) is not None}
    SourceOptions.of(texts)
    return texts
