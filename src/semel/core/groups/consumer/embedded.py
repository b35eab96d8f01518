"""What consumers say to each other inside JoinGroup and SyncGroup, read and written by the coordinator.

Role.   A classic member in a KIP-848 group says its topics and what it owns in its subscription; its part of the target
        goes back to it as an assignment.
Rules.  * A version we do not know is read as the newest one we do: newer ones only add at the end.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from semel.core.groups.group import Topics
from semel.core.wire import plain
from semel.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from semel.errors import WireError

_VERSION_BYTES: Final = 2
_NEWEST: Final = 3


def read_version(data: bytes) -> int | None:
    """The version the bytes begin with, as far as we know it; None if there is none."""
    if len(data) < _VERSION_BYTES:
        return None
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return None if version < 0 else min(version, _NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    """What a member subscribes to, or None if that cannot be read."""
    version = read_version(data)
    if version is None:
        return None
    try:
        return plain.read(
            ConsumerProtocolSubscription, data, _VERSION_BYTES, version=version, flexible=False, open_end=True
        )
    except WireError:
        return None


def read_assignment(data: bytes) -> ConsumerProtocolAssignment | None:
    """What a member was given, or None if that cannot be read; no bytes are nothing."""
    if not data:
        return ConsumerProtocolAssignment()
    version = read_version(data)
    if version is None:
        return None
    try:
        return plain.read(
            ConsumerProtocolAssignment, data, _VERSION_BYTES, version=version, flexible=False, open_end=True
        )
    except WireError:
        return None


def write_assignment(assigned: Mapping[bytes, Iterable[int]], topics: Topics, version: int) -> bytes:
    """What a member is given, as its client reads it; topics that are gone are left out."""
    listed = []
    for topic_id, partitions in assigned.items():
        topic = topics.topic_by_id(topic_id)
        if topic is not None:
            listed.append(
                ConsumerProtocolAssignmentTopicPartition(topic=topic.name, partitions=sorted(partitions))
            )
    message = ConsumerProtocolAssignment(assigned_partitions=listed)
    return version.to_bytes(_VERSION_BYTES, "big") + message.encode(version)


def by_id(
    listed: Iterable[TopicPartition | ConsumerProtocolAssignmentTopicPartition], topics: Topics
) -> list[tuple[bytes, list[int]]]:
    """Partitions under the ids of their topics; those of topics that are gone are left out."""
    found = ((topics.topic(one.topic), one.partitions) for one in listed)
    return [(topic.topic_id.bytes, partitions) for topic, partitions in found if topic is not None]
