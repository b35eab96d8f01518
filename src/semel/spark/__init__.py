"""Semel in PySpark: the public names, nothing else.

They load lazily: a driver that only reads never imports the sink, and `import semel.spark` works without PySpark. No module
of this package has the name of a function in it, because importing a module takes its name.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.spark.java import JavaMissingError
    from semel.spark.progress import Lag, lag
    from semel.spark.registration import register
    from semel.spark.spark_session import session

_HOMES: Final = {
    "JavaMissingError": "semel.spark.java",
    "Lag": "semel.spark.progress",
    "lag": "semel.spark.progress",
    "register": "semel.spark.registration",
    "session": "semel.spark.spark_session",
}

__all__ = [
    "JavaMissingError",
    "Lag",
    "lag",
    "register",
    "session",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'semel.spark' has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
