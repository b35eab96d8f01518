"""The input of a broker-side assignor.

Rules.  * Collections come in the order in which Kafka puts them into its tables: `java_order` gives their iteration
          order, which the uniform assignor follows.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

Assigned: TypeAlias = dict[bytes, tuple[int, ...]]
"""Topic id -> partitions, ascending."""


class MemberSpec(NamedTuple):
    """A member: its subscribed topics and its current target."""

    topic_ids: tuple[bytes, ...]
    assigned: Mapping[bytes, tuple[int, ...]]
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group whose next target is being computed."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]
    """Partition count of every subscribed topic."""
    homogeneous: bool
    """Whether all members subscribe to the same topics."""
    owners: Mapping[bytes, Mapping[int, str]]
    """The owner of each partition in the current target."""

    def is_assigned(self, topic_id: bytes, partition: int) -> bool:
        """Whether the current target assigns the partition."""
        owners = self.owners.get(topic_id)
        return owners is not None and partition in owners
