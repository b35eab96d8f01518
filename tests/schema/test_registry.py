"""The registry's client beside the real registry's answers: schemas, subjects, references, refusals, and what is kept."""

import asyncio
import json
import pickle
from typing import Any

import pytest

from semel.exceptions import IllegalArgumentException
from semel.schema import (
    AsyncSchemaRegistryClient,
    IncompatibleSchemaError,
    Schema,
    SchemaNotFoundError,
    SchemaReference,
    SchemaRegistryClient,
    SchemaRegistryError,
)
from support.schemas.examples import BASKET_PROTO, ORDER_1, ORDER_2, ORDER_BROKEN, ORDER_JSON, ORDER_PROTO


class Counting:
    """A transport that counts what it is asked, over the client's own."""

    def __init__(self, client: SchemaRegistryClient) -> None:
        self.asked: list[str] = []
        self._ask = client._transport.ask
        client._transport.ask = self.ask  # type: ignore[method-assign]

    def ask(self, method: str, path: str, body: Any = None, *, about: str) -> Any:
        self.asked.append(f"{method} {path}")
        return self._ask(method, path, body, about=about)


def same(schema: Schema, text: str) -> bool:
    """Whether it is this Avro or JSON Schema: a registry keeps the spaces of whoever came first."""
    return bool(json.loads(schema.schema_str) == json.loads(text))


def test_a_schema_is_registered_once_and_found_again(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    first = client.register_schema("registered-value", Schema(ORDER_1))
    assert client.register_schema("registered-value", Schema(ORDER_1)) == first
    second = client.register_schema("registered-value", Schema(ORDER_2))
    assert second != first
    assert same(client.get_schema(first).schema, ORDER_1)
    assert client.get_versions("registered-value") == [1, 2]
    latest = client.get_latest_version("registered-value")
    assert (latest.schema_id, latest.version) == (second, 2)
    assert same(latest.schema, ORDER_2)
    assert client.get_version("registered-value", 1).schema_id == first
    found = client.lookup_schema("registered-value", Schema(ORDER_1))
    assert (found.schema_id, found.version) == (first, 1)
    assert "registered-value" in client.get_subjects()
    assert str(latest) == f"schema id {second} (registered-value version 2)"


def test_every_type_keeps_its_text(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    for schema in (Schema(ORDER_1), Schema(ORDER_PROTO, "PROTOBUF"), Schema(ORDER_JSON, "JSON")):
        schema_id = client.register_schema(f"types-{schema.schema_type}", schema)
        found = client.get_schema(schema_id).schema
        assert found == schema or same(found, schema.schema_str)


def test_references_are_followed_used_ones_first(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    order, reference = Schema(ORDER_PROTO, "PROTOBUF"), SchemaReference("order.proto", "references-order", 1)
    client.register_schema("references-order", order)
    basket = Schema(BASKET_PROTO, "PROTOBUF", (reference,))
    basket_id = client.register_schema("references-basket", basket)
    found = client.get_schema(basket_id).schema
    assert found.references == (reference,)
    assert client.get_references(found) == {"order.proto": order}
    assert client.get_referenced_by("references-order", 1) == [basket_id]


def test_compatibility_is_asked_for_and_set(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    client.register_schema("compatible-value", Schema(ORDER_1))
    assert client.set_compatibility("compatible-value", "backward") == "BACKWARD"
    assert client.get_compatibility("compatible-value") == "BACKWARD"
    assert client.test_compatibility("compatible-value", Schema(ORDER_2))
    verdict = client.test_compatibility_all_versions("compatible-value", Schema(ORDER_BROKEN))
    assert not verdict
    with pytest.raises(
        IncompatibleSchemaError, match=r"subject compatible-value.*409.*STRING.*compatibility level"
    ) as error:
        client.register_schema("compatible-value", Schema(ORDER_BROKEN))
    assert error.value.http_status_code == 409


def test_a_subject_without_a_level_has_the_registry_s(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    client.register_schema("levelless-value", Schema(ORDER_1))
    assert client.get_compatibility("levelless-value") == client.get_compatibility()


def test_what_is_not_there_is_named(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    client.register_schema("missing-value", Schema(ORDER_1))
    with pytest.raises(
        SchemaNotFoundError, match=f"schema id 999999: {registry_url}/schemas/ids/999999 answered HTTP 404"
    ) as error:
        client.get_schema(999999)
    assert error.value.error_code == 40403
    for version in (7, "latest"):
        with pytest.raises(SchemaNotFoundError, match=f"subject nobody-value version {version}"):
            client.get_version("nobody-value", version)
    with pytest.raises(SchemaNotFoundError, match="looking for a schema under subject missing-value"):
        client.lookup_schema("missing-value", Schema(ORDER_2))


def test_a_schema_that_is_none_is_refused_with_the_registry_s_words(registry_url: str) -> None:
    with pytest.raises(SchemaRegistryError, match=r"subject broken-value.*HTTP 422") as error:
        SchemaRegistryClient(registry_url).register_schema("broken-value", Schema("{nonsense"))
    assert error.value.error_code == 42201


def test_a_subject_is_deleted_softly_then_permanently(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    client.register_schema("deleted-value", Schema(ORDER_1))
    client.register_schema("deleted-value", Schema(ORDER_2))
    assert client.delete_version("deleted-value", 1) == 1
    assert 2 in client.delete_subject("deleted-value")  # Apicurio names softly deleted versions too.
    assert "deleted-value" not in client.get_subjects()
    assert "deleted-value" in client.get_subjects(deleted=True)
    assert client.delete_subject("deleted-value", permanent=True)
    assert "deleted-value" not in client.get_subjects(deleted=True)


def test_a_subject_with_any_characters_is_one(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    subject = "odd/ü ?#%-value"
    schema_id = client.register_schema(subject, Schema(ORDER_1))
    assert client.get_latest_version(subject).schema_id == schema_id


def test_asyncio_has_the_same(registry_url: str) -> None:
    async def story() -> None:
        client = AsyncSchemaRegistryClient(registry_url)
        schema_id = await client.register_schema("async-value", Schema(ORDER_1))
        found = await client.get_latest_version("async-value")
        assert found.schema_id == schema_id
        assert same((await client.get_schema(schema_id)).schema, ORDER_1)
        assert await client.get_versions("async-value") == [1]
        assert "async-value" in await client.get_subjects()
        assert await client.test_compatibility("async-value", Schema(ORDER_2))
        assert await client.set_compatibility("async-value", "FULL") == await client.get_compatibility(
            "async-value"
        )
        assert await client.delete_subject("async-value") == [1]

    asyncio.run(story())


def test_a_schema_is_asked_for_once(registry_url: str) -> None:
    client = SchemaRegistryClient(registry_url)
    schema_id = client.register_schema("kept-value", Schema(ORDER_1))
    counting = Counting(client)
    for _ in range(3):
        assert same(client.get_schema(schema_id).schema, ORDER_1)
        assert client.register_schema("kept-value", Schema(ORDER_1)) == schema_id
    assert counting.asked == [f"GET /schemas/ids/{schema_id}"]
    client.clear_caches()
    client.get_schema(schema_id)
    assert len(counting.asked) == 2


def test_the_latest_version_is_believed_for_a_while_and_not_after_registering(registry_url: str) -> None:
    now = [0.0]
    client = SchemaRegistryClient({"url": registry_url, "cache.latest.ttl.sec": 60}, monotonic=lambda: now[0])
    client.register_schema("latest-value", Schema(ORDER_1))
    counting = Counting(client)
    assert client.get_latest_version("latest-value").version == 1
    now[0] = 59.0
    client.get_latest_version("latest-value")
    assert len(counting.asked) == 1
    now[0] = 60.0
    client.get_latest_version("latest-value")
    assert len(counting.asked) == 2
    client.register_schema("latest-value", Schema(ORDER_2))
    assert client.get_latest_version("latest-value").version == 2


def test_the_cache_is_bounded(registry_url: str) -> None:
    client = SchemaRegistryClient({"url": registry_url, "cache.capacity": 1})
    first = client.register_schema("bounded-value", Schema(ORDER_1))
    second = client.register_schema("bounded-value", Schema(ORDER_2))
    counting = Counting(client)
    for schema_id in (first, second, first):
        client.get_schema(schema_id)
    assert len(counting.asked) == 3


def test_a_client_goes_to_another_process_without_its_cache(registry_url: str) -> None:
    client = SchemaRegistryClient({"url": registry_url, "timeout": 5})
    schema_id = client.register_schema("pickled-value", Schema(ORDER_1))
    there = pickle.loads(pickle.dumps(client))
    assert same(there.get_schema(schema_id).schema, ORDER_1)
    assert repr(there) == f"<SchemaRegistryClient of {registry_url}>"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda client: client.get_schema("1"), "schema_id='1'"),
        (lambda client: client.get_schema(-1), "schema_id=-1"),
        (lambda client: client.get_version("a", 0), "version=0: use a whole number from 1 on, or 'latest'"),
        (lambda client: client.get_versions(""), "subject='': a subject is a text"),
        (
            lambda client: client.set_compatibility("a", "SIDEWAYS"),
            "use one of BACKWARD, BACKWARD_TRANSITIVE",
        ),
        (lambda _: Schema("", "AVRO"), "a schema is a text, not an empty one"),
        (lambda _: Schema("{}", "XML"), "use AVRO, PROTOBUF, JSON"),
    ],
)
def test_an_argument_that_cannot_be_is_refused_before_anything_is_asked(call: Any, said: str) -> None:
    with pytest.raises(IllegalArgumentException, match=said):
        call(SchemaRegistryClient("http://localhost:1"))
