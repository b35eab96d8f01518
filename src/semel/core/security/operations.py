"""Resources, what can be allowed on them, and the bit sets in which some responses tell it.

Role.   Kafka's numbers of resource types and operations. `broker.apis` names what every API needs; Metadata, DescribeTopicPartitions,
        DescribeGroups, ConsumerGroupDescribe and DescribeCluster answer with the bits where they are asked to.
Rules.  * Bit n stands for operation n. "Not asked" has a value of its own.
        * Without access control a client may do everything that a resource has.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ResourceType(IntEnum):
    """The kinds of resources that access is given to."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """The operations that can be allowed."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    TWO_PHASE_COMMIT = 15


class Need(NamedTuple):
    """An operation on a kind of resource."""

    resource: ResourceType
    operation: Operation


SUPPORTED: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
}
"""The operations that a kind of resource has."""


def _bits(resource: ResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED[resource])


UNASKED: Final = -(2**31)
TOPIC_OPERATIONS: Final = _bits(ResourceType.TOPIC)
GROUP_OPERATIONS: Final = _bits(ResourceType.GROUP)
CLUSTER_OPERATIONS: Final = _bits(ResourceType.CLUSTER)
