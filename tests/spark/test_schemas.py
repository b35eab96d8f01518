"""Columns with a schema in Spark: what serializers write Spark reads, and the other way round, from `format("semel")` and any frame.

Method: the registry's answers are recorded ones; the driver and the tasks ask the same server.
"""

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import semel
from semel.exceptions import ConfigException, SerializationException
from semel.schema import (
    AvroDeserializer,
    AvroSerializer,
    JSONSerializer,
    ProtobufSerializer,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
)
from semel.spark import from_registry, to_registry
from semel.spark.schemas import reshaped, spark_arrow
from support.schemas.examples import ORDER_1, ORDER_2, ORDER_JSON, ORDER_PROTO
from support.schemas.fixtures import registry_url as registry_url  # noqa: PLC0414 - a fixture.
from support.spark import spark_kit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows_of(frame: Any) -> list[Any]:
    return [None if row.it is None else row.it.asDict(recursive=True) for row in frame.collect()]


def test_values_of_two_versions_through_a_topic(
    registry_url: str, spark: "SparkSession", spark_bootstrap: str
) -> None:
    topic = spark_kit.new_topic(spark_bootstrap, "schemas", partitions=1)
    registry = SchemaRegistryClient(registry_url)
    old = AvroSerializer(registry, ORDER_1, conf={"subject.name.strategy": lambda *_: "spark-avro"})
    new = AvroSerializer(registry, ORDER_2, conf={"subject.name.strategy": lambda *_: "spark-avro"})
    with semel.Producer(bootstrap_servers=spark_bootstrap) as producer:
        for content in (old({"id": 1}), new({"id": 2, "note": "a"}), None):
            producer.send(topic, content)
    found = (
        spark.read.format("semel")
        .option("kafka.bootstrap.servers", spark_bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    decoded = found.select(from_registry("value", registry_url, "spark-avro").alias("it"))
    assert decoded.schema.simpleString() == "struct<it:struct<id:bigint,note:string>>"
    assert sorted(map(str, rows_of(decoded))) == ["None", "{'id': 1, 'note': None}", "{'id': 2, 'note': 'a'}"]
    first = found.select(from_registry("value", registry_url, "spark-avro", version=1).alias("it"))
    assert sorted(map(str, rows_of(first))) == ["None", "{'id': 1}", "{'id': 2}"]


def test_a_column_of_structs_is_what_the_serializer_writes(registry_url: str, spark: "SparkSession") -> None:
    from pyspark.sql import functions as F  # noqa: N812 - its usual name.

    frame = spark.createDataFrame([(7, "a"), (8, None)], "id bigint, note string")
    struct = F.struct("id", "note")
    written = frame.select(to_registry(struct, registry_url, "spark-written", ORDER_2).alias("value"))
    read = AvroDeserializer(registry_url)
    assert [read(bytes(row.value)) for row in written.collect()] == [
        {"id": 7, "note": "a"},
        {"id": 8, "note": None},
    ]
    back = written.select(from_registry("value", registry_url, "spark-written").alias("it"))
    assert rows_of(back) == [{"id": 7, "note": "a"}, {"id": 8, "note": None}]


@pytest.mark.parametrize("kind", ["json", "protobuf"])
def test_other_types(registry_url: str, spark: "SparkSession", kind: str) -> None:
    serializer: Any = (
        JSONSerializer(ORDER_JSON, registry_url)
        if kind == "json"
        else ProtobufSerializer(ORDER_PROTO, registry_url)
    )
    value = {"id": 7, "note": "a"} if kind == "json" else {"id": 7, "lines": [{"sku": "a"}]}
    content = serializer.serialize_for(f"spark-{kind}", "value", value)
    frame = spark.createDataFrame([(content,), (None,)], "value binary")
    decoded = frame.select(from_registry("value", registry_url, f"spark-{kind}-value").alias("it"))
    first, second = rows_of(decoded)
    assert first["id"] == 7
    assert second is None
    encoded = decoded.select(to_registry("it", registry_url, f"spark-{kind}-value").alias("value"))
    assert [row.value and bytes(row.value) for row in encoded.collect()] == [content, None]


def test_bad_rows_are_null_or_name_themselves(registry_url: str, spark: "SparkSession") -> None:
    SchemaRegistryClient(registry_url).register_schema("spark-bad", Schema(ORDER_1))
    frame = spark.createDataFrame([(b"plain",)], "value binary")
    kept = frame.select(from_registry("value", registry_url, "spark-bad", bad_rows="null").alias("it"))
    assert rows_of(kept) == [None]
    with pytest.raises(Exception, match="row 0: the bytes begin with b'plain'"):
        frame.select(from_registry("value", registry_url, "spark-bad").alias("it")).collect()


def test_what_is_missing_is_said_on_the_driver(registry_url: str) -> None:
    with pytest.raises(ConfigException, match="name its subject"):
        from_registry("value", registry_url)
    with pytest.raises(SchemaNotFoundError, match="subject spark-nowhere"):
        from_registry("value", registry_url, "spark-nowhere")
    with pytest.raises(SchemaNotFoundError, match="subject spark-nowhere"):
        to_registry("value", registry_url, "spark-nowhere")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.timestamp("ns", "UTC"), pa.timestamp("us", "UTC")),
        (pa.time32("ms"), pa.time64("us")),
        (pa.binary(3), pa.binary()),
        (pa.list_(pa.field("item", pa.uint8(), False)), pa.list_(pa.int16())),
        (pa.map_(pa.string(), pa.uint16()), pa.map_(pa.string(), pa.int32())),
        (pa.struct([pa.field("a", pa.duration("ns"), False)]), pa.struct([pa.field("a", pa.duration("us"))])),
    ],
)
def test_the_nearest_type_of_spark(kind: pa.DataType, expected: pa.DataType) -> None:
    assert spark_arrow(kind) == expected


def test_a_decimal_that_spark_has_not_is_refused() -> None:
    with pytest.raises(SerializationException, match="a decimal of 45 digits: Spark has 38"):
        spark_arrow(pa.decimal256(45, 0))


def test_fields_are_found_by_name() -> None:
    at = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
    given = pa.array(
        [{"u": 2**64 - 1, "gone": 1, "l": [{"n": 1, "x": 2}, None], "at": at}, None],
        pa.struct(
            [
                ("u", pa.uint64()),
                ("gone", pa.int8()),
                ("l", pa.list_(pa.struct([("n", pa.uint8()), ("x", pa.int8())]))),
                ("at", pa.timestamp("ns", "UTC")),
            ]
        ),
    )
    wanted = pa.struct(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("new", pa.string()),
            ("l", pa.list_(pa.struct([("n", pa.int16())]))),
            ("u", pa.decimal128(20, 0)),
        ]
    )
    assert reshaped(given, wanted).to_pylist() == [
        {"at": at, "new": None, "l": [{"n": 1}, None], "u": Decimal(2**64 - 1)},
        None,
    ]
    assert reshaped(pa.nulls(2), wanted).to_pylist() == [None, None]
