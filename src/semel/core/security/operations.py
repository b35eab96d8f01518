"""Resources, what can be allowed on them, and the bit sets in which some responses tell it.

Role.   Kafka's numbers of resource types and operations, for both ends. `broker.apis` names what every API needs; Metadata, DescribeTopicPartitions,
        DescribeGroups, ConsumerGroupDescribe and DescribeCluster answer with the bits where they are asked to.
Rules.  * Bit n stands for operation n. "Not asked" has a value of its own.
        * Without access control a client may do everything that a resource has.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final, NamedTuple


class ResourceType(IntEnum):
    """The kinds of resources that rules of access are about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(IntEnum):
    """The operations that rules of access are about; ANY is for filters, ALL for rules."""

    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Need(NamedTuple):
    """An operation on a kind of resource."""

    resource: ResourceType
    operation: AclOperation


SUPPORTED: Final[Mapping[ResourceType, tuple[AclOperation, ...]]] = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DELETE,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
}
"""The operations that a kind of resource has."""


def _bits(resource: ResourceType) -> int:
    return sum(1 << operation for operation in SUPPORTED[resource])


UNASKED: Final = -(2**31)
TOPIC_OPERATIONS: Final = _bits(ResourceType.TOPIC)
GROUP_OPERATIONS: Final = _bits(ResourceType.GROUP)
CLUSTER_OPERATIONS: Final = _bits(ResourceType.CLUSTER)
