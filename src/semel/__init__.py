"""Semel: an exactly-once event log and data pipeline for Python and Spark.

The public names, nothing else. They load lazily, so a Spark worker or a client never imports the broker.
"""

import importlib
from typing import TYPE_CHECKING, Final

from semel._version import __version__

if TYPE_CHECKING:
    from semel.embedded import Broker

__all__ = ["Broker", "__version__"]

_HOMES: Final = {"Broker": "semel.embedded"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'semel' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
