"""What an assignor is told of a group.

Rules.  * Collections come in the order in which Kafka puts them into its tables: `java_order` tells in which order they
          come out again, and the uniform assignor goes by that.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

Assigned: TypeAlias = dict[bytes, tuple[int, ...]]
"""Topic id -> partitions, ascending."""


class MemberSpec(NamedTuple):
    """A member: what it subscribes to and what it shall have so far."""

    topic_ids: tuple[bytes, ...]
    assigned: Mapping[bytes, tuple[int, ...]]
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group, as its next target is computed."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Of every topic somebody subscribes to."""
    homogeneous: bool
    """Whether all subscribe to the same topics."""
    owners: Mapping[bytes, Mapping[int, str]]
    """Who shall have a partition so far."""

    def is_assigned(self, topic_id: bytes, partition: int) -> bool:
        """Whether anybody shall have it so far."""
        owners = self.owners.get(topic_id)
        return owners is not None and partition in owners
