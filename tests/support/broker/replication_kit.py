"""Brokers that replicate one topic, without a controller and without anything else a broker does.

A `Node` has a data directory, a port that answers Fetch and ListOffsets by the broker's own handlers, and `Fetchers`. A test is the
controller: it says who leads with `World.elect`. `Node.instead` answers in the place of the handlers. Everything runs on simulated hosts, or, for a node alone, on any runtime. On a host
every call that may begin a task is made by `Node.within`: it belongs to the process and dies with it.
"""

import asyncio
import contextlib
import contextvars
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar, cast

from semel.broker.config import BrokerConfig
from semel.broker.dispatch import Dispatch
from semel.broker.fetch_sessions import FetchSessions
from semel.broker.metrics.counts import Metrics
from semel.broker.parts import LiveConfig, Parts, ReadPath
from semel.broker.replicas.fetchers import Fetchers
from semel.broker.replicas.followed_partition import FollowedPartition
from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.log_cuts import LogCuts
from semel.broker.replicas.replica import Replica
from semel.broker.replicas.surroundings import Surroundings
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.replication.leading import Proposal
from semel.core.security.identity import ListenerName
from semel.core.wire.framing import read_request_header, response_frame
from semel.core.wire.message import Response
from semel.core.wire.messages.fetch import FetchRequest
from semel.core.wire.messages.list_offsets import ListOffsetsRequest
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.partition_log import PartitionLog
from semel.net.inbound import InboundConnection
from semel.net.listener import Listener, ListenerConfig
from semel.net.reply import Exclusive, Reply
from semel.runtime.bundle import Runtime
from semel.runtime.simulation import Simulation
from semel.types import TopicPartition

T = TypeVar("T")
P = ParamSpec("P")
MUTE = object()
"""Never an answer."""
Instead = Callable[[int, FetchRequest | ListOffsetsRequest], Response | object | None]
"""The answer to a request of this version; None: the handlers' one."""
_KINDS: dict[int, type[FetchRequest] | type[ListOffsetsRequest]] = {
    ApiKey.FETCH: FetchRequest,
    ApiKey.LIST_OFFSETS: ListOffsetsRequest,
}
TOPIC = "orders"
TOPIC_ID = uuid.UUID(int=0x5E3E1)
LISTENER = ListenerName("INTERNAL", is_inter_broker=True)
PORT = 9092


@dataclass(frozen=True, slots=True)
class Orders:
    """What a controller says about a partition, or about all of them."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


class Node:
    """One broker's replicas."""

    def __init__(
        self,
        node_id: int,
        brokers: dict[int, RegisteredBroker],
        *,
        partitions: int = 1,
        config: LogConfig | None = None,
        settings: dict[str, str | int | bool] | None = None,
        topic: str = TOPIC,
        topic_id: uuid.UUID = TOPIC_ID,
        listener: str = LISTENER.name,
    ) -> None:
        self.node_id = node_id
        self.brokers = brokers
        self.broker_epoch = 0
        self.failures: list[tuple[TopicPartition, Exception]] = []
        self.replicas: list[Replica] = []
        self.on_proposal: Callable[[LedPartition, Proposal], None] = lambda _partition, _proposal: None
        self.lag_max_ms = 30_000
        self.instead: Instead | None = None
        self._context: contextvars.Context | None = None
        self._epochs: dict[int, int] = {}
        self.topic, self.topic_id = topic, topic_id
        self._partitions = partitions
        self._listener = listener
        self._log_config = config or LogConfig()
        self.settings = BrokerConfig.of({"node.id": node_id, "log.dirs": "/data", **(settings or {})})

    @property
    def logs(self) -> list[PartitionLog]:
        return [replica.log for replica in self.replicas]

    @property
    def log(self) -> PartitionLog:
        return self.replicas[0].log

    @property
    def followed(self) -> dict[int, FollowedPartition]:
        """What is followed, by number."""
        return {
            index: replica.follower
            for index, replica in enumerate(self.replicas)
            if replica.follower is not None
        }

    @property
    def led(self) -> LedPartition:
        leader = self.replicas[0].leader
        assert leader is not None
        return leader

    def open(self, runtime: Runtime, path: str = "/data") -> None:
        """Load what is there, and be ready for orders."""
        self.runtime = runtime
        self._context = contextvars.copy_context()
        self.replicas = []
        now_ms = runtime.clock.now_ms()
        directory = LogDirectory.open(
            runtime.files, path, node_id=self.node_id, cluster_id="c", directory_id="d"
        )
        directory.load_all(lambda _tp: self._log_config, now_ms)
        assert not directory.damaged, directory.damaged
        self.directory = directory
        self.grow(self._partitions)
        self.cuts = LogCuts(directory, self.quiet, runtime)
        self.fetchers = Fetchers(
            runtime,
            node_id=self.node_id,
            broker_epoch=lambda: self.broker_epoch,
            brokers=self.brokers,
            listener=self._listener,
            settings=lambda: self.settings,
            cuts=self.cuts,
            on_failure=lambda one, error: self.failures.append((one.topic_partition, error)),
        )

    def within(self, function: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Call it as a part of this node's process."""
        assert self._context is not None
        return self._context.run(function, *args, **more)

    def grow(self, partitions: int) -> None:
        """Have so many partitions at least."""
        while (index := len(self.replicas)) < partitions:
            where = TopicPartition(self.topic, index)
            log = self.directory.logs.get(where)
            if log is None:
                log = self.directory.create(
                    where, self.topic_id, self._log_config, self.runtime.clock.now_ms()
                )
            self.replicas.append(Replica(log, self.topic_id, self.runtime))

    def quiet(
        self, _topic_partitions: Sequence[TopicPartition]
    ) -> contextlib.AbstractAsyncContextManager[None]:
        return contextlib.nullcontext()

    async def listen(self, host: str, port: int = PORT) -> tuple[str, int]:
        runtime = self.runtime
        read = ReadPath(
            LiveConfig(self.settings),
            runtime,
            cast(
                "Any", SimpleNamespace(topic_by_id=lambda _id: None, partition=lambda _tp: None, brokers={})
            ),
            cast(
                "Any",
                SimpleNamespace(
                    find=self._find, find_to_read=self._find, get=self._get, missing=self._missing, changes=0
                ),
            ),
            FetchSessions(100, runtime.dice),
        )
        parts = SimpleNamespace(
            read=read,
            administration=SimpleNamespace(runtime=runtime),
            metrics=Metrics(),
            config=SimpleNamespace(listener=LISTENER, values=self.settings.values),
            partitions=read.partitions,
            membership=None,
        )
        self._dispatch = Dispatch(cast("Parts", parts))
        self.listener = Listener(runtime, self._answer, ListenerConfig(LISTENER))
        return await self.listener.start(host, port)

    def _answer(
        self, frame: bytearray, connection: InboundConnection
    ) -> Reply | Awaitable[Reply] | Exclusive[Reply]:
        if self.instead is not None:
            header, position = read_request_header(frame)
            request = _KINDS[header.api_key].decode(frame, header.api_version, position)
            response = self.instead(header.api_version, request)
            if response is MUTE:
                return asyncio.get_running_loop().create_future()
            if isinstance(response, Response):
                return response_frame(header.correlation_id, response, header.api_version)
        return self._dispatch(frame, connection)

    def _get(self, topic: str, index: int) -> LedPartition | None:
        return self.replicas[index].leader if topic == self.topic else None

    def _missing(self, topic: str, _index: int) -> ErrorCode:
        return (
            ErrorCode.NOT_LEADER_OR_FOLLOWER if topic == self.topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )

    def _find(self, topic: str, topic_id: bytes | None, index: int) -> LedPartition | ErrorCode:
        if topic_id is not None:
            if topic_id != self.topic_id.bytes:
                return ErrorCode.UNKNOWN_TOPIC_ID
            topic = self.topic
        return self._get(topic, index) or self._missing(topic, index)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(self.node_id, self.lag_max_ms, self.brokers, self)

    # The replicas' way to the controller and to the leaders

    def propose(self, partition: LedPartition, proposal: Proposal) -> None:
        self.on_proposal(partition, proposal)

    def lead_no_more(self, partition: LedPartition) -> None:
        pass

    def follow(self, partition: FollowedPartition) -> None:
        self.fetchers.follow(partition)

    def stop(self, partition: FollowedPartition) -> None:
        self.fetchers.stop(partition)

    def obey(self, orders: Orders, *indexes: int) -> None:
        """Lead or follow these partitions, or all of them. Orders of an epoch that is known change nothing."""
        for index in indexes or range(len(self.replicas)):
            if orders.leader_epoch > self._epochs.get(index, -1):
                self._epochs[index] = orders.leader_epoch
                self.within(self._assume, self.replicas[index], orders)

    def _assume(self, replica: Replica, orders: Orders) -> None:
        if orders.leader == self.node_id:
            replica.lead(
                self.surroundings,
                leader_epoch=orders.leader_epoch,
                partition_epoch=orders.partition_epoch,
                replicas=orders.replicas,
                isr=orders.isr,
            )
        else:
            replica.follow(
                self.surroundings,
                leader_id=orders.leader,
                leader_epoch=orders.leader_epoch,
                partition_epoch=orders.partition_epoch,
            )

    async def checkpoint(self) -> None:
        await self.runtime.tasks.in_thread(self.directory.begin_checkpoint(), order=self.directory.path)


class World:
    """Nodes on simulated hosts, by id from 1 on."""

    def __init__(self, nodes: int = 2, *, seed: int = 1, **of_node: Any) -> None:
        self.simulation = Simulation(seed)
        self.ids = tuple(range(1, nodes + 1))
        self.brokers = {
            one: RegisteredBroker(one, {LISTENER.name: Endpoint(self.name(one), PORT)}, epoch=0)
            for one in self.ids
        }
        self._of_node = of_node
        self.nodes = {one: self._node(one) for one in self.ids}
        self.orders = Orders(-1, -1, -1, self.ids, self.ids)

    def _node(self, node_id: int) -> Node:
        # Each has a dict of its own: what it knows of the others may be told it late.
        return Node(node_id, dict(self.brokers), **self._of_node)

    @staticmethod
    def name(node_id: int) -> str:
        return f"broker{node_id}"

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    async def start(self, *node_ids: int) -> None:
        """Start processes; each obeys the last orders."""
        for node_id in node_ids or self.ids:
            served: asyncio.Event = asyncio.Event()
            self.simulation.host(self.name(node_id)).start(partial(self._run, node_id, served))
            await served.wait()

    async def _run(self, node_id: int, served: asyncio.Event, runtime: Runtime) -> None:
        node = self.nodes[node_id]
        node.open(runtime)
        await node.listen(self.name(node_id))
        if self.orders.leader >= 0:
            node.obey(self.orders)
        served.set()
        await asyncio.Event().wait()

    def end(self, node_id: int, *, cut_power: bool = False) -> None:
        """A process dies."""
        host = self.simulation.host(self.name(node_id))
        if cut_power:
            host.cut_power()
        else:
            host.kill()
        before = self.nodes[node_id]
        self.nodes[node_id] = self._node(node_id)
        self.nodes[node_id].broker_epoch = before.broker_epoch + 1

    def tell(self, orders: Orders, *node_ids: int) -> None:
        self.orders = orders
        for node_id in node_ids or self.ids:
            if self.simulation.host(self.name(node_id)).is_alive:
                self.nodes[node_id].obey(orders)

    def elect(self, leader: int, leader_epoch: int | None = None, *, told: Sequence[int] = ()) -> None:
        """Another leader, in the next epoch."""
        epoch = self.orders.leader_epoch + 1 if leader_epoch is None else leader_epoch
        self.tell(Orders(leader, epoch, epoch, self.ids, self.ids), *told)

    async def until(self, is_so: Callable[[], bool], seconds: float = 60) -> None:
        """Wait until it is so."""
        async with asyncio.timeout(seconds):
            while not is_so():
                await asyncio.sleep(0.01)

    async def until_alike(self, *node_ids: int, seconds: float = 60) -> None:
        """Wait until these nodes have what their leader has."""
        leader = self.nodes[self.orders.leader]

        def is_so() -> bool:
            others = [self.nodes[one] for one in node_ids or self.ids]
            return all(
                mine.log_end_offset == theirs.log_end_offset
                and mine.high_watermark == theirs.high_watermark
                and mine.log_start_offset == theirs.log_start_offset
                for other in others
                for mine, theirs in zip(other.logs, leader.logs, strict=True)
            )

        await self.until(is_so, seconds)

    def run(self, story: Callable[["World"], Coroutine[Any, Any, T]]) -> T:
        return self.simulation.run(story(self))
