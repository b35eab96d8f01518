"""Exactly-once processing in consumers: each record takes effect once, across any crash.

    exactly_once_sink   results and positions in one database transaction
    Inbox               a table of received messages: retried, given up, never forgotten
    Outbox              a table of messages to send, published exactly once
    Deduplicator        message ids with claim, lease and expiry: in memory, in a database, in Redis
    process             a pool of workers that commits only what is finished

The module holds only the public names, which load lazily: names that use a database need SQLAlchemy (`semel[sql]`).
"""

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semel.once.claims_memory import MemoryClaims
    from semel.once.claims_redis import RedisClaims
    from semel.once.claims_sql import SqlClaims
    from semel.once.dedup import Claim, ClaimStore, Deduplicator
    from semel.once.errors import (
        ClaimBusyError,
        ClaimLostError,
        InDoubtError,
        LedgerMismatchError,
        OnceError,
        PositionError,
        PositionMovedError,
        WorkFailedError,
    )
    from semel.once.inbox import Inbox, InboxMessage, Worked
    from semel.once.outbox import Outbox
    from semel.once.positions import Batch, ExactlyOnceSink, exactly_once_sink
    from semel.once.relay import Relay
    from semel.once.rules.inbox import InboxState
    from semel.once.rules.retries import RetryPolicy
    from semel.once.workers import process

_HOMES: Final = {
    "Batch": "positions",
    "Claim": "dedup",
    "ClaimBusyError": "errors",
    "ClaimLostError": "errors",
    "ClaimStore": "dedup",
    "Deduplicator": "dedup",
    "ExactlyOnceSink": "positions",
    "InDoubtError": "errors",
    "Inbox": "inbox",
    "InboxMessage": "inbox",
    "InboxState": "rules.inbox",
    "LedgerMismatchError": "errors",
    "MemoryClaims": "claims_memory",
    "OnceError": "errors",
    "Outbox": "outbox",
    "PositionError": "errors",
    "PositionMovedError": "errors",
    "RedisClaims": "claims_redis",
    "Relay": "relay",
    "RetryPolicy": "rules.retries",
    "SqlClaims": "claims_sql",
    "WorkFailedError": "errors",
    "Worked": "inbox",
    "exactly_once_sink": "positions",
    "process": "workers",
}

__all__ = [
    "Batch",
    "Claim",
    "ClaimBusyError",
    "ClaimLostError",
    "ClaimStore",
    "Deduplicator",
    "ExactlyOnceSink",
    "InDoubtError",
    "Inbox",
    "InboxMessage",
    "InboxState",
    "LedgerMismatchError",
    "MemoryClaims",
    "OnceError",
    "Outbox",
    "PositionError",
    "PositionMovedError",
    "RedisClaims",
    "Relay",
    "RetryPolicy",
    "SqlClaims",
    "WorkFailedError",
    "Worked",
    "exactly_once_sink",
    "process",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'semel.once' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"semel.once.{_HOMES[name]}"), name)
    except ModuleNotFoundError as missing:
        if missing.name != "sqlalchemy":
            raise
        raise ModuleNotFoundError(
            f"semel.once.{name} stores its state in a database and needs SQLAlchemy: pip install 'semel[sql]', "
            "or 'semel[postgresql]' with the driver for PostgreSQL",
            name=missing.name,
        ) from missing


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
