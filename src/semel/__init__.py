"""Semel: an exactly-once event log and data pipeline for Python and Spark.

The public names, nothing else. They load lazily, so a Spark worker or a client never imports the broker, and `import semel`
costs next to nothing.
"""

import importlib
from typing import TYPE_CHECKING, Final

from semel._version import __version__

if TYPE_CHECKING:
    from semel.client.producer.future import RecordMetadata
    from semel.client.sync.producer import Producer
    from semel.embedded import Broker
    from semel.exceptions import *  # noqa: F403 - every one of them is a name of this package.
    from semel.types import TopicPartition

__all__ = ["Broker", "Producer", "RecordMetadata", "TopicPartition", "__version__"]

_HOMES: Final = {
    "Broker": "semel.embedded",
    "Producer": "semel.client.sync.producer",
    "RecordMetadata": "semel.client.producer.future",
    "TopicPartition": "semel.types",
}


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
