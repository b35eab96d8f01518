"""The first question of a process to its brokers: patient, because a broker may be restarting just then.

Role.   `reach` for sinks. The client takes an address that never answered for a wrong one and says so at once. The process Spark
        makes for a commit should wait for a broker as long as a running query does.
Rules.  A query's first batch, and a batch job, have no proof that the address was ever right: they wait `FIRST_CONTACT_MS` and no
        longer. Later batches wait `max.block.ms`.
"""

from typing import Final

from semel.client.cluster import Cluster, passes
from semel.client.settings import ProducerConfig
from semel.errors import DisconnectedError, RefusedError, UnreachableError

FIRST_CONTACT_MS: Final = 10_000
"""So long a cluster is waited for that no batch was ever written to: a broker restarts in less, a wrong address stays one."""


async def reach(cluster: Cluster, timeout_ms: int) -> None:
    """Return once a broker has answered; raises the error that kept it from answering when the time is over."""

    def may_repeat(error: DisconnectedError | RefusedError) -> bool:
        return isinstance(error, UnreachableError) or passes(error)

    await cluster.patiently(lambda: cluster.metadata([]), timeout_ms=timeout_ms, may_repeat=may_repeat)


def patience_ms(config: ProducerConfig, *, is_first: bool) -> int:
    """How long a batch waits for an answer; `is_first`: no batch before it shows that the address is right."""
    return min(FIRST_CONTACT_MS, config.max_block_ms) if is_first else config.max_block_ms
