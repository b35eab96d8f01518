"""Kafka's documents in ZooKeeper are read in every version, and written as Kafka writes them.

Method: the tree that three Kafka 3.9.2 brokers left is read and written again; Kafka's own classes decode our documents and
encode what they understood, which must be the same JSON; older versions and damage by tables.
"""

import json
import random
import string
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semel.core.cluster import documents, paths
from semel.core.cluster.documents import BrokerNode, ProducerIdBlock, StateNode, TopicNode, ZnodeError
from semel.core.metadata.brokers import Endpoint
from semel.peers.kafka import KafkaHome
from semel.types import TopicPartition

TREE = json.loads((Path(__file__).parent / "znodes-3.9.2.json").read_text())
ORACLE = Path(__file__).parents[2] / "java" / "ZnodeOracle.java"
MANY = 60


def _again(path: str, data: bytes) -> bytes:
    """Read and written by us."""
    parts = path.split("/")[1:]
    match parts:
        case ["brokers", "ids", number]:
            return documents.encode_broker(documents.decode_broker(int(number), data))
        case ["brokers", "topics", name]:
            return documents.encode_topic(documents.decode_topic(name, data))
        case ["brokers", "topics", name, "partitions", index, "state"]:
            return documents.encode_state(documents.decode_state(name, int(index), data))
        case ["cluster", "id"]:
            return documents.encode_cluster_id(documents.decode_cluster_id(data))
        case ["config", "changes", _]:
            return documents.encode_config_change(documents.decode_config_change(path, data))
        case ["config", *_]:
            return documents.encode_configs(documents.decode_configs(path, data))
        case ["controller"]:
            timestamp_ms = int(json.loads(data)["timestamp"])
            return documents.encode_controller(documents.decode_controller(data), timestamp_ms)
        case ["controller_epoch"]:
            return documents.encode_number(documents.decode_number(path, data))
        case ["feature"]:
            return documents.encode_features(documents.decode_features(data))
        case ["latest_producer_id_block"]:
            block = documents.decode_producer_ids(data)
            assert block is not None
            return documents.encode_producer_ids(block)
        case _:
            raise AssertionError(f"no document is known for {path}")


@pytest.mark.parametrize("node", [one for one in TREE if one["data"]], ids=lambda node: node["path"])
def test_every_node_of_a_kafka_cluster_is_read_and_written_again(node: dict[str, Any]) -> None:
    data = node["data"].encode()
    assert json.loads(_again(node["path"], data)) == json.loads(data)


def test_the_nodes_every_broker_makes_are_those_kafka_made() -> None:
    found = {one["path"] for one in TREE}
    assert set(paths.PERSISTENT) <= found


def _replicas(dice: random.Random) -> tuple[int, ...]:
    return tuple(dice.sample(range(1, 9), dice.randint(1, 4)))


def _text(dice: random.Random) -> str:
    return "".join(dice.choices(string.printable + "üß→𝄞", k=dice.randint(1, 12)))


def _random_documents(dice: random.Random) -> list[tuple[str, str, bytes]]:
    topic = TopicNode(
        {index: _replicas(dice) for index in range(dice.randint(1, 12))},
        dice.choice([None, uuid.UUID(int=dice.getrandbits(128))]),
        {0: (1, 2)} if dice.random() < 0.5 else {},
        {0: (3,)} if dice.random() < 0.5 else {},
    )
    if topic.adding or topic.removing:
        topic = TopicNode({**topic.replicas, 0: (1, 2, 3)}, topic.topic_id, topic.adding, topic.removing)
    state = StateNode(
        dice.randint(-1, 5), dice.randint(0, 99), _replicas(dice), dice.randint(1, 9), dice.randint(0, 1)
    )
    listeners = dice.sample(["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "INTERNAL"], dice.randint(1, 4))
    broker = BrokerNode(
        {
            name: Endpoint(dice.choice(["host", "10.0.0.1", "::1"]), dice.randint(1, 65535))
            for name in listeners
        },
        {name: "PLAINTEXT" if name == "INTERNAL" else name for name in listeners},
        dice.choice([None, "rack ü"]),
        1_700_000_000_000,
    )
    partitions = [TopicPartition(f"t{number}", number) for number in range(dice.randint(1, 5))]
    first = 1000 * dice.randint(0, 1 << 40)
    configs = {f"key.{number}": _text(dice) for number in range(dice.randint(0, 4))}
    return [
        ("topic", "t", documents.encode_topic(topic)),
        ("state", "t", documents.encode_state(state)),
        ("broker", "1", documents.encode_broker(broker)),
        ("controller", "1700000000000", documents.encode_controller(dice.randint(0, 9), 1_700_000_000_000)),
        (
            "feature",
            "-",
            documents.encode_features({} if dice.random() < 0.5 else {"transaction.version": 2}),
        ),
        ("producer-ids", "-", documents.encode_producer_ids(ProducerIdBlock(3, first, first + 999))),
        ("configs", "-", documents.encode_configs(configs)),
        ("config-change", "users/a/clients/b", documents.encode_config_change("users/a/clients/b")),
        ("reassign", "-", documents.encode_reassignments({one: _replicas(dice) for one in partitions})),
        ("isr-change", "-", documents.encode_partitions(partitions)),
        ("preferred", "-", documents.encode_partitions(partitions)),
        ("log-dir-event", "-", documents.encode_log_dir_event(4)),
        ("cluster-id", "-", documents.encode_cluster_id("UmYEJhMzQd28Rs2YjIn7bg")),
    ]


def _comparable(kind: str, data: bytes) -> Any:
    document = json.loads(data)
    if kind == "broker":
        del document["timestamp"]  # Kafka writes its own time.
    if kind in ("isr-change", "preferred", "reassign"):  # Sets, in no order.
        document["partitions"].sort(key=lambda one: (one["topic"], one["partition"]))
    return document


@pytest.mark.java
def test_kafka_understands_every_document_of_ours(old_kafka_home: KafkaHome) -> None:
    seed = random.SystemRandom().randrange(1 << 32)  # Fresh on purpose; a failure shows the seed.
    dice = random.Random(seed)
    asked = [one for _ in range(MANY) for one in _random_documents(dice)]
    names = [_text(dice) for _ in range(MANY)]
    lines = [f"{kind} {name} {data.hex()}\n" for kind, name, data in asked]
    lines += [f"sanitize - {name.encode().hex()}\n" for name in names]
    answers = old_kafka_home.run(str(ORACLE), stdin="".join(lines)).splitlines()
    for (kind, _name, data), answer in zip(asked, answers, strict=False):
        assert not answer.startswith("error"), f"seed {seed}: {kind} {data!r}: {answer}"
        again = bytes.fromhex(answer)
        assert _comparable(kind, again) == _comparable(kind, data), f"seed {seed}: {kind}"
    for name, answer in zip(names, answers[len(asked) :], strict=True):
        assert paths.sanitized(name) == bytes.fromhex(answer).decode(), f"seed {seed}: {name!r}"
        assert paths.desanitized(paths.sanitized(name)) == name


@pytest.mark.parametrize(
    ("data", "endpoints", "rack"),
    [
        ('{"version":1,"host":"h","port":9092,"jmx_port":7}', {"PLAINTEXT": Endpoint("h", 9092)}, None),
        (
            '{"version":2,"host":"h","port":1,"jmx_port":-1,"timestamp":"5","endpoints":["PLAINTEXT://h:1","SSL://h:2"]}',
            {"PLAINTEXT": Endpoint("h", 1), "SSL": Endpoint("h", 2)},
            None,
        ),
        (
            '{"version":4,"endpoints":["CLIENT://[::1]:1"],"listener_security_protocol_map":{"CLIENT":"SSL"},"rack":"r","new":1}',
            {"CLIENT": Endpoint("::1", 1)},
            "r",
        ),
    ],
)
def test_brokers_of_earlier_versions_are_read(
    data: str, endpoints: dict[str, Endpoint], rack: str | None
) -> None:
    found = documents.decode_broker(1, data.encode())
    assert (found.endpoints, found.rack) == (endpoints, rack)


def test_topics_and_changes_of_earlier_versions_are_read() -> None:
    """The documents of the seeds, and of tools up to 2.8."""
    assert documents.decode_topic("t", b'{"version":1,"partitions":{"1":[2,1],"0":[1]}}') == TopicNode(
        {1: (2, 1), 0: (1,)}
    )
    older = documents.decode_topic(
        "t", b'{"version":2,"partitions":{"0":[1,2]},"adding_replicas":{"0":[2]},"removing_replicas":{}}'
    )
    assert older == TopicNode({0: (1, 2)}, None, {0: (2,)})
    change = b'{"version":1,"entity_type":"topics","entity_name":"orders"}'
    assert documents.decode_config_change("/config/changes/c", change) == "topics/orders"
    assert documents.decode_controller(b"7") == 7
    assert (
        documents.decode_features(b'{"version":2,"status":0,"features":{"x":{"max_version_level":1}}}') == {}
    )
    assert documents.decode_configs("/config/users/u", b"") == {}
    assert documents.decode_producer_ids(None) is None


_DAMAGED: tuple[tuple[str, Callable[[bytes | None], object]], ...] = (
    (paths.broker(1), lambda data: documents.decode_broker(1, data)),
    (paths.topic("t"), lambda data: documents.decode_topic("t", data)),
    (paths.state("t", 0), lambda data: documents.decode_state("t", 0, data)),
    (paths.CONTROLLER, documents.decode_controller),
    (paths.CONTROLLER_EPOCH, lambda data: documents.decode_number(paths.CONTROLLER_EPOCH, data)),
    (paths.FEATURE, documents.decode_features),
    (paths.CLUSTER_ID, documents.decode_cluster_id),
    (paths.REASSIGN_PARTITIONS, documents.decode_reassignments),
    ("/config/topics/t", lambda data: documents.decode_configs("/config/topics/t", data)),
    ("/config/changes/c", lambda data: documents.decode_config_change("/config/changes/c", data)),
)


@pytest.mark.parametrize(("path", "decode"), _DAMAGED, ids=[path for path, _ in _DAMAGED])
@pytest.mark.parametrize(
    "data",
    [
        b"no json",
        b"[1]",
        b"{}",
        b'{"version":99}',
        b'{"version":1,"partitions":[1]}',
        b'{"version":5,"endpoints":["nonsense"]}',
        b'{"version":1,"config":3}',
        b'{"version":1,"leader":"x","leader_epoch":0,"isr":1,"controller_epoch":0}',
        b"\xff\xfe",
        b"9" * 30,
    ],
)
def test_damage_is_named_with_its_path(
    path: str, decode: Callable[[bytes | None], object], data: bytes
) -> None:
    with pytest.raises(ZnodeError, match=path):
        decode(data)
