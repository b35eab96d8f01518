"""Where a client wants a partition's replicas: on a single broker there is one right answer.

Role.   What CreateTopics and CreatePartitions share when assignments are given by hand, and how much one request may make.
"""

from collections.abc import Sequence
from typing import Final

from semel.errors import ErrorCode, Refuse

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
TOO_MANY_PARTITIONS: Final = Refuse(
    ErrorCode.POLICY_VIOLATION,
    f"Excessively large number of partitions per request: {PARTITIONS_PER_REQUEST_MAX} are allowed.",
)


def assignment_flaw(
    broker_ids: Sequence[int], node_id: int, *, replication_factor: int | None
) -> Refuse | None:
    """Why a partition cannot be on these brokers; None if it can. `replication_factor` is that of its topic so far."""
    if not broker_ids:
        return _refused("The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(broker_ids):
        if broker_id != node_id:
            return _refused(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    if len(broker_ids) > 1:
        return _refused(f"The manual partition assignment includes the broker {node_id} more than once.")
    if replication_factor not in (None, len(broker_ids)):
        return _refused(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def _refused(reason: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
