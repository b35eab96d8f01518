"""A simulated world with brokers, a ZooKeeper and actors, put together from one seed.

Role.   `World` owns the simulation, the history and the hosts. `BrokerHost` keeps a real broker going on its host, through
        deaths and failed starts, and writes down how its logs came back; `zookeeper_host` does so for ZooKeeper. `Actor` is
        what runs on every other host.
Flow.   A scenario makes a world, adds actors, starts them, lets `faults.disturbances` happen, calms the world, waits until nobody
        owes anything, and has `invariants` judge the history.
Rules.  * Everything is decided by the seed: each part draws from dice of its own.
        * A broker's state is looked at only when no code of its process runs: when it serves, and after it died.
        * An actor that ends, or a task of the broker that fails of something else than its disk, is a flaw.
        * A world has one broker, called "broker", or several, "broker1" and so on: each with its disk, its clock and its deaths.
          A world of one broker draws no dice for what only several have, so that its runs are what they were.

To add an actor (a group, a transaction), write a class with `name`, `run`, `finish` and `owes`, and `World.add` it. It adds
its own events to the history, and its invariants are functions over them.
"""

import asyncio
import contextlib
import itertools
import logging
import math
from collections.abc import Collection, Iterable, Iterator
from typing import Final, Protocol

from semel.broker.app import Broker
from semel.broker.config import BrokerConfig
from semel.cluster.registration import DuplicateBrokerIdError
from semel.cluster.zookeeper.client import ZooKeeperUnreachableError
from semel.core.records.batch import BatchHeader
from semel.core.records.build import iter_records
from semel.core.records.control import read_marker
from semel.core.zookeeper.machine import Machine
from semel.errors import LogError
from semel.runtime.bundle import Runtime
from semel.runtime.memory_faults import Death, DiskCrashed
from semel.runtime.memory_network import Link
from semel.runtime.randomness import seeded_dice
from semel.runtime.simulation import SimulatedHost, Simulation
from semel.types import TopicPartition
from semel.verify.history.events import Ending, Happened, LogState, Place, Reopened
from semel.verify.history.run import History, StoredBatch
from semel.verify.simulation.zookeeper_host import ZOOKEEPER, ZooKeeperHost

BROKER: Final = "broker"
PORT: Final = 9092
DATA_DIR: Final = "/data"
_START_SECONDS_MAX: Final = 60.0
_START_SECONDS: Final = 10.0
_NO_MEMBERSHIP: Final = ZooKeeperUnreachableError | DuplicateBrokerIdError
"""A member cannot start while ZooKeeper is away, or keeps the session of its former life for longer than it may."""
_POLL_SECONDS: Final = 0.05


class Actor(Protocol):
    """A program on a host of its own that uses the broker and tells the history what it did and saw."""

    name: str

    async def run(self, runtime: Runtime) -> None:
        """One process of it, for ever. After a kill it is run again, with nothing but its disk and its attributes."""

    def finish(self) -> None:
        """The disturbances are over: do what is left to do."""

    def owes(self) -> str | None:
        """Its unfinished work once it was told to finish; None if there is none."""


class World:
    """Hosts, brokers among them, and what is known of them."""

    def __init__(
        self,
        seed: int,
        settings: dict[str, str | int | bool],
        *,
        brokers: int = 1,
        clocks_off_ms_max: int = 0,
        zookeeper: Machine | None = None,
        traced: bool = False,
    ) -> None:
        self.seed = seed
        self.simulation = Simulation(seed, traced=traced)
        self.history = History()
        self.dice = seeded_dice(seed, "world")
        self.actors: dict[str, Actor] = {}
        self.calm = False
        self.calm_at = math.inf
        self.is_over = False
        """Nothing counts any more: the world is being taken apart."""
        self.brokers = {name: BrokerHost(self, name, own) for name, own in _settings(settings, brokers)}
        self.zookeeper = None if zookeeper is None else ZooKeeperHost(self, zookeeper)
        if clocks_off_ms_max:
            clocks = seeded_dice(seed, "clocks")
            for name in self.brokers:
                self.host(name).clock.jump(clocks.randint(-clocks_off_ms_max, clocks_off_ms_max))

    @property
    def broker(self) -> "BrokerHost":
        """The broker, or the first of them."""
        return next(iter(self.brokers.values()))

    def keepers(self) -> list[asyncio.Task[None]]:
        """Start everything that is no actor, and keep it going."""
        tasks = [
            asyncio.create_task(one.keep(), name=f"keeper of {label(one.name)}")
            for one in self.brokers.values()
        ]
        if self.zookeeper is not None:
            tasks.append(asyncio.create_task(self.zookeeper.keep(), name="keeper of ZooKeeper"))
        return tasks

    async def until_serving(self) -> None:
        for one in self.brokers.values():
            await one.until_serving()

    def add(self, actor: Actor) -> None:
        self.actors[actor.name] = actor

    def now(self) -> float:
        return self.simulation.loop.time()

    def tell(self, what: str) -> None:
        """Write down what was done to the world."""
        self.history.add(Happened(self.now(), what))
        self.simulation.loop.note(what)

    def flaw(self, what: str) -> None:
        """Write down what must never be."""
        self.tell(f"FLAW {what}")
        self.history.flaws.append(what)

    def host(self, name: str) -> SimulatedHost:
        return self.simulation.host(name)

    def start(self, actor: Actor) -> None:
        """Start a process of an actor that has none."""
        task = self.host(actor.name).start(actor.run)
        task.add_done_callback(lambda done: self._ended(actor, done))

    def restart(self, actor: Actor) -> None:
        """Kill an actor's process and start a new one."""
        self.host(actor.name).kill()
        self.start(actor)

    def _ended(self, actor: Actor, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.flaw(f"{actor.name} ended: {task.exception()!r}")

    async def settle(self, actors: Iterable[Actor], seconds: float) -> None:
        """Tell these actors to finish and wait until none of them owes anything; a flaw if that takes longer."""
        waiting = list(actors)
        for actor in waiting:
            actor.finish()
        deadline = self.now() + seconds
        while owing := [f"{one.name} owes {owed}" for one in waiting if (owed := one.owes()) is not None]:
            if self.now() > deadline:
                self.flaw(f"{seconds} s after it was calm " + "; ".join(owing))
                return
            await asyncio.sleep(_POLL_SECONDS)

    def make_calm(self) -> None:
        """End all disturbances."""
        self.tell("calm")
        self.calm = True
        self.calm_at = self.now()
        self.simulation.network.heal()
        self.simulation.network.set_link(Link())
        for one, other in itertools.combinations_with_replacement(self.names(), 2):
            self.simulation.network.set_link(Link(), between=(one, other))
        for name in self.brokers:
            disk = self.host(name).disk
            disk.clear_faults()
            disk.sync_delay_seconds = (0.0, 0.0)

    def names(self) -> list[str]:
        """Of every host."""
        zookeeper = [] if self.zookeeper is None else [ZOOKEEPER]
        return [*self.brokers, *zookeeper, *self.actors]


def label(name: str) -> str:
    """A host in the words of the story: the only broker has an article and no number."""
    return "the broker" if name == BROKER else name


def _settings(
    settings: dict[str, str | int | bool], brokers: int
) -> Iterator[tuple[str, dict[str, str | int | bool]]]:
    if brokers == 1:
        yield BROKER, settings
        return
    for number in range(1, brokers + 1):
        yield f"{BROKER}{number}", {"broker.id": number, **settings}


class BrokerHost:
    """A broker's machine: starts it, starts it again when it died, and remembers what it left."""

    def __init__(self, world: World, name: str, settings: dict[str, str | int | bool]) -> None:
        self.name: Final = name
        self._label: Final = label(name)
        self._world = world
        self._config = BrokerConfig.of(
            {"listeners": f"PLAINTEXT://{name}:{PORT}", "log.dirs": DATA_DIR, **settings}
        )
        self.broker_id: Final = self._config.node_id
        self._is_member: Final = self._config.zookeeper_connect is not None
        self._host = world.simulation.host(name)
        self._broker: Broker | None = None
        self._stop: asyncio.Event | None = None
        self._before: dict[Place, LogState] = {}
        self._unopened: dict[Place, LogState] = {}
        self._endings: list[Ending] = []
        self._direct: Ending | None = None
        self._pause_seconds = 0.1
        self._distrusts_disk = False
        self.is_serving = False
        self.alive_since = 0.0
        """When its process was started."""

    # Things that may happen to it

    def end(self, how: Ending, pause_seconds: float) -> None:
        """End the broker now; it comes back after a pause."""
        self._pause_seconds = pause_seconds
        if not self._host.is_alive:
            return
        self._world.tell(f"{self._label} gets a {how}, back after {pause_seconds:.3f} s")
        self._direct = how
        self.is_serving = False
        match how:
            case "kill":
                self._host.kill()
            case "power cut":
                self._host.cut_power()
            case "clean stop" if self._stop is not None:
                self._stop.set()

    def end_at_operation(self, number: int, death: Death, pause_seconds: float) -> None:
        """End it in the middle of the disk's change `number` from now."""
        self._pause_seconds = pause_seconds
        self._world.tell(f"a {death} is planned at {self._label}'s disk operation {number} from now")
        self._host.disk.crash_at_operation(number, death=death)

    def end_after_bytes(self, size: int, death: Death, pause_seconds: float) -> None:
        """End it in the middle of a write, `size` bytes from now."""
        self._pause_seconds = pause_seconds
        where = "" if self.name == BROKER else f" on {self.name}"
        self._world.tell(f"a {death} is planned {size} written bytes from now{where}")
        self._host.disk.crash_after(size, death=death)

    def distrust_disk(self) -> None:
        """A sync may have failed: from now on the system takes bytes for clean that are not on the disk.

        The machine is switched off before the broker starts again, however it ends: everything it finds is then on the disk.
        """
        self._distrusts_disk = True

    # Its life

    async def keep(self) -> None:
        """Keep the broker going, for ever."""
        while True:
            task = self._host.start(self._program)
            died = asyncio.create_task(self._host.until_dead(), name="broker's death")
            await asyncio.wait([task, died], return_when=asyncio.FIRST_COMPLETED)
            died.cancel()
            self._note_end(task)
            await asyncio.sleep(self._pause_seconds)

    async def until_serving(self) -> None:
        deadline = self._world.now() + _START_SECONDS_MAX
        while not self.is_serving:
            if self._world.now() > deadline:
                self._world.flaw(f"{self._label} does not start within {_START_SECONDS_MAX} s")
                return
            await asyncio.sleep(_POLL_SECONDS)

    async def _program(self, runtime: Runtime) -> None:
        self._direct = None
        self.alive_since = self._world.now()
        self._stop = asyncio.Event()
        broker = Broker(self._config, runtime)
        await broker.start()
        self._broker = broker
        offline = broker.parts.partitions.offline
        opened = {
            place: state
            for place, state in self._before.items()
            if TopicPartition(state.topic, place.partition) not in offline
        }
        # A log the disk refused to open is compared when it is open again, after everything that happened until then.
        self._unopened = {place: state for place, state in self._before.items() if place not in opened}
        after = self.logs()
        self._world.history.add(
            Reopened(self._world.now(), tuple(self._endings), opened, after, broker=self.name)
        )
        self._world.tell(f"{self._label} serves")
        if not self._unopened:
            self._endings.clear()
        self.is_serving = True
        await self._stop.wait()
        self.is_serving = False
        await broker.stop()

    def _note_end(self, task: asyncio.Task[None]) -> None:
        """Its process ended: by itself, or by a death. Its objects hold its last knowledge."""
        self.is_serving = False
        failed = task.exception() if task.done() and not task.cancelled() else None
        if not self._host.is_alive:
            if self._direct == "clean stop":
                self._direct = None  # A planned death came before it was done.
        else:
            self._direct = "clean stop" if failed is None else "kill"
            self._host.kill()
            if failed is not None:
                self._start_failed(failed)
        if self._broker is not None:
            # Inside a change of the disk a member may be cutting a log: memory and disk differ then, and both are right.
            is_inside = self._direct is None and self._host.last_death is not None
            self._before = {**self._unopened, **self.logs(led_only=is_inside and self._is_member)}
            self._broker = None
        # Of two deaths that were planned either may have come: the machine knows which.
        ending = self._direct or self._host.last_death or "kill"
        if self._distrusts_disk:
            self._distrusts_disk = False
            if ending != "power cut":
                self._endings.append(ending)
                self._host.cut_power()
                ending = "power cut"
        self._endings.append(ending)
        self._world.tell(f"{self._label} has ended: {ending}")

    def _start_failed(self, error: BaseException) -> None:
        self._world.tell(f"{self._label} cannot go on: {error!r}")
        is_excused = isinstance(error, OSError | LogError) and not self._world.calm
        # ZooKeeper may have been away until it was calm, and come back a little later.
        is_excused |= (
            isinstance(error, _NO_MEMBERSHIP) and self.alive_since < self._world.calm_at + _START_SECONDS
        )
        if not is_excused:
            self._world.flaw(f"{self._label} cannot go on: {error!r}")

    # What it holds

    @property
    def broker(self) -> Broker | None:
        """The broker that runs, to be looked at."""
        return self._broker

    def log_ends(self) -> dict[Place, int]:
        """Where every log ends; nothing while the broker is down."""
        if self._broker is None:
            return {}
        return {
            Place(
                partition.topic_id.bytes, partition.log.topic_partition.partition
            ): partition.log.log_end_offset
            for partition in self._broker.parts.partitions
        }

    def logs(self, *, led_only: bool = False) -> dict[Place, LogState]:
        """The state of every log, from memory; of a member also where a replica has no role yet."""
        if self._broker is None:
            return {}
        partitions = self._broker.parts.partitions
        if self._is_member and not led_only:
            known = [(log, topic_id) for log, topic_id in partitions.logs if topic_id is not None]
        else:
            known = [(one.log, one.topic_id) for one in partitions if one.leader is not None or not led_only]
        return {
            Place(topic_id.bytes, log.topic_partition.partition): LogState(
                topic=log.topic_partition.topic,
                start=log.log_start_offset,
                end=log.log_end_offset,
                high_watermark=log.high_watermark,
                recovery_point=log.recovery_point,
                synced_answers=log.config.flush_messages == 1,
                producers=tuple(sorted(log.producers.entries(), key=lambda one: one.producer_id)),
            )
            for log, topic_id in known
        }

    def read_logs(self, *, without: Collection[str] = (), led_only: bool = False) -> None:
        """Put what the logs hold into the history, but for these topics, or for those that others lead."""
        if self._broker is None:
            return
        states = self.logs()
        for partition in self._broker.parts.partitions:
            log = partition.log
            if log.topic_partition.topic in without or (led_only and partition.leader is None):
                continue
            place = Place(partition.topic_id.bytes, log.topic_partition.partition)
            batches = [
                _stored(header, data)
                for segment in log.segments
                for _position, header, data in segment.scan()
            ]
            self._world.history.logs[place] = (states[place], batches)


def _stored(header: BatchHeader, data: memoryview) -> StoredBatch:
    if header.is_control:
        commits = read_marker(data, 0, header).commit
        return StoredBatch(header.base_offset, header.producer_id, (), header.producer_epoch, True, commits)
    values = tuple(record.value or b"" for record in iter_records(data, 0, header))
    return StoredBatch(
        header.base_offset, header.producer_id, values, header.producer_epoch, header.is_transactional
    )


class _Unexpected(logging.Handler):
    """Hears of errors the broker wrote to its log."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if self._world.is_over or error is None:
            return
        if not isinstance(error, OSError | LogError | DiskCrashed):
            self._world.flaw(f"{record.getMessage()}: {error!r}")


@contextlib.contextmanager
def watched(world: World) -> Iterator[None]:
    """While inside, an unexpected error in the broker's log is a flaw of the run; nothing is printed."""
    logger = logging.getLogger("semel")
    handler = _Unexpected(world)
    disabled, propagate, level = logger.manager.disable, logger.propagate, logger.level
    logging.disable(logging.NOTSET)
    logger.propagate = False
    logger.setLevel(logging.ERROR)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
        logger.setLevel(level)
        logging.disable(disabled)
