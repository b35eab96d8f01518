"""Semel: an exactly-once event log and data pipeline for Python and Spark.

The public names, nothing else. They load lazily, so a Spark worker or a client never imports the broker, and `import semel`
costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Final

from semel._version import __version__

if TYPE_CHECKING:
    from semel.client.consumer.records import ConsumerRecords
    from semel.client.consumer.values import (
        ConsumerGroupMetadata,
        ConsumerRebalanceListener,
        ConsumerRecord,
        OffsetAndMetadata,
        OffsetAndTimestamp,
        PartitionInfo,
        SubscriptionPattern,
    )
    from semel.client.metrics import MetricName
    from semel.client.producer.future import RecordMetadata
    from semel.client.settings import AdminConfig, ConsumerConfig, ProducerConfig
    from semel.client.sync.consumer import Consumer
    from semel.client.sync.producer import Producer
    from semel.embedded import Broker
    from semel.exceptions import *  # noqa: F403 - every one of them is a name of this package.
    from semel.types import TopicPartition

_VALUES: Final = "semel.client.consumer.values"
_SETTINGS: Final = "semel.client.settings"
_HOMES: Final = {
    "AdminConfig": _SETTINGS,
    "Broker": "semel.embedded",
    "Consumer": "semel.client.sync.consumer",
    "ConsumerConfig": _SETTINGS,
    "ConsumerGroupMetadata": _VALUES,
    "ConsumerRebalanceListener": _VALUES,
    "ConsumerRecord": _VALUES,
    "ConsumerRecords": "semel.client.consumer.records",
    "MetricName": "semel.client.metrics",
    "OffsetAndMetadata": _VALUES,
    "OffsetAndTimestamp": _VALUES,
    "PartitionInfo": _VALUES,
    "Producer": "semel.client.sync.producer",
    "ProducerConfig": _SETTINGS,
    "RecordMetadata": "semel.client.producer.future",
    "SubscriptionPattern": _VALUES,
    "TopicPartition": "semel.types",
}

__all__ = [
    "AdminConfig",
    "Broker",
    "Consumer",
    "ConsumerConfig",
    "ConsumerGroupMetadata",
    "ConsumerRebalanceListener",
    "ConsumerRecord",
    "ConsumerRecords",
    "MetricName",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionInfo",
    "Producer",
    "ProducerConfig",
    "RecordMetadata",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is not None:
        return getattr(importlib.import_module(home), name)
    if not name.startswith("_"):
        exceptions = importlib.import_module("semel.exceptions")
        if name in exceptions.EXCEPTIONS:
            return exceptions.EXCEPTIONS[name]
    raise AttributeError(f"module 'semel' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
