"""The controller's requests on their way to the brokers: a queue for each.

Role.   `BrokerQueues` carries out the machine's effects that concern brokers.
Flow.   `Connect` makes a queue -> requests wait in it -> one at a time is sent, again and again, until it is answered -> answers that
        matter come back as events -> `Disconnect`, or the end of the term, ends the queue at once.
Rules.  * Requests to a broker arrive in the order in which they were decided. A request without an answer is sent again 100 ms later:
          a broker obeys a second one as it did the first.
        * Versions are those of Kafka 3.9, and ApiVersions is not asked. The client id is the controller's id. The controller's own broker
          is sent to like all others.
        * UpdateMetadata is encoded once for all brokers: only the broker epoch differs.
        * A queue is bounded. When more wait all are dropped, and the machine tells the broker everything anew.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct as Packing
from typing import Any, Final, TypeAlias, cast

from semel.core.cluster.controller.context import LiveBroker
from semel.core.cluster.controller.effects import (
    Connect,
    Disconnect,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
)
from semel.core.cluster.controller.events import (
    BrokerBehind,
    Event,
    LeaderAndIsrResponseReceived,
    TopicDeletionStopReplicaResponseReceived,
)
from semel.core.cluster.versions import BETWEEN_BROKERS
from semel.core.wire import registry
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrResponse
from semel.core.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from semel.core.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from semel.errors import DisconnectedError, RefusedError, UnsupportedVersionError, WireError, error_code
from semel.net.link import Link, LinkConfig, open_link
from semel.runtime.bundle import Runtime
from semel.types import Address, TopicPartition

_log: Final = logging.getLogger(__name__)
RETRY_SECONDS: Final = 0.1
WAITING_MAX: Final = 2_000
_WARN_SECONDS: Final = (2.0, 60.0)
_EPOCH: Final = Packing(">q")
_EPOCH_AT: Final = 9
"""Where UpdateMetadata of versions 8 has the broker epoch: behind controller id, kind of controller and controller epoch."""
BrokerEffect: TypeAlias = Connect | Disconnect | SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica


class SharedUpdate:
    """One UpdateMetadata for many brokers: encoded once."""

    def __init__(self, request: UpdateMetadataRequest) -> None:
        self.request: Final = request
        self._bodies: dict[int, bytes] = {}

    def body(self, version: int, broker_epoch: int) -> bytes:
        encoded = self._bodies.get(version)
        if encoded is None:
            encoded = self._bodies[version] = self.request.encode(version)
        return b"".join((encoded[:_EPOCH_AT], _EPOCH.pack(broker_epoch), encoded[_EPOCH_AT + _EPOCH.size :]))


@dataclass(frozen=True, slots=True)
class _Update:
    """The same for one broker: as much of a request as a connection needs."""

    shared: SharedUpdate
    broker_epoch: int

    @property
    def schema(self) -> Any:
        return self.shared.request.schema

    def encode(self, version: int) -> bytes:
        return self.shared.body(version, self.broker_epoch)


class BrokerQueues:
    """The queues of one term."""

    def __init__(
        self, runtime: Runtime, *, link: LinkConfig, listener: str, answered: Callable[[Event], None]
    ) -> None:
        """`link.client_id` is the controller's id. `answered` is told answers that matter to the machine."""
        self._runtime = runtime
        self._link = link
        self._listener = listener
        self._answered = answered
        self._queues: dict[int, _Queue] = {}

    def carry_out(self, effect: BrokerEffect) -> None:
        match effect:
            case Connect(broker):
                self._connect(broker)
            case Disconnect(broker_id):
                queue = self._queues.pop(broker_id, None)
                if queue is not None:
                    queue.close()
            case SendUpdateMetadata(broker_epochs, request):
                shared = SharedUpdate(request)
                for broker_id, epoch in broker_epochs:
                    self._put(broker_id, cast("Request[Response]", _Update(shared, epoch)))
            case SendLeaderAndIsr(broker_id, leader_and_isr):
                self._put(broker_id, cast("Request[Response]", leader_and_isr))
            case SendStopReplica(broker_id, stop_replica):
                self._put(broker_id, cast("Request[Response]", stop_replica))

    def close(self) -> None:
        """The term is over: nothing is sent any more."""
        queues, self._queues = self._queues, {}
        for queue in queues.values():
            queue.close()

    @property
    def waiting(self) -> int:
        """Requests that wait, or are under way, for all brokers."""
        return sum(queue.waiting for queue in self._queues.values())

    def _connect(self, broker: LiveBroker) -> None:
        endpoint = broker.node.endpoints.get(self._listener)
        address = None if endpoint is None else Address(*endpoint)
        if address is None:
            _log.error(
                "broker %d has no listener %s, through which brokers call each other: it is sent nothing; give it "
                "inter.broker.listener.name=%s as the others have it",
                broker.broker_id,
                self._listener,
                self._listener,
            )
        known = self._queues.get(broker.broker_id)
        if known is not None and known.broker_epoch == broker.epoch:
            known.address = address
            return
        if known is not None:
            known.close()
        self._queues[broker.broker_id] = _Queue(
            self._runtime, self._link, broker.broker_id, broker.epoch, address, self._answered
        )

    def _put(self, broker_id: int, request: Request[Response]) -> None:
        queue = self._queues.get(broker_id)
        if queue is not None:
            queue.put(request)


class _Queue:
    """The requests to one life of a broker."""

    def __init__(
        self,
        runtime: Runtime,
        link: LinkConfig,
        broker_id: int,
        broker_epoch: int,
        address: Address | None,
        answered: Callable[[Event], None],
    ) -> None:
        self._runtime = runtime
        self._config = link
        self._broker_id = broker_id
        self.broker_epoch: Final = broker_epoch
        self.address = address
        self._answered = answered
        self._requests: deque[Request[Response]] = deque()
        self._wake = asyncio.Event()
        self._link: Link | None = None
        self._task = runtime.tasks.spawn(self._run(), name=f"controller to broker {broker_id}")

    @property
    def waiting(self) -> int:
        return len(self._requests)

    def put(self, request: Request[Response]) -> None:
        if self.address is None:
            return
        if len(self._requests) >= WAITING_MAX:
            _log.error("%d requests wait for broker %d: all are dropped", WAITING_MAX, self._broker_id)
            self._requests.clear()
            self._answered(BrokerBehind(self._broker_id, self.broker_epoch))
        self._requests.append(request)
        self._wake.set()

    def close(self) -> None:
        self._task.cancel()
        self._drop_link()

    def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.close()

    async def _run(self) -> None:
        while True:
            while not self._requests:
                self._wake.clear()
                await self._wake.wait()
            request = self._requests[0]
            response = await self._deliver(request)
            if self._requests and self._requests[0] is request:  # They may have been dropped meanwhile.
                self._requests.popleft()
            self._take(request, response)

    async def _deliver(self, request: Request[Response]) -> Response:
        """Send it until it is answered."""
        began, warned = self._runtime.clock.monotonic(), _WARN_SECONDS[0]
        while True:
            try:
                link = await self._open()
                return await link.send(request, timeout_ms=self._config.request_timeout_ms)
            except (DisconnectedError, RefusedError, UnsupportedVersionError, WireError) as error:
                self._drop_link()
                away = self._runtime.clock.monotonic() - began
                if away >= warned:
                    warned = away + min(2 * warned, _WARN_SECONDS[1])
                    _log.warning(
                        "broker %d has not answered %s for %.0f s, which is sent again until its session ends: %s",
                        self._broker_id,
                        registry.api(request.schema.api_key).name,
                        away,
                        error,
                    )
            await self._runtime.tasks.sleep(RETRY_SECONDS)

    async def _open(self) -> Link:
        address = self.address
        if address is None:
            raise DisconnectedError(f"broker {self._broker_id} has no address")
        link = self._link
        if link is not None and link.is_open and link.address == address:
            return link
        self._drop_link()
        self._link = await open_link(self._runtime, address, self._config, served=BETWEEN_BROKERS)
        return self._link

    def _take(self, request: Request[Response], response: Response) -> None:
        match response:
            case LeaderAndIsrResponse():
                self._answered(LeaderAndIsrResponseReceived(self._broker_id, self.broker_epoch, response))
            case StopReplicaResponse() if isinstance(request, StopReplicaRequest):
                deleted = tuple(
                    TopicPartition(topic.topic_name, state.partition_index)
                    for topic in request.topic_states
                    for state in topic.partition_states
                    if state.delete_partition
                )
                if deleted:
                    self._answered(
                        TopicDeletionStopReplicaResponseReceived(
                            self._broker_id, self.broker_epoch, deleted, response
                        )
                    )
            case UpdateMetadataResponse() if response.error_code:
                code = error_code(response.error_code).name
                _log.warning("broker %d refuses UpdateMetadata with %s", self._broker_id, code)
            case _:
                pass
