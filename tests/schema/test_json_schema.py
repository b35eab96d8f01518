"""JSON with a schema: checked on both ways, by record and by column, and parts without one type kept as text."""

import json
from typing import Any

import pyarrow as pa
import pytest

from semel.exceptions import SerializationException
from semel.schema.json_schema import JsonCodec
from semel.schema.rules.values import JSON, Schema
from support.schemas.examples import ORDER_JSON

SHOP = {
    "title": "Order",
    "type": "object",
    "$defs": {"line": {"type": "object", "properties": {"sku": {"type": "string"}}, "required": ["sku"]}},
    "properties": {
        "id": {"type": "integer"},
        "price": {"type": "number"},
        "paid": {"type": "boolean"},
        "lines": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        "free": {"type": "object"},
        "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "note": {"type": ["string", "null"]},
    },
    "required": ["id"],
}


def codec(document: Any, validate: bool = True, /, **references: Any) -> JsonCodec:
    used = {name: Schema(json.dumps(one), JSON) for name, one in references.items()}
    return JsonCodec(Schema(json.dumps(document), JSON), used, validate)


def test_every_type_by_record_and_by_column() -> None:
    one = codec(SHOP)
    value = {
        "id": 7, "price": 1.5, "paid": True, "lines": [{"sku": "ü"}], "free": {"a": [1, None]}, "either": "x", "note": None,
    }  # fmt: skip
    payload = one.encode(value)
    assert one.decode(payload) == value
    column = one.column_of([*one.decode_rows([payload, b'{"id": 1.0}']), None])
    assert column.type == one.arrow_type
    first, second, third = column.to_pylist()
    assert first == {**value, "free": '{"a":[1,null]}', "either": '"x"'}
    assert second == {**dict.fromkeys(value), "id": 1}
    assert third is None
    back = one.encode_column(column)
    assert json.loads(back[0] or b"") == {name: part for name, part in value.items() if part is not None}
    assert back[1:] == [b'{"id":1}', None]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"id": "x"}, "at id: 'x' is not of type 'integer'"),
        ({}, "at the document: 'id' is a required property"),
        ({"id": 1, "lines": [{"sku": 1}]}, "at lines/0/sku: 1 is not of type 'string'"),
    ],
)
def test_a_value_that_breaks_the_schema_is_refused_with_its_place(value: Any, said: str) -> None:
    one = codec(SHOP)
    for refused in (lambda: one.encode(value), lambda: one.decode(json.dumps(value).encode())):
        with pytest.raises(SerializationException, match=f"breaks its JSON Schema {said}"):
            refused()
    trusting = codec(SHOP, False)
    assert trusting.decode(trusting.encode(value)) == value


@pytest.mark.parametrize("value", [{"id": float("nan")}, {"id": {1}}])
def test_a_value_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(SerializationException, match="is no JSON"):
        codec(SHOP).encode(value)


def test_bytes_that_are_no_json_are_refused() -> None:
    with pytest.raises(SerializationException, match="is no JSON"):
        codec(SHOP).decode(b"{")


def test_references_come_from_the_registry_alone() -> None:
    line = {"type": "object", "properties": {"sku": {"type": "string"}}}
    order = {"type": "object", "properties": {"line": {"$ref": "line.json"}}}
    one = codec(order, True, **{"line.json": line})
    assert one.decode(b'{"line":{"sku":"a"}}') == {"line": {"sku": "a"}}
    with pytest.raises(SerializationException, match="at line/sku: 7 is not of type 'string'"):
        one.decode(b'{"line":{"sku":7}}')
    assert one.column_of(one.decode_rows([b'{"line":{"sku":"a"}}'])).to_pylist() == [{"line": '{"sku":"a"}'}]
    with pytest.raises(SerializationException, match="register what it refers to as a reference"):
        codec(order).decode(b'{"line":{"sku":"a"}}')


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(SerializationException, match="is no JSON Schema: no JSON"):
        JsonCodec(Schema("{", JSON), {})
    with pytest.raises(SerializationException, match="is no JSON Schema"):
        codec({"type": "objct"})


def test_what_no_column_would_hold_is_refused() -> None:
    one = codec(json.loads(ORDER_JSON))
    with pytest.raises(SerializationException, match="has extra, which the JSON Schema does not name"):
        one.decode_rows([b'{"id":1,"extra":2}'])
    with pytest.raises(SerializationException, match="do not fit a column"):
        one.column_of(one.decode_rows([json.dumps({"id": 2**70}).encode()]))
    with pytest.raises(SerializationException, match="is no JSON text"):
        codec(SHOP).encode_column(pa.array([{"id": 1, "free": "{"}]))


def test_a_schema_that_leads_into_itself_is_text() -> None:
    tree = {"type": "object", "properties": {"below": {"$ref": "#"}}}
    kind = codec(tree).arrow_type
    assert pa.types.is_struct(kind)
