"""Values as JSON text: what JSON has not, bytes that only look like a schema's, and a registry that is away."""

import datetime as dt
import decimal
import json
import uuid
from typing import Any

import pytest

from semel.cli.schema_contents import Decoded, Encoded, as_json
from semel.exceptions import SerializationException
from semel.schema import (
    RegisteredSchema,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from semel.schema.errors import RegistryUnreachableError
from semel.schema.protobuf import ProtobufCodec
from semel.schema.writing import Writing
from support.schemas.examples import ORDER_1, ORDER_PROTO


class OneSchema(SchemaRegistryClient):
    """Schema 1 is there, 2 is not, and for 3 the registry is away."""

    def __init__(self) -> None:
        super().__init__("http://localhost:1")

    def get_schema(self, schema_id: int) -> RegisteredSchema:
        if schema_id == 2:
            raise SchemaNotFoundError("schema id 2: not found", http_status_code=404)
        if schema_id == 3:
            raise RegistryUnreachableError("away")
        return RegisteredSchema(1, Schema(ORDER_1))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"at": dt.datetime(2026, 3, 1, tzinfo=dt.UTC)}, '{"at":"2026-03-01T00:00:00+00:00"}'),
        ([dt.date(2026, 3, 1), dt.time(1, 2)], '["2026-03-01","01:02:00"]'),
        ((decimal.Decimal("1.10"), uuid.UUID(int=1)), '["1.10","00000000-0000-0000-0000-000000000001"]'),
        (
            {"bytes": b"\0", "nan": float("nan"), "x": -float("inf")},
            '{"bytes":"AA==","nan":"nan","x":"-inf"}',
        ),
        ("ü", '"ü"'),
        (None, "null"),
    ],
)
def test_what_json_has_not(value: Any, text: str) -> None:
    assert json.dumps(as_json(value), ensure_ascii=False, separators=(",", ":")) == text


def test_a_message_keeps_the_names_of_its_file() -> None:
    codec = ProtobufCodec(Schema(ORDER_PROTO, "PROTOBUF"), {}, "Refund")
    assert as_json(codec.decode(codec.encode({"order_id": "7"}))) == {"order_id": "7"}


@pytest.mark.parametrize("data", [b"plain", b"", b"\0\0", b"\0\0\0\0\x02rest"])
def test_auto_leaves_other_bytes_as_they_are(data: bytes) -> None:
    found = Decoded(OneSchema(), "auto")
    assert found.shown("t", False, data) == data
    assert found.shown("t", True, data) == data


def test_auto_reads_what_names_a_schema_and_says_what_is_wrong() -> None:
    found = Decoded(OneSchema(), "auto")
    assert found.shown("t", False, b"\0\0\0\0\x01\x0e") == {"id": 7}
    with pytest.raises(SchemaRegistryError, match="away"):
        found.shown("t", False, b"\0\0\0\0\x03\x0e")


def test_a_type_that_was_asked_for_is_asked_of_values_alone() -> None:
    found = Decoded(OneSchema(), "avro")
    assert found.shown("t", True, b"plain") == b"plain"
    with pytest.raises(SerializationException, match="schema id 2: not found"):
        found.shown("t", False, b"\0\0\0\0\x02\x0e")
    with pytest.raises(SerializationException, match="begin with b'plain'"):
        found.shown("t", False, b"plain")


def test_a_line_is_json_and_a_row_s_value_is_itself() -> None:
    found = Encoded(Writing(OneSchema(), None, {"use.schema.id": 1}))
    assert (
        found.stored("t", False, b'{"id": 7}') == found.stored("t", False, {"id": 7}) == b"\0\0\0\0\x01\x0e"
    )
    assert found.stored("t", True, "key") == b"key"
    with pytest.raises(SerializationException, match=r"is not JSON: .*with --schema a value is JSON"):
        found.stored("t", False, b"plain")
