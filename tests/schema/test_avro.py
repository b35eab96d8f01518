"""Avro: every type by record and by column, references made whole, and values that do not fit."""

import json
import uuid
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from semel.exceptions import SerializationException
from semel.schema.avro import AvroCodec
from semel.schema.rules.avro import full_name, whole
from semel.schema.rules.values import Schema

NOON = datetime(2026, 3, 1, 12, 0, 0, 123000, tzinfo=UTC)


def codec(document: Any, reader: Any = None, **references: Any) -> AvroCodec:
    used = {name: Schema(json.dumps(one)) for name, one in references.items()}
    return AvroCodec(
        Schema(json.dumps(document)),
        used,
        None if reader is None else AvroCodec(Schema(json.dumps(reader)), {}),
    )


def record(*fields: tuple[str, Any], name: str = "shop.Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": one, "type": kind} for one, kind in fields]}


TYPES: list[tuple[Any, Any, pa.DataType, Any]] = [
    ("boolean", True, pa.bool_(), True),
    ("int", -7, pa.int32(), -7),
    ("long", 2**40, pa.int64(), 2**40),
    ("float", 0.5, pa.float32(), 0.5),
    ("double", 0.1, pa.float64(), 0.1),
    ("bytes", b"\0\xff", pa.binary(), b"\0\xff"),
    ("string", "ü", pa.string(), "ü"),
    (["null", "string"], None, pa.string(), None),
    (["long", "null"], 7, pa.int64(), 7),
    ({"type": "fixed", "name": "F", "size": 2}, b"ab", pa.binary(2), b"ab"),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", pa.string(), "B"),
    ({"type": "array", "items": ["null", "int"]}, [1, None], pa.list_(pa.int32()), [1, None]),
    (
        {"type": "map", "values": "long"},
        {"a": 1},
        pa.map_(pa.string(), pa.field("value", pa.int64(), False)),
        [("a", 1)],
    ),
    ({"type": "int", "logicalType": "date"}, date(2026, 3, 1), pa.date32(), date(2026, 3, 1)),
    ({"type": "int", "logicalType": "time-millis"}, time(1, 2, 3), pa.time32("ms"), time(1, 2, 3)),
    ({"type": "long", "logicalType": "time-micros"}, time(1, 2, 3, 4), pa.time64("us"), time(1, 2, 3, 4)),
    ({"type": "long", "logicalType": "timestamp-millis"}, NOON, pa.timestamp("ms", "UTC"), NOON),
    ({"type": "long", "logicalType": "timestamp-micros"}, NOON, pa.timestamp("us", "UTC"), NOON),
    (
        {"type": "long", "logicalType": "local-timestamp-micros"},
        NOON.replace(tzinfo=None),
        pa.timestamp("us"),
        NOON.replace(tzinfo=None),
    ),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        Decimal("-1.25"),
        pa.decimal128(9, 2),
        Decimal("-1.25"),
    ),
    (
        {"type": "fixed", "name": "D", "size": 20, "logicalType": "decimal", "precision": 45, "scale": 0},
        Decimal(10**44),
        pa.decimal256(45, 0),
        Decimal(10**44),
    ),
    (
        {"type": "string", "logicalType": "uuid"},
        uuid.UUID(int=7),
        pa.string(),
        str(uuid.UUID(int=7)),
    ),
    (record(("sku", "string"), name="Line"), {"sku": "a"}, None, {"sku": "a"}),
]


@pytest.mark.parametrize(("kind", "value", "arrow", "shown"), TYPES)
def test_every_type_by_record_and_by_column(kind: Any, value: Any, arrow: pa.DataType, shown: Any) -> None:
    one = codec(record(("it", kind)))
    payload = one.encode({"it": value})
    assert one.decode(payload) == {"it": value}
    column = one.column_of([*one.decode_rows([payload, payload]), None])
    assert column.to_pylist() == [{"it": shown}, {"it": shown}, None]
    if arrow is not None:
        assert column.type.field("it").type == arrow
    assert column.type == one.arrow_type
    assert one.encode_column(column) == [payload, payload, None]


def test_a_value_alone_needs_no_record() -> None:
    one = AvroCodec(Schema('"string"'), {})
    assert one.decode(one.encode("a")) == "a"
    assert one.column_of(one.decode_rows([one.encode("a")])).to_pylist() == ["a"]
    assert one.name is None


def test_an_older_value_is_read_with_a_newer_schema() -> None:
    older, newer = record(("id", "int"), ("gone", "string")), record(("id", "long"))
    newer["fields"].append({"name": "note", "type": "string", "default": "none"})
    resolving = codec(older, newer)
    payload = codec(older).encode({"id": 7, "gone": "x"})
    assert resolving.decode(payload) == {"id": 7, "note": "none"}
    column = resolving.column_of(resolving.decode_rows([payload]))
    assert column.type == codec(newer).arrow_type
    assert column.to_pylist() == [{"id": 7, "note": "none"}]


def test_references_stand_where_they_are_used_first() -> None:
    money = record(("amount", "long"), name="shop.Money")
    line = record(("price", "Money"), name="shop.Line")
    order = record(("total", "shop.Money"), ("lines", {"type": "array", "items": "Line"}))
    found = whole(json.dumps(order), {"shop.Money": json.dumps(money), "shop.Line": json.dumps(line)})
    assert found["fields"][0]["type"] == money
    assert found["fields"][1]["type"]["items"]["fields"][0]["type"] == "shop.Money"
    one = codec(order, **{"shop.Money": money, "shop.Line": line})
    value = {"total": {"amount": 3}, "lines": [{"price": {"amount": 3}}]}
    assert one.decode(one.encode(value)) == value
    assert one.column_of(one.decode_rows([one.encode(value)])).to_pylist() == [value]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        (record(("id", "int")), "shop.Order"),
        ({"type": "record", "name": "Order", "namespace": "shop", "fields": []}, "shop.Order"),
        ({"type": "record", "name": "Order", "fields": []}, "Order"),
        ("string", None),
        (["null", "string"], None),
    ],
)
def test_a_record_s_full_name(document: Any, name: str | None) -> None:
    assert full_name(document) == name


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"", "0 bytes cannot be read with the Avro schema 'shop.Order'"),
        (
            b"\x02\x00",
            "1 of 2 bytes are left over behind a value of the Avro schema 'shop.Order': it was written with another",
        ),
    ],
)
def test_bytes_of_another_schema_are_refused(payload: bytes, said: str) -> None:
    one = codec(record(("id", "long")))
    with pytest.raises(SerializationException, match=said):
        one.decode(payload)
    with pytest.raises(SerializationException, match=said):
        one.decode_rows([payload])


@pytest.mark.parametrize(("value", "said"), [({"id": "x"}, "on field id"), ({}, "id"), (7, "shop.Order")])
def test_a_value_that_does_not_fit_is_refused(value: Any, said: str) -> None:
    with pytest.raises(SerializationException, match=r"is no value of the Avro schema 'shop.Order'") as error:
        codec(record(("id", "long"))).encode(value)
    assert said in str(error.value)


@pytest.mark.parametrize("text", ["{nonsense", '{"type": "recrd", "name": "A"}', '{"type": "record"}', "7"])
def test_a_text_that_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(SerializationException, match="is no Avro schema"):
        AvroCodec(Schema(text), {})


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (record(("it", ["int", "string"])), "value.it is a union of several types"),
        (record(("next", ["null", "shop.Order"])), "value.next: shop.Order contains itself"),
    ],
)
def test_a_type_without_a_column_is_named(document: Any, said: str) -> None:
    with pytest.raises(SerializationException, match=said):
        _ = codec(document).arrow_type


def test_columns_are_fitted_by_name_and_nothing_is_lost() -> None:
    one = codec(record(("id", "long"), ("note", ["null", "string"])))
    turned = pa.array([{"note": "a", "id": 1}], pa.struct([("note", pa.string()), ("id", pa.int32())]))
    assert one.column_of(one.decode_rows(list(filter(None, one.encode_column(turned))))).to_pylist() == [
        {"id": 1, "note": "a"}
    ]
    lacking = pa.array([{"id": 1}])
    assert one.encode_column(lacking) == [one.encode({"id": 1, "note": None})]
    with pytest.raises(
        SerializationException, match="column extra is no field of the schema, which has id, note"
    ):
        one.encode_column(pa.array([{"id": 1, "extra": 2}]))
    with pytest.raises(
        SerializationException, match="the schema's field id is no column, and cannot be null"
    ):
        one.encode_column(pa.array([{"note": "a"}]))
    with pytest.raises(SerializationException, match="does not fit"):
        one.encode_column(pa.array([{"id": "seven"}]))
    with pytest.raises(SerializationException, match="is no value of the Avro schema"):
        one.encode_column(pa.array([{"id": None, "note": "a"}]))


def test_a_finer_time_is_not_cut() -> None:
    one = codec(record(("at", {"type": "long", "logicalType": "timestamp-millis"})))
    fine = pa.array([{"at": NOON.replace(microsecond=1)}])
    with pytest.raises(SerializationException, match="would lose data"):
        one.encode_column(fine)
