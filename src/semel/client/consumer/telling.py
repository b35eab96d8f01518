"""Calls to a consumer's user on the way: partitions that come and go, commits that are over.

Role.   A `Call` is what the engine hands to its face instead of records; `tell` makes it, `told` waits for what it returns.
Flow.   `Engine.step` -> a call -> `tell`, where the user polls -> `Engine.called`.
"""

import inspect
from typing import Any, TypeAlias

from semel.client.consumer.commits import CommitCall
from semel.client.consumer.membership import RebalanceCall, Told
from semel.client.values.consuming import ConsumerRebalanceListener

Call: TypeAlias = RebalanceCall | CommitCall


def tell(listener: ConsumerRebalanceListener | None, call: Call) -> Any:
    """Make a call; gives the result of the user's code."""
    if isinstance(call, CommitCall):
        return call.callback(call.offsets, call.error)
    if listener is None:
        return None
    match call.told:
        case Told.ASSIGNED:
            return listener.on_partitions_assigned(call.partitions)
        case Told.REVOKED:
            return listener.on_partitions_revoked(call.partitions)
        case Told.LOST:
            return listener.on_partitions_lost(call.partitions)


async def told(listener: ConsumerRebalanceListener | None, call: Call) -> None:
    """Make a call on the loop; the user's code may return an awaitable."""
    found = tell(listener, call)
    if inspect.isawaitable(found):
        await found
