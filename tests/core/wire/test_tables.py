"""Our tables are Kafka 4.3.1's, field by field, and Kafka's own classes agree on fresh random messages.

The messages of clusters under ZooKeeper are Kafka 3.9.2's. Method: the definitions inside Kafka's client jar are read and compared with what `messages/` declares; then Kafka's
generated classes encode what our generator made and read what we wrote. Needs Java for the jars and the oracle.
"""

import json
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from semel.core.wire import registry
from semel.core.wire.kafka_json import kafka_json
from semel.core.wire.message import Message
from semel.core.wire.schema import Field, Struct, Versions, fields_of
from semel.peers.kafka import KafkaHome
from support.wire.wire_values import (
    cluster_messages,
    every_version,
    kafka_4_messages,
    random_message,
    versions_of,
)

pytestmark = pytest.mark.java
ORACLE = Path(__file__).parents[2] / "java" / "WireOracle.java"
Json = Any


@pytest.fixture(scope="module")
def definitions(kafka_home: KafkaHome) -> dict[str, Json]:
    return _definitions(kafka_home)


@pytest.fixture(scope="module")
def older_definitions(old_kafka_home: KafkaHome) -> dict[str, Json]:
    return _definitions(old_kafka_home)


def _definitions(kafka_home: KafkaHome) -> dict[str, Json]:
    """Kafka's definitions by message name: JSON with comment lines. The definitions of Streams are left out."""
    found = {}
    jars = sorted((kafka_home.path / "lib").glob("kafka-*.jar"))
    for jar in (jar for jar in jars if not jar.name.startswith("kafka-streams")):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"common/message/\w+\.json", name):
                    text = re.sub(r"^\s*//.*$", "", archive.read(name).decode(), flags=re.MULTILINE)
                    definition = json.loads(text)
                    found[definition["name"]] = definition
    return found


@pytest.mark.parametrize("cls", kafka_4_messages(), ids=lambda cls: cls.__name__)
def test_a_table_is_kafkas_in_every_version(cls: type[Message], definitions: dict[str, Json]) -> None:
    _is_kafkas(cls, definitions[cls.__name__])


@pytest.mark.parametrize("cls", cluster_messages(), ids=lambda cls: cls.__name__)
def test_a_table_between_brokers_is_kafka_3_9s(
    cls: type[Message], older_definitions: dict[str, Json]
) -> None:
    _is_kafkas(cls, older_definitions[cls.__name__])


def _is_kafkas(cls: type[Message], theirs: Json) -> None:
    assert Versions.of(theirs["validVersions"]) == cls.schema.versions
    common = {one["name"]: one["fields"] for one in theirs.get("commonStructs", [])}
    for version in versions_of(cls):
        assert (version in Versions.of(theirs["flexibleVersions"])) == (version in cls.schema.flexible)
        _compare(cls, theirs["fields"], version, common)


def _compare(cls: type[Struct], theirs: list[Json], version: int, common: dict[str, list[Json]]) -> None:
    ours = {field.name.replace("_", ""): field for field in fields_of(cls)}
    in_version = [field for field in theirs if version in Versions.of(_versions(field))]
    names = [field["name"].lower() for field in in_version]
    assert names == [name for name, field in ours.items() if version in field.versions], (
        f"{cls.__name__} v{version}"
    )
    for their in in_version:
        our = ours[their["name"].lower()]
        where = f"{cls.__name__}.{our.name} v{version}"
        kind = their["type"].removeprefix("[]")
        assert our.is_array == their["type"].startswith("[]"), where
        assert (version in our.null) == (version in Versions.of(their.get("nullableVersions", "none"))), where
        assert our.tag == their.get("tag"), where
        if "tag" in their:
            assert version in Versions.of(their["taggedVersions"]), where
        assert our.default == _default(our, their, kind), where
        if our.struct is None:
            assert our.kind is not None
            assert our.kind.name == kind, where
        else:
            _compare(our.struct, their.get("fields") or common[kind], version, common)
    for their in theirs:
        our_or_none = ours.get(their["name"].lower())
        if version not in Versions.of(_versions(their)) and our_or_none is not None:
            assert our_or_none.ignorable == their.get("ignorable", False), (
                f"{cls.__name__}.{our_or_none.name}"
            )


def _versions(their: Json) -> str:
    """A tagged field may leave its versions out."""
    return str(their.get("versions") or their["taggedVersions"])


def _default(our: Field, their: Json, kind: str) -> Any:
    value = their.get("default")
    if value == "null" or our.absent_when_none:
        return None
    if our.is_array or our.struct is not None:
        return list if our.is_array else our.struct  # Made anew for every message.
    zero = {"string": "", "bool": False, "uuid": bytes(16), "float64": 0.0, "bytes": b""}.get(kind, 0)
    if kind == "records":
        return None
    if value is None:
        return zero
    if kind == "bool":
        return str(value).lower() == "true"
    return value if kind == "string" else int(str(value), 0)


def test_the_registry_has_the_versions_kafka_4_3_serves(definitions: dict[str, Json]) -> None:
    for api in registry.APIS:
        request = definitions[f"{api.name}Request"]
        assert request["apiKey"] == api.key
        assert Versions.of(request["validVersions"]) == Versions(api.first, api.last)
        assert api.unstable == (1 if request.get("latestVersionUnstable", False) else 0)


def test_the_registry_has_the_versions_kafka_3_9_speaks_between_brokers(
    older_definitions: dict[str, Json],
) -> None:
    for api in registry.CLUSTER_APIS:
        request = older_definitions[f"{api.name}Request"]
        assert request["apiKey"] == api.key
        assert Versions.of(request["validVersions"]) == Versions(api.first, api.last)


def test_kafkas_classes_agree_on_fresh_messages(kafka_home: KafkaHome) -> None:
    """Kafka encodes our values to our bytes, and reads our bytes (unknown tagged fields too) and writes them again."""
    _agree(kafka_home, kafka_4_messages())


def test_kafka_3_9s_classes_agree_on_what_brokers_tell_each_other(old_kafka_home: KafkaHome) -> None:
    _agree(old_kafka_home, cluster_messages())


def _agree(kafka_home: KafkaHome, classes: list[type[Message]]) -> None:
    seed = random.SystemRandom().randrange(1 << 32)  # Fresh on purpose; a failure shows the seed.
    rng = random.Random(seed)
    asked: list[tuple[str, Message, int, bytes]] = []
    for cls, version in every_version(classes):
        plain = random_message(rng, cls, version)
        asked.append(
            (
                f"json {cls.__name__} {version} {json.dumps(kafka_json(plain, version))}",
                plain,
                version,
                plain.encode(version),
            )
        )
        newer = random_message(rng, cls, version, unknown_tags=True)
        raw = newer.encode(version)
        asked.append((f"bytes {cls.__name__} {version} {raw.hex()}", newer, version, raw))
    answers = kafka_home.run(str(ORACLE), stdin="".join(f"{line}\n" for line, *_ in asked)).splitlines()
    for (line, message, version, raw), answer in zip(asked, answers, strict=True):
        assert answer.partition("\t")[0] == raw.hex(), f"seed {seed}: {line[:200]}\n{answer[:300]}\n{message}"
        assert type(message).decode(raw, version) == message
