"""Where the replicas of a new partition are: as the client names them, or spread over the brokers there are.

Role.   CreateTopics and CreatePartitions share it: assignments given by hand or not, and the bound on one request.
"""

from collections.abc import Callable, Sequence
from typing import Final

from semel.core.cluster.placement import place
from semel.core.metadata.image import MetadataImage
from semel.core.metadata.partition_state import PartitionState, new_state
from semel.errors import ErrorCode, Refuse

PARTITIONS_PER_REQUEST_MAX: Final = 10_000
TOO_MANY_PARTITIONS: Final = Refuse(
    ErrorCode.POLICY_VIOLATION,
    f"Excessively large number of partitions per request: {PARTITIONS_PER_REQUEST_MAX} are allowed.",
)


def spread(
    image: MetadataImage, partitions: int, *, replicas: int = 1, first: int = 0
) -> tuple[PartitionState, ...]:
    """New partitions, in turn over the brokers; `first` is how many their topic has."""
    brokers = sorted(image.brokers)
    rounds = [
        new_state(tuple(brokers[(leader + place) % len(brokers)] for place in range(replicas)))
        for leader in range(len(brokers))
    ]
    return tuple(rounds[index % len(rounds)] for index in range(first, first + partitions))


def placed(
    image: MetadataImage,
    partitions: int,
    *,
    replicas: int,
    draw: Callable[[int], int],
    behind: Sequence[PartitionState] = (),
) -> tuple[PartitionState, ...] | Refuse:
    """New partitions in a cluster, as Kafka places them; `behind` those that their topic has."""
    racks = {broker_id: image.brokers[broker_id].rack for broker_id in sorted(image.brokers)}
    start = None
    if behind:
        preferred = behind[0].replicas[0]
        start = next((at for at, one in enumerate(racks) if one >= preferred), 0)
    rows = place(
        racks,
        partitions=partitions,
        replication_factor=replicas,
        draw=draw,
        start=start,
        first=len(behind),
    )
    return rows if isinstance(rows, Refuse) else tuple(new_state(one) for one in rows)


def assignment_flaw(
    broker_ids: Sequence[int], image: MetadataImage, *, replication_factor: int | None
) -> Refuse | None:
    """Why a partition cannot be on these brokers; None if it can. `replication_factor` is that of its topic so far."""
    if not broker_ids:
        return _refused("The manual partition assignment includes an empty replica list.")
    for broker_id in sorted(broker_ids):
        if broker_id not in image.brokers:
            return _refused(
                f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
            )
    twice = [broker_id for broker_id in broker_ids if broker_ids.count(broker_id) > 1]
    if twice:
        return _refused(f"The manual partition assignment includes the broker {twice[0]} more than once.")
    if replication_factor not in (None, len(broker_ids)):
        return _refused(
            f"The manual partition assignment includes a partition with {len(broker_ids)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )
    return None


def _refused(reason: str) -> Refuse:
    return Refuse(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
