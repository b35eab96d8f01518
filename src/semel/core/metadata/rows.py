"""The rows of the metadata log: every change a cluster remembers, as a key and a value.

Role.   The vocabulary of changes, and their bytes. A row replaces the one before it with the same key, so the log can
        be compacted; a row without a value says that its subject is gone.
Flow.   `cluster.standalone` appends rows and hands them to `image.apply`, live and when it starts.
Rules.  * Values are JSON objects with a version: readers pass over fields they do not know, and refuse versions they
          do not know.
        * One batch of rows is one change: all rows are applied or none.
        * The last row of every key is enough, in any order: compaction loses the order between keys.
        * The log is of one broker, which has the only replica of every partition. Its rows name no replicas, and keep a leader
          epoch only where it is not 0. The brokers that are there are kept nowhere; they register.
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, TypeAlias

from semel.core.metadata.brokers import RegisteredBroker
from semel.core.metadata.client_quotas import Entity
from semel.core.metadata.partition_state import PartitionState, alone
from semel.core.records.build import Record, RecordInput
from semel.core.security.scram_credentials import Credential
from semel.errors import CorruptLogError

_VERSION: Final = 1
_TOPIC: Final = "topic/"
_CONFIG: Final = "config/"
_CLUSTER: Final = "cluster"
_PRODUCER_IDS: Final = "producer-ids"
_LEADER_EPOCH: Final = "leader-epoch"
_GROUP_CONFIG: Final = "group-config/"
_QUOTA: Final = "quota/"
_SCRAM: Final = "scram/"
_FEATURE: Final = "feature/"


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """The cluster's id, given once."""

    cluster_id: str


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic as it is now."""

    name: str
    topic_id: uuid.UUID
    states: tuple[PartitionState, ...]
    """Of its partitions, by index."""
    configs: dict[str, str] = field(default_factory=dict)

    @property
    def partitions(self) -> int:
        """How many there are."""
        return len(self.states)


@dataclass(frozen=True, slots=True)
class TopicGoneRow:
    """A topic that was deleted."""

    name: str


@dataclass(frozen=True, slots=True)
class BrokerConfigRow:
    """The settings made while running, for one broker (its id) or for all (empty)."""

    broker: str
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProducerIdsRow:
    """Producer ids below `next_block` are given away, or belong to a broker that may have."""

    next_block: int


@dataclass(frozen=True, slots=True)
class LeaderEpochRow:
    """No partition is led in an epoch below this one: records that an unclean stop lost may have any epoch before it."""

    epoch: int


@dataclass(frozen=True, slots=True)
class GroupConfigRow:
    """The settings of one group; none, if there is none left."""

    group: str
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClientQuotaRow:
    """The quotas of one entity; none, if they were removed."""

    entity: Entity
    values: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScramRow:
    """A user's credential for one mechanism; None if it was deleted."""

    user: str
    mechanism: int
    credential: Credential | None


@dataclass(frozen=True, slots=True)
class FeatureRow:
    """The level a feature of the cluster was set to, and which change of features that was."""

    name: str
    level: int
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker is alive. Not in the log: it holds for as long as the broker lives."""

    broker: RegisteredBroker


@dataclass(frozen=True, slots=True)
class BrokersRow:
    """All brokers that are alive: others are not. Not in the log."""

    brokers: tuple[RegisteredBroker, ...]


@dataclass(frozen=True, slots=True)
class ControllerRow:
    """Which broker decides for the cluster. Not in the log."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class TopicConfigRow:
    """The settings of a topic, where they are kept beside it, and may be known before it. Not in the log."""

    topic: str
    configs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicStatesRow:
    """Some partitions of a topic as a controller tells of them; None: it is gone. A topic is gone with its last partition.

    Not in the log.
    """

    name: str
    topic_id: uuid.UUID
    states: Mapping[int, PartitionState | None]


Row: TypeAlias = (
    ClusterRow
    | TopicRow
    | TopicGoneRow
    | BrokerConfigRow
    | ProducerIdsRow
    | LeaderEpochRow
    | GroupConfigRow
    | ClientQuotaRow
    | ScramRow
    | FeatureRow
)
"""The rows in the log."""
Told: TypeAlias = BrokerRow | BrokersRow | ControllerRow | TopicConfigRow | TopicStatesRow
"""What a broker is told, or sees, and keeps nowhere."""
Change: TypeAlias = Row | Told
"""The changes that an image takes over."""


def encode(row: Row, now_ms: int) -> RecordInput:
    """The record of a row."""
    match row:
        case ClusterRow(cluster_id):
            return _record(_CLUSTER, {"cluster_id": cluster_id}, now_ms)
        case TopicRow(name, topic_id, states, configs):
            value = {"topic_id": str(topic_id), "partitions": len(states), "configs": configs}
            if epochs := _runs(states):
                value["leader_epochs"] = epochs
            return _record(_TOPIC + name, value, now_ms)
        case TopicGoneRow(name):
            return RecordInput(key=(_TOPIC + name).encode(), value=None, timestamp_ms=now_ms)
        case BrokerConfigRow(broker, configs):
            return _record(_CONFIG + broker, {"configs": configs}, now_ms)
        case ProducerIdsRow(next_block):
            return _record(_PRODUCER_IDS, {"next_block": next_block}, now_ms)
        case LeaderEpochRow(epoch):
            return _record(_LEADER_EPOCH, {"epoch": epoch}, now_ms)
        case GroupConfigRow(group, configs):
            return _record_or_none(_GROUP_CONFIG + group, {"configs": configs} if configs else None, now_ms)
        case ClientQuotaRow(entity, values):
            key = _QUOTA + json.dumps(entity, separators=(",", ":"))
            return _record_or_none(key, {"values": values} if values else None, now_ms)
        case ScramRow(user, mechanism, credential):
            kept = None
            if credential is not None:
                kept = {
                    "iterations": credential.iterations,
                    "salt": credential.salt.hex(),
                    "stored_key": credential.stored_key.hex(),
                    "server_key": credential.server_key.hex(),
                }
            return _record_or_none(f"{_SCRAM}{mechanism}/{user}", kept, now_ms)
        case FeatureRow(name, level, epoch):
            return _record(_FEATURE + name, {"level": level, "epoch": epoch}, now_ms)


def decode(record: Record, broker_id: int) -> Row:
    """The row of a record in this broker's log; raises `CorruptLogError` on one this version cannot read."""
    key = (record.key or b"").decode(errors="replace")
    try:
        if record.value is None:
            return _decode_gone(key)
        value: dict[str, Any] = json.loads(record.value or b"")
        if value["version"] != _VERSION:
            raise ValueError(f"version {value['version']} is not known, only {_VERSION} is")
        if key.startswith(_TOPIC):
            states = _states(broker_id, int(value["partitions"]), value.get("leader_epochs", ()))
            name = key.removeprefix(_TOPIC)
            return TopicRow(name, uuid.UUID(value["topic_id"]), states, dict(value["configs"]))
        if key.startswith(_CONFIG):
            return BrokerConfigRow(key.removeprefix(_CONFIG), dict(value["configs"]))
        if key.startswith(_GROUP_CONFIG):
            return GroupConfigRow(key.removeprefix(_GROUP_CONFIG), dict(value["configs"]))
        if key.startswith(_QUOTA):
            return ClientQuotaRow(
                _entity(key), {name: float(number) for name, number in value["values"].items()}
            )
        if key.startswith(_SCRAM):
            mechanism, _, user = key.removeprefix(_SCRAM).partition("/")
            kept = [bytes.fromhex(value[name]) for name in ("salt", "stored_key", "server_key")]
            return ScramRow(user, int(mechanism), Credential(int(value["iterations"]), *kept))
        if key.startswith(_FEATURE):
            return FeatureRow(key.removeprefix(_FEATURE), int(value["level"]), int(value["epoch"]))
        if key == _CLUSTER:
            return ClusterRow(str(value["cluster_id"]))
        if key == _PRODUCER_IDS:
            return ProducerIdsRow(int(value["next_block"]))
        if key == _LEADER_EPOCH:
            return LeaderEpochRow(int(value["epoch"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptLogError(
            f"metadata row {key!r} at offset {record.offset} cannot be read: {error}"
        ) from error
    raise CorruptLogError(
        f"metadata row {key!r} at offset {record.offset} is of no kind this version knows: a later version of Semel wrote it, "
        "and can read it"
    )


def _runs(states: Sequence[PartitionState]) -> list[tuple[int, int]]:
    """How many partitions in a row have which leader epoch; nothing if all have 0."""
    runs = [(len(list(run)), epoch) for epoch, run in groupby(state.leader_epoch for state in states)]
    return runs if any(epoch for _count, epoch in runs) else []


def _states(broker_id: int, partitions: int, runs: Sequence[tuple[int, int]]) -> tuple[PartitionState, ...]:
    new = alone(broker_id, 1)[0]
    states: list[PartitionState] = []
    for count, epoch in runs:
        states += [new.led_from(int(epoch))] * int(count)
    if runs and len(states) != partitions:
        raise ValueError(f"{partitions} partitions have {len(states)} leader epochs")
    return tuple(states) if runs else (new,) * partitions


def _decode_gone(key: str) -> Row:
    """The row that says that something is no more."""
    if key.startswith(_TOPIC):
        return TopicGoneRow(key.removeprefix(_TOPIC))
    if key.startswith(_GROUP_CONFIG):
        return GroupConfigRow(key.removeprefix(_GROUP_CONFIG))
    if key.startswith(_QUOTA):
        return ClientQuotaRow(_entity(key))
    if key.startswith(_SCRAM):
        mechanism, _, user = key.removeprefix(_SCRAM).partition("/")
        return ScramRow(user, int(mechanism), None)
    raise ValueError("it has no value")


def _entity(key: str) -> Entity:
    return tuple((str(kind), name) for kind, name in json.loads(key.removeprefix(_QUOTA)))


def _record_or_none(key: str, value: dict[str, Any] | None, now_ms: int) -> RecordInput:
    if value is None:
        return RecordInput(key=key.encode(), value=None, timestamp_ms=now_ms)
    return _record(key, value, now_ms)


def _record(key: str, value: dict[str, Any], now_ms: int) -> RecordInput:
    content = json.dumps({"version": _VERSION, **value}, sort_keys=True, separators=(",", ":"))
    return RecordInput(key=key.encode(), value=content.encode(), timestamp_ms=now_ms)
