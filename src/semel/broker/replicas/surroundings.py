"""The surroundings of a replica: what every partition that is led here needs to know of its broker."""

from dataclasses import dataclass

from semel.core.replication.leading import Alive


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One broker, seen by its replicas."""

    node_id: int
    lag_max_ms: int
    """`replica.lag.time.max.ms`."""
    alive: Alive
    """The brokers that are alive, as the metadata says at the moment."""
