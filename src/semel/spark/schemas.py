"""Columns of records with a schema: decoded and encoded in Spark, in the wire format of Confluent's registry.

Role.   `from_registry` makes a column of `format("semel")` or `format("kafka")` one of structs, `to_registry` the other way round.
Flow.   The driver asks the registry when the query is built: the type of the column is the schema's. Tasks decode batches with
        `semel.schema.columns`, as Arrow UDFs; schemas the driver has met travel with them, others a task asks the registry for.
Rules.  * A row's own schema id is trusted, and its value resolved to the query's one schema. A field that the row lacks is null (or
          Avro's default). A field that the query's schema lacks is left out.
        * Spark's types: unsigned numbers are wider signed ones, times have microseconds (finer digits are cut), a `time` is Spark's.
        * Encoding asks the registry on the driver alone.
        * PySpark 4.1 or newer, and `semel[schema]` on the executors too.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from semel.exceptions import ConfigException, SerializationException
from semel.schema.codecs import Codec, Codecs, Registry, client_of, codec_of
from semel.schema.columns import BadRows, ColumnDecoder
from semel.schema.registry import SchemaRegistryClient
from semel.schema.rules.framing import id_prefix
from semel.schema.rules.values import AVRO, LATEST, RegisteredSchema, Schema

if TYPE_CHECKING:
    from pyspark.sql import Column

_SHIPPED_MAX: Final = 100
"""So many versions of a subject, the newest ones, travel with a query."""
_DECODERS_MAX: Final = 100
_DECIMAL_DIGITS_MAX: Final = 38
_DECODERS: Final[dict[object, ColumnDecoder]] = {}
"""Of this Python worker: Spark gives it many tasks, and every batch of rows comes alone."""


def from_registry(
    column: "Column | str",
    schema_registry: Registry,
    subject: str | None = None,
    *,
    version: int | str = LATEST,
    schema_id: int | None = None,
    schema: str | Schema | None = None,
    message: str | None = None,
    validate: bool = True,
    bad_rows: BadRows = "fail",
) -> "Column":
    """A column of bytes as one of what they say, of the type of one schema.

    That is the `version` of a `subject`, or the schema of `schema_id`, or an Avro `schema` of one's own. `message` names the message of
    a Protobuf file, `validate` checks JSON, `bad_rows="null"` gives null for rows that cannot be decoded.
    """
    client = client_of(schema_registry)
    found = _chosen(client, subject, version, schema_id, schema)
    codec = Codecs(client).of(found, message=message)
    wanted = spark_arrow(codec.arrow_type)
    reader = found if found.schema_type == AVRO else None
    if reader is not None:
        reader = Schema(_self_contained(codec))
    known = _versions(client, subject)
    key = (repr(client), reader, message, validate, bad_rows)

    def decoded(values: pa.Array) -> pa.Array:
        decoder = _DECODERS.get(key)
        if decoder is None:
            client.remember(known)
            decoder = ColumnDecoder(client, reader, message=message, validate=validate, bad_rows=bad_rows)
            if len(_DECODERS) >= _DECODERS_MAX:
                _DECODERS.clear()
            _DECODERS[key] = decoder
        return reshaped(decoder.decode(values), wanted)

    return _applied(decoded, _spark_type(wanted), column)


def to_registry(
    column: "Column | str",
    schema_registry: Registry,
    subject: str,
    schema: str | Schema | None = None,
    *,
    version: int | str = LATEST,
    message: str | None = None,
    normalize_schemas: bool = False,
) -> "Column":
    """A column of structs as the bytes of a subject's schema: of `schema`, which is registered, or of a `version` that is there.

    A text is an Avro schema; give a `Schema` for others.
    """
    client = client_of(schema_registry)
    if schema is None:
        registered = client.get_version(subject, version)
    else:
        given = Schema(schema) if isinstance(schema, str) else schema
        registered = client.register_schema_full_response(subject, given, normalize_schemas)
    references = client.get_references(registered.schema)
    codec_of(registered.schema, references, message=message)  # A wrong schema is refused now, on the driver.
    prefix, found = id_prefix(registered.schema_id), registered.schema
    made: list[Codec] = []

    def encoded(values: pa.Array) -> pa.Array:
        if not made:
            made.append(codec_of(found, references, message=message))
        payloads = made[0].encode_column(values)
        return pa.array([None if one is None else prefix + one for one in payloads], pa.binary())

    return _applied(encoded, "binary", column)


def _applied(function: Any, kind: Any, column: "Column | str") -> "Column":
    from pyspark.sql.pandas import functions

    make: Any = functions.arrow_udf  # Its types know no struct.
    found: Column = make(function, returnType=kind)(column)
    return found


def _chosen(
    client: SchemaRegistryClient,
    subject: str | None,
    version: int | str,
    schema_id: int | None,
    schema: str | Schema | None,
) -> Schema:
    if schema is not None:
        return Schema(schema) if isinstance(schema, str) else schema
    if schema_id is not None:
        return client.get_schema(schema_id).schema
    if subject is None:
        raise ConfigException(
            "the column's schema is missing: name its subject, as 'orders-value', or give schema_id or schema"
        )
    return client.get_version(subject, version).schema


def _versions(client: SchemaRegistryClient, subject: str | None) -> tuple[RegisteredSchema, ...]:
    if subject is None:
        return ()
    return tuple(client.get_version(subject, one) for one in client.get_versions(subject)[-_SHIPPED_MAX:])


def _self_contained(codec: Any) -> str:
    """An Avro schema with everything it refers to in it."""
    import json

    return json.dumps(codec.document)


def _spark_type(wanted: pa.DataType) -> Any:
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(wanted)


def spark_arrow(kind: pa.DataType) -> pa.DataType:
    """The Arrow type nearest to this one that Spark has; everything may be null, as in Spark's results."""
    types = pa.types
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, spark_arrow(field.type)) for field in kind])
    if types.is_list(kind):
        return pa.list_(spark_arrow(kind.value_type))
    if types.is_map(kind):
        return pa.map_(spark_arrow(kind.key_type), spark_arrow(kind.item_type))
    if types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    if types.is_decimal(kind) and kind.precision > _DECIMAL_DIGITS_MAX:
        raise SerializationException(
            f"a decimal of {kind.precision} digits: Spark has {_DECIMAL_DIGITS_MAX}; give a reader schema with another type"
        )
    plain: Mapping[Any, pa.DataType] = {
        pa.uint8(): pa.int16(),
        pa.uint16(): pa.int32(),
        pa.uint32(): pa.int64(),
        pa.uint64(): pa.decimal128(20, 0),
        pa.time32("ms"): pa.time64("us"),
        pa.duration("ns"): pa.duration("us"),
        pa.null(): pa.string(),
    }
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    return plain.get(kind, kind)


def reshaped(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The column in another type: fields by name, a missing one null, one too many left out."""
    if column.type == wanted:
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), wanted)
    if pa.types.is_struct(wanted) and pa.types.is_struct(column.type):
        names: Sequence[str] = [field.name for field in column.type]
        children = [
            reshaped(column.field(field.name), field.type)
            if field.name in names
            else pa.nulls(len(column), field.type)
            for field in wanted
        ]
        if not children:
            return column.cast(wanted)
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=column.is_null())
    if pa.types.is_list(wanted) and pa.types.is_list(column.type):
        values = reshaped(column.values, wanted.value_type)
        return pa.ListArray.from_arrays(
            column.offsets, values, type=wanted, mask=column.is_null() if column.null_count else None
        )
    return column.cast(wanted, safe=False)
