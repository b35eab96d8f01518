"""The replicas of a simulated cluster, seen from outside: states at ZooKeeper, roles, logs.

Role.   `Witness` writes down what ZooKeeper held, who led, and what the logs of all members held, at many moments of a run.
        `replication_invariants` judges it, beside the history of the clients.
Flow.   `attach` hears every change of ZooKeeper; `watch` looks at the roles often, and at whole logs now and then, and whenever a
        leader has begun.
Rules.  * A log is looked at between two steps of its broker. Nothing is asked of the broker, and nothing is changed.
        * Everything kept is a plain value.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from semel.broker.replicas.replica import Replica
from semel.core.cluster import documents, paths
from semel.core.idempotence.producer_window import ProducerEntry
from semel.core.zookeeper.machine import Machine
from semel.types import TopicPartition
from semel.verify.history.events import Place
from semel.verify.simulation.world import BrokerHost, World

_ROLES_SECONDS: Final = 0.02
_LOGS_SECONDS: Final = 1.5


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
    leader: str
    committed: bool
    offset: int


@dataclass(slots=True)
class Sightings:
    """Everything that was seen, in order."""

    states: list[StateSeen] = field(default_factory=list)
    led: list[Led] = field(default_factory=list)
    looks: list[ReplicaSeen] = field(default_factory=list)
    ends: list[EndSeen] = field(default_factory=list)
    last: list[ReplicaSeen] = field(default_factory=list)
    """The replicas when all was over."""


class Witness:
    """Looks at one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[tuple[str, int], tuple[int, int]] = {}
        self._leaders: set[tuple[int, Place, int]] = set()
        self.seen: Final = Sightings()

    def attach(self) -> None:
        """Hear of ZooKeeper's changes from now on."""
        if self._world.zookeeper is None:
            raise TypeError("there is no ZooKeeper in this world")
        self._world.zookeeper.on_change = self._changed

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
                self._world.tell(
                    f"ZooKeeper: {name}-{index} is led by {seen.leader} in epoch {seen.leader_epoch}, in sync "
                    f"{list(seen.isr)} of {list(seen.replicas)}, version {seen.partition_epoch}"
                )

    async def watch(self) -> None:
        """Look, for ever."""
        logs_at = 0.0
        while True:
            await asyncio.sleep(_ROLES_SECONDS)
            has_new_leader = self._look_at_roles()
            if has_new_leader or self._world.now() >= logs_at:
                logs_at = self._world.now() + _LOGS_SECONDS
                self.seen.looks += self.look()

    def _look_at_roles(self) -> bool:
        """Whether somebody leads in an epoch that was not seen before."""
        found = False
        for host in self._world.brokers.values():
            for replica in _replicas(host):
                if replica.leader is None:
                    continue
                place = _place(replica)
                key = (host.broker_id, place, replica.leader.leader_epoch)
                if key not in self._leaders:
                    self._leaders.add(key)
                    topic = replica.log.topic_partition.topic
                    self.seen.led.append(Led(self._world.now(), host.broker_id, topic, place, key[2]))
                    found = True
        return found

    def look(self) -> list[ReplicaSeen]:
        """Every replica of every broker that runs."""
        return [
            _seen(self._world.now(), host.broker_id, replica)
            for host in self._world.brokers.values()
            for replica in _replicas(host)
        ]

    def led(self, broker: int, where: TopicPartition, since: float, until: float) -> bool:
        """Whether ZooKeeper named this broker the leader all the time between two moments."""
        known = [one for one in self.seen.states if one.topic == where.topic and one.at <= until]
        known = [one for one in known if one.place.partition == where.partition]
        before = [one for one in known if one.at <= since][-1:]
        return all(one.leader == broker for one in [*before, *(one for one in known if one.at > since)])

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
        zookeeper = self._world.zookeeper
        if zookeeper is None:
            return "a ZooKeeper"
        machine = zookeeper.machine
        owed = [
            *(f"a broker {one}" for one in self._missing(machine)),
            *(f"the end of {path}" for path in _pending(machine)),
        ]
        for one in self._partitions:
            owed += self._owed_of(machine, one)
        return ", ".join(owed) or None

    def _missing(self, machine: Machine) -> list[int]:
        registered = _children(machine, paths.BROKER_IDS)
        return [
            host.broker_id for host in self._world.brokers.values() if str(host.broker_id) not in registered
        ]

    def _owed_of(self, machine: Machine, one: TopicPartition) -> list[str]:
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
        return self._unfinished(one, replicas, state.leader, state.leader_epoch)

    def _unfinished(
        self, one: TopicPartition, replicas: tuple[int, ...], leader: int, leader_epoch: int
    ) -> list[str]:
        """The members know what ZooKeeper holds, and nothing is pending there."""
        logs: list[tuple[int, int]] = []
        for host in self._world.brokers.values():
            for replica in _replicas(host):
                if replica.log.topic_partition != one or host.broker_id not in replicas:
                    continue
                logs.append((replica.log.log_end_offset, replica.log.high_watermark))
                led = replica.leader
                if (led is not None) != (host.broker_id == leader):
                    return [f"the right role of {one} on broker {host.broker_id}"]
                if led is not None and (led.leader_epoch != leader_epoch or led.leading.proposal is not None):
                    return [f"peace of the leader of {one}"]
        if len(logs) != len(replicas):
            return [f"{len(replicas)} logs of {one}, not {len(logs)}"]
        if len({offset for pair in logs for offset in pair}) != 1:
            return [f"equal ends and high watermarks of {one}, not {logs}"]
        return []


def _pending(machine: Machine) -> list[str]:
    found = [f"{paths.DELETE_TOPICS}/{one}" for one in sorted(_children(machine, paths.DELETE_TOPICS))]
    asked = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_REPLICA_ELECTION)
    return [*found, *(path for path in asked if machine.tree.get(path) is not None)]
