"""The surroundings of a replica: what the replicas of a broker need to know of it, and the other brokers' part in them.

Role.   One value that every led partition is made with. A broker alone has no `replication`: its replicas are the only ones.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from semel.core.replication.leading import Alive, Proposal

if TYPE_CHECKING:
    from semel.broker.replicas.followed_partition import FollowedPartition
    from semel.broker.replicas.led_partition import LedPartition


class Replication(Protocol):
    """The way from the replicas here to the controller and to the leaders elsewhere."""

    def propose(self, partition: "LedPartition", proposal: Proposal) -> None:
        """Ask the controller for another ISR; its answer comes to `partition.altered`."""

    def lead_no_more(self, partition: "LedPartition") -> None:
        """No answer about this partition is wanted any more."""

    def follow(self, partition: "FollowedPartition") -> None:
        """Fetch from the partition's leader from now on."""

    def stop(self, partition: "FollowedPartition") -> None:
        """Fetch no more: nothing changes the log after this."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One broker, seen by its replicas."""

    node_id: int
    lag_max_ms: int
    """`replica.lag.time.max.ms`."""
    alive: Alive
    """The brokers that are alive, as the metadata says at the moment."""
    replication: Replication | None = None
