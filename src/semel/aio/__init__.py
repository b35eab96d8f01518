"""The clients for asyncio: the names of `semel`, with `await`.

They load lazily and run on the caller's event loop. `semel.Producer` and its kin run the same code on a thread of their own.
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.client.admin.client import AsyncAdmin as Admin
    from semel.client.consumer.consumer import AsyncConsumer as Consumer
    from semel.client.producer.pool import AsyncTransactionalProducerPool as TransactionalProducerPool
    from semel.client.producer.producer import AsyncProducer as Producer

__all__ = ["Admin", "Consumer", "Producer", "TransactionalProducerPool"]

_HOMES: Final = {
    "Admin": ("semel.client.admin.client", "AsyncAdmin"),
    "Consumer": ("semel.client.consumer.consumer", "AsyncConsumer"),
    "Producer": ("semel.client.producer.producer", "AsyncProducer"),
    "TransactionalProducerPool": ("semel.client.producer.pool", "AsyncTransactionalProducerPool"),
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'semel.aio' has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(importlib.import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
