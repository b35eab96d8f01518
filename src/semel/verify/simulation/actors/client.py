"""A simulated client's way to the broker, or to the brokers of a cluster: one connection to each, opened again when it broke.

Role.   The base of producers, consumers and admins: connect, ask, know topics by name and id, and who leads their partitions.
Rules.  * A request without an answer raises `DisconnectedError`; whether it was carried out is unknown then.
        * In a cluster it looks for topics at one broker after the other, going on to the next where one cannot be reached.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.errors import DisconnectedError
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.types import TopicPartition
from semel.verify.simulation.world import BROKER, PORT

R = TypeVar("R", bound=Response)
_METADATA_VERSION: Final = 12
IN_FLIGHT_MAX: Final = 5


class KnownTopic(NamedTuple):
    """A topic as the broker described it."""

    topic_id: bytes
    leader_epochs: tuple[int, ...]
    leaders: tuple[str | None, ...]
    """The host that leads each partition."""

    @property
    def partitions(self) -> int:
        return len(self.leader_epochs)


@dataclass(slots=True)
class Client:
    """One process's connection and what it knows."""

    runtime: Runtime
    name: str
    request_timeout_ms: int
    host: str = BROKER
    """Where it looks for the broker, or for the first one of a cluster."""
    others: tuple[str, ...] = ()
    """The other brokers of the cluster."""
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    _connections: dict[str, Connection] = field(default_factory=dict)

    async def connection(self, host: str | None = None) -> Connection:
        """The open connection to a broker, or a new one; raises `DisconnectedError`. Without a host: to where it looks for topics."""
        to = self.host if host is None else host
        known = self._connections.get(to)
        if known is not None and known.is_open:
            return known
        try:
            connection = await connect(
                self.runtime,
                to,
                PORT,
                client_id=self.name,
                in_flight_max=IN_FLIGHT_MAX,
                timeout_ms=self.request_timeout_ms,
            )
        except DisconnectedError:
            if to == self.host:
                self.look_elsewhere()
            raise
        self._connections[to] = connection
        return connection

    async def ask(self, request: Request[R], version: int, host: str | None = None) -> R:
        """The broker's answer; raises `DisconnectedError`."""
        to = self.host if host is None else host
        connection = await self.connection(to)
        try:
            return await connection.send(request, version, timeout_ms=self.request_timeout_ms)
        except DisconnectedError:
            if to == self.host:
                self.look_elsewhere()
            raise

    def look_elsewhere(self) -> None:
        """Look for topics at the next broker, if there is another one."""
        if self.others:
            self.host, self.others = self.others[0], (*self.others[1:], self.host)

    def disconnect(self) -> None:
        for connection in self._connections.values():
            connection.close()

    def leader(self, topic_partition: TopicPartition) -> str:
        """The host to ask about a partition: its leader, or, where none is known, any.

        A member of a cluster may know some partitions of a topic and not yet others.
        """
        known = self.topics.get(topic_partition.topic)
        if known is None or topic_partition.partition >= len(known.leaders):
            return self.host
        return known.leaders[topic_partition.partition] or self.host

    async def refresh(self, names: list[str]) -> None:
        """Ask what these topics are now; missing topics are forgotten."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        response = await self.ask(request, _METADATA_VERSION)
        hosts = {broker.node_id: broker.host for broker in response.brokers}
        for topic in response.topics:
            name = topic.name or ""
            partitions = sorted(topic.partitions, key=lambda one: one.partition_index)
            is_whole = [one.partition_index for one in partitions] == [*range(len(partitions))]
            if topic.error_code or not partitions or not is_whole:
                self.topics.pop(name, None)
            else:
                self.topics[name] = KnownTopic(
                    topic.topic_id,
                    tuple(one.leader_epoch for one in partitions),
                    tuple(hosts.get(one.leader_id) for one in partitions),
                )
