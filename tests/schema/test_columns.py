"""Columns beside the serializers: what one writes the other reads, rows of several schemas in their order, bad rows by number."""

import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semel
from semel.exceptions import IllegalArgumentException, SerializationException
from semel.schema import (
    AvroDeserializer,
    AvroSerializer,
    ColumnDecoder,
    ColumnEncoder,
    JSONSerializer,
    ProtobufSerializer,
    RegisteredSchema,
    RegistryUnreachableError,
    Schema,
    SchemaNotFoundError,
    SchemaRegistryClient,
    schema_ids,
)
from semel.schema.rules.framing import guid_prefix, id_prefix
from support.schemas.examples import ORDER_1, ORDER_2, ORDER_JSON, ORDER_PROTO


def written(registry: Any, subject: str, text: str, *values: Any) -> list[Any]:
    serializer = AvroSerializer(registry, text)
    return [serializer.serialize_for(subject, "value", value) for value in values]


def test_rows_of_several_schemas_come_back_in_their_order(registry_url: str) -> None:
    registry = SchemaRegistryClient(registry_url)
    old = written(registry, "mixed", ORDER_1, {"id": 1}, {"id": 2})
    new = written(registry, "mixed", ORDER_2, {"id": 3, "note": "a"}, {"id": 4, "note": None})
    column = pa.array([new[0], old[0], None, old[1], new[1]], pa.binary())
    found = ColumnDecoder(registry).decode(column)
    assert found.to_pylist() == [
        {"id": 3, "note": "a"},
        {"id": 1, "note": None},
        None,
        {"id": 2, "note": None},
        {"id": 4, "note": None},
    ]
    resolved = ColumnDecoder(registry, ORDER_1).decode(pa.chunked_array([column[:2], column[2:]]))
    assert resolved.to_pylist() == [{"id": 3}, {"id": 1}, None, {"id": 2}, {"id": 4}]
    assert resolved.type == pa.struct([pa.field("id", pa.int64(), False)])


@pytest.mark.parametrize("kind", ["avro", "json", "protobuf"])
def test_a_column_is_what_the_serializer_writes(registry_url: str, kind: str) -> None:
    registry = SchemaRegistryClient(registry_url)
    serializer: Any
    match kind:
        case "avro":
            serializer, schema = AvroSerializer(registry, ORDER_2), Schema(ORDER_2)
        case "json":
            serializer, schema = JSONSerializer(ORDER_JSON, registry), Schema(ORDER_JSON, "JSON")
        case _:
            serializer, schema = ProtobufSerializer(ORDER_PROTO, registry), Schema(ORDER_PROTO, "PROTOBUF")
    value = {"id": 7} if kind == "protobuf" else {"id": 7, "note": "a"}
    content = serializer.serialize_for(f"same-{kind}", "value", value)
    encoder = ColumnEncoder(registry, schema)
    column = encoder.encode(pa.array([value, None]), f"same-{kind}")
    assert column.to_pylist() == [content, None]
    found = ColumnDecoder(registry).decode(column)
    assert found[1].as_py() is None
    assert {name: part for name, part in found[0].as_py().items() if name in value} == value


def test_records_go_through_a_topic_as_columns(
    registry_url: str, semel_broker: Any, semel_topic: str
) -> None:
    registry = SchemaRegistryClient(registry_url)
    encoder = ColumnEncoder(registry, ORDER_2, {"subject.name.strategy": "RecordNameStrategy"})
    orders = pa.array([{"id": number, "note": f"n{number}"} for number in range(1000)])
    settings = {"bootstrap.servers": semel_broker.bootstrap}
    with semel.Producer(settings) as producer:
        producer.send_arrow(semel_topic, pa.table({"value": encoder.encode(orders, semel_topic)}))
    where = semel.TopicPartition(semel_topic, 0)
    batches: list[pa.RecordBatch] = []
    with semel.Consumer(settings) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning([where])
        while sum(map(len, batches)) < 1000:
            batches.append(consumer.poll_arrow(1000))
    found = ColumnDecoder(registry).decode(pa.concat_batches(batches)["value"])
    assert found.to_pylist() == orders.to_pylist()
    assert AvroDeserializer(registry)(batches[-1]["value"][0].as_py())["note"]


class Fixed(SchemaRegistryClient):
    """Two schemas without a registry, for rows it would have to be recorded for one by one."""

    GUID = uuid.UUID(int=9)

    def __init__(self) -> None:
        super().__init__("http://localhost:1")

    def get_schema(self, schema_id: int) -> RegisteredSchema:
        return RegisteredSchema(schema_id, Schema(ORDER_1 if schema_id == 1 else ORDER_2))

    def get_schema_by_guid(self, guid: str) -> RegisteredSchema:
        return RegisteredSchema(1, Schema(ORDER_1), guid=guid)


OLD, NEW = id_prefix(1) + b"\x02", id_prefix(2) + b"\x04\x02\x02a"
BAD = id_prefix(1) + b"\x02\x02"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([OLD, b"plain", OLD], "row 1: the bytes begin with b'plain'"),
        ([NEW, OLD, None, BAD], "row 3: 1 of 2 bytes are left over"),
        ([BAD], "row 0: "),
        ([OLD, b""], "row 1: the bytes begin with nothing"),
    ],
)
def test_a_bad_row_is_named_or_null(rows: list[bytes | None], said: str) -> None:
    column = pa.array(rows, pa.binary())
    with pytest.raises(SerializationException, match=said):
        ColumnDecoder(Fixed()).decode(column)
    found = ColumnDecoder(Fixed(), bad_rows="null").decode(column).to_pylist()
    good = {OLD: 1, NEW: 2}
    assert [row and row["id"] for row in found] == [good.get(row) if row else None for row in rows]


class Others(Fixed):
    """An id nobody knows, a schema without a column, a file with two messages, and a registry that is away."""

    def get_schema(self, schema_id: int) -> RegisteredSchema:
        match schema_id:
            case 3:
                raise SchemaNotFoundError("schema id 3: not found")
            case 4:
                return RegisteredSchema(4, Schema('["int", "string"]'))
            case 5:
                return RegisteredSchema(5, Schema(ORDER_PROTO, "PROTOBUF"))
            case 6:
                raise RegistryUnreachableError("away")
        return super().get_schema(schema_id)


def test_an_unknown_id_is_a_bad_row() -> None:
    column = pa.array([OLD, id_prefix(3) + b"\x02"], pa.binary())
    with pytest.raises(SerializationException, match="row 1: schema id 3: not found"):
        ColumnDecoder(Others()).decode(column)
    assert ColumnDecoder(Others(), bad_rows="null").decode(column).to_pylist() == [{"id": 1}, None]


def test_what_is_no_row_s_fault_always_raises() -> None:
    for schema_id, kind, said in (
        (4, SerializationException, "union of several"),
        (6, RegistryUnreachableError, "away"),
    ):
        column = pa.array([id_prefix(schema_id) + b"\x00\x02"], pa.binary())
        with pytest.raises(kind, match=said):
            ColumnDecoder(Others(), bad_rows="null").decode(column)


def test_a_column_has_one_message_of_a_file() -> None:
    refund, order = id_prefix(5) + b"\x02\x02\x08\x01", id_prefix(5) + b"\x00\x08\x02"
    column = pa.array([refund, order, refund], pa.binary())
    with pytest.raises(
        SerializationException, match=r"row 1: the value is a shop\.Order beside a shop\.Refund"
    ):
        ColumnDecoder(Others()).decode(column)
    found = ColumnDecoder(Others(), bad_rows="null").decode(column)
    assert found.to_pylist() == [{"order_id": 1, "reason": ""}, None, {"order_id": 1, "reason": ""}]
    assert ColumnDecoder(Others(), message="Order", bad_rows="null").decode(column).field(
        "id"
    ).to_pylist() == [None, 2, None]


def test_guids_stand_beside_ids() -> None:
    column = pa.array([OLD, guid_prefix(Fixed.GUID) + b"\x06", NEW], pa.large_binary())
    assert [row["id"] for row in ColumnDecoder(Fixed()).decode(column).to_pylist()] == [1, 3, 2]


@pytest.mark.parametrize("count", [0, 3])
def test_a_column_of_nothing_is_one(count: int) -> None:
    nothing = pa.nulls(count, pa.binary())
    assert ColumnDecoder(Fixed()).decode(nothing).to_pylist() == [None] * count
    assert ColumnDecoder(Fixed(), ORDER_1).decode(nothing).type == pa.struct(
        [pa.field("id", pa.int64(), False)]
    )
    encoder = ColumnEncoder(Fixed(), conf={"use.schema.id": 1})
    assert encoder.encode(pa.nulls(count, pa.struct([("id", pa.int64())]))).to_pylist() == [None] * count


@given(
    rows=st.lists(st.none() | st.binary(max_size=7) | st.integers(0, 2**31 - 1).map(id_prefix), max_size=20),
    cut=st.integers(0, 3),
)
def test_the_ids_of_a_column_are_those_of_its_rows(rows: list[bytes | None], cut: int) -> None:
    expected = []
    for row in rows:
        if row is None:
            expected.append(-2)
        elif len(row) >= 5 and row[0] == 0 and row[1] < 128:
            expected.append(int.from_bytes(row[1:5], "big"))
        else:
            expected.append(-1)
    for kind in (pa.binary(), pa.large_binary()):
        assert schema_ids(pa.array(rows, kind)[cut:]).tolist() == expected[cut:]


def test_types_that_no_column_holds_are_refused() -> None:
    class Crossed(Fixed):
        def get_schema(self, schema_id: int) -> RegisteredSchema:
            text = ORDER_1 if schema_id == 1 else ORDER_1.replace("long", "string")
            return RegisteredSchema(schema_id, Schema(text))

    with pytest.raises(
        SerializationException, match=r"rows of several schemas make no one column.*Give `schema`"
    ):
        ColumnDecoder(Crossed()).decode(pa.array([OLD, id_prefix(2) + b"\x02a"], pa.binary()))


def test_other_columns_are_refused() -> None:
    with pytest.raises(IllegalArgumentException, match="a column of int64 holds no bytes"):
        ColumnDecoder(Fixed()).decode(pa.array([1]))
    with pytest.raises(IllegalArgumentException, match="is no Arrow array"):
        ColumnDecoder(Fixed()).decode([b""])
    with pytest.raises(IllegalArgumentException, match="use 'fail' or 'null'"):
        ColumnDecoder(Fixed(), bad_rows="drop")  # type: ignore[arg-type]
