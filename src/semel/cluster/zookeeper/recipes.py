"""Kafka's ways with ZooKeeper: each looks whether it was itself when an answer says that somebody was first.

Role.   Functions on `client.ZooKeeperClient` for everything that is written more than once in a cluster's life.
Rules.  * The answer of a write may be lost, and the write is sent again. A create finds its own node then, and a conditional
          write finds the next version. Neither is a failure before it was looked up.
        * A registration that belongs to an earlier session of this very client is deleted and made again; one of another
          client is refused.
"""

from typing import Final

from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.zookeeper.paths import ROOT, parent_of
from semel.core.zookeeper.wire.messages import Create, Delete, SetData
from semel.core.zookeeper.words import EPHEMERAL, SEQUENTIAL, Stat, ZooKeeperCode
from semel.errors import SemelError

_OWN_SESSIONS_MAX: Final = 100


class NodeTakenError(SemelError):
    """An ephemeral node is another client's."""

    def __init__(self, path: str, data: bytes | None, owner: int) -> None:
        super().__init__(f"{path} belongs to another client of ZooKeeper (session {owner:#x})")
        self.path = path
        self.data = data
        self.owner = owner


async def ensure(client: ZooKeeperClient, path: str, data: bytes | None = None) -> None:
    """A persistent node is there, and every node above it."""
    if path == ROOT:
        return
    while True:
        try:
            await client.create(path, data)
        except ZooKeeperError as error:
            if error.reason is ZooKeeperCode.NODE_EXISTS:
                return
            if error.reason is not ZooKeeperCode.NO_NODE:
                raise
            await ensure(client, parent_of(path))
        else:
            return


async def get_or_create(client: ZooKeeperClient, path: str, data: bytes) -> bytes:
    """The data of a node that only the first client makes."""
    while True:
        found = await client.get(path)
        if found is not None:
            return found.data or b""
        await ensure(client, path, data)


class Registration:
    """An ephemeral node of this client, through all of its sessions."""

    def __init__(self, client: ZooKeeperClient, path: str) -> None:
        self._client = client
        self.path: Final = path
        self._own: list[int] = []
        """Sessions of this client, the oldest first."""

    async def create(self, data: bytes) -> Stat:
        """The node is there and of the present session. Raises `NodeTakenError` if it is another client's.

        As Kafka: made empty and filled by one multi, so its version is 1.
        """
        while True:
            session_id = self._client.session_id
            if session_id not in self._own:
                self._own = [*self._own[1 - _OWN_SESSIONS_MAX :], session_id]
            results = await self._client.multi(
                Create(self.path, b"", flags=EPHEMERAL), SetData(self.path, data, 0)
            )
            if results.failure not in (None, ZooKeeperCode.NODE_EXISTS):
                raise ZooKeeperError(results.failure, Create(self.path, data, flags=EPHEMERAL))
            found = await self._client.get(self.path)
            if found is None:
                continue  # It ended between the two.
            owner = found.stat.ephemeral_owner
            if owner == self._client.session_id:
                return found.stat
            if owner not in self._own:
                raise NodeTakenError(self.path, found.data, owner)
            await remove(self._client, self.path, found.stat.version)


async def remove(client: ZooKeeperClient, path: str, version: int = -1) -> None:
    """A node is gone, or has another version."""
    results = await client.multi(Delete(path, version))
    if results.failure not in (None, ZooKeeperCode.NO_NODE, ZooKeeperCode.BAD_VERSION):
        raise ZooKeeperError(results.failure, Delete(path, version))


async def write_if(client: ZooKeeperClient, path: str, data: bytes, version: int) -> int | None:
    """The new version if the node had this one; None if it had another. An answer that was lost is looked up."""
    try:
        return (await client.set(path, data, version)).version
    except ZooKeeperError as error:
        if error.reason is not ZooKeeperCode.BAD_VERSION:
            raise
    found = await client.get(path)
    if found is not None and found.stat.version == version + 1 and found.data == data:
        return found.stat.version
    return None


async def notify(client: ZooKeeperClient, prefix: str, data: bytes) -> str:
    """A new sequential node. A lost answer makes a second one: its readers take a notification twice."""
    return await client.create(prefix, data, flags=SEQUENTIAL)
