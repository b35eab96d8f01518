"""Two answers as flat tables of fields, so that they can be compared and their differences named.

A path like `topics[orders].partitions[0].error_code` leads to a field. Elements of arrays are named by what identifies
them, not by their place: where Kafka answers from a hash map, the order means nothing, and a Fetch may name a topic
once for all of its partitions or several times. What two brokers cannot agree
on (ids, ports, times, free bytes) is replaced by what can be said of it: whether it is there.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from compat.differential.exchange import Side
from semel.core.records import batch
from semel.core.records.batch import TimestampType
from semel.core.records.build import iter_records
from semel.core.wire.message import Message
from semel.core.wire.messages.fetch import FetchableTopicResponse
from semel.core.wire.schema import Struct

Fields = dict[str, Any]
ABSENT: Final = "absent"
IGNORED: Final = frozenset(
    {"throttle_time_ms", "error_message", "batch_index_error_message", "documentation", "unknown_tags"}
)
"""Throttling is a matter of load; what people read is not compared, what programs read is."""
_IDENTITIES: Final = (
    "name",
    "topic",
    "topic_id",
    "partition_index",
    "index",
    "partition",
    "node_id",
    "broker_id",
)
_IDENTITIES_ELSEWHERE: Final = (
    "resource_name",
    "api_key",
    "producer_id",
    "key",
    "log_dir",
    "epoch",
    "group_id",
    "batch_index",
    "user",
    "mechanism",
    "topic_name",
    "partition_id",
    "entity_type",
    "feature",
)


def _presence(value: Any, _side: Side) -> Any:
    """Whether a number or text is given at all."""
    return value if value in (None, "", 0, -1) else "given"


_MASKS: Final[Mapping[str, Callable[[Any, Side], Any]]] = {
    "topic_id": lambda value, side: side.topic_label(value),
    "cluster_id": _presence,
    "port": _presence,
    "log_dir": _presence,
    "total_bytes": _presence,
    "usable_bytes": _presence,
    "session_id": _presence,
    "member_id": _presence,
    "leader": _presence,
    "producer_id": lambda value, _side: min(value, 0),
    "log_append_time_ms": _presence,
    "finalized_features_epoch": _presence,
}


def fields_of(answer: Message | str, side: Side) -> Fields:
    """Every field of an answer by its path."""
    if isinstance(answer, str):
        return {"": answer}
    found: Fields = {}
    _flatten(answer, "", side, found)
    return found


def differences(ours: Fields, theirs: Fields) -> dict[str, tuple[Any, Any]]:
    """Path by path what differs: (ours, theirs)."""
    paths = sorted(ours.keys() | theirs.keys())
    found = {
        path: (ours.get(path, ABSENT), theirs.get(path, ABSENT))
        for path in paths
        if ours.get(path, ABSENT) != theirs.get(path, ABSENT)
    }
    lone = tuple(path.removesuffix(":") + "." for path in found if path.endswith(":"))
    return {path: both for path, both in found.items() if not path.startswith(lone)}


def _flatten(struct: Struct, path: str, side: Side, found: Fields) -> None:
    for name in struct._declared:
        if name not in IGNORED:
            _flatten_value(name, getattr(struct, name), f"{path}.{name}" if path else name, side, found)


def _flatten_value(name: str, value: Any, path: str, side: Side, found: Fields) -> None:
    if isinstance(value, Struct):
        _flatten(value, path, side, found)
    elif isinstance(value, list) and value and isinstance(value[0], Struct):
        for element in value:
            inner = f"{path}[{_identity(element, side)}]"
            while f"{inner}:" in found and not isinstance(element, FetchableTopicResponse):
                inner += "'"  # Named twice: an answer that has it once differs.
            found[f"{inner}:"] = "there"
            _flatten(element, inner, side, found)
    elif name == "records" and value:
        _flatten_records(bytes(value), path, found)
    elif name in _MASKS:
        found[path] = _MASKS[name](value, side)
    else:
        found[path] = sorted(value) if isinstance(value, list) else value


def _identity(element: Struct, side: Side) -> str:
    if (kind := getattr(element, "resource_type", None)) is not None:
        return f"{kind} {getattr(element, 'resource_name', '')}"
    if entity := getattr(element, "entity", None):
        return ", ".join(sorted(f"{part.entity_type}={part.entity_name}" for part in entity))
    for name in (*_IDENTITIES, *_IDENTITIES_ELSEWHERE):
        value = getattr(element, name, None)
        if value not in (None, "", bytes(16)):
            masked = _MASKS[name](value, side) if name in _MASKS else value
            return str(masked)
    return "?"


def _flatten_records(data: bytes, path: str, found: Fields) -> None:
    """Each batch by its offset, without its producer's id and its checksum.

    Where the broker compressed, the same records may take more bytes or fewer.
    """
    packed = False
    for position, header in batch.headers(data):
        stamped = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        packed = packed or header.compression != 0
        described = header._replace(
            crc=0,
            producer_id=min(header.producer_id, 0),
            max_timestamp=0 if stamped else header.max_timestamp,
            batch_length=0 if packed else header.batch_length,
        )
        records = [
            (record.offset, 0 if stamped else record.timestamp_ms, record.key, record.value, record.headers)
            for record in iter_records(data, position, header)
        ]
        found[f"{path}@{header.base_offset}"] = (described, records)
    if not packed:
        found[f"{path}.size"] = len(data)


def matches(pattern: str, path: str) -> bool:
    """Whether a path is meant by a pattern, in which `*` stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), path) is not None
