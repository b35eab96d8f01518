"""A simulated client's way to the broker: one connection at a time, opened again when it broke.

Role.   The base of producers, consumers and admins: connect, ask, know topics by name and id.
Rules.  A request without an answer raises `DisconnectedError`; whether it was carried out is unknown then.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from semel.core.wire.message import Request, Response
from semel.core.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.net.connection import Connection, connect
from semel.runtime.bundle import Runtime
from semel.verify.simulation.world import BROKER, PORT

R = TypeVar("R", bound=Response)
_METADATA_VERSION: Final = 12
IN_FLIGHT_MAX: Final = 5


class KnownTopic(NamedTuple):
    """A topic as the broker described it."""

    topic_id: bytes
    leader_epochs: tuple[int, ...]

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
    """Where it looks for the broker."""
    topics: dict[str, KnownTopic] = field(default_factory=dict)
    _connection: Connection | None = None

    async def connection(self) -> Connection:
        """The open connection, or a new one; raises `DisconnectedError`."""
        if self._connection is None or not self._connection.is_open:
            self._connection = await connect(
                self.runtime,
                self.host,
                PORT,
                client_id=self.name,
                in_flight_max=IN_FLIGHT_MAX,
                timeout_ms=self.request_timeout_ms,
            )
        return self._connection

    async def ask(self, request: Request[R], version: int) -> R:
        """The broker's answer; raises `DisconnectedError`."""
        connection = await self.connection()
        return await connection.send(request, version, timeout_ms=self.request_timeout_ms)

    def disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def refresh(self, names: list[str]) -> None:
        """Ask what these topics are now; missing topics are forgotten."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        )
        response = await self.ask(request, _METADATA_VERSION)
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code or not topic.partitions:
                self.topics.pop(name, None)
            else:
                epochs = sorted((one.partition_index, one.leader_epoch) for one in topic.partitions)
                self.topics[name] = KnownTopic(topic.topic_id, tuple(epoch for _index, epoch in epochs))
