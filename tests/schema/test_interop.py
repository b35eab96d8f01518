"""confluent-kafka's own serializers at the other end: same bytes, and each reads what the other wrote."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel.schema import (
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    SchemaDeserializer,
    SerializationContext,
)
from support.schemas.examples import ORDER_2, ORDER_JSON, ORDER_PROTO

theirs = pytest.importorskip("confluent_kafka.schema_registry")
their_avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
their_json = pytest.importorskip("confluent_kafka.schema_registry.json_schema")
their_protobuf = pytest.importorskip("confluent_kafka.schema_registry.protobuf")
their_context = importlib.import_module("confluent_kafka.serialization").SerializationContext

ORDER = {"id": 7, "note": "gift"}


@pytest.mark.parametrize("field", [MessageField.KEY, MessageField.VALUE])
def test_avro_is_the_same_both_ways(registry_url: str, field: str) -> None:
    client = theirs.SchemaRegistryClient({"url": registry_url})
    context = their_context("interop-avro", field)
    written = their_avro.AvroSerializer(client, ORDER_2)(ORDER, context)
    assert (
        AvroSerializer(registry_url, ORDER_2)(ORDER, SerializationContext("interop-avro", field)) == written
    )
    assert AvroDeserializer(registry_url)(written) == ORDER
    assert their_avro.AvroDeserializer(client)(written, context) == ORDER


def test_json_is_read_by_each_other(registry_url: str) -> None:
    client = theirs.SchemaRegistryClient({"url": registry_url})
    context = their_context("interop-json", MessageField.VALUE)
    written = their_json.JSONSerializer(ORDER_JSON, client)(ORDER, context)
    own = JSONSerializer(ORDER_JSON, registry_url).serialize_for("interop-json", "value", ORDER)
    assert own is not None
    assert own[:5] == written[:5]
    assert JSONDeserializer(registry_url)(written) == ORDER
    assert their_json.JSONDeserializer(ORDER_JSON, schema_registry_client=client)(own, context) == ORDER


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Classes protoc made of the example."""
    protoc = importlib.import_module("grpc_tools.protoc")
    folder: Path = tmp_path_factory.mktemp("protoc")
    (folder / "interop_order.proto").write_text(ORDER_PROTO)
    assert protoc.main(["", f"-I{folder}", f"--python_out={folder}", "interop_order.proto"]) == 0
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("interop_order_pb2")
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("Order", {"id": 7}),
        ("Refund", {"order_id": 7, "reason": "late"}),
        ("Order.Line", {"sku": "a", "pieces": 0}),
    ],
)
def test_protobuf_is_the_same_both_ways(
    registry_url: str, messages: Any, name: str, fields: dict[str, Any]
) -> None:
    kind = messages
    for part in name.split("."):
        kind = getattr(kind, part)
    message = kind(**fields)
    client = theirs.SchemaRegistryClient({"url": registry_url})
    context = their_context("interop-protobuf", MessageField.VALUE)
    written = their_protobuf.ProtobufSerializer(kind, client)(message, context)
    assert (
        ProtobufSerializer(kind, registry_url)(message, SerializationContext("interop-protobuf")) == written
    )
    assert (
        their_protobuf.ProtobufDeserializer(kind, schema_registry_client=client)(written, context) == message
    )
    assert ProtobufDeserializer(registry_url, kind)(written) == message
    found = SchemaDeserializer(registry_url)(written)  # Of a class made from the registered schema alone.
    assert found.DESCRIPTOR.full_name == kind.DESCRIPTOR.full_name
    assert found.SerializeToString() == message.SerializeToString()
