"""The first question of a process to its brokers: patient, because a broker may be restarting just then.

Role.   `reach` for sinks. The client takes an address that never answered for a wrong one and says so at once. A query that
        starts, or the process Spark makes for a commit, should wait for a broker as long as a running query does.
"""

from semel.client.cluster import Cluster, passes
from semel.errors import DisconnectedError, RefusedError, UnreachableError


async def reach(cluster: Cluster, timeout_ms: int) -> None:
    """Return once a broker has answered; raises what kept it from that when the time is over."""

    def may_repeat(error: DisconnectedError | RefusedError) -> bool:
        return isinstance(error, UnreachableError) or passes(error)

    await cluster.patiently(lambda: cluster.metadata([]), timeout_ms=timeout_ms, may_repeat=may_repeat)
