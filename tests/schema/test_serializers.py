"""Serializers in a producer and a consumer of this client, beside a real registry's answers: subjects, settings, refusals."""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest

import semel
import semel.aio
from semel.exceptions import ConfigException, RecordDeserializationException, SerializationException
from semel.schema import (
    AsyncSchemaRegistryClient,
    AvroDeserializer,
    AvroSerializer,
    JSONDeserializer,
    JSONSerializer,
    MessageField,
    ProtobufDeserializer,
    ProtobufSerializer,
    Schema,
    SchemaDeserializer,
    SchemaNotFoundError,
    SchemaRegistryClient,
    SerializationContext,
)
from semel.schema.rules.framing import guid_prefix, read_prefix
from support.schemas.examples import ORDER_1, ORDER_2, ORDER_JSON, ORDER_PROTO

NUMBER_JSON = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "integer"}'


def schema_id_of(content: bytes | None) -> int | None:
    assert content is not None
    return read_prefix(content).schema_id


def read_all(consumer: semel.Consumer) -> None:
    while True:
        consumer.poll(1000)


def test_a_producer_and_a_consumer_have_key_and_value_with_schemas(
    registry_url: str, semel_broker: Any, semel_topic: str
) -> None:
    """The topic's own name is in no question to the registry, so that the answers can be recorded: it is given by the strategy."""
    registry = SchemaRegistryClient(registry_url)

    def subject(context: Any, _name: str | None) -> str:
        assert context.topic == semel_topic
        return f"clients-{context.field}"

    conf = {"subject.name.strategy": subject}
    with semel.Producer(
        {
            "bootstrap.servers": semel_broker.bootstrap,
            "key.serializer": JSONSerializer(NUMBER_JSON, registry, conf=conf),
            "value.serializer": AvroSerializer(registry, ORDER_2, conf=conf),
        }
    ) as producer:
        producer.send(semel_topic, {"id": 1, "note": "a"}, key=1)
        producer.send(semel_topic, None, key=2)
        with pytest.raises(SerializationException, match=r"is no value of the Avro schema 'shop\.Order'"):
            producer.send(semel_topic, {"id": "x"}, key=3)
    with semel.Consumer(
        {
            "bootstrap.servers": semel_broker.bootstrap,
            "key.deserializer": JSONDeserializer(registry),
            "value.deserializer": AvroDeserializer(registry),
        }
    ) as consumer:
        consumer.assign([semel.TopicPartition(semel_topic, 0)])
        consumer.seek_to_beginning([semel.TopicPartition(semel_topic, 0)])
        found: list[tuple[Any, Any]] = []
        while len(found) < 2:
            found += [(record.key, record.value) for record in consumer.poll(1000)]
    assert found == [(1, {"id": 1, "note": "a"}), (2, None)]
    assert {"clients-key", "clients-value"} <= set(registry.get_subjects())


def test_asyncio_clients_take_the_same(registry_url: str, semel_broker: Any, semel_topic: str) -> None:
    async def story() -> list[Any]:
        registry = AsyncSchemaRegistryClient(registry_url)
        serializer = AvroSerializer(registry, ORDER_1, conf={"subject.name.strategy": "RecordNameStrategy"})
        await asyncio.to_thread(serializer.prepare)
        settings = {"bootstrap.servers": semel_broker.bootstrap}
        async with semel.aio.Producer({**settings, "value.serializer": serializer}) as producer:
            await (await producer.send(semel_topic, {"id": 7}))
        where = semel.TopicPartition(semel_topic, 0)
        async with semel.aio.Consumer(
            {**settings, "value.deserializer": SchemaDeserializer(registry)}
        ) as consumer:
            consumer.assign([where])
            consumer.seek_to_beginning([where])
            found: list[Any] = []
            while not found:
                found += [record.value for record in await consumer.poll(1000)]
        return found

    assert asyncio.run(story()) == [{"id": 7}]


def test_a_record_without_a_schema_stops_the_poll_with_its_offset(
    registry_url: str, semel_broker: Any, semel_topic: str
) -> None:
    with semel.Producer({"bootstrap.servers": semel_broker.bootstrap}) as producer:
        producer.send(semel_topic, b'{"plain": 1}')
    where = semel.TopicPartition(semel_topic, 0)
    settings = {
        "bootstrap.servers": semel_broker.bootstrap,
        "value.deserializer": AvroDeserializer(registry_url),
    }
    with semel.Consumer(settings) as consumer:
        consumer.assign([where])
        consumer.seek_to_beginning([where])
        with pytest.raises(
            RecordDeserializationException, match=r"offset 0 .*not with magic byte 0 or 1.*seek to 1"
        ):
            read_all(consumer)


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (None, "strategies-value"),
        ("RecordNameStrategy", "shop.Order"),
        ("TopicRecordNameStrategy", "strategies-shop.Order"),
    ],
)
def test_the_strategy_names_the_subject(registry_url: str, strategy: str | None, expected: str) -> None:
    serializer = AvroSerializer(registry_url, ORDER_1, conf={"subject.name.strategy": strategy})
    schema_id = serializer.prepare("strategies")
    assert SchemaRegistryClient(registry_url).get_latest_version(expected).schema_id == schema_id


def test_nothing_is_registered_where_it_is_not_to_be(registry_url: str) -> None:
    registry = SchemaRegistryClient(registry_url)
    conf = {"auto.register.schemas": False}
    serializer = AvroSerializer(registry, ORDER_1, conf=conf)
    with pytest.raises(SchemaNotFoundError, match=r"subject unregistered-value.*semel schema register"):
        serializer.prepare("unregistered")
    schema_id = registry.register_schema("unregistered-value", Schema(ORDER_1))
    assert schema_id_of(serializer({"id": 1}, SerializationContext("unregistered"))) == schema_id


def test_the_latest_or_a_named_schema_is_taken(registry_url: str) -> None:
    registry = SchemaRegistryClient(registry_url)
    older = registry.register_schema("newest-value", Schema(ORDER_1))
    newer = registry.register_schema("newest-value", Schema(ORDER_2))
    latest = AvroSerializer(registry, conf={"use.latest.version": True})
    assert schema_id_of(latest.serialize_for("newest", "value", {"id": 1, "note": "a"})) == newer
    named = AvroSerializer(registry, conf={"use.schema.id": older})
    assert schema_id_of(named({"id": 1})) == older


def test_objects_become_dicts_and_come_back(registry_url: str) -> None:
    class Order:
        def __init__(self, number: int) -> None:
            self.number = number

    context = SerializationContext("objects", MessageField.VALUE)
    asked: list[str] = []

    def to_dict(order: Order, given: Any) -> dict[str, Any]:
        asked.append(f"{given.topic} {given.field}")
        return {"id": order.number}

    def from_dict(value: dict[str, Any], given: Any) -> Order:
        asked.append(f"{given.topic} {given.field}")
        return Order(value["id"])

    content = AvroSerializer(registry_url, ORDER_1, to_dict)(Order(7), context)
    assert AvroDeserializer(registry_url, None, from_dict)(content, context).number == 7
    assert asked == ["objects value"] * 2


def test_a_deserializer_of_one_type_names_the_one_that_reads_the_other(registry_url: str) -> None:
    content = JSONSerializer(ORDER_JSON, registry_url)({"id": 1}, SerializationContext("kinds"))
    with pytest.raises(
        SerializationException, match="is a schema of JSON, not of Avro: use JSONDeserializer, or SchemaDes"
    ):
        AvroDeserializer(registry_url)(content)
    assert SchemaDeserializer(registry_url)(content) == {"id": 1}
    with pytest.raises(SerializationException, match="is a schema of JSON, not of Protobuf"):
        ProtobufDeserializer(registry_url)(content)


def test_a_reader_schema_resolves_older_values(registry_url: str) -> None:
    content = AvroSerializer(registry_url, ORDER_1)({"id": 1}, SerializationContext("resolved"))
    assert AvroDeserializer(registry_url, ORDER_2)(content) == {"id": 1, "note": None}


def test_protobuf_from_the_text_of_a_file(registry_url: str) -> None:
    serializer = ProtobufSerializer(ORDER_PROTO, registry_url, message="Refund")
    content = serializer.serialize_for("texts", "value", {"order_id": 7, "reason": "late"})
    found = SchemaDeserializer(registry_url)(content)
    assert (found.DESCRIPTOR.full_name, found.order_id, found.reason) == ("shop.Refund", 7, "late")


def test_a_schema_in_a_header_is_read() -> None:
    """The registry of the recordings gives no GUIDs: this one is asked for nothing else."""
    guid = uuid.UUID(int=7)

    class OneSchema(SchemaRegistryClient):
        def get_schema_by_guid(self, found: str) -> Any:
            assert found == str(guid)
            from semel.schema import RegisteredSchema

            return RegisteredSchema(1, Schema(ORDER_1), guid=found)

    deserializer = AvroDeserializer(OneSchema("http://localhost:1"))
    headers = [("__value_schema_id", guid_prefix(guid))]
    assert deserializer.deserialize_for("t", "value", b"\x0e", headers) == {"id": 7}
    assert deserializer(guid_prefix(guid) + b"\x0e") == {"id": 7}


def test_an_id_nobody_registered_is_named(registry_url: str) -> None:
    with pytest.raises(SchemaNotFoundError, match="schema id 999998: "):
        SchemaDeserializer(registry_url)(b"\0\0\x0f\x42\x3e\x02")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (AvroSerializer, "the schema is missing"),
        (lambda url: AvroSerializer(url, cast("str", 7)), "is neither a text nor a Schema"),
        (
            lambda url: AvroSerializer(url, Schema(ORDER_PROTO, "PROTOBUF")),
            "is a schema of PROTOBUF, not of AVRO",
        ),
        (
            lambda url: AvroSerializer(url, ORDER_1, conf={"auto.register": 1}),
            "a serializer has no such setting",
        ),
        (lambda url: AvroSerializer(url, ORDER_1, conf={"use.latest.version": 1}), "use True or False"),
        (
            lambda url: AvroSerializer(url, conf={"use.latest.version": True, "auto.register.schemas": True}),
            "set auto.register.schemas=False",
        ),
        (lambda url: ProtobufSerializer(7, url), "is neither a message class nor the text of a .proto file"),
    ],
)
def test_a_serializer_that_cannot_be_is_refused_when_it_is_made(
    make: Callable[[str], Any], said: str
) -> None:
    with pytest.raises((ConfigException, SerializationException)) as error:
        make("http://localhost:1")
    assert said in str(error.value)


def test_a_topic_that_is_missing_is_asked_for() -> None:
    with pytest.raises(SerializationException, match="the subject needs the record's topic"):
        AvroSerializer("http://localhost:1", ORDER_1)({"id": 1})
