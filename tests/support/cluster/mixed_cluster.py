"""A cluster of Apache Kafka and Semel under one real ZooKeeper, and what a test waits for in it.

Role.   `mixed_cluster` starts it. A test kills, stops, freezes and starts its members, and waits for what the znodes say:
        they are where Kafka's controller decides.
Rules.  * The kind that directs starts first, and its first broker is the controller. Kafka's brokers always stand for election,
          Semel's where their kind directs.
        * All znodes are below a chroot, as in production.
        * Topics of coordinators have their replicas on Kafka's brokers only. They exist before the first client asks.
        * Waiting has a generous bound, and a failure tells what the brokers wrote last.
"""

import contextlib
import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from semel.errors import ErrorCode
from semel.peers.kafka import KafkaHome
from semel.peers.zookeeper import ZooKeeperProcess
from semel.spark.java import find_java
from support.cluster import raw_connection
from support.cluster.members import KafkaMember, Member, SemelMember
from support.cluster.raw_connection import RefusedError

KAFKA, SEMEL = "kafka", "semel"
CHROOT: Final = "/of/clusters/mixed"
PATIENCE_SECONDS: Final = 150.0
SESSION_MS: Final = 6_000
LAG_MS: Final = 10_000
_TICK_MS: Final = 500
INTERNAL_TOPICS: Final = ("__consumer_offsets", "__transaction_state")
_INTERNAL_PARTITIONS: Final = 3
_SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": str(LAG_MS),
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": str(_INTERNAL_PARTITIONS),
    "transaction.state.log.num.partitions": str(_INTERNAL_PARTITIONS),
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "1000",
    # The last broker that stops has nobody to hand its partitions to, and asks three times.
    "controlled.shutdown.retry.backoff.ms": "500",
}
_KINDS: Final = {"k": KAFKA, "s": SEMEL}


def kinds_of(name: str) -> tuple[str, ...]:
    """`kks` is two brokers of Apache Kafka and one of Semel."""
    return tuple(_KINDS[letter] for letter in name)


class State(NamedTuple):
    """What ZooKeeper says of a partition."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


class MixedCluster:
    """Members by their id, from 1 on."""

    def __init__(
        self,
        home: KafkaHome,
        directory: Path,
        kinds: Sequence[str],
        *,
        settings: Mapping[str, str] | None = None,
        directs: str = KAFKA,
    ) -> None:
        """`directs`: the kind of the first controller."""
        self.kinds = tuple(kinds)
        self._order = (directs, SEMEL if directs == KAFKA else KAFKA)
        self._stands = {"semel.controller.eligible": str(directs == SEMEL).lower()}
        self.directory = directory
        self.zookeeper = ZooKeeperProcess(
            find_java().executable, directory / "zookeeper", settings={"tickTime": str(_TICK_MS)}
        )
        self.members: dict[int, Member] = {}
        self._home = home
        self._settings = {**_SETTINGS, **(settings or {})}
        self._znodes: KazooClient | None = None

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self.members)

    @property
    def bootstrap(self) -> str:
        return ",".join(one.address for one in self.members.values())

    @property
    def connect(self) -> str:
        """For `--zookeeper`."""
        return self.zookeeper.connect + CHROOT

    @property
    def znodes(self) -> KazooClient:
        assert self._znodes is not None
        return self._znodes

    def of_kind(self, kind: str) -> list[int]:
        return [number for number, one in self.members.items() if one.kind == kind]

    def ids_with(self, last: str, *others: str) -> list[int]:
        """All ids, so that the first members are of the kinds wanted, in their order."""
        left = list(self.ids)
        chosen = []
        for kind in (last, *others):
            found = next(one for one in left if self.members[one].kind == kind)
            left.remove(found)
            chosen.append(found)
        return chosen + left

    # Beginning and end

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _start(self) -> None:
        self.zookeeper.start()
        for number, kind in enumerate(self.kinds, 1):
            where = self.directory / f"{kind}-{number}"
            self.members[number] = (
                KafkaMember(self._home, number, where, self.connect, self._settings)
                if kind == KAFKA
                else SemelMember(number, where, self.connect, {**self._settings, **self._stands})
            )
        # One JVM after the other comes up faster than several at once on few cores, but the first makes the chroot.
        for kind in self._order:
            several = [self.members[number] for number in self.of_kind(kind)]
            if kind == self._order[0] and several:
                several.pop(0).start()
            for one in several:
                one.begin()
            for one in several:
                one.wait_ready()
        self._znodes = KazooClient(self.connect, timeout=30)
        self._znodes.start(timeout=60)
        self.wait(lambda: set(self.registered()) == set(self.ids), "all brokers are registered")
        self.wait_all_known()
        on_kafka = self.of_kind(KAFKA) or list(self.members)
        for topic in INTERNAL_TOPICS:
            rows = [on_kafka[at:] + on_kafka[:at] for at in range(len(on_kafka))]
            self.create(
                topic,
                [rows[at % len(rows)] for at in range(_INTERNAL_PARTITIONS)],
                {"cleanup.policy": "compact", "segment.bytes": "104857600", "min.insync.replicas": "1"},
            )

    def close(self) -> None:
        """Everything is killed: who wants a clean end stops the members before."""
        if self._znodes is not None:
            self._znodes.stop()
            self._znodes.close()
            self._znodes = None
        for one in self.members.values():
            one.kill()
        self.zookeeper.kill()

    def stop_all(self) -> None:
        """Clean ends, one broker after the other; Kafka's last, for it directs the others. Logs and snapshots are whole then."""
        for kind in (SEMEL, KAFKA):
            for number in self.of_kind(kind):
                if self.members[number].is_running:
                    self.members[number].stop()

    @contextlib.contextmanager
    def resting(self) -> Iterator[None]:
        """Semel's brokers have come to a clean end meanwhile."""
        members = [self.members[number] for number in self.of_kind(SEMEL)]
        for one in members:
            one.ask_to_stop()
        for one in members:
            one.wait_ended()
        try:
            yield
        finally:
            self.heal()

    def heal(self) -> None:
        """Whoever is frozen goes on, whoever is dead comes back, Kafka's brokers first; all are registered."""
        for one in self.members.values():
            one.thaw()
        for kind in (KAFKA, SEMEL):
            dead = [one for one in self.members.values() if one.kind == kind and not one.is_running]
            for one in dead:
                one.begin()
            for one in dead:
                one.wait_ready()
        self.wait(lambda: set(self.registered()) == set(self.ids), "all brokers are registered")
        self.wait_all_known()

    # What the znodes say

    def read(self, path: str) -> tuple[Any, int] | None:
        """A document and its version; None where there is no node."""
        try:
            data, stat = self.znodes.get(path)
        except NoNodeError:
            return None
        return (json.loads(data) if data else None), stat.version

    def registered(self) -> list[int]:
        return sorted(map(int, self.znodes.get_children("/brokers/ids")))

    def controller(self) -> int | None:
        found = self.read("/controller")
        return None if found is None else found[0]["brokerid"]

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each partition. Raises `KeyError` where there is no such topic."""
        found = self.read(f"/brokers/topics/{topic}")
        if found is None:
            raise KeyError(topic)
        return {int(number): replicas for number, replicas in sorted(found[0]["partitions"].items())}

    def topic_id(self, topic: str) -> str:
        found = self.read(f"/brokers/topics/{topic}")
        assert found is not None
        return str(found[0]["topic_id"])

    def state(self, topic: str, partition: int = 0) -> State:
        found = self.read(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if found is None:
            return State(-1, -1, (), -1)
        told, version = found
        return State(told["leader"], told["leader_epoch"], tuple(told["isr"]), version)

    def states(self, topic: str) -> dict[int, State]:
        return {partition: self.state(topic, partition) for partition in self.assignment(topic)}

    def exists(self, topic: str) -> bool:
        return self.read(f"/brokers/topics/{topic}") is not None

    # What is waited for

    def wait(
        self,
        condition: Callable[[], bool],
        what: str,
        *,
        seconds: float = PATIENCE_SECONDS,
        every: float = 0.03,
    ) -> float:
        """Until it is so; how long it took. Fails with what the brokers wrote last."""
        begun = time.monotonic()
        while not condition():
            if time.monotonic() - begun > seconds:
                raise AssertionError(f"never happened in {seconds:.0f} s: {what}\n{self.tails()}")
            time.sleep(every)
        return time.monotonic() - begun

    def wait_in_sync(self, *topics: str, among: Collection[int] | None = None) -> None:
        """Every replica is in sync; with `among`, those of these brokers."""

        def so() -> bool:
            for topic in topics:
                for partition, replicas in self.assignment(topic).items():
                    state = self.state(topic, partition)
                    wanted = set(replicas) if among is None else set(replicas) & set(among)
                    if not wanted <= set(state.isr) or state.leader not in state.isr:
                        return False
            return True

        self.wait(so, f"all replicas of {', '.join(topics)} are in sync")

    def wait_leader(self, topic: str, broker: int, partition: int = 0) -> None:
        self.wait(
            lambda: self.state(topic, partition).leader == broker, f"{broker} leads {topic}-{partition}"
        )

    def wait_led_elsewhere(self, topic: str, broker: int, partition: int = 0) -> int:
        """Somebody else leads: who."""
        self.wait(
            lambda: self.state(topic, partition).leader not in (broker, -1),
            f"{topic}-{partition} is led by another than {broker}",
        )
        return self.state(topic, partition).leader

    def wait_out_of_sync(self, topic: str, broker: int) -> None:
        """The broker is in no ISR of the topic, and leads nothing of it."""
        self.wait(
            lambda: all(broker not in (*state.isr, state.leader) for state in self.states(topic).values()),
            f"{broker} is out of sync in {topic}",
        )

    def wait_absent(self, topic: str, *brokers: int, partitions: int) -> None:
        """No replica is left on the disks of these brokers."""
        left = [self.log_of(broker, topic, number) for broker in brokers for number in range(partitions)]
        self.wait(lambda: not any(one.exists() for one in left), f"{topic} is on no disk of {brokers}")

    def wait_registered(self, broker: int) -> None:
        self.wait(lambda: broker in self.registered(), f"{broker} is registered")

    def wait_gone(self, broker: int) -> None:
        self.wait(lambda: broker not in self.registered(), f"{broker} is not registered any more")

    def wait_controller(self) -> int:
        self.wait(lambda: self.controller() is not None, "there is a controller")
        found = self.controller()
        assert found is not None
        return found

    def wait_assigned(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """The partitions have these replicas, in this order, and nothing moves any more."""

        def so() -> bool:
            found = self.read(f"/brokers/topics/{topic}")
            assert found is not None
            moving = found[0]["adding_replicas"] or found[0]["removing_replicas"]
            return not moving and list(self.assignment(topic).values()) == [list(one) for one in replicas]

        self.wait(so, f"{topic} has the replicas {replicas}")

    def wait_replicas(self, topic: str, count: int) -> None:
        """Its first partition has so many, in sync or not."""
        self.wait(lambda: len(self.assignment(topic)[0]) == count, f"{topic} has {count} replicas")

    def wait_deleted(self, topic: str) -> None:
        self.wait(
            lambda: not self.exists(topic) and self.read(f"/admin/delete_topics/{topic}") is None,
            f"{topic} is deleted",
        )

    def wait_all_known(self) -> None:
        """Every running broker tells clients of all that are registered, and of the controller."""

        def so() -> bool:
            wanted = (set(self.registered()), self.controller())
            told = [raw_connection.metadata(one.address) for one in self.members.values() if one.is_running]
            return all((set(one.brokers), one.controller) == wanted for one in told)

        self.wait(so, "all brokers know each other and the controller", every=0.1)

    def wait_known(self, topic: str) -> None:
        """Every running broker tells clients of the topic as ZooKeeper has it: UpdateMetadata has arrived."""
        wanted = {partition: state.leader for partition, state in self.states(topic).items()}

        def so() -> bool:
            told = [
                raw_connection.metadata(one.address, topic) for one in self.members.values() if one.is_running
            ]
            return all(one.leaders.get(topic) == wanted for one in told)

        self.wait(so, f"all brokers know who leads {topic}", every=0.1)

    # What is done

    def create(
        self, topic: str, replicas: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
    ) -> None:
        """A topic with its replicas where they are wanted; every broker knows it, and all are in sync."""
        self.order(lambda address: raw_connection.create_topic(address, topic, replicas, configs or {}))
        self.wait_in_sync(topic)
        self.wait_known(topic)

    def elect_preferred(self, topic: str) -> None:
        """The first replica of each partition leads, and everybody knows."""
        replicas = self.assignment(topic)

        def so() -> bool:
            try:
                self.order(lambda address: raw_connection.elect_preferred(address, topic, list(replicas)))
            except RefusedError as refused:
                if refused.code != ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
                    raise
                return False  # The nodes are ahead of what the controller has in mind.
            return True

        self.wait(so, f"the preferred leaders of {topic} are elected", every=0.5)
        for partition, brokers in replicas.items():
            self.wait_leader(topic, brokers[0], partition)
        self.wait_known(topic)

    def delete(self, topic: str, *, timeout_ms: int = 60_000) -> None:
        """Delete and wait until no node is left of it. Raises `RefusedError` if that takes longer than `timeout_ms`."""
        self.order(lambda address: raw_connection.delete_topic(address, topic, timeout_ms=timeout_ms))
        self.wait_deleted(topic)

    def delete_records(self, topic: str, partition: int, before: int) -> int:
        """DeleteRecords on the leader; the log start it answered."""
        leader = self.members[self.state(topic, partition).leader]
        return raw_connection.delete_records(leader.address, topic, partition, before)

    def order(self, send: Callable[[str], None]) -> None:
        """Ask the controller, whoever it is by then. Raises `RefusedError`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                send(self.members[self.wait_controller()].address)
            except RefusedError as refused:
                if refused.code is not ErrorCode.NOT_CONTROLLER or time.monotonic() > deadline:
                    raise
            else:
                return
            time.sleep(0.1)

    def log_of(self, broker: int, topic: str, partition: int = 0) -> Path:
        """The directory of a replica."""
        return self.members[broker].data / f"{topic}-{partition}"

    def tails(self) -> str:
        """What everybody wrote last."""
        said = []
        for one in self.members.values():
            text = one.log.read_text(errors="replace")[-3000:] if one.log.exists() else ""
            said.append(f"--- {one}, {'runs' if one.is_running else 'ended'}\n{text}")
        return "\n".join(said)


@contextlib.contextmanager
def mixed_cluster(
    home: KafkaHome,
    directory: Path,
    name: str,
    settings: Mapping[str, str] | None = None,
    *,
    directs: str = KAFKA,
) -> Iterator[MixedCluster]:
    """A cluster that runs, by the letters of its brokers' kinds."""
    with MixedCluster(home, directory, kinds_of(name), settings=settings, directs=directs) as running:
        yield running
