"""FindCoordinator: the broker that coordinates a group or a transactional id, and calls that follow it when it moves.

Role.   `find_coordinator` and `find_coordinators` ask once. `Coordinators` remembers answers. `at_coordinator` and
        `order_coordinator` make a whole call of a question or an order to a coordinator.
Rules.  * One key is asked for in the old shape, which every broker serves; many keys in one request where the broker can.
        * An order is repeated only where the coordinator had moved or was not ready: then nothing was done.
"""

from collections.abc import Awaitable, Callable, Sequence
from enum import IntEnum
from typing import Final, TypeVar

from semel.client.cluster import Cluster
from semel.core.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, RefusedError, refused

T = TypeVar("T")
_ONE_KEY_VERSION: Final = 3  # From 4 on FindCoordinator takes many keys, in another shape.
_KEYS_MAX: Final = 1000
MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Answers that show that the coordinator is elsewhere."""
NOTHING_DONE: Final = MOVED | {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Answers of a broker that does not coordinate the key, or not yet."""


class CoordinatorKind(IntEnum):
    """Of what: a group or a transactional id."""

    GROUP = 0
    TRANSACTION = 1

    @property
    def noun(self) -> str:
        return "group" if self is CoordinatorKind.GROUP else "transactional id"


async def find_coordinator(cluster: Cluster, kind: CoordinatorKind, key: str) -> int:
    """The coordinator's id at the moment; one attempt."""
    answer = await cluster.send(FindCoordinatorRequest(key=key, key_type=kind), version_max=_ONE_KEY_VERSION)
    if answer.error_code:
        raise _refusal(cluster, kind, key, answer.error_code, answer.error_message)
    return answer.node_id


async def find_coordinators(
    cluster: Cluster, kind: CoordinatorKind, keys: Sequence[str]
) -> dict[int, list[str]]:
    """Broker -> the keys that it coordinates at the moment; one attempt."""
    found: dict[int, list[str]] = {}
    if (await cluster.served()).get(ApiKey.FIND_COORDINATOR, (0, 0))[1] <= _ONE_KEY_VERSION:
        for key in keys:
            found.setdefault(await find_coordinator(cluster, kind, key), []).append(key)
        return found
    for start in range(0, len(keys), _KEYS_MAX):
        some = list(keys[start : start + _KEYS_MAX])
        answer = await cluster.send(FindCoordinatorRequest(key_type=kind, coordinator_keys=some))
        for one in answer.coordinators:
            if one.error_code:
                raise _refusal(cluster, kind, one.key, one.error_code, one.error_message)
            found.setdefault(one.node_id, []).append(one.key)
    return found


def _refusal(
    cluster: Cluster, kind: CoordinatorKind, key: str, number: int, reason: str | None
) -> RefusedError:
    return refused(number, f"the coordinator of {kind.noun} {key}", by=cluster.where, reason=reason)


class Coordinators:
    """Coordinators as far as they are known, of one client."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[CoordinatorKind, str], int] = {}

    async def of(self, kind: CoordinatorKind, key: str) -> int:
        """The coordinator's id; asked for in one attempt if it is not known."""
        known = self._known.get((kind, key))
        if known is None:
            known = self._known[kind, key] = await find_coordinator(self._cluster, kind, key)
        return known

    def forget(self, kind: CoordinatorKind, key: str) -> None:
        """The coordinator is not where it was."""
        self._known.pop((kind, key), None)


async def at_coordinator(
    cluster: Cluster, kind: CoordinatorKind, key: str, ask: Callable[[int], Awaitable[T]]
) -> T:
    """Ask the coordinator, again while errors pass and the coordinator moves."""

    async def attempt() -> T:
        return await ask(await find_coordinator(cluster, kind, key))

    return await cluster.patiently(attempt)


async def order_coordinator(
    cluster: Cluster, kind: CoordinatorKind, key: str, order: Callable[[int], Awaitable[T]]
) -> T:
    """Give the coordinator an order; again only if nothing was done."""

    async def attempt() -> T:
        return await order(await cluster.patiently(lambda: find_coordinator(cluster, kind, key)))

    return await cluster.patiently(
        attempt, may_repeat=lambda error: isinstance(error, RefusedError) and error.code in NOTHING_DONE
    )
