"""The model controller's pen: its term of office, what it reads at ZooKeeper, and writes there under its fence.

Role.   `stand` makes a broker the controller; `Ledger` reads the cluster and writes for one term.
Rules.  * Every write is a multi that begins with a check of /controller_epoch. If that check fails, `DeposedError`: somebody else
          was elected, and nothing of it was written.
        * An answer that was lost is looked up: the write was done if the node has what was to be written.
"""

from typing import Final, NamedTuple

from semel.cluster.zookeeper.client import ZooKeeperClient
from semel.cluster.zookeeper.recipes import ensure
from semel.cluster.zookeeper.session import ZooKeeperError
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import ProducerIdBlock, StateNode, TopicNode
from semel.core.zookeeper.wire.messages import Check, Create, Delete, Failed, MultiOperation, SetData, StatOf
from semel.core.zookeeper.words import EPHEMERAL, ZooKeeperCode
from semel.errors import SemelError
from semel.types import Address, TopicPartition
from semel.verify.simulation.controller.cluster import Life, Partition, Topic

_LISTENER: Final = "PLAINTEXT"


class DeposedError(SemelError):
    """Another controller was elected."""


class Term(NamedTuple):
    """The time of one controller, and the version of its fence."""

    epoch: int
    fence: int


class _Written(NamedTuple):
    """The outcome of a write."""

    refused: ZooKeeperCode | None
    version: int
    """Of the node, if it was not."""


async def stand(client: ZooKeeperClient, controller_id: int, now_ms: int) -> Term | None:
    """Stand for controller; None if another one is, and a change of /controller is watched."""
    if await client.get(paths.CONTROLLER, watch=True) is not None:
        return None
    known = await client.get(paths.CONTROLLER_EPOCH)
    if known is None:
        await ensure(client, paths.CONTROLLER_EPOCH, documents.encode_number(0))
        known = await client.get(paths.CONTROLLER_EPOCH)
        if known is None:
            return None
    epoch = documents.decode_number(paths.CONTROLLER_EPOCH, known.data) + 1
    claim = documents.encode_controller(controller_id, now_ms)
    await client.multi(
        Create(paths.CONTROLLER, claim, flags=EPHEMERAL),
        SetData(paths.CONTROLLER_EPOCH, documents.encode_number(epoch), known.stat.version),
    )
    # Whatever the answer was: an earlier attempt may have succeeded, and only its answer was lost.
    found = await client.get(paths.CONTROLLER, watch=True)
    now = await client.get(paths.CONTROLLER_EPOCH)
    if found is None or now is None or found.stat.ephemeral_owner != client.session_id:
        return None
    if now.stat.version != known.stat.version + 1:
        return None
    return Term(epoch, now.stat.version)


class Ledger:
    """Reads and fenced writes of one term."""

    def __init__(self, client: ZooKeeperClient, term: Term) -> None:
        self._client = client
        self.term: Final = term

    # Reading

    async def children(self, path: str) -> tuple[str, ...]:
        """A node's children, which are watched from now on."""
        return await self._client.children(path, watch=True) or ()

    async def brokers(self) -> dict[int, Life]:
        """The brokers that are registered; watched."""
        lives: dict[int, Life] = {}
        for name in await self.children(paths.BROKER_IDS):
            found = await self._client.get(paths.broker(int(name)))
            if found is not None and found.data:
                endpoint = documents.decode_broker(int(name), found.data).endpoints[_LISTENER]
                lives[int(name)] = Life(found.stat.czxid, Address(endpoint.host, endpoint.port))
        return lives

    async def topic(self, name: str) -> Topic | None:
        """A topic with the states of its partitions."""
        found = await self._client.get(paths.topic(name))
        if found is None:
            return None
        node = documents.decode_topic(name, found.data)
        if node.topic_id is None:
            raise documents.ZnodeError(paths.topic(name), "the topic has no id", found.data)
        partitions = {index: await self._partition(name, index, node) for index in sorted(node.replicas)}
        return Topic(node.topic_id, partitions, found.stat.version)

    async def _partition(self, name: str, index: int, node: TopicNode) -> Partition:
        known = Partition(
            node.replicas[index],
            adding=node.adding.get(index, ()),
            removing=node.removing.get(index, ()),
        )
        found = await self._client.get(paths.state(name, index))
        if found is None:
            return known
        state = documents.decode_state(name, index, found.data)
        return Partition(
            known.replicas,
            state.leader,
            state.leader_epoch,
            state.isr,
            found.stat.version,
            known.adding,
            known.removing,
            state.leader_recovery_state,
        )

    async def wanted(self, path: str) -> bytes | None:
        """The data of a node by which somebody asks for something; watched, also while it is not there."""
        found = await self._client.get(path, watch=True)
        return None if found is None else found.data

    # Writing

    async def _write(self, operation: MultiOperation) -> _Written:
        check = Check(paths.CONTROLLER_EPOCH, self.term.fence)
        results = await self._client.multi(check, operation)
        first, last = results.results
        if isinstance(first, Failed) and first.code is not ZooKeeperCode.OK:
            raise DeposedError(f"/controller_epoch has no longer version {self.term.fence}")
        return _Written(results.failure, last.stat.version if isinstance(last, StatOf) else 0)

    async def write_state(self, place: TopicPartition, partition: Partition) -> int | None:
        """The new partition epoch; None if the node has another version than the partition."""
        path = paths.state(*place)
        data = self._state(partition)
        written = await self._write(SetData(path, data, partition.partition_epoch))
        return written.version if written.refused is None else await self._version_of(path, data)

    async def make_state(self, place: TopicPartition, partition: Partition) -> int | None:
        """The first partition epoch; None if there is a node already, of somebody else."""
        await self._create(paths.partitions(place.topic), None)
        await self._create(paths.partition(*place), None)
        path, data = paths.state(*place), self._state(partition)
        written = await self._write(Create(path, data))
        return written.version if written.refused is None else await self._version_of(path, data)

    async def _version_of(self, path: str, data: bytes) -> int | None:
        """The version of a node that holds just this: then it was written before, and only the answer was lost."""
        found = await self._client.get(path)
        return found.stat.version if found is not None and found.data == data else None

    def _state(self, partition: Partition) -> bytes:
        node = StateNode(
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            self.term.epoch,
            partition.recovery_state,
        )
        return documents.encode_state(node)

    async def write_topic(self, name: str, topic: Topic) -> None:
        """The assignment of a topic, as it is now."""
        partitions = topic.partitions
        node = TopicNode(
            {index: one.replicas for index, one in partitions.items()},
            topic.topic_id,
            {index: one.adding for index, one in partitions.items() if one.adding},
            {index: one.removing for index, one in partitions.items() if one.removing},
        )
        path, data = paths.topic(name), documents.encode_topic(node)
        request = SetData(path, data, topic.version)
        written = await self._write(request)
        version = written.version if written.refused is None else await self._version_of(path, data)
        if version is None:  # Nobody but a controller writes here in these stories.
            raise ZooKeeperError(ZooKeeperCode.BAD_VERSION, request)
        topic.version = version

    async def _create(self, path: str, data: bytes | None) -> None:
        refused = (await self._write(Create(path, data))).refused
        if refused not in (None, ZooKeeperCode.NODE_EXISTS):
            raise ZooKeeperError(refused, Create(path, data))

    async def remove(self, path: str) -> None:
        """A node is gone."""
        refused = (await self._write(Delete(path))).refused
        if refused not in (None, ZooKeeperCode.NO_NODE):
            raise ZooKeeperError(refused, Delete(path))

    async def remove_topic(self, name: str) -> None:
        """A topic is gone, and the wish for that at the very end."""
        for index in await self._client.children(paths.partitions(name)) or ():
            await self.remove(paths.state(name, int(index)))
            await self.remove(paths.partition(name, int(index)))
        for path in (
            paths.partitions(name),
            paths.topic(name),
            paths.topic_configs(name),
            paths.deletion(name),
        ):
            await self.remove(path)

    async def next_producer_ids(self, broker_id: int) -> ProducerIdBlock:
        """The next block of producer ids; given out once, whoever else asks."""
        path = paths.PRODUCER_ID_BLOCK
        while True:
            found = await self._client.get(path)
            if found is None:
                raise ZooKeeperError(ZooKeeperCode.NO_NODE, SetData(path, b"", 0))
            last = documents.decode_producer_ids(found.data)
            first = 0 if last is None else last.last + 1
            block = ProducerIdBlock(broker_id, first, first + documents.PRODUCER_ID_BLOCK_SIZE - 1)
            data = documents.encode_producer_ids(block)
            results = await self._client.multi(SetData(path, data, found.stat.version))
            if results.failure is None:
                return block
            # Somebody else was first, or the answer was lost: the next block is nobody's in both cases.
