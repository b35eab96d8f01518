"""A broker that stands for election, and controls the cluster while it is elected.

Role.   `Controller` is the shell around `core.cluster.controller.machine`: it elects, queues events, plays them one after the other on
        ZooKeeper, and sends what follows.
Flow.   `start` once the broker is registered -> `/controller` is watched, and fought for when it is free -> a term: take-over, then events
        -> the term ends: the epoch is another, the session is over, `/controller` was taken away, or the controller found itself broken.
Rules.  * A watch queues an event, and nothing else. Two of the same that wait are one. What an event needs is read when it is played.
        * A term ends at any wait: its machine, its queues and its requests are dropped together, and whoever waits for an answer is
          told that this is not the controller. Everything that counts is in ZooKeeper.
        * Before a new session begins, the term of the old one is over. The broker registers anew before it stands again.
        * A controller that finds itself broken gives the office up, and lets others try first.
Elsewhere. The fence in front of each write: `election`. Requests to brokers: `queues`.
"""

import asyncio
import logging
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from semel.cluster.controller.election import ControllerMovedError, Fence, Office, try_to_win
from semel.cluster.controller.queues import BrokerQueues
from semel.cluster.member import Member
from semel.cluster.zookeeper.client import SessionExpiredError, ZooKeeperUnreachableError
from semel.core.cluster import paths
from semel.core.cluster.controller.context import Context
from semel.core.cluster.controller.effects import Note, Play, PlayNext
from semel.core.cluster.controller.events import (
    AutoPreferredReplicaLeaderElection,
    BrokerBehind,
    Event,
    Startup,
    UncleanLeaderElectionEnable,
    Watched,
)
from semel.core.cluster.controller.machine import Machine
from semel.core.cluster.controller.operations import Result
from semel.core.cluster.controller.term import Settings
from semel.core.cluster.controller.watching import event_of
from semel.core.cluster.documents import ZnodeError
from semel.core.zookeeper.wire.messages import WatchEvent
from semel.errors import SemelError
from semel.net.link import LinkConfig
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import random_uuid

_log: Final = logging.getLogger(__name__)
EVENTS_MAX: Final = 50_000
"""Events that may wait; brokers and clients that ask for more are told to ask again."""
_BALANCE_FIRST_SECONDS: Final = 5.0
_OTHERS_FIRST_SECONDS: Final = 1.0


class NotActiveError(SemelError):
    """This broker is not the controller, or not any more: nobody knows whether the question was carried out."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a broker stands for election, and what it does once elected."""

    broker_id: int
    link: LinkConfig
    """Of the ways to the brokers."""
    settings: Callable[[], Settings]
    balance_seconds: Callable[[], float | None]
    """How often the balance of leaders is looked at; None: never."""


class Controller:
    """The office, held or wanted."""

    def __init__(self, runtime: Runtime, member: Member, standing: Standing) -> None:
        self._runtime = runtime
        self._member = member
        self._standing = standing
        self._registered = asyncio.Event()
        self._looks = asyncio.Event()
        """Something has happened to `/controller`."""
        self._task: asyncio.Task[None] | None = None
        self._governing: asyncio.Task[None] | None = None
        self._term: _Term | None = None
        self._elections_before = self._unclean_before = 0
        """Of the terms that are over."""

    def start(self) -> None:
        """The broker is registered: stand for election from now on."""
        self._member.on_watch.append(self._heard)
        self._member.before_session.append(self._resign)
        self._registered.set()
        self._task = self._runtime.tasks.spawn(self._stand(), name="controller", on_failure=self._failed)

    def registered(self, _broker_epoch: int) -> None:
        """The broker is registered in another session."""
        self._registered.set()
        self._looks.set()

    async def close(self) -> None:
        """Stand no more; an office that is held is left to others."""
        task, self._task = self._task, None
        if task is None:
            return
        term = self._term
        task.cancel()
        await self._resign()
        if term is not None:
            try:
                async with asyncio.timeout(1):
                    await term.fence.give_up()
            except (TimeoutError, SemelError) as error:
                _log.info("the office of controller ends with the session: %s", error)

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._term is not None

    def has_office(self) -> bool:
        """The same, as a call."""
        return self._term is not None

    @property
    def epoch(self) -> int | None:
        """The epoch of the present term."""
        return None if self._term is None else self._term.machine.context.epoch

    @property
    def context(self) -> Context | None:
        """What the controller knows, while it is this broker: to be looked at."""
        return None if self._term is None else self._term.machine.context

    @property
    def elections(self) -> int:
        """Leaders that were elected here, in all terms."""
        return self._elections_before + (0 if self._term is None else self._term.machine.term.elections)

    @property
    def unclean_elections(self) -> int:
        """Those of them that were not in sync."""
        return self._unclean_before + (0 if self._term is None else self._term.machine.term.unclean_elections)

    async def ask(self, event: Event) -> Any:
        """The machine's answer. Raises `NotActiveError`."""
        term = self._term
        if term is None:
            raise NotActiveError("this broker is not the controller")
        return await term.ask(event)

    def unclean_elections_allowed(self, topic: str | None) -> None:
        """The settings of a topic, or of all, have changed: it may have a leader now."""
        if self._term is not None:
            self._term.put(UncleanLeaderElectionEnable(topic))

    # The office

    def _heard(self, watch: WatchEvent) -> None:
        if watch.path == paths.CONTROLLER:
            self._looks.set()
            if self._term is not None:
                self._term.look_at_office()
        elif self._term is not None and (event := event_of(watch)) is not None:
            self._term.put(event)

    async def _resign(self) -> None:
        """Nobody acts on the office any more."""
        self._registered.clear()
        governing = self._governing
        if governing is not None:
            governing.cancel()
            await asyncio.wait({governing})

    def _failed(self, _name: str, error: BaseException) -> None:
        _log.error("this broker stands for election no more: %r", error, exc_info=error)

    async def _stand(self) -> None:
        while True:
            await self._registered.wait()
            try:
                office = await self._win()
                await self._govern(office)
            except SessionExpiredError:
                _log.info("not the controller while this broker has no session")
            except ControllerMovedError as error:
                _log.warning("controller no more: %s", error)
            except ZooKeeperUnreachableError:
                return  # The client is closed.
            except (SemelError, ZnodeError) as error:
                _log.error("as the controller this broker cannot go on, and lets others try: %s", error)
                await self._runtime.tasks.sleep(_OTHERS_FIRST_SECONDS)

    async def _win(self) -> Office:
        """Wait until the office is free, and win it."""
        client = self._member.client
        while True:
            self._looks.clear()
            held = await client.get(paths.CONTROLLER, watch=True)
            if held is not None:
                await self._looks.wait()
                continue
            office = await try_to_win(client, self._standing.broker_id, self._runtime.clock.now_ms())
            if office is not None:
                return office

    async def _govern(self, office: Office) -> None:
        """One term, until it ends. Raises why it has ended."""
        _log.info("broker %d is the controller of epoch %d", self._standing.broker_id, office.epoch)
        term = _Term(self._runtime, self._member, self._standing, office)
        governing = self._governing = self._runtime.tasks.spawn(
            self._run(term), name=f"controller of epoch {office.epoch}", on_failure=lambda _name, _error: None
        )
        await asyncio.wait({governing})
        self._governing = None
        if governing.cancelled():
            raise SessionExpiredError("the term ended with its session")
        error = governing.exception()
        if error is not None:
            raise error

    async def _run(self, term: "_Term") -> None:
        self._term = term
        try:
            await term.run()
        except (SessionExpiredError, ControllerMovedError, ZooKeeperUnreachableError):
            raise
        except Exception as error:
            _log.error("the controller of epoch %d is broken", term.office.epoch, exc_info=error)
            await term.fence.give_up()
            if isinstance(error, SemelError):
                raise
            raise SemelError(f"the controller is broken: {error!r}") from error
        finally:
            self._term = None
            self._elections_before += term.machine.term.elections
            self._unclean_before += term.machine.term.unclean_elections
            term.end()


class _Term:
    """One term: the machine, the events that wait for it, and the queues of brokers."""

    def __init__(self, runtime: Runtime, member: Member, standing: Standing, office: Office) -> None:
        self._runtime = runtime
        self._standing = standing
        self.office: Final = office
        self.fence: Final = Fence(member.client, office)
        self.machine: Final = Machine(office.epoch, standing.settings(), self._new_id)
        self.queues: Final = BrokerQueues(
            runtime, link=standing.link, listener=standing.settings().listener, answered=self.put
        )
        self._waiting: deque[tuple[Event, asyncio.Future[Any] | None]] = deque()
        self._once: set[Event] = set()
        """The events that wait and need not wait twice."""
        self._wake = asyncio.Event()
        self._is_office_looked_at = True
        self._answering: asyncio.Future[Any] | None = None
        self._balancing: asyncio.Task[None] | None = None

    def _new_id(self) -> uuid.UUID:
        return random_uuid(self._runtime.dice)

    def put(self, event: Event) -> None:
        """Play an event after all that wait."""
        if _is_repeatable(event):
            if event in self._once:
                return
            self._once.add(event)
        self._waiting.append((event, None))
        self._wake.set()

    def look_at_office(self) -> None:
        self._is_office_looked_at = True
        self._wake.set()

    async def ask(self, event: Event) -> Any:
        if len(self._waiting) >= EVENTS_MAX:
            raise NotActiveError(f"{EVENTS_MAX} events wait for the controller")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((event, answer))
        self._wake.set()
        return await answer

    async def run(self) -> None:
        """Take over, then play events as they come, for ever."""
        self.put(Startup())
        while True:
            while not self._waiting and not self._is_office_looked_at:
                self._wake.clear()
                await self._wake.wait()
            if self._is_office_looked_at:
                self._is_office_looked_at = False
                if not await self.fence.holds(watch=True):
                    raise ControllerMovedError(f"{paths.CONTROLLER} is not this broker's any more")
                continue
            event, answer = self._waiting.popleft()
            if _is_repeatable(event):
                self._once.discard(event)
            self._answering = answer
            outcome = await self._play(event)
            self._answering = None
            if answer is not None and not answer.done():
                answer.set_result(outcome)
            if isinstance(event, Startup):
                _log.info("controller of epoch %d has taken over %s", self.office.epoch, self._shown())
                self._balancing = self._runtime.tasks.spawn(self._balance(), name="balance of leaders")

    def _shown(self) -> str:
        context = self.machine.context
        return f"{len(context.brokers)} brokers, {len(context.topics)} topics, {len(context.leaderships)} partitions"

    async def _play(self, event: Event) -> Any:
        self.machine.term.settings = self._standing.settings()
        steps = self.machine.play(event)
        results: list[Result] | None = None
        while True:
            try:
                batch = next(steps) if results is None else steps.send(results)
            except StopIteration as done:
                self._carry_out()
                return done.value
            self._carry_out()
            results = await self.fence.carry_out(batch)

    def _carry_out(self) -> None:
        outbox = self.machine.term.outbox
        effects = outbox.copy()
        outbox.clear()
        following: list[tuple[Event, None]] = []
        for effect in effects:
            match effect:
                case Note(text, is_warning):
                    _log.log(logging.WARNING if is_warning else logging.INFO, "controller: %s", text)
                case Play(event):
                    self.put(event)
                case PlayNext(event):
                    following.append((event, None))
                case _:
                    self.queues.carry_out(effect)
        self._waiting.extendleft(reversed(following))

    async def _balance(self) -> None:
        seconds: float = _BALANCE_FIRST_SECONDS
        while (period := self._standing.balance_seconds()) is not None:
            await self._runtime.tasks.sleep(seconds)
            self.put(AutoPreferredReplicaLeaderElection())
            seconds = period

    def end(self) -> None:
        """Nothing is sent any more, and nobody is answered."""
        self.queues.close()
        if self._balancing is not None:
            self._balancing.cancel()
        waiting = [*(answer for _event, answer in self._waiting), self._answering]
        self._waiting.clear()
        for answer in waiting:
            if answer is not None and not answer.done():
                answer.set_exception(NotActiveError("this broker is the controller no more"))
                answer.exception()  # Whoever asked may have left.


def _is_repeatable(event: Event) -> bool:
    """Whether an event reads everything when it is played, so that two of it are as good as one."""
    return isinstance(
        event, Watched | AutoPreferredReplicaLeaderElection | UncleanLeaderElectionEnable | BrokerBehind
    )
