"""Kafka's documents in ZooKeeper's nodes: JSON of several versions, as values.

Role.   `encode_…` writes what Kafka 3.9 writes, `decode_…` reads every version that a broker or a tool has written since.
Rules.  * Readers depend on no order of keys and pass over keys that they do not know. Writers give Kafka's own order, compact.
        * `ZnodeError` names the path and the fault. No other error leaves a reader.
        * Numbers are numbers but where Kafka writes texts: times, producer ids, the version of `/cluster/id`.
"""

import base64
import binascii
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from semel.core.cluster import paths
from semel.core.metadata.brokers import Endpoint
from semel.errors import SemelError
from semel.types import TopicPartition

T = TypeVar("T")
Json: TypeAlias = Any

PRODUCER_ID_BLOCK_SIZE: Final = 1000
RECOVERING: Final = 1
"""The leader recovery state after an unclean election; 0 is recovered."""
_ENDPOINT: Final = re.compile(
    r"(?P<listener>[^:/]+)://(?:\[(?P<v6>[^\]]+)\]|(?P<host>[^:\[\]]*)):(?P<port>-?[0-9]+)"
)


class ZnodeError(SemelError):
    """A node's data is no document of Kafka's."""

    def __init__(self, path: str, why: str, data: bytes | None) -> None:
        shown = repr(data if data is None or len(data) <= 200 else data[:200] + b"...")
        super().__init__(f"znode {path}: {why}: {shown}")
        self.path = path


def _write(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _read(path: str, data: bytes | None, take: Callable[[dict[str, Json]], T]) -> T:
    """What `take` makes of a JSON object."""
    try:
        document = json.loads(data or b"")
        if not isinstance(document, dict):
            raise TypeError("an object is expected")
        return take(document)
    except KeyError as error:
        raise ZnodeError(path, f"the key {error} is missing", data) from error
    except (ValueError, TypeError, AttributeError, binascii.Error) as error:
        raise ZnodeError(path, f"not the document that belongs there ({error})", data) from error


def _version(document: Mapping[str, Json], known: Iterable[int]) -> int:
    version = document["version"]
    if version not in known:
        raise ValueError(f"version {version!r} is not known")
    return int(version)


# Ids


def encode_uuid(value: uuid.UUID) -> str:
    """Kafka's spelling: 22 characters of URL-safe base64."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> uuid.UUID:
    if len(text) != 22:
        raise ValueError(f"{text!r} has not the 22 characters of an id")
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def encode_cluster_id(cluster_id: str) -> bytes:
    return _write({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes | None) -> str:
    return _read(paths.CLUSTER_ID, data, lambda document: str(document["id"]))


# Brokers


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """A broker's registration."""

    endpoints: Mapping[str, Endpoint]
    """By listener name, in the broker's order."""
    protocols: Mapping[str, str] = field(default_factory=dict)
    """The security protocol of each listener."""
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1


def encode_broker(node: BrokerNode) -> bytes:
    """Version 5. Host and port are those of the first plain listener, for readers of version 1."""
    plain = next(
        (
            endpoint
            for name, endpoint in node.endpoints.items()
            if node.protocols.get(name, name) == "PLAINTEXT"
        ),
        None,
    )
    document = {
        "version": 5,
        "host": None if plain is None else plain.host,
        "port": -1 if plain is None else plain.port,
        "jmx_port": node.jmx_port,
        "timestamp": str(node.timestamp_ms),
        "endpoints": [f"{name}://{_host(one.host)}:{one.port}" for name, one in node.endpoints.items()],
        "listener_security_protocol_map": {name: node.protocols.get(name, name) for name in node.endpoints},
        **({} if node.rack is None else {"rack": node.rack}),
        "features": {},
    }
    return _write(document)


def decode_broker(broker_id: int, data: bytes | None) -> BrokerNode:
    """Versions 1 to 5."""

    def take(document: dict[str, Json]) -> BrokerNode:
        timestamp_ms, jmx_port = int(document.get("timestamp", 0)), int(document.get("jmx_port", -1))
        if _version(document, range(1, 6)) == 1:
            endpoint = Endpoint(str(document["host"]), int(document["port"]))
            return BrokerNode(
                {"PLAINTEXT": endpoint}, {"PLAINTEXT": "PLAINTEXT"}, None, timestamp_ms, jmx_port
            )
        endpoints = dict(_endpoint(text) for text in document["endpoints"])
        given = document.get("listener_security_protocol_map") or {}
        protocols = {name: str(given.get(name, name)) for name in endpoints}
        rack = document.get("rack")
        return BrokerNode(endpoints, protocols, None if rack is None else str(rack), timestamp_ms, jmx_port)

    return _read(paths.broker(broker_id), data, take)


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _endpoint(text: str) -> tuple[str, Endpoint]:
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no endpoint")
    return found["listener"], Endpoint(found["v6"] or found["host"], int(found["port"]))


# Topics and partitions


@dataclass(frozen=True, slots=True)
class TopicNode:
    """A topic's assignment; while it is reassigned `replicas` holds old and new ones together."""

    replicas: Mapping[int, tuple[int, ...]]
    topic_id: uuid.UUID | None = None
    adding: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


def encode_topic(node: TopicNode) -> bytes:
    """Version 3; without the key of the id for a topic that has none."""
    identity = {} if node.topic_id is None else {"topic_id": encode_uuid(node.topic_id)}
    return _write(
        {
            "version": 3,
            **identity,
            "partitions": _by_text(node.replicas),
            "adding_replicas": _by_text(node.adding),
            "removing_replicas": _by_text(node.removing),
        }
    )


def decode_topic(name: str, data: bytes | None) -> TopicNode:
    """Versions 1 (no reassignment), 2 (no id) and 3."""

    def take(document: dict[str, Json]) -> TopicNode:
        _version(document, (1, 2, 3))
        topic_id = document.get("topic_id")
        return TopicNode(
            _by_index(document["partitions"]),
            None if topic_id is None else decode_uuid(topic_id),
            _by_index(document.get("adding_replicas") or {}),
            _by_index(document.get("removing_replicas") or {}),
        )

    return _read(paths.topic(name), data, take)


def _by_text(replicas: Mapping[int, Sequence[int]]) -> dict[str, list[int]]:
    return {str(index): list(ids) for index, ids in sorted(replicas.items())}


def _by_index(replicas: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, ...]]:
    return {int(index): tuple(int(one) for one in ids) for index, ids in replicas.items()}


@dataclass(frozen=True, slots=True)
class StateNode:
    """A partition's leader and ISR; the node's version is the partition epoch."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0


def encode_state(node: StateNode) -> bytes:
    recovery = {"leader_recovery_state": node.leader_recovery_state} if node.leader_recovery_state else {}
    return _write(
        {
            "version": 1,
            "leader": node.leader,
            "leader_epoch": node.leader_epoch,
            "controller_epoch": node.controller_epoch,
            "isr": list(node.isr),
            **recovery,
        }
    )


def decode_state(name: str, index: int, data: bytes | None) -> StateNode:
    return _read(
        paths.state(name, index),
        data,
        lambda document: StateNode(
            int(document["leader"]),
            int(document["leader_epoch"]),
            tuple(int(one) for one in document["isr"]),
            int(document["controller_epoch"]),
            int(document.get("leader_recovery_state", 0)),
        ),
    )


# The controller


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _write(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes | None) -> int:
    """The controller's broker id. Before version 1 the node held the number alone."""
    if data is not None and re.fullmatch(rb"-?[0-9]{1,10}", data):
        return int(data)
    return _read(paths.CONTROLLER, data, lambda document: int(document["brokerid"]))


def is_kraft_controller(data: bytes | None) -> bool:
    """Whether the controller is one of KRaft, which takes the cluster over in a migration."""
    if data is not None and re.fullmatch(rb"-?[0-9]{1,10}", data):
        return False
    return _read(paths.CONTROLLER, data, lambda document: int(document.get("kraftControllerEpoch") or -1) > 0)


def encode_number(number: int) -> bytes:
    """As in `/controller_epoch` and in the offsets of old consumers: text, no JSON."""
    return b"%d" % number


def decode_number(path: str, data: bytes | None) -> int:
    if data is None or re.fullmatch(rb"-?[0-9]{1,19}", data) is None:
        raise ZnodeError(path, "not a decimal number", data)
    return int(data)


class ProducerIdBlock(NamedTuple):
    """The block of producer ids given out last."""

    broker_id: int
    first: int
    last: int


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    return _write(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_ids(data: bytes | None) -> ProducerIdBlock | None:
    """None before the first block."""
    if not data:
        return None
    return _read(
        paths.PRODUCER_ID_BLOCK,
        data,
        lambda document: ProducerIdBlock(
            int(document["broker"]), int(document["block_start"]), int(document["block_end"])
        ),
    )


def encode_features(levels: Mapping[str, int], *, enabled: bool = True) -> bytes:
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    return _write({"features": features, "version": 2, "status": 1 if enabled else 0})


def decode_features(data: bytes | None) -> Mapping[str, int]:
    """The finalized levels; none while features are disabled. Version 1 had a lowest level too."""

    def take(document: dict[str, Json]) -> Mapping[str, int]:
        _version(document, (1, 2))
        if document["status"] == 0:
            return {}
        return {str(name): int(one["max_version_level"]) for name, one in document["features"].items()}

    return _read(paths.FEATURE, data, take)


def are_features_enabled(data: bytes | None) -> bool:
    """Whether the node holds features that count; a node that cannot be read holds none."""
    try:
        return _read(paths.FEATURE, data, lambda document: bool(document["status"] == 1))
    except ZnodeError:
        return False


# Settings


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return _write({"version": 1, "config": dict(configs)})


def decode_configs(path: str, data: bytes | None) -> dict[str, str]:
    """An empty node has no settings; Kafka makes such for users."""
    if not data:
        return {}
    return _read(
        path,
        data,
        lambda document: {str(key): str(value) for key, value in (document["config"] or {}).items()},
    )


def encode_config_change(entity_path: str) -> bytes:
    return _write({"version": 2, "entity_path": entity_path})


def decode_config_change(path: str, data: bytes | None) -> str:
    """The entity whose settings changed, as `topics/orders`. Version 1 named type and name apart."""

    def take(document: dict[str, Json]) -> str:
        if _version(document, (1, 2)) == 1:
            return f"{document['entity_type']}/{document['entity_name']}"
        return str(document["entity_path"])

    return _read(path, data, take)


# Requests and notifications by node


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """As in notifications of ISR changes and in preferred elections."""
    listed = [{"topic": one.topic, "partition": one.partition} for one in partitions]
    return _write({"version": 1, "partitions": listed})


def decode_partitions(path: str, data: bytes | None) -> list[TopicPartition]:
    return _read(
        path,
        data,
        lambda document: [
            TopicPartition(str(one["topic"]), int(one["partition"])) for one in document["partitions"]
        ],
    )


def encode_reassignments(replicas: Mapping[TopicPartition, Sequence[int]]) -> bytes:
    listed = [
        {"topic": one.topic, "partition": one.partition, "replicas": list(ids)}
        for one, ids in replicas.items()
    ]
    return _write({"version": 1, "partitions": listed})


def decode_reassignments(data: bytes | None) -> dict[TopicPartition, tuple[int, ...]]:
    return _read(
        paths.REASSIGN_PARTITIONS,
        data,
        lambda document: {
            TopicPartition(str(one["topic"]), int(one["partition"])): tuple(
                int(id_) for id_ in one["replicas"]
            )
            for one in document["partitions"]
        },
    )


def encode_log_dir_event(broker_id: int) -> bytes:
    """The only event there is: a log directory failed."""
    return _write({"version": 1, "broker": broker_id, "event": 1})


def decode_log_dir_event(path: str, data: bytes | None) -> int:
    """The broker whose log directory failed."""
    return _read(path, data, lambda document: int(document["broker"]))
