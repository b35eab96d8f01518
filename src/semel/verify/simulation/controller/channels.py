"""The model controller's way to its brokers: a queue for each, and one request under way.

Role.   `Channels` has a `_Channel` per life of a broker. It sends what it was given, in order, each until it is answered.
Rules.  * A request is sent again, after a pause, until it is answered, or the broker's registration is gone.
        * ApiVersions is not asked: the versions are those of Kafka 3.9.
        * In some worlds an order about roles comes once more, a while after it was carried out: as one whose answer was lost on
          another connection. A topic's deletion does not: neither its order nor those before it say which topic of the name is meant.
        * A controller that is deposed leaves its channels at once, or, in some worlds, a while later: its requests come late then.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.wire.message import Response
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest
from semel.core.wire.messages.stop_replica import StopReplicaRequest
from semel.errors import SemelError
from semel.net.link import Link, open_link
from semel.net.security import PLAINTEXT, Security
from semel.runtime.bundle import Runtime
from semel.verify.simulation.controller.cluster import Life
from semel.verify.simulation.controller.orders import Order

_PAUSE_SECONDS: Final = 0.1
_REPEATED_AFTER_SECONDS: Final = (0.0, 3.0)
Answered = Callable[[int, Order, Response], None]


@dataclass(frozen=True, slots=True)
class _LinkConfig:
    """The settings of the links, as `net.link` asks for them."""

    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    response_max_bytes: int = 1 << 20
    security: Security = PLAINTEXT


class Channels:
    """All brokers."""

    def __init__(
        self,
        runtime: Runtime,
        controller_id: int,
        request_timeout_ms: int,
        answered: Answered,
        *,
        repeats: float = 0.0,
        on_order: Callable[[int, Order], object] | None = None,
    ) -> None:
        """`repeats`: the part of the orders about roles that come a second time, later. `on_order` is told of every order."""
        self._on_order = on_order
        self._runtime = runtime
        self._repeats = repeats
        self._config = _LinkConfig(str(controller_id), request_timeout_ms, request_timeout_ms)
        self._answered = answered
        self._channels: dict[int, _Channel] = {}

    def use(self, brokers: dict[int, Life]) -> None:
        """These are registered: what waits for another life of a broker is dropped."""
        for broker_id, channel in list(self._channels.items()):
            if brokers.get(broker_id) != channel.life:
                channel.close()
                del self._channels[broker_id]
        for broker_id, life in brokers.items():
            if broker_id not in self._channels:
                self._channels[broker_id] = _Channel(
                    self._runtime, broker_id, life, self._config, self._answered, self._repeats
                )

    def send(self, broker_id: int, order: Order) -> None:
        channel = self._channels.get(broker_id)
        if channel is not None:
            if self._on_order is not None:
                self._on_order(broker_id, order)
            channel.send(order)

    def close(self, linger_seconds: float = 0.0) -> None:
        """Send nothing more, or nothing more after a while."""
        channels, self._channels = list(self._channels.values()), {}
        for channel in channels:
            if linger_seconds:
                self._runtime.tasks.call_later(linger_seconds, channel.close)
            else:
                channel.close()

    @property
    def is_idle(self) -> bool:
        """Whether everything was answered."""
        return all(channel.is_idle for channel in self._channels.values())


class _Channel:
    """One life of a broker."""

    def __init__(
        self,
        runtime: Runtime,
        broker_id: int,
        life: Life,
        config: _LinkConfig,
        answered: Answered,
        repeats: float,
    ) -> None:
        self.life: Final = life
        self._runtime = runtime
        self._broker_id = broker_id
        self._config = config
        self._answered = answered
        self._repeats = repeats
        self._repeating: set[asyncio.Task[None]] = set()
        self._queue: deque[Order] = deque()
        self._wake = asyncio.Event()
        self._link: Link | None = None
        self._task = runtime.tasks.spawn(self._work(), name=f"orders for broker {broker_id}")

    def send(self, order: Order) -> None:
        self._queue.append(order)
        self._wake.set()

    def close(self) -> None:
        for task in (self._task, *self._repeating):
            task.cancel()
        if self._link is not None:
            self._link.close()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    async def _work(self) -> None:
        while True:
            if not self._queue:
                self._wake.clear()
                await self._wake.wait()
            order = self._queue[0]
            response = await self._deliver(order)
            self._queue.popleft()
            self._answered(self._broker_id, order, response)
            if self._repeats and _may_be_repeated(order) and self._runtime.dice.random() < self._repeats:
                task = self._runtime.tasks.spawn(
                    self._repeat(order), name=f"an order for broker {self._broker_id}, again"
                )
                self._repeating.add(task)
                task.add_done_callback(self._repeating.discard)

    async def _repeat(self, order: Order) -> None:
        """Send it once more, on a connection of its own."""
        await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_REPEATED_AFTER_SECONDS))
        with contextlib.suppress(SemelError):
            link = await open_link(self._runtime, self.life.address, self._config, served=BETWEEN_BROKERS)
            try:
                await link.send(order, timeout_ms=self._config.request_timeout_ms)
            finally:
                link.close()

    async def _deliver(self, order: Order) -> Response:
        while True:
            try:
                if self._link is None or not self._link.is_open:
                    self._link = await open_link(
                        self._runtime, self.life.address, self._config, served=BETWEEN_BROKERS
                    )
                return await self._link.send(order, timeout_ms=self._config.request_timeout_ms)
            except SemelError:  # Not reached, not answered in time, or answered with something else.
                if self._link is not None:
                    self._link.close()
                await self._runtime.tasks.sleep(_PAUSE_SECONDS)


def _may_be_repeated(order: Order) -> bool:
    match order:
        case LeaderAndIsrRequest():
            return True
        case StopReplicaRequest():
            return all(
                one.leader_epoch >= 0 for topic in order.topic_states for one in topic.partition_states
            )
        case _:
            return False
