"""Protobuf: texts compiled by protoc, descriptors as registered by others, every type by record and by column."""

import base64
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from semel.exceptions import SerializationException
from semel.schema.protobuf import ProtobufCodec, compiled
from semel.schema.rules.values import PROTOBUF, Schema
from support.schemas.examples import BASKET_PROTO, ORDER_PROTO

EVERYTHING = """syntax = "proto3";
package all;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Colour { NONE = 0; RED = 1; }
message Everything {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6; sint64 s64 = 7;
  fixed32 x32 = 8; sfixed64 sx64 = 9; bool b = 10; string s = 11; bytes raw = 12; Colour colour = 13;
  optional int32 maybe = 14;
  oneof choice { string text = 15; int64 number = 16; }
  repeated string words = 17; repeated Colour colours = 18; map<int32, Inner> inners = 19; map<string, int64> counts = 25;
  Inner inner = 20;
  google.protobuf.Timestamp at = 21; google.protobuf.Duration lasts = 22;
  google.protobuf.StringValue wrapped = 23; repeated Inner list = 24;
  map<string, google.protobuf.Timestamp> times = 26;
}
message Inner { int32 n = 1; }
"""


@pytest.fixture(scope="module")
def everything() -> ProtobufCodec:
    return ProtobufCodec(Schema(EVERYTHING, PROTOBUF), {})


@pytest.fixture(scope="module")
def order() -> ProtobufCodec:
    return ProtobufCodec(Schema(ORDER_PROTO, PROTOBUF), {})


FULL = {
    "d": math.pi, "f": 0.5, "i32": -1, "i64": "-9223372036854775808", "u32": 4294967295, "u64": "18446744073709551615",
    "s64": "-5", "x32": 7, "sx64": "-7", "b": True, "s": "ü", "raw": base64.b64encode(b"\0\xff").decode(), "colour": "RED",
    "maybe": 0, "number": "0", "words": ["a", ""], "colours": ["RED", "NONE"], "inners": {"1": {"n": 2}, "2": {}},
    "counts": {"a": "1"}, "inner": {}, "at": "2026-03-01T12:00:00.000000001Z", "lasts": "-1.500s", "wrapped": "",
    "list": [{"n": 1}, {}], "times": {"a": "2026-03-01T12:00:00Z"},
}  # fmt: skip


def test_every_type_by_record_and_by_column(everything: ProtobufCodec) -> None:
    payload = everything.encode(FULL)
    empty = everything.encode({})
    column = everything.column_of([*everything.decode_rows([payload, empty]), None])
    assert column.type == everything.arrow_type
    assert everything.encode_column(column) == [payload, empty, None]
    kinds = column.type
    assert kinds.field("u64").type == pa.uint64()
    assert kinds.field("at").type == pa.timestamp("ns", "UTC")
    full, nothing, none = _rows(column)
    assert none is None
    assert full["u64"] == 2**64 - 1
    assert full["colour"] == "RED"
    assert (full["maybe"], full["text"], full["number"]) == (0, None, 0)
    assert full["inner"] == {"n": 0}
    assert full["wrapped"] == ""
    assert full["lasts"] == timedelta(seconds=-1.5)
    assert full["times"] == [("a", datetime(2026, 3, 1, 12, tzinfo=UTC))]
    assert sorted(full["inners"]) == [(1, {"n": 2}), (2, {"n": 0})]
    assert (nothing["i32"], nothing["colour"], nothing["words"], nothing["maybe"]) == (0, "NONE", [], None)
    assert (nothing["inner"], nothing["at"], nothing["wrapped"], nothing["text"]) == (None, None, None, None)


def _rows(column: pa.Array) -> list[Any]:
    """Without the nanosecond, which Python's times have not."""
    at = column.type.get_field_index("at")
    fields = [column.type.field(index) for index in range(column.type.num_fields)]
    children = [column.field(index) for index in range(column.type.num_fields)]
    assert children[at].cast(pa.int64()).to_pylist()[0] % 1000 == 1
    del fields[at], children[at]
    rows: list[Any] = pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null()).to_pylist()
    return [None if row is None else {**row, "at": None} for row in rows]


def test_a_number_without_a_name_is_kept(everything: ProtobufCodec) -> None:
    payload = everything.encode({"colour": 77})
    column = everything.column_of(everything.decode_rows([payload]))
    assert column.field("colour").to_pylist() == ["77"]
    assert everything.encode_column(column) == [payload]


def test_any_message_of_the_file_is_found_by_its_indexes() -> None:
    line = ProtobufCodec(Schema(ORDER_PROTO, PROTOBUF), {}, "Order.Line")
    assert (line.name, line.path, line.prefix) == ("shop.Order.Line", (0, 0), b"\x04\x00\x00")
    refund = ProtobufCodec(Schema(ORDER_PROTO, PROTOBUF), {}, "shop.Refund")
    assert refund.encode({"order_id": 1}) == b"\x02\x02\x08\x01"
    found = line.decode(refund.encode({"order_id": 1}))
    assert found.DESCRIPTOR.full_name == "shop.Refund"
    with pytest.raises(
        SerializationException,
        match=r"message 'Nothing' is not in the Protobuf schema, which has shop.Order, ",
    ):
        ProtobufCodec(Schema(ORDER_PROTO, PROTOBUF), {}, "Nothing")


def test_a_file_that_uses_another() -> None:
    basket = ProtobufCodec(Schema(BASKET_PROTO, PROTOBUF), {"order.proto": Schema(ORDER_PROTO, PROTOBUF)})
    payload = basket.encode({"orders": [{"id": "1"}, {"id": "2"}]})
    assert [one.id for one in basket.decode(payload).orders] == [1, 2]
    assert basket.column_of(basket.decode_rows([payload])).field("orders")[0][1]["id"].as_py() == 2


@pytest.mark.parametrize("text", [ORDER_PROTO, EVERYTHING])
def test_a_descriptor_in_base64_is_the_same_schema(text: str) -> None:
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(compiled(Schema(text, PROTOBUF), {}))
    described = Schema(base64.b64encode(files.file[-1].SerializeToString()).decode(), PROTOBUF)
    assert ProtobufCodec(described, {}).arrow_type == ProtobufCodec(Schema(text, PROTOBUF), {}).arrow_type


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "protoc refuses the Protobuf schema: .*the schema:1:1: "),
        ('syntax = "proto3"; import "gone.proto"; message A {}', "gone.proto: File not found"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
    ],
)
def test_what_protoc_refuses_is_told_with_its_place(text: str, said: str) -> None:
    with pytest.raises(SerializationException, match=said):
        ProtobufCodec(Schema(text, PROTOBUF), {})


def test_a_reference_stays_in_its_folder() -> None:
    with pytest.raises(SerializationException, match="leads out of its folder"):
        compiled(Schema(ORDER_PROTO, PROTOBUF), {"../../outside.proto": Schema(ORDER_PROTO, PROTOBUF)})


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"\x00\x08", "1 bytes are no Protobuf message shop.Order"),
        (b"\x02\x0e", r"message index \[7\] is not in the schema: the file has 2 messages"),
        (b"\x04\x02\x00", r"message index \[1, 0\] is not in the schema: shop.Refund has 0 messages"),
        (b"", "inside the message indexes"),
    ],
)
def test_bytes_of_another_schema_are_refused(order: ProtobufCodec, payload: bytes, said: str) -> None:
    with pytest.raises(SerializationException, match=said):
        order.decode(payload)


@pytest.mark.parametrize("value", [7, {"nothing": 1}, {"id": "x"}, {"id": 2**70}])
def test_a_value_that_does_not_fit_is_refused(order: ProtobufCodec, value: Any) -> None:
    with pytest.raises(SerializationException, match=r"is no Protobuf message shop\.Order"):
        order.encode(value)


def test_another_message_is_refused(order: ProtobufCodec) -> None:
    refund = ProtobufCodec(Schema(ORDER_PROTO, PROTOBUF), {}, "Refund")
    payload = refund.encode({"order_id": 1})
    with pytest.raises(SerializationException, match=r"it is a shop\.Refund"):
        order.encode(refund.decode(payload))
    with pytest.raises(SerializationException, match=r"the value is a shop\.Refund beside a shop\.Order"):
        order.decode_rows([payload])


def test_columns_that_do_not_fit_are_refused(order: ProtobufCodec) -> None:
    for column, said in (
        (pa.array([{"extra": 1}]), r"column extra is no field of shop\.Order, which has id, lines, prices"),
        (pa.array([{"id": "x"}]), r"does not fit shop\.Order"),
        (pa.array([1]), r"a column of int64 holds no messages shop\.Order"),
    ):
        with pytest.raises(SerializationException, match=said):
            order.encode_column(column)
    colour = ProtobufCodec(
        Schema('syntax = "proto3"; enum C { A = 0; } message M { C c = 1; }', PROTOBUF), {}
    )
    with pytest.raises(SerializationException, match="'B' is no C, which has A"):
        colour.encode_column(pa.array([{"c": "B"}]))


def test_a_message_that_contains_itself_has_no_column() -> None:
    tree = ProtobufCodec(Schema('syntax = "proto3"; message Tree { repeated Tree below = 1; }', PROTOBUF), {})
    assert len(tree.decode(tree.encode({"below": [{}, {}]})).below) == 2
    with pytest.raises(SerializationException, match="Tree contains itself"):
        _ = tree.arrow_type
