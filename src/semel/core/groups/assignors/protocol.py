"""The bytes members of a classic consumer group exchange through the coordinator, which does not parse them.

Role.   A subscription goes to the leader inside JoinGroup, an assignment comes from it inside SyncGroup; both begin with
        their version. `encode_*` and `decode_*` are each other's reverse.
Rules.  * A newer version is read as the newest known one: versions only append fields.
        * A negative generation and an empty rack mean that there is none.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeVar

from semel.core.groups.assignors.members import Member
from semel.core.wire import plain
from semel.core.wire.message import Row
from semel.core.wire.messages import consumer_protocol
from semel.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from semel.errors import WireError
from semel.types import BytesLike, TopicPartition
from semel.words import a

PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3
_VERSION: Final = struct.Struct(">h")
R = TypeVar("R", bound=Row)


class MemberAssignment(NamedTuple):
    """The partitions assigned to one member, and the user data."""

    partitions: list[TopicPartition]
    user_data: bytes | None = None


def encode_subscription(member: Member, version: int = VERSION_MAX) -> bytes:
    """A member's subscription, for the leader."""
    row = ConsumerProtocolSubscription(
        topics=list(member.topics),
        user_data=member.user_data,
        owned_partitions=[
            consumer_protocol.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(member.owned_partitions)
        ],
        generation_id=-1 if member.generation_id is None else member.generation_id,
        rack_id=member.rack_id,
    )
    return _VERSION.pack(version) + row.encode(version)


def decode_subscription(member_id: str, data: BytesLike, group_instance_id: str | None = None) -> Member:
    """The member described by a subscription; raises `WireError` for invalid bytes."""
    row = _decode(ConsumerProtocolSubscription, data)
    return Member(
        member_id=member_id,
        topics=row.topics,
        group_instance_id=group_instance_id,
        owned_partitions=[
            TopicPartition(one.topic, index) for one in row.owned_partitions for index in one.partitions
        ],
        generation_id=row.generation_id if row.generation_id >= 0 else None,
        rack_id=row.rack_id or None,
        user_data=None if row.user_data is None else bytes(row.user_data),
    )


def encode_assignment(assignment: MemberAssignment, version: int = VERSION_MAX) -> bytes:
    """One member's assignment, as the leader sends it."""
    row = ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol.ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(assignment.partitions)
        ],
        user_data=assignment.user_data,
    )
    return _VERSION.pack(version) + row.encode(version)


def decode_assignment(data: BytesLike) -> MemberAssignment:
    """A member's assignment. Empty bytes mean no partitions: SyncGroup answers so if the leader left the member out."""
    if not len(data):
        return MemberAssignment([])
    row = _decode(ConsumerProtocolAssignment, data)
    partitions = [
        TopicPartition(one.topic, index) for one in row.assigned_partitions for index in one.partitions
    ]
    return MemberAssignment(partitions, None if row.user_data is None else bytes(row.user_data))


def _decode(cls: type[R], data: BytesLike) -> R:
    if len(data) < _VERSION.size:
        raise WireError(
            f"{len(data)} bytes are too few for {a(cls.__name__)}: its version takes {_VERSION.size}"
        )
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise WireError(f"{a(cls.__name__)} has no version {version}")
    if version > VERSION_MAX:
        return plain.read(cls, data, _VERSION.size, version=VERSION_MAX, flexible=False, open_end=True)
    return cls.decode(data, version, _VERSION.size)


def _by_topic(partitions: Iterable[TopicPartition]) -> Sequence[tuple[str, list[int]]]:
    grouped: dict[str, list[int]] = {}
    for one in partitions:
        grouped.setdefault(one.topic, []).append(one.partition)
    return list(grouped.items())
