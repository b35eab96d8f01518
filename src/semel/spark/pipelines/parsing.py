"""Records parsed by a schema: columns, or a reason why not.

Role.   The work of `stream` and `read` on the connector's rows.
Rules.  * A value is a JSON object in UTF-8. Fields that are missing are null; a field that the schema calls NOT NULL must be there.
        * A value that is no such object, or a field of another type, makes the row bad, and the reason names it.
        * A null value is no bad row: it deletes its key. Columns of the key are read from the key then as always.
        * `bad_rows="fail"` looks at every row, also where its columns are not asked for.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from semel.errors import ConfigError
from semel.spark.pipelines.column_names import columns, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

BadRows = Literal["fail", "keep", "drop"]
RECORD: Final = "_record"
ERROR: Final = "_error"
_CORRUPT: Final = "_semel_corrupt"
_PARSED: Final = "_semel_parsed"
_KEY: Final = "_semel_key"
_RESERVED: Final = frozenset({RECORD, ERROR, "_topic", "_deleted", _CORRUPT})
_RECORD_FIELDS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def parsed(
    records: "DataFrame", schema: "StructType | str | None", *, key: Sequence[str], bad_rows: BadRows
) -> "DataFrame":
    """The connector's rows with the columns of a schema."""
    if bad_rows not in ("fail", "keep", "drop"):
        raise ConfigError(f"bad_rows is {bad_rows!r}: it must be 'fail', 'keep' or 'drop'")
    if schema is None:
        if key or bad_rows != "fail":
            raise ConfigError("key= and bad_rows= are for rows with a schema: say schema=")
        return records
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    fields = _as_struct(schema)
    _check(fields, key)
    record = F.struct(*(name for name in _RECORD_FIELDS if name in records.columns)).alias(RECORD)
    rows = records.select(_object("value", fields).alias(_PARSED), _key(fields, key).alias(_KEY), record)
    found = [
        column for name in fields.names for column in columns([name], of=_KEY if name in key else _PARSED)
    ]
    error = _error(fields, key)
    match bad_rows:
        case "keep":
            return rows.select(*found, F.col(RECORD), error.alias(ERROR))
        case "drop":
            return rows.where(error.isNull()).select(*found, F.col(RECORD))
        case "fail":
            fine = F.when(error.isNotNull(), F.raise_error(_where(error)).cast("boolean")).otherwise(
                F.lit(True)
            )
            return rows.where(fine).select(*found, F.col(RECORD))


def _object(column: str, fields: "StructType") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.
    from pyspark.sql.types import StringType, StructField, StructType

    optional = [StructField(field.name, field.dataType, True) for field in fields]
    return F.from_json(
        F.col(column).cast("string"),
        StructType([*optional, StructField(_CORRUPT, StringType())]),
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT},
    )


def _key(fields: "StructType", key: Sequence[str]) -> "Column":
    """The columns of the key, read from the record's key."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.
    from pyspark.sql.types import BinaryType, StructType

    if not key:
        return F.struct()
    if len(key) > 1:
        return _object("key", StructType([fields[name] for name in key]))
    kind = fields[key[0]].dataType
    raw = F.col("key")
    return F.struct(
        (raw if isinstance(kind, BinaryType) else raw.cast("string").try_cast(kind)).alias(key[0])
    )


def _error(fields: "StructType", key: Sequence[str]) -> "Column":
    """Why a row is bad; null for one that is good."""
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    value, found = F.col(f"{RECORD}.value"), F.col(_PARSED)
    reasons = F.when(
        value.isNotNull() & ~F.is_valid_utf8(value.cast("string")), F.lit("the value is not text in UTF-8")
    ).when(
        value.isNotNull() & (found.isNull() | found[_CORRUPT].isNotNull()),
        F.lit(f"the value is no JSON object with {fields.simpleString()}"),
    )
    for name in key:
        reasons = reasons.when(F.col(f"{_KEY}.{quoted(name)}").isNull(), F.lit(f"the key has no {name}"))
    for field in fields:
        if not field.nullable and field.name not in key:
            reasons = reasons.when(
                value.isNotNull() & found[field.name].isNull(), F.lit(f"{field.name} is missing or null")
            )
    return reasons


def _where(error: "Column") -> "Column":
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    return F.concat(
        F.lit("a row does not parse: "),
        error,
        F.lit(" (offset "),
        F.col(f"{RECORD}.offset").cast("string"),
        F.lit(" of "),
        F.col(f"{RECORD}.topic"),
        F.lit("-"),
        F.col(f"{RECORD}.partition").cast("string"),
        F.lit('). bad_rows="keep" with dead_letters= puts such rows aside'),
    )


def _as_struct(schema: "StructType | str") -> "StructType":
    from pyspark.sql.types import StructType

    found = schema if isinstance(schema, StructType) else StructType.fromDDL(schema)
    if not isinstance(found, StructType):
        raise ConfigError(f"the schema {schema!r} has no columns: 'id STRING, price DOUBLE' has")
    return found


def _check(fields: "StructType", key: Sequence[str]) -> None:
    if not fields.names:
        raise ConfigError("the schema has no columns")
    if taken := sorted(_RESERVED.intersection(fields.names)):
        raise ConfigError(
            f"the schema has columns that are Semel's own: {', '.join(taken)}. Call them otherwise"
        )
    if missing := [name for name in key if name not in fields.names]:
        raise ConfigError(
            f"key column {', '.join(missing)} is not in the schema: it has {', '.join(fields.names)}"
        )
