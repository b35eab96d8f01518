"""Semel: an exactly-once event log and data pipeline for Python and Spark.

The public names, nothing else. They load lazily, so a Spark worker or a client never imports the broker, and `import semel`
costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Final

from semel._version import __version__

if TYPE_CHECKING:
    from semel.client.consumer.records import ConsumerRecords
    from semel.client.metrics import MetricName
    from semel.client.producer.future import BatchMetadata, RecordMetadata
    from semel.client.producer.prepared import PreparedTxnState, ProducerIdAndEpoch
    from semel.client.profiles import profile
    from semel.client.settings import AdminConfig, ConsumerConfig, ProducerConfig
    from semel.client.sync.admin import Admin
    from semel.client.sync.consumer import Consumer
    from semel.client.sync.pool import TransactionalProducerPool
    from semel.client.sync.producer import Producer
    from semel.client.values.administration import (
        AclBinding,
        AclBindingFilter,
        AclPermissionType,
        AlterConfigOp,
        ConfigResource,
        ConfigResourceType,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        OpType,
        PatternType,
        QuotaEntry,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )
    from semel.client.values.consuming import (
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        SubscriptionPattern,
    )
    from semel.core.security.operations import AclOperation, ResourceType
    from semel.embedded import Broker
    from semel.exceptions import *  # noqa: F403 - every one of them is a name of this package.
    from semel.types import TopicPartition

_ACL_WORDS: Final = "semel.core.security.operations"
_ADMIN_VALUES: Final = "semel.client.values.administration"
_VALUES: Final = "semel.client.values.consuming"
_SETTINGS: Final = "semel.client.settings"
_HOMES: Final = {
    "AclBinding": _ADMIN_VALUES,
    "AclBindingFilter": _ADMIN_VALUES,
    "AclOperation": _ACL_WORDS,
    "AclPermissionType": _ADMIN_VALUES,
    "Admin": "semel.client.sync.admin",
    "AdminConfig": _SETTINGS,
    "AlterConfigOp": _ADMIN_VALUES,
    "BatchMetadata": "semel.client.producer.future",
    "Broker": "semel.embedded",
    "ConfigResource": _ADMIN_VALUES,
    "ConfigResourceType": _ADMIN_VALUES,
    "Consumer": "semel.client.sync.consumer",
    "ConsumerConfig": _SETTINGS,
    "ConsumerGroupMetadata": _VALUES,
    "ConsumerRebalanceListener": _VALUES,
    "ConsumerRecord": _VALUES,
    "ConsumerRecords": "semel.client.consumer.records",
    "MetricName": "semel.client.metrics",
    "NewPartitions": _ADMIN_VALUES,
    "NewTopic": _ADMIN_VALUES,
    "OffsetAndMetadata": _VALUES,
    "OffsetAndTimestamp": _VALUES,
    "OffsetSpec": _ADMIN_VALUES,
    "OpType": _ADMIN_VALUES,
    "PartitionInfo": _VALUES,
    "PatternType": _ADMIN_VALUES,
    "PreparedTxnState": "semel.client.producer.prepared",
    "Producer": "semel.client.sync.producer",
    "ProducerConfig": _SETTINGS,
    "ProducerIdAndEpoch": "semel.client.producer.prepared",
    "QuotaEntry": _ADMIN_VALUES,
    "RecordMetadata": "semel.client.producer.future",
    "ResourceType": _ACL_WORDS,
    "ScramMechanism": _ADMIN_VALUES,
    "SubscriptionPattern": _VALUES,
    "TopicPartition": "semel.types",
    "TransactionalProducerPool": "semel.client.sync.pool",
    "UserScramCredentialDeletion": _ADMIN_VALUES,
    "UserScramCredentialUpsertion": _ADMIN_VALUES,
    "profile": "semel.client.profiles",
}

__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "Admin",
    "AdminConfig",
    "AlterConfigOp",
    "BatchMetadata",
    "Broker",
    "ConfigResource",
    "ConfigResourceType",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "MetricName",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "OffsetSpec",
    "OpType",
    "PartitionInfo",
    "PatternType",
    "PreparedTxnState",
    "Producer",
    "ProducerConfig",
    "ProducerIdAndEpoch",
    "QuotaEntry",
    "RecordMetadata",
    "ResourceType",
    "ScramMechanism",
    "SubscriptionPattern",
    "TopicPartition",
    "TransactionalProducerPool",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "__version__",
    "profile",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is not None:
        return getattr(importlib.import_module(home), name)
    if not name.startswith("_"):
        exceptions = importlib.import_module("semel.exceptions")
        if name in exceptions.EXCEPTIONS:
            return exceptions.EXCEPTIONS[name]
    raise AttributeError(f"module 'semel' has no attribute {name!r}{_meant(name)}")


def _meant(name: str) -> str:
    """The public name next to one that is not there."""
    import difflib

    nearest = [] if name.startswith("_") else difflib.get_close_matches(name, __all__, 1)
    return f": did you mean {nearest[0]}?" if nearest else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
