"""The consumer protocol inside JoinGroup and SyncGroup, as the coordinator reads and writes it.

Role.   A classic member of a KIP-848 group names its topics and owned partitions in its subscription; the coordinator
        returns its part of the target as an assignment.
Rules.  * An unknown version is read as the newest known one: newer versions only append fields.
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
    """The version at the start of the bytes, at most the newest known one; None without a version."""
    if len(data) < _VERSION_BYTES:
        return None
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    return None if version < 0 else min(version, _NEWEST)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    """A member's subscription, or None if it cannot be read."""
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
    """A member's assignment, or None if it cannot be read; empty bytes are an empty assignment."""
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
    """The bytes of a member's assignment; deleted topics are left out."""
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
    """Partitions by topic id; deleted topics are left out."""
    found = ((topics.topic(one.topic), one.partitions) for one in listed)
    return [(topic.topic_id.bytes, partitions) for topic, partitions in found if topic is not None]
