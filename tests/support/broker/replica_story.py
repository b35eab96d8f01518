"""A story of replicas from one seed: three brokers, two partitions, a controller, clients, and everything that happens to them.

Brokers are the nodes of `replication_kit`. The controller is a model of Kafka's rules for ISR and elections; its orders come late and
in any order. Clients write through the leaders' logs: plain records, idempotent producers that repeat what has no answer, transactions.
Meanwhile logs are retained, deleted from, checkpointed and synced; brokers are killed, frozen, cut off and lose power.

After every step each log is looked at (`_look`). At the end all is healed, and `_judge` compares the replicas.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from semel.broker.replicas.led_partition import LedPartition
from semel.broker.replicas.replica import Replica
from semel.core.idempotence.producer_window import Duplicate
from semel.core.metadata.brokers import Endpoint, RegisteredBroker
from semel.core.records.batch import BatchHeader
from semel.core.records.codecs import Compression
from semel.core.replication.epochs import EpochStart
from semel.core.replication.leading import Granted, Proposal
from semel.errors import ErrorCode, LogError, Refuse
from semel.log.config import LogConfig
from semel.log.partition_log import Appended, PartitionLog
from semel.log.retiring import Retirement
from semel.log.txn_index import AbortedTxn
from semel.runtime.memory_network import Link
from support.broker.replication_kit import LISTENER, PORT, Node, Orders, World
from support.log.log_kit import batch_of, content

PARTITIONS: Final = 2
LAG_MS: Final = 3000
CODECS: Final = (
    Compression.NONE,
    Compression.GZIP,
    Compression.SNAPPY,
    Compression.LZ4,
    Compression.ZSTD,
)
SLOW: Final = Link(latency_seconds=(0.02, 0.4), stall_probability=0.02, stall_seconds=(0.2, 3.0))
FAST: Final = Link()


@dataclass
class Controlled:
    """A partition, as the controller has written it."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    partition_epoch: int = 0


@dataclass
class Client:
    """A producer of one partition, idempotent, with one batch at a time that has no answer."""

    producer_id: int
    is_transactional: bool
    epoch: int = 0
    sequence: int = 0
    waits: bytearray | None = None
    """The batch without an answer."""
    waits_until: int = 0
    """Its end, once a leader has taken it."""
    is_open: bool = False
    marker: bool | None = None
    """The outcome that is not written everywhere yet."""
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """Epoch and first sequence of each batch that was."""


class Kept(NamedTuple):
    """A batch that a leader has shown."""

    last_offset: int
    leader_epoch: int
    crc: int


class Shape(NamedTuple):
    """The kind of a story."""

    power: bool
    """Brokers lose power, not only their process."""
    flush: bool
    """Everything is on disk before it counts."""

    @property
    def is_lossy(self) -> bool:
        return self.power and not self.flush


class Story:
    """One story; `run` plays it."""

    def __init__(self, seed: int, shape: Shape, *, steps: int = 150) -> None:
        self.dice = random.Random(seed)
        self.seed = seed
        self.shape = shape
        self.steps = steps
        dice = self.dice
        config = LogConfig(
            segment_bytes=dice.choice((1500, 6000)),
            index_interval_bytes=200,
            retention_bytes=dice.choice((-1, 4000, 12_000)),
            flush_messages=1 if shape.flush else (1 << 63) - 1,
        )
        settings: dict[str, str | int | bool] = {
            "num.replica.fetchers": dice.choice((1, 2)),
            "replica.fetch.max.bytes": dice.choice((1, 700, 1 << 20)),
            "replica.fetch.response.max.bytes": dice.choice((1, 2000, 10 << 20)),
        }
        self.world = World(3, seed=seed, partitions=PARTITIONS, config=config, settings=settings)
        ids = self.world.ids
        self.states = [Controlled(dice.choice(ids), ids) for _ in range(PARTITIONS)]
        self.clients = [
            [
                Client(100 * index + number, is_transactional=number % 2 == 1)
                for number in range(dice.choice((1, 2, 4)))
            ]
            for index in range(PARTITIONS)
        ]
        self.shown: list[dict[int, Kept]] = [{} for _ in range(PARTITIONS)]
        """By base offset, what was visible at any leader."""
        self.scanned: dict[tuple[int, int, int], int] = {}
        self.high: dict[int, tuple[PartitionLog, int, int]] = {}
        self.deaths: dict[int, int] = {}
        self.is_calm = False
        self.sync_delay = dice.choice(((0.0, 0.0), (0.001, 0.05), (0.05, 0.5)))
        self.counts = dict.fromkeys(("appended", "cuts", "elections", "deaths", "acknowledged"), 0)

    def run(self) -> None:
        self.world.run(self._play)

    # The controller

    def _orders(self, index: int) -> Orders:
        state = self.states[index]
        return Orders(state.leader, state.leader_epoch, state.partition_epoch, state.isr, self.world.ids)

    def _later(self, seconds: float, function: Callable[..., object], *args: object) -> None:
        asyncio.get_running_loop().call_later(seconds, function, *args)

    def _announce(self, index: int) -> None:
        orders = self._orders(index)
        for node in self._alive():
            longest = self.dice.choice((0.01, 0.3, 3.0))
            delay = 0.0 if self.is_calm else self.dice.uniform(0, longest)
            self._later(delay, self._deliver, node, orders, index)

    def _deliver(self, node: Node, orders: Orders, index: int) -> None:
        if self._is_alive(node):
            before = [one.truncations for one in node.logs]
            node.obey(orders, index)
            assert before == [one.truncations for one in node.logs], "an order itself cuts nothing"

    def _alive(self) -> list[Node]:
        return [node for node in self.world.nodes.values() if self._is_alive(node)]

    def _is_alive(self, node: Node) -> bool:
        world = self.world
        return (
            world.nodes[node.node_id] is node
            and world.simulation.host(world.name(node.node_id)).is_alive
            and bool(node.replicas)
        )

    def elect(self, index: int) -> None:
        state = self.states[index]
        candidates = [node.node_id for node in self._alive() if node.node_id in state.isr]
        if candidates:
            state.leader = self.dice.choice(candidates)
            state.leader_epoch += 1
            state.partition_epoch += 1
            self.counts["elections"] += 1
            self._announce(index)

    def _propose(self, node: Node, partition: LedPartition, proposal: Proposal) -> None:
        """AlterPartition: it is on its way for a while, and so is its answer."""
        index = partition.log.topic_partition.partition

        def decide() -> None:
            answer = self._alter(node.node_id, index, proposal)
            if self.dice.random() < 0.1:
                answer = ErrorCode.NETWORK_EXCEPTION  # It was lost.
            self._later(self._delay(), tell, answer)

        def tell(answer: Granted | ErrorCode) -> None:
            if self._is_alive(node) and node.replicas[index].leader is partition:
                node.within(partition.altered, proposal, answer)

        self._later(self._delay(), decide)

    def _delay(self) -> float:
        return 0.001 if self.is_calm else self.dice.uniform(0, self.dice.choice((0.01, 1.0)))

    def _alter(self, node_id: int, index: int, proposal: Proposal) -> Granted | ErrorCode:
        state = self.states[index]
        if node_id != state.leader or proposal.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.isr == state.isr:
            return Granted(state.isr, state.leader_epoch, state.partition_epoch)
        if proposal.partition_epoch < state.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        alive = {node.node_id: node for node in self._alive()}
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if member not in alive or epoch not in (-1, alive[member].broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        state.isr = tuple(sorted(proposal.isr))
        state.partition_epoch += 1
        return Granted(state.isr, state.leader_epoch, state.partition_epoch)

    # Brokers

    async def _start(self, node_id: int) -> None:
        world = self.world
        node = world[node_id]
        node.lag_max_ms = LAG_MS
        node.on_proposal = partial(self._propose, node)
        world.simulation.host(world.name(node_id)).disk.sync_delay_seconds = (0.0, 0.0)
        await world.start(node_id)
        world.simulation.host(world.name(node_id)).disk.sync_delay_seconds = self.sync_delay
        born = RegisteredBroker(
            node_id, {LISTENER.name: Endpoint(world.name(node_id), PORT)}, epoch=node.broker_epoch
        )
        for other in self._alive():
            other.brokers.update({one.node_id: self._registered(one) for one in self._alive()})
            other.brokers[node_id] = born
            other.within(other.fetchers.brokers_changed)
        for index, state in enumerate(self.states):
            if state.leader < 0 and node_id in state.isr:
                state.leader = node_id
            state.leader_epoch += 1
            state.partition_epoch += 1
            self._announce(index)

    def _registered(self, node: Node) -> RegisteredBroker:
        name = self.world.name(node.node_id)
        return RegisteredBroker(node.node_id, {LISTENER.name: Endpoint(name, PORT)}, epoch=node.broker_epoch)

    async def _end(self, node_id: int) -> None:
        cut_power = self.shape.power and self.dice.random() < 0.6
        if self.dice.random() < 0.2:
            node = self.world[node_id]
            await asyncio.wait(
                [node.within(node.runtime.tasks.spawn, self._stop(node), name="stop")], timeout=5
            )
        self.world.end(node_id, cut_power=cut_power)
        self.counts["deaths"] += 1
        self.deaths[node_id] = self.world[node_id].broker_epoch
        self._later(self.dice.uniform(0.1, 2.0), self._bury, node_id, self.world[node_id].broker_epoch)

    @staticmethod
    async def _stop(node: Node) -> None:
        """In good order, as far as a replica knows of it."""
        for replica in node.replicas:
            replica.unlead(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        await node.fetchers.close()
        await node.runtime.tasks.drain()
        node.directory.close(node.runtime.clock.now_ms())

    def _bury(self, node_id: int, broker_epoch: int) -> None:
        """The controller learns of a death: another leader, and a smaller ISR."""
        if self.deaths.get(node_id) != broker_epoch:
            return
        del self.deaths[node_id]
        for node in self._alive():
            node.brokers.pop(node_id, None)
            node.within(node.fetchers.brokers_changed)
        for index, state in enumerate(self.states):
            state.isr = tuple(one for one in state.isr if one != node_id) or state.isr
            if state.leader == node_id:
                alive = [node.node_id for node in self._alive() if node.node_id in state.isr]
                state.leader = self.dice.choice(alive) if alive else -1
            state.leader_epoch += 1
            state.partition_epoch += 1
            self._announce(index)

    async def _restart(self, node_id: int) -> None:
        if node_id in self.deaths:  # A death nobody noticed is played before the birth.
            self._bury(node_id, self.deaths[node_id])
        await self._start(node_id)

    # Clients

    def _leader(self, index: int) -> LedPartition | None:
        """Who leads, or somebody who still believes to."""
        leading = [node.replicas[index] for node in self._alive() if node.replicas[index].leader is not None]
        if not leading:
            return None
        latest = max(leading, key=lambda one: one.leader.leader_epoch if one.leader else -1)
        return (latest if self.dice.random() < 0.85 else self.dice.choice(leading)).leader

    def _node_of(self, partition: LedPartition) -> Node:
        index = partition.log.topic_partition.partition
        return next(node for node in self._alive() if node.replicas[index].leader is partition)

    def append_plain(self, index: int) -> None:
        leader = self._leader(index)
        if leader is None:
            return
        values = [
            self.dice.randbytes(self.dice.choice((3, 40, 200))) for _ in range(self.dice.choice((1, 3)))
        ]
        data = batch_of(*values, compression=self.dice.choice(CODECS))
        node = self._node_of(leader)
        result = node.within(leader.append, data, acks=1)
        self.counts["appended"] += isinstance(result, Appended)

    def append_idempotent(self, index: int) -> None:
        """A producer repeats its batch until it is acknowledged, then comes the next one."""
        leader = self._leader(index)
        client = self.dice.choice(self.clients[index])
        if leader is None or client.marker is not None:
            return
        self._heard(client, leader)
        if client.waits is None:
            count = self.dice.choice((1, 2))
            client.waits = batch_of(
                *[self.dice.randbytes(20) for _ in range(count)],
                producer_id=client.producer_id,
                epoch=client.epoch,
                sequence=client.sequence,
                transactional=client.is_transactional,
                compression=self.dice.choice(CODECS),
            )
            client.sequence += count
            client.waits_until = 0
        node = self._node_of(leader)
        result = node.within(leader.append, bytearray(client.waits), acks=1)
        if isinstance(result, Appended | Duplicate):
            client.waits_until = result.last_offset + 1
            client.is_open = client.is_transactional
            self._heard(client, leader)
            return
        assert isinstance(result, Refuse)
        if result.code in (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR):
            return
        # An old leader may not have what the producer has had acknowledged since.
        is_current = leader.leader_epoch == self.states[index].leader_epoch
        assert self.shape.is_lossy or not is_current, f"seed {self.seed}: {result}"
        if is_current:
            self._begin_anew(client)

    def _begin_anew(self, client: Client) -> None:
        """What was acknowledged is lost: another epoch of the producer."""
        client.epoch += 1
        client.sequence = 0
        client.waits = None
        client.acknowledged.clear()

    def _heard(self, client: Client, leader: LedPartition) -> None:
        """Whether its batch was acknowledged meanwhile: it is visible at the leader in office."""
        index = leader.log.topic_partition.partition
        if (
            client.waits is not None
            and 0 < client.waits_until <= leader.log.high_watermark
            and leader.leader_epoch == self.states[index].leader_epoch
            and self._holds(client, leader.log)
        ):
            sequence = int.from_bytes(client.waits[53:57], "big")
            client.acknowledged.append((client.epoch, sequence))
            client.waits = None
            self.counts["acknowledged"] += 1

    @staticmethod
    def _holds(client: Client, log: PartitionLog) -> bool:
        """The batch it has sent is in this leader's log where it is said to be, else it would be told so."""
        assert client.waits is not None
        window = log.producers.producers.get(client.producer_id)
        if window is None:
            return False
        entry = window.entry(client.producer_id)
        return entry.producer_epoch == client.epoch and entry.last_offset == client.waits_until - 1

    def end_transaction(self, index: int) -> None:
        leader = self._leader(index)
        client = self.dice.choice(self.clients[index])
        if (
            leader is None
            or not client.is_transactional
            or leader.leader_epoch < self.states[index].leader_epoch
        ):
            return
        self._heard(client, leader)
        if client.waits is not None:
            return
        if client.marker is None:
            if not client.is_open:
                return
            client.marker = self.dice.random() < 0.5
        node = self._node_of(leader)
        result = node.within(
            leader.append_marker,
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            coordinator_epoch=0,
            commit=client.marker,
        )
        if isinstance(result, Appended) and self.dice.random() < 0.7:
            client.marker, client.is_open = None, False

    # Logs

    async def _retain(self, node: Node, log: PartitionLog) -> None:
        """As the broker's housekeeping does."""
        runtime = node.runtime
        retirement = Retirement.plan(log, runtime.files, runtime.clock.now_ms())
        if retirement is None:
            return
        await runtime.tasks.in_thread(retirement.sync_snapshot, order=log.directory)
        retirement.name_snapshot()
        await runtime.tasks.in_thread(retirement.sync_names, order=log.directory)
        retirement.drop(runtime.clock.now_ms())
        await runtime.tasks.in_thread(retirement.sync_names, order=log.directory)

    async def _delete_records(self, node: Node, replica: Replica) -> None:
        """As DeleteRecords does."""
        log, directory = replica.log, node.directory
        offset = self.dice.randint(log.log_start_offset, log.high_watermark)
        if offset <= log.log_start_offset:
            return
        with contextlib.suppress(LogError):
            await replica.commits.durable(offset)
            if replica.leader is None:
                return
            write = directory.begin_delete_records(log, offset)
            try:
                await node.runtime.tasks.in_thread(write, order=directory.path)
            finally:
                directory.end_delete_records(log, offset)
            log.advance_log_start(offset)

    async def _sync(self, replica: Replica) -> None:
        with contextlib.suppress(LogError):
            await replica.commits.flush()

    async def _look_and_checkpoint(self, node: Node) -> None:
        """What a broker does from time to time."""
        while True:
            await node.runtime.tasks.sleep(LAG_MS / 2000)
            for replica in node.replicas:
                if replica.leader is not None:
                    replica.leader.look()
            await node.checkpoint()
            await node.runtime.tasks.in_thread(node.directory.take_deleted(node.runtime.clock.now_ms()))

    # The story

    async def _play(self, world: World) -> None:
        for node_id in world.ids:
            await self._start(node_id)
        beats = {node_id: self._beat(node_id) for node_id in world.ids}
        for _step in range(self.steps):
            await asyncio.sleep(self.dice.choice((0.0, 0.002, 0.02, 0.5)))
            await self._step(beats)
            self._look()
        await self._calm_down(beats)
        self._judge()

    def _beat(self, node_id: int) -> Node:
        node = self.world[node_id]
        node.within(node.runtime.tasks.spawn, self._look_and_checkpoint(node), name="housekeeping")
        return node

    async def _step(self, beats: dict[int, Node]) -> None:
        dice, world = self.dice, self.world
        index = dice.randrange(PARTITIONS)
        dead = [one for one in world.ids if not world.simulation.host(world.name(one)).is_alive]
        match dice.choices(
            (
                "plain",
                "idempotent",
                "marker",
                "elect",
                "die",
                "born",
                "retain",
                "delete",
                "sync",
                "network",
                "freeze",
                "settings",
            ),
            (30, 40, 12, 6, 1.5, 6, 3, 2, 3, 4, 1, 1),
        )[0]:
            case "plain":
                self.append_plain(index)
            case "idempotent":
                self.append_idempotent(index)
            case "marker":
                self.end_transaction(index)
            case "elect":
                self.elect(index)
            case "die" if len(dead) < 2:
                await self._end(dice.choice([one for one in world.ids if one not in dead]))
            case "born" if dead:
                await self._restart(dead[0])
                beats[dead[0]] = self._beat(dead[0])
            case "retain" | "delete" | "sync" as what if self._alive():
                node = dice.choice(self._alive())
                replica = node.replicas[index]
                if what == "delete" and replica.leader is None:
                    return
                work = {
                    "retain": partial(self._retain, node, replica.log),
                    "delete": partial(self._delete_records, node, replica),
                    "sync": partial(self._sync, replica),
                }[what]
                node.within(node.runtime.tasks.spawn, work(), name=what)
            case "network":
                self._disturb_network()
            case "freeze":
                world.simulation.host(world.name(dice.choice(world.ids))).freeze(dice.uniform(0.1, 4))
            case "settings" if self._alive():
                node = dice.choice(self._alive())
                node.settings = node.settings.with_dynamic(
                    {"num.replica.fetchers": str(dice.choice((1, 2, 3)))}
                )
                node.within(node.fetchers.settings_changed)
            case _:
                pass

    def _disturb_network(self) -> None:
        dice, network = self.dice, self.world.simulation.network
        one, other = (self.world.name(node_id) for node_id in dice.sample(self.world.ids, 2))
        match dice.choice(("slow", "fast", "partition", "heal", "heal", "break")):
            case "slow":
                network.set_link(SLOW, between=(one, other))
            case "fast":
                network.set_link(FAST, between=(one, other))
            case "partition":
                network.partition(one, other, both_ways=dice.random() < 0.5)
            case "heal":
                network.heal()
            case _:
                network.break_connections(one, other)

    # What holds at every moment

    def _look(self) -> None:
        for node in self._alive():
            for replica in node.replicas:
                self._look_at(node, replica)

    def _look_at(self, node: Node, replica: Replica) -> None:
        log = replica.log
        assert log.offline is None, f"seed {self.seed}: broker {node.node_id}: {log.offline}"
        where = f"seed {self.seed}: broker {node.node_id}, {log.topic_partition}"
        assert log.log_start_offset <= log.last_stable_offset <= log.high_watermark <= log.log_end_offset, (
            where
        )
        known = self.high.get(id(log))
        if known is not None and known[0] is log:
            assert log.truncations > known[1] or log.high_watermark >= known[2], (
                f"{where}: the high watermark went back from {known[2]} to {log.high_watermark}"
            )
            self.counts["cuts"] += log.truncations - known[1]
        self.high[id(log)] = log, log.truncations, log.high_watermark
        if replica.leader is None or self.shape.is_lossy:
            return
        index = log.topic_partition.partition
        shown = self.shown[index]
        key = (node.node_id, node.broker_epoch, index)
        scanned = max(self.scanned.get(key, 0), log.log_start_offset)
        if replica.leader.leader_epoch != self.states[index].leader_epoch:
            return
        for header in batches(log, scanned):
            if header.last_offset >= log.high_watermark:
                break
            kept = Kept(header.last_offset, header.partition_leader_epoch, header.crc)
            assert shown.setdefault(header.base_offset, kept) == kept, (
                f"{where}: offset {header.base_offset} was shown as another batch"
            )

    # The end

    async def _calm_down(self, beats: dict[int, Node]) -> None:
        world, network = self.world, self.world.simulation.network
        self.is_calm = True
        network.heal()
        for one in world.ids:
            for other in world.ids:
                if one != other:
                    network.set_link(FAST, between=(world.name(one), world.name(other)))
        for node_id in world.ids:
            if not world.simulation.host(world.name(node_id)).is_alive:
                await self._restart(node_id)
                beats[node_id] = self._beat(node_id)
        await asyncio.sleep(5)  # Orders on their way arrive, and who is frozen wakes.
        for index, state in enumerate(self.states):
            state.leader_epoch += 1
            state.partition_epoch += 1
            self._announce(index)
        await asyncio.sleep(1)
        for index, state in enumerate(self.states):
            leader = world[state.leader].replicas[index].leader
            assert leader is not None, f"seed {self.seed}: nobody leads {index}"
            # Epochs in which nothing was written are known to their leaders only: one more batch ends them.
            result = world[state.leader].within(leader.append, batch_of(b"last"), acks=1)
            assert isinstance(result, Appended), result
        try:
            await world.until(self._is_at_rest, 300)
        except TimeoutError:
            raise AssertionError(f"seed {self.seed}: no rest: {self._story()}") from None
        self._look()

    def _is_at_rest(self) -> bool:
        for index, state in enumerate(self.states):
            logs = [node.logs[index] for node in self._alive()]
            leader = self.world[state.leader].logs[index]
            if len(state.isr) < len(self.world.ids) or any(
                (log.log_end_offset, log.high_watermark) != (leader.log_end_offset, leader.log_end_offset)
                or log.log_start_offset < leader.log_start_offset
                for log in logs
            ):
                return False
        return True

    def _story(self) -> str:
        rows = [
            f"{node.node_id}/{index}: {log.log_start_offset}..{log.high_watermark}..{log.log_end_offset}"
            f" {log.leader_epochs.entries} leads={node.replicas[index].leader is not None}"
            for node in self._alive()
            for index, log in enumerate(node.logs)
        ]
        return f"{self.states} {rows} {self.counts}"

    def _judge(self) -> None:
        for index, state in enumerate(self.states):
            logs = [self.world[node_id].logs[index] for node_id in self.world.ids]
            leader = self.world[state.leader].logs[index]
            start = max(log.log_start_offset for log in logs)
            for node_id, log in zip(self.world.ids, logs, strict=True):
                where = f"seed {self.seed}: partition {index}, broker {node_id} beside {state.leader} from {start} on"
                assert_alike(log, leader, start, where)
            self._judge_batches(index, leader)

    def _judge_batches(self, index: int, leader: PartitionLog) -> None:
        """What was shown is there, and what was acknowledged is there once."""
        found = {header.base_offset: header for header in batches(leader, leader.log_start_offset)}
        if not self.shape.is_lossy:
            for base_offset, kept in self.shown[index].items():
                if kept.last_offset < leader.log_start_offset:
                    continue
                header = found.get(base_offset)
                assert header is not None, f"seed {self.seed}: {kept} at {base_offset} of {index} is lost"
                assert Kept(header.last_offset, header.partition_leader_epoch, header.crc) == kept
        stored = [
            (header.producer_id, header.producer_epoch, header.base_sequence)
            for header in found.values()
            if header.base_sequence >= 0
        ]
        assert len(stored) == len(set(stored)), f"seed {self.seed}: a batch is stored twice in {index}"
        if leader.log_start_offset or self.shape.is_lossy:
            return  # The beginning is deleted, and acknowledged batches with it.
        for client in self.clients[index]:
            for epoch, sequence in client.acknowledged:
                assert (client.producer_id, epoch, sequence) in set(stored), (
                    f"seed {self.seed}: acknowledged to {client.producer_id} and lost: {sequence}"
                )


def batches(log: PartitionLog, start: int) -> Iterator[BatchHeader]:
    """The headers of a log's batches, from the one on that holds `start`."""
    for segment in log.segments[log.segment_index(start) :]:
        for _position, header in segment.walk(segment.offset_index.position_before(start)):
            if header.last_offset >= start:
                yield header


def assert_alike(log: PartitionLog, leader: PartitionLog, start: int, where: str) -> None:
    """Two logs are the same from `start` on: bytes, epochs, producers, transactions.

    A replica that began at `start` does not know what was before: where a transaction began that was open there, and the epoch of the
    coordinator that ended one.
    """
    both = (log, leader)
    older = {
        producer_id for one in both for first, producer_id in one.producers.open_transactions if first < start
    }
    ended = {entry.last_offset for one in both for entry in aborted(one) if entry.first_offset < start}
    for what, of in (
        ("batches", lambda one: [*batches(one, start)]),
        ("leader epochs", lambda one: epochs_from(one, start)),
        ("producers", lambda one: producers_from(one, start)),
        ("coordinators", lambda one: coordinators(one) if start == 0 else None),
        (
            "aborted transactions",
            lambda one: [
                entry[:3]
                for entry in aborted(one)
                if entry.last_offset >= start and entry.last_offset not in ended
            ],
        ),
        (
            "open transactions",
            lambda one: [pair for pair in one.producers.open_transactions if pair[1] not in older],
        ),
    ):
        mine, theirs = of(log), of(leader)
        assert mine == theirs, f"{where}: {what}: {mine}; the leader's: {theirs}"
    if log.log_start_offset == leader.log_start_offset:
        assert content(log) == content(leader), f"{where}: bytes"
    stable = {
        entry[:3]: entry.last_stable_offset for entry in aborted(leader) if entry.last_stable_offset >= start
    }
    for entry in aborted(log):
        if entry.last_stable_offset < start:
            continue
        assert stable.get(entry[:3], entry.last_stable_offset) == entry.last_stable_offset, (
            f"{where}: {entry}"
        )


def epochs_from(log: PartitionLog, start: int) -> list[EpochStart]:
    """The entries, as a log that begins at `start` has them."""
    entries = log.leader_epochs.entries
    here = [EpochStart(log.leader_epochs.epoch_for(start), start)] if entries else []
    return here + [entry for entry in entries if entry.start_offset > start]


def producers_from(log: PartitionLog, start: int) -> dict[int, tuple[object, ...]]:
    """Producers whose last batch is there. A replica that began at `start` knows of no other."""
    return {
        entry.producer_id: (
            entry.producer_epoch,
            entry.last_timestamp_ms,
            entry.batches[-1],  # A snapshot has no more of them, as Kafka's.
            entry.current_txn_first_offset is not None,
        )
        for entry in log.producers.entries()
        if entry.last_offset >= start
    }


def coordinators(log: PartitionLog) -> dict[int, int]:
    """By producer, the epoch of the coordinator that ended its last transaction."""
    return {entry.producer_id: entry.coordinator_epoch for entry in log.producers.entries()}


def aborted(log: PartitionLog) -> list[AbortedTxn]:
    """Every aborted transaction that the log lists."""
    return [entry for segment in log.segments for entry in segment.txn_index.entries]
