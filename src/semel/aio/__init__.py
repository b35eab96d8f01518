"""The clients for asyncio: the names of `semel`, with `await`.

They load lazily and run on the caller's event loop. `semel.Producer` and its kin run the same code on a thread of their own.
"""

import importlib
from typing import Final

__all__: list[str] = []

_HOMES: Final[dict[str, tuple[str, str]]] = {}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'semel.aio' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
