"""A model of Kafka's controller as an actor: it stands for election, holds office, and is deposed.

Role.   Several of them on hosts of their own lead the members of a simulated cluster, one at a time. Everything they know stands in
        ZooKeeper, so any of them goes on where another was killed.
Flow.   a session -> stand for election -> `controller.office` for one term: watches and wishes become events, which are handled
        one after the other -> deposed, or the session is over -> again.
Rules.  * It has a broker id of its own, holds no replicas, and does not register: members find it in UpdateMetadata.
        * One that is frozen, or cut off, does not know that it was deposed. Its requests still go out until its next write fails; in
          some worlds what is queued then goes out for a while longer.
        * While it is told to be lively it moves leaders and raises epochs at random; once the world is calm it does not.
Elsewhere. The rules of each step: `controller.decisions`.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from semel.cluster.zookeeper.client import (
    SessionExpiredError,
    Settings,
    ZooKeeperClient,
    ZooKeeperUnreachableError,
)
from semel.cluster.zookeeper.connect_string import Servers
from semel.cluster.zookeeper.recipes import ensure
from semel.core.cluster import paths
from semel.core.wire.message import Response
from semel.core.wire.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from semel.core.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from semel.core.wire.messages.controlled_shutdown import ControlledShutdownResponse
from semel.core.zookeeper.wire.messages import WatchEvent
from semel.errors import ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import Address
from semel.verify.simulation.controller.channels import Channels
from semel.verify.simulation.controller.cluster import Cluster
from semel.verify.simulation.controller.desk import Desk, Wish
from semel.verify.simulation.controller.ledger import DeposedError, Ledger, Term, stand
from semel.verify.simulation.controller.office import Office
from semel.verify.simulation.controller.orders import Order
from semel.verify.simulation.world import World
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZOOKEEPER_PORT

PORT: Final = 9090
FIRST_ID: Final = 101
_TICK_SECONDS: Final = 1.0
_PAUSE_SECONDS: Final = (0.05, 0.3)
Event = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Temper:
    """The ways of one controller."""

    session_timeout_ms: int
    request_timeout_ms: int
    whim_seconds: float | None
    """Between two moves of leaders that nobody asked for, on average."""
    linger_seconds: float
    """How long what is queued goes out after it was deposed."""
    repeats: float = 0.0
    """The part of its orders that come a second time, late."""


class Controller:
    """The actor."""

    def __init__(
        self,
        world: World,
        number: int,
        temper: Temper,
        on_order: Callable[[int, Order], object] | None = None,
    ) -> None:
        """`on_order` is told which broker is ordered what."""
        self.on_order: Final = on_order
        self.name = f"controller{number}"
        self.controller_id: Final = FIRST_ID + number
        self.temper: Final = temper
        self.world: Final = world
        self.is_calm = False
        self.channels: Channels | None = None
        """Its channels while it is in office."""

    async def run(self, runtime: Runtime) -> None:
        self.channels = None
        await _Process(self, runtime).run()

    def finish(self) -> None:
        self.is_calm = True

    def owes(self) -> str | None:
        """Nothing by itself: a cluster owes that one of them leads it."""
        return None


class _Process:
    """One process of it."""

    def __init__(self, controller: Controller, runtime: Runtime) -> None:
        self._controller = controller
        self._runtime = runtime
        self._desk = Desk(runtime, self._decide)
        self._changed = asyncio.Event()
        self._events: asyncio.Queue[Event] | None = None
        self._office: Office | None = None
        self._client = self._new_client()

    def _new_client(self) -> ZooKeeperClient:
        settings = Settings(
            Servers(((ZOOKEEPER, ZOOKEEPER_PORT),)),
            session_timeout_ms=self._controller.temper.session_timeout_ms,
        )
        return ZooKeeperClient(
            self._runtime,
            settings,
            on_event=self._told,
            before_session=self._resign,
            on_session=self._changed.set,
        )

    async def run(self) -> None:
        await self._desk.open(self._controller.name, PORT)
        await self._connect()
        while True:
            self._changed.clear()
            with contextlib.suppress(SessionExpiredError):
                for path in (paths.BROKER_IDS, paths.TOPICS, paths.DELETE_TOPICS, paths.PRODUCER_ID_BLOCK):
                    await ensure(self._client, path)
                term = await stand(self._client, self._controller.controller_id, self._runtime.clock.now_ms())
                if term is not None:
                    await self._hold_office(term)
                else:
                    await self._changed.wait()
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(*_PAUSE_SECONDS))

    async def _connect(self) -> None:
        while True:
            try:
                await self._client.open()
            except ZooKeeperUnreachableError:
                self._client = self._new_client()
            else:
                return

    # One term

    async def _hold_office(self, term: Term) -> None:
        controller, temper = self._controller, self._controller.temper
        controller.world.tell(f"{controller.name} is the controller, epoch {term.epoch}")
        events = self._events = asyncio.Queue()
        channels = Channels(
            self._runtime,
            controller.controller_id,
            temper.request_timeout_ms,
            lambda *answer: self._answered(events, *answer),
            repeats=temper.repeats,
            on_order=controller.on_order,
        )
        cluster = Cluster(controller.controller_id, term.epoch, Address(controller.name, PORT))
        self._office = office = Office(cluster, Ledger(self._client, term), channels)
        controller.channels = channels
        beside = [
            self._runtime.tasks.spawn(self._be_lively(office, events), name="whims"),
            self._runtime.tasks.spawn(self._tick(office, channels, events), name="tick"),
        ]
        try:
            await office.take_over()
            await self._work(events)
        except (DeposedError, SessionExpiredError) as error:
            controller.world.tell(f"{controller.name} is deposed: {error}")
        finally:
            for task in beside:
                task.cancel()
            self._office = self._events = controller.channels = None
            channels.close(temper.linger_seconds)

    @staticmethod
    async def _work(events: asyncio.Queue[Event]) -> NoReturn:
        while True:
            event = await events.get()
            await event()

    async def _resign(self) -> None:
        """The session is over: nothing more is done in its name."""
        if self._events is not None:
            self._events.put_nowait(self._give_up)

    @staticmethod
    async def _give_up() -> None:
        raise SessionExpiredError("the session of this controller is over")

    def _answered(self, events: asyncio.Queue[Event], broker: int, order: Order, response: Response) -> None:
        if self._events is events and self._office is not None:
            office = self._office
            events.put_nowait(lambda: office.answered(broker, order, response))

    def _told(self, event: WatchEvent) -> None:
        """A watch fired."""
        if event.path == paths.CONTROLLER:
            self._changed.set()
        office, events = self._office, self._events
        if office is None or events is None:
            return
        match event.path:
            case paths.BROKER_IDS:
                events.put_nowait(office.brokers_changed)
            case paths.TOPICS:
                events.put_nowait(office.topics_changed)
            case paths.DELETE_TOPICS:
                events.put_nowait(office.deletions_changed)
            case paths.REASSIGN_PARTITIONS:
                events.put_nowait(office.reassignments_wanted)
            case paths.PREFERRED_REPLICA_ELECTION:
                events.put_nowait(office.elections_wanted)
            case _:
                pass

    async def _be_lively(self, office: Office, events: asyncio.Queue[Event]) -> None:
        seconds, dice = self._controller.temper.whim_seconds, self._runtime.dice
        while seconds is not None and not self._controller.is_calm:
            await self._runtime.tasks.sleep(dice.expovariate(1 / seconds))
            if not self._controller.is_calm:
                events.put_nowait(lambda: office.whim(dice))

    async def _tick(self, office: Office, channels: Channels, events: asyncio.Queue[Event]) -> None:
        """A deletion that a broker has refused is tried again."""
        while True:
            await self._runtime.tasks.sleep(_TICK_SECONDS)
            if channels.is_idle:
                events.put_nowait(office.delete_on)

    # Wishes

    async def _decide(self, wish: Wish) -> Response:
        """The answer to a wish, in its turn; a controller that is none, or no more, says so."""
        office, events = self._office, self._events
        if office is None or events is None:
            return _not_controller(wish)
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        async def decide() -> None:
            match wish:
                case AlterPartitionRequest():
                    response: Response = await office.alter_partition(wish)
                case AllocateProducerIdsRequest():
                    response = await office.allocate(wish)
                case _:
                    response = await office.shut_down(wish)
            if not answer.done():
                answer.set_result(response)

        events.put_nowait(decide)
        while self._events is events:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_SECONDS):
                    return await asyncio.shield(answer)
        return _not_controller(wish)


def _not_controller(wish: Wish) -> Response:
    match wish:
        case AlterPartitionRequest():
            return AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
        case AllocateProducerIdsRequest():
            return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)
        case _:
            return ControlledShutdownResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
