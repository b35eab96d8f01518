"""The replicas of a simulated cluster, seen from outside: states at ZooKeeper, roles, logs.

Role.   `Witness` writes down what ZooKeeper held, who led, and what the logs of all members held, at many moments of a run.
        `replication_invariants` judges it, beside the history of the clients.
Flow.   `attach` hears every change of ZooKeeper; `watch` looks at the roles often, and at whole logs now and then, and whenever a
        leader has begun.
Rules.  * A log is looked at between two steps of its broker. Nothing is asked of the broker, and nothing is changed.
        * Everything kept is a plain value.
"""

import asyncio
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.replica import Replica
from semel.core.cluster import documents, paths
from semel.core.cluster.documents import StateNode
from semel.core.idempotence.producer_window import ProducerEntry
from semel.core.replication.epochs import EpochEnd
from semel.core.wire.messages.leader_and_isr import LeaderAndIsrRequest
from semel.core.zookeeper.machine import Machine
from semel.log.partition_log import PartitionLog
from semel.types import TopicPartition
from semel.verify.history.events import Place
from semel.verify.simulation.controller.orders import Order
from semel.verify.simulation.world import BrokerHost, World

_ROLES_SECONDS: Final = 0.02
_CLOSE_SECONDS: Final = 0.002
"""Between two looks at roles and ends soon after a change: a leader and its followers agree within some of them."""
_CLOSELY_FOR_SECONDS: Final = 0.08
_NOTHING: Final = EpochEnd(-1, 0)
_LOGS_SECONDS: Final = 1.5


class Ends(NamedTuple):
    """How far a log is visible, and how far it goes."""

    high_watermark: int
    end: int


@dataclass(frozen=True, slots=True)
class StateSeen:
    """ZooKeeper holds a partition's state."""

    at: float
    topic: str
    place: Place
    replicas: tuple[int, ...]
    going: tuple[int, ...]
    """Replicas that are being taken away."""
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Led:
    """A broker was seen to lead with this epoch, for the first time."""

    at: float
    broker: int
    topic: str
    place: Place
    leader_epoch: int
    alive_since: float
    """When its process was started."""
    ordered_at: float
    """When a controller last ordered that; never, if none did."""
    again: bool = False
    """It led with this epoch before in this life, and had stopped."""


@dataclass(frozen=True, slots=True)
class NewsGoneBack:
    """A broker believes in an earlier leader epoch than it did before."""

    at: float
    broker: int
    topic: str
    place: Place
    before: int
    now: int


@dataclass(frozen=True, slots=True)
class LackSeen:
    """A member of the ISR has not what was below a high watermark."""

    at: float
    broker: int
    topic: str
    place: Place
    isr: tuple[int, ...]
    committed: EpochEnd
    """The highest high watermark that any replica had, and the epoch of the record below it."""
    held: EpochEnd
    """The epoch of that record here, and the end of the log."""


@dataclass(frozen=True, slots=True)
class MovedAlone:
    """A leader with fewer members in its ISR than `min.insync.replicas` moved its high watermark, or its end."""

    at: float
    broker: int
    topic: str
    place: Place
    isr: tuple[int, ...]
    before: Ends
    now: Ends


class BatchSeen(NamedTuple):
    """A batch of a log. Two that are equal here are equal to the byte."""

    base_offset: int
    next_offset: int
    leader_epoch: int
    size: int
    crc: int


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """One replica at a moment."""

    at: float
    broker: int
    topic: str
    place: Place
    leads_in: int | None
    """The leader epoch in which it leads; None if it does not."""
    start: int
    end: int
    high_watermark: int
    batches: tuple[BatchSeen, ...]
    producers: tuple[ProducerEntry, ...]

    def __str__(self) -> str:
        return f"{self.topic}-{self.place.partition} on broker {self.broker}"


@dataclass(frozen=True, slots=True)
class EndSeen:
    """A client was told the end that readers may see."""

    at: float
    since: float
    who: str
    topic: str
    place: Place
    leader: int
    """The broker that said so."""
    committed: bool
    offset: int


@dataclass(slots=True)
class Sightings:
    """Everything that was seen, in order."""

    states: list[StateSeen] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    went_back: list[NewsGoneBack] = field(default_factory=list)
    lacks: list[LackSeen] = field(default_factory=list)
    moved_alone: list[MovedAlone] = field(default_factory=list)
    looks: list[ReplicaSeen] = field(default_factory=list)
    ends: list[EndSeen] = field(default_factory=list)
    last: list[ReplicaSeen] = field(default_factory=list)
    """The replicas when all was over."""

    def led_all_the_time(self, broker: int, where: TopicPartition, since: float, until: float) -> bool:
        """Whether ZooKeeper named this broker the leader all the time between two moments."""
        known = [
            one
            for one in self.states
            if one.topic == where.topic and one.place.partition == where.partition and one.at <= until
        ]
        before = [one for one in known if one.at <= since][-1:]
        return all(one.leader == broker for one in [*before, *(one for one in known if one.at > since)])


class Witness:
    """Looks at one world."""

    def __init__(self, world: World, *, trusts_disks: bool = True, hears_orders: bool = True) -> None:
        """`trusts_disks`: nobody loses what others were told that it has. `hears_orders`: `ordered` is told of each."""
        self._world = world
        self._unheard = -math.inf if hears_orders else math.inf
        """When an order was given that was not heard."""
        self._trusts_disks = trusts_disks
        self._states: dict[Place, StateSeen] = {}
        self._changed_at = 0.0
        self._committed: dict[Place, EpochEnd] = {}
        self._alone: dict[Place, tuple[StateSeen, float, Ends]] = {}
        """The last look at a leader without enough others: the state, the life in which it leads, and the ends."""
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        self._ordered: dict[tuple[int, Place, int], float] = {}
        self._leaders: dict[tuple[int, float, Place, int], bool] = {}
        """Leaders of every life, and whether they led when they were last looked at."""
        self._news: dict[tuple[int, float], dict[Place, int]] = {}
        self.seen: Final = Sightings()

    def attach(self) -> None:
        """Hear of ZooKeeper's changes from now on."""
        if self._world.zookeeper is None:
            raise TypeError("there is no ZooKeeper in this world")
        self._world.zookeeper.on_change.append(self._changed)

    def _changed(self, machine: Machine) -> None:
        for name in sorted(_children(machine, paths.TOPICS)):
            for index in sorted(_children(machine, paths.partitions(name)), key=int):
                node = machine.tree.get(paths.state(name, int(index)))
                topic_node = machine.tree.node(paths.topic(name))
                if node is None or self._known.get((name, int(index))) == (node.mzxid, topic_node.mzxid):
                    continue
                self._known[name, int(index)] = (node.mzxid, topic_node.mzxid)
                topic = documents.decode_topic(name, topic_node.data)
                state = documents.decode_state(name, int(index), node.data)
                if topic.topic_id is None:
                    continue
                seen = StateSeen(
                    self._world.now(),
                    name,
                    Place(topic.topic_id.bytes, int(index)),
                    topic.replicas[int(index)],
                    topic.removing.get(int(index), ()),
                    state.leader,
                    state.leader_epoch,
                    state.isr,
                    node.version,
                )
                self.seen.states.append(seen)
                self._states[seen.place] = seen
                self._changed_at = seen.at
                self._world.tell(
                    f"ZooKeeper: {name}-{index} is led by {seen.leader} in epoch {seen.leader_epoch}, in sync "
                    f"{list(seen.isr)} of {list(seen.replicas)}, version {seen.partition_epoch}"
                )

    def ordered(self, broker: int, order: Order) -> None:
        """A controller orders this; it may be carried out later, or never."""
        if isinstance(order, LeaderAndIsrRequest):
            for topic in order.topic_states:
                for one in topic.partition_states:
                    place = Place(topic.topic_id, one.partition_index)
                    self._ordered[broker, place, one.leader_epoch] = self._world.now()

    async def watch(self) -> None:
        """Look, for ever."""
        roles_at = logs_at = 0.0
        while True:
            is_close = self._world.now() < self._changed_at + _CLOSELY_FOR_SECONDS
            await asyncio.sleep(_CLOSE_SECONDS if is_close else _ROLES_SECONDS)
            self._look_at_ends()
            if self._world.now() < roles_at:
                continue
            roles_at = self._world.now() + _ROLES_SECONDS
            has_new_leader = self._look_at_roles()
            self._look_at_news()
            if has_new_leader or self._world.now() >= logs_at:
                logs_at = self._world.now() + _LOGS_SECONDS
                self.seen.looks += self.look()

    def _look_at_roles(self) -> bool:
        """Whether somebody leads in an epoch that was not seen before."""
        found = False
        led_before, self._leaders = self._leaders, dict.fromkeys(self._leaders, False)
        for host in self._world.brokers.values():
            for replica in _replicas(host):
                if replica.leader is None:
                    continue
                place = _place(replica)
                key = (host.broker_id, host.alive_since, place, replica.leader.leader_epoch)
                self._leaders[key] = True
                if not led_before.get(key, False):
                    topic = replica.log.topic_partition.topic
                    epoch = replica.leader.leader_epoch
                    ordered_at = self._ordered.get((host.broker_id, place, epoch), self._unheard)
                    self.seen.led.append(
                        Led(
                            self._world.now(),
                            host.broker_id,
                            topic,
                            place,
                            epoch,
                            host.alive_since,
                            ordered_at,
                            key in led_before,
                        )
                    )
                    found = True
        return found

    def _look_at_news(self) -> None:
        """What every broker believes of partitions, as it tells clients."""
        for host in self._world.brokers.values():
            if host.broker is None:
                continue
            known = self._news.setdefault((host.broker_id, host.alive_since), {})
            for row in host.broker.parts.read.image.topics.values():
                for index, state in enumerate(row.states):
                    place = Place(row.topic_id.bytes, index)
                    before = known.get(place, state.leader_epoch)
                    known[place] = state.leader_epoch
                    if state.is_known and state.leader_epoch < before:
                        self.seen.went_back.append(
                            NewsGoneBack(
                                self._world.now(),
                                host.broker_id,
                                row.name,
                                place,
                                before,
                                state.leader_epoch,
                            )
                        )

    def _look_at_ends(self) -> None:
        """Whether all that are in sync have what is committed, and whether a leader commits alone."""
        replicas = [
            (host.broker_id, replica)
            for host in self._world.brokers.values()
            for replica in _replicas(host)
            if _place(replica) in self._states
        ]
        for _broker, replica in replicas:
            log, place = replica.log, _place(replica)
            if log.high_watermark > self._committed.get(place, _NOTHING).end_offset:
                epoch = log.leader_epochs.epoch_for(log.high_watermark - 1)
                self._committed[place] = EpochEnd(epoch, log.high_watermark)
        for broker, replica in replicas:
            self._look_for_lack(broker, replica)
            if replica.leader is not None:
                self._look_at_leader(broker, replica.log, replica.leader)

    def _look_for_lack(self, broker: int, replica: Replica) -> None:
        log, place = replica.log, _place(replica)
        state, committed = self._states[place], self._committed.get(place, _NOTHING)
        last = committed.end_offset - 1
        if not self._trusts_disks or broker not in state.isr or last < log.log_start_offset:
            return
        held = EpochEnd(log.leader_epochs.epoch_for(last), log.log_end_offset)
        if held.end_offset <= last or held.epoch != committed.epoch:
            topic = log.topic_partition.topic
            self.seen.lacks.append(
                LackSeen(self._world.now(), broker, topic, place, state.isr, committed, held)
            )

    def _look_at_leader(self, broker: int, log: PartitionLog, leader: LedPartition) -> None:
        place = Place(leader.topic_id.bytes, log.topic_partition.partition)
        state, leading = self._states[place], leader.leading
        least = min(log.config.min_insync_replicas, len(state.replicas))
        is_current = (state.leader, state.leader_epoch) == (broker, leading.leader_epoch)
        if not is_current or leading.partition_epoch != state.partition_epoch or len(state.isr) >= least:
            return
        now = Ends(log.high_watermark, log.log_end_offset)
        life = next(one for one in self._world.brokers.values() if one.broker_id == broker).alive_since
        since, led_in, before = self._alone.get(place, (state, life, now))
        # A later life begins with the high watermark of its checkpoint, and the same state if its controller died with it.
        if since is state and led_in == life and before != now:
            topic = log.topic_partition.topic
            self.seen.moved_alone.append(
                MovedAlone(self._world.now(), broker, topic, place, state.isr, before, now)
            )
        self._alone[place] = state, life, now

    def look(self) -> list[ReplicaSeen]:
        """Every replica of every broker that runs."""
        return [
            _seen(self._world.now(), host.broker_id, replica)
            for host in self._world.brokers.values()
            for replica in _replicas(host)
        ]

    def state(self, topic: str, partition: int) -> StateSeen | None:
        """The newest state of a partition."""
        return next(
            (
                one
                for one in reversed(self.seen.states)
                if one.topic == topic and one.place.partition == partition
            ),
            None,
        )


def _children(machine: Machine, path: str) -> Iterable[str]:
    node = machine.tree.get(path)
    return () if node is None else node.children


def _replicas(host: BrokerHost) -> list[Replica]:
    return [] if host.broker is None else list(host.broker.parts.partitions)


def _place(replica: Replica) -> Place:
    return Place(replica.topic_id.bytes, replica.log.topic_partition.partition)


def _seen(at: float, broker: int, replica: Replica) -> ReplicaSeen:
    log = replica.log
    batches = tuple(
        BatchSeen(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header.size_bytes,
            header.crc,
        )
        for segment in log.segments
        for _position, header, _data in segment.scan()
    )
    return ReplicaSeen(
        at,
        broker,
        log.topic_partition.topic,
        _place(replica),
        None if replica.leader is None else replica.leader.leader_epoch,
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        batches,
        tuple(log.producers.entries()),
    )


class AtRest:
    """The cluster seen as an actor: in the end everything is led, in sync, and done."""

    name = "the cluster"

    def __init__(self, world: World, partitions: Iterable[TopicPartition]) -> None:
        self._world = world
        self._partitions = list(partitions)

    async def run(self, runtime: object) -> None:
        """It has no process."""

    def finish(self) -> None:
        """It has no work of its own."""

    def owes(self) -> str | None:
        return self.owes_besides(equal_logs=True)

    def owes_besides(self, *, equal_logs: bool) -> str | None:
        """The same; logs that are still written to need not be equal."""
        zookeeper = self._world.zookeeper
        if zookeeper is None:
            return "a ZooKeeper"
        machine = zookeeper.machine
        owed = [
            *(f"a broker {one}" for one in self._missing(machine)),
            *(f"the end of {path}" for path in _pending(machine)),
        ]
        for one in self._partitions:
            owed += self._owed_of(machine, one, equal_logs=equal_logs)
        return ", ".join(owed) or None

    def _missing(self, machine: Machine) -> list[int]:
        registered = _children(machine, paths.BROKER_IDS)
        return [
            host.broker_id for host in self._world.brokers.values() if str(host.broker_id) not in registered
        ]

    def _owed_of(self, machine: Machine, one: TopicPartition, *, equal_logs: bool) -> list[str]:
        topic, node = machine.tree.get(paths.topic(one.topic)), machine.tree.get(paths.state(*one))
        if topic is None or node is None:
            return [f"a state of {one}"]
        assignment = documents.decode_topic(one.topic, topic.data)
        state = documents.decode_state(*one, node.data)
        replicas = assignment.replicas[one.partition]
        if one.partition in assignment.adding or one.partition in assignment.removing:
            return [f"the exchange of replicas of {one}"]
        if state.leader not in replicas or set(state.isr) != set(replicas):
            return [f"{one} all in sync, not {list(state.isr)} of {list(replicas)} led by {state.leader}"]
        return self._unfinished(one, replicas, state, equal_logs=equal_logs)

    def _unfinished(
        self, one: TopicPartition, replicas: tuple[int, ...], state: StateNode, *, equal_logs: bool
    ) -> list[str]:
        """The members know what ZooKeeper holds, and nothing is pending there."""
        logs: list[tuple[int, int]] = []
        for host in self._world.brokers.values():
            for replica in _replicas(host):
                if replica.log.topic_partition != one or host.broker_id not in replicas:
                    continue
                logs.append((replica.log.log_end_offset, replica.log.high_watermark))
                led = replica.leader
                if (led is not None) != (host.broker_id == state.leader):
                    return [f"the right role of {one} on broker {host.broker_id}"]
                if led is not None and (
                    led.leader_epoch != state.leader_epoch or led.leading.proposal is not None
                ):
                    return [f"peace of the leader of {one}"]
        if len(logs) != len(replicas):
            return [f"{len(replicas)} logs of {one}, not {len(logs)}"]
        if equal_logs and len({offset for pair in logs for offset in pair}) != 1:
            return [f"equal ends and high watermarks of {one}, not {logs}"]
        return []


def _pending(machine: Machine) -> list[str]:
    found = [f"{paths.DELETE_TOPICS}/{one}" for one in sorted(_children(machine, paths.DELETE_TOPICS))]
    asked = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION)
    return [*found, *(path for path in asked if machine.tree.get(path) is not None)]
