"""Changes of settings, written to ZooKeeper as Kafka's brokers write them.

Role.   `write` makes changes of several entities, all or none, and tells all brokers.
Flow.   read the controller and the nodes -> one multi of a check and the writes -> a notification per entity -> nodes without quotas
        are removed.
Rules.  * A node keeps the settings that are not changed. It is written against the version that was read, so of two brokers that
          write at once neither undoes the other.
        * `/controller` is checked as Kafka does: a controller of KRaft that takes the cluster over must not be missed. Without a
          controller nothing is written.
        * It may be done again from its beginning: after a lost answer the node has the change already, and is only told of again.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from semel.cluster.store import NotControllerError, UnservedChangeError
from semel.cluster.zookeeper import recipes
from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.cluster.zookeeper.session import RequestTooLargeError, ZooKeeperError
from semel.core.cluster import documents, entities, paths
from semel.core.cluster.entities import Changed
from semel.core.zookeeper.paths import parent_of
from semel.core.zookeeper.wire.messages import Check, Create, Delete, MultiOperation, SetData
from semel.core.zookeeper.words import ZooKeeperCode
from semel.runtime.bundle import Runtime

_LOOK_SECONDS: Final = 0.2
_LOOKS_MAX: Final = 25
_CONFLICTS: Final = frozenset({ZooKeeperCode.BAD_VERSION, ZooKeeperCode.NODE_EXISTS, ZooKeeperCode.NO_NODE})
_QUOTAS: Final = (entities.USERS, entities.CLIENTS, entities.IPS)


class Written(NamedTuple):
    """An entity and its settings as they are now."""

    entity: str
    configs: Mapping[str, str]


async def write(client: ZooKeeperClient, runtime: Runtime, changes: Sequence[Changed]) -> list[Written]:
    """Make the changes; waits for a controller, and for others that write the same nodes.

    Raises `ZooKeeperError`, `ZnodeError`, `SessionExpiredError`, `UnservedChangeError`, `NotControllerError`.
    """
    named = list(dict.fromkeys(change.entity for change in changes))
    while True:
        check = await controller_check(client, runtime)
        written: list[Written] = []
        operations: list[MultiOperation] = [check]
        for entity in named:
            path = f"{paths.CONFIG}/{entity}"
            found = await client.get(path)
            before = {} if found is None else documents.decode_configs(path, found.data)
            after = entities.applied(before, [change for change in changes if change.entity == entity])
            written.append(Written(entity, after))
            if found is None:
                await recipes.ensure(client, parent_of(path))
                operations.append(Create(path, documents.encode_configs(after)))
            elif before != after:
                operations.append(SetData(path, documents.encode_configs(after), found.stat.version))
        if await done(client, operations):
            break
        await runtime.tasks.sleep(_LOOK_SECONDS * runtime.dice.random())
    for one in written:
        await recipes.notify(client, paths.CONFIG_CHANGE_PREFIX, documents.encode_config_change(one.entity))
    await _remove_empty(client, (one.entity for one in written if not one.configs))
    return written


async def done(client: ZooKeeperClient, operations: Sequence[MultiOperation]) -> bool:
    """Whether a multi was carried out; not, if a node was another than expected. Raises `ZooKeeperError`."""
    try:
        results = await client.multi(*operations)
    except RequestTooLargeError as error:
        raise UnservedChangeError(f"too much for one change, make it in parts: {error}") from error
    if results.failure is None:
        return True
    if results.failure not in _CONFLICTS:
        raise ZooKeeperError(results.failure, operations[-1])
    return False


async def controller_check(client: ZooKeeperClient, runtime: Runtime) -> Check:
    """The check that goes with a write; waits while a controller is elected.

    Raises `NotControllerError` if there is none, or one of KRaft.
    """
    for _look in range(_LOOKS_MAX):
        found = await client.get(paths.CONTROLLER)
        if found is not None:
            if documents.is_kraft_controller(found.data):
                raise NotControllerError(
                    "a controller of KRaft has taken the cluster over: settings are changed there"
                )
            return Check(paths.CONTROLLER, found.stat.version)
        await runtime.tasks.sleep(_LOOK_SECONDS)
    raise NotControllerError(
        "the cluster has no controller, so nothing was changed: start a broker that may be elected, and try again"
    )


async def _remove_empty(client: ZooKeeperClient, named: Iterable[str]) -> None:
    """Nodes of quotas that have neither settings nor children, and then those above them."""
    for entity in named:
        parts = entity.split("/")
        while parts[0] in _QUOTAS and len(parts) >= 2:
            path = f"{paths.CONFIG}/{'/'.join(parts)}"
            found = await client.get(path)
            if found is None or found.stat.num_children or documents.decode_configs(path, found.data):
                break
            results = await client.multi(Delete(path, found.stat.version))
            if results.failure is not None:
                break  # Somebody was quicker.
            parts.pop()
