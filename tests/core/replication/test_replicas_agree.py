"""Replicas of one partition under any order of appends, fetches, ISR changes, elections and restarts.

Method: brokers with plain lists as logs, a controller with plain sets, and messages between them that arrive in any order,
late, or never. `Leading` and `Following` decide; after every step the lists are compared with what was promised. At the
end everything is delivered, and all replicas must be equal.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

import pytest

from semel.core.replication.epochs import EpochEnd, EpochStart, led_epoch_end
from semel.core.replication.following import Append, Ask, Following, StartAt, Told, Truncate, visible_offset
from semel.core.replication.leading import Altered, Granted, Leading, Proposal
from semel.errors import ErrorCode

LAG_MS: Final = 100
RECORDS_AT_ONCE: Final = 2
WEIGHTS: Final = ((50, 15, 25, 6, 3, 1), (40, 25, 25, 6, 0, 0), (40, 15, 20, 10, 10, 5))
"""How often something is delivered, appended, fetched, goes wrong, another leader is elected, a broker restarts."""
Record = tuple[int, int]
"""Leader epoch, and a number nobody else has."""


class Life(NamedTuple):
    """A broker that is alive."""

    epoch: int


@dataclass(frozen=True)
class Orders:
    """What the controller tells every broker."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]


@dataclass
class Host:
    """One broker."""

    node_id: int
    log: list[Record] = field(default_factory=list)
    entries: list[EpochStart] = field(default_factory=list)
    high_watermark: int = 0
    broker_epoch: int = 0
    leading: Leading | None = None
    following: Following | None = None
    unacknowledged: list[tuple[int, Record]] = field(default_factory=list)

    @property
    def latest_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else -1

    def note_epoch(self, epoch: int) -> None:
        if epoch != self.latest_epoch:
            self.entries.append(EpochStart(epoch, len(self.log)))

    def cut(self, offset: int) -> list[tuple[int, Record]]:
        """As a log is cut: epochs that begin at the new end or behind it go too. What was removed."""
        removed = list(enumerate(self.log))[offset:]
        del self.log[offset:]
        self.entries = [entry for entry in self.entries if entry.start_offset < offset]
        self.high_watermark = min(self.high_watermark, offset)
        return removed


class World:
    """Brokers, a controller, and what is on its way between them."""

    def __init__(self, brokers: int, min_insync: int, seed: int = 0) -> None:
        self.seed = seed
        self.min_insync = min_insync
        self.weights = WEIGHTS[seed % len(WEIGHTS)]
        self.now_ms = 0
        self.hosts = {node_id: Host(node_id) for node_id in range(1, brokers + 1)}
        self.orders = Orders(1, 0, 0, tuple(self.hosts))
        self.on_their_way: list[tuple[str, Callable[[], None]]] = []
        self.committed: dict[int, Record] = {}
        """By offset, what a leader in office has shown or acknowledged."""
        self.numbers = 0
        self._announce()

    @property
    def alive(self) -> dict[int, Life]:
        return {host.node_id: Life(host.broker_epoch) for host in self.hosts.values()}

    def _send(self, name: str, deliver: Callable[[], None]) -> None:
        self.on_their_way.append((name, deliver))

    # The controller

    def _announce(self) -> None:
        for host in self.hosts.values():
            self._send("orders", partial(self._obey, host, self.orders, host.broker_epoch))

    def elect(self, isr: tuple[int, ...], leader: int) -> None:
        before = self.orders
        self.orders = Orders(leader, before.leader_epoch + 1, before.partition_epoch + 1, isr)
        self._announce()

    def bounce(self, node_id: int) -> None:
        """A broker restarts, with its log; the controller takes it out of the ISR, if others are left."""
        host = self.hosts[node_id]
        host.broker_epoch += 1
        host.leading = host.following = None
        host.unacknowledged.clear()
        host.high_watermark //= 2  # As its last checkpoint says.
        isr = tuple(one for one in self.orders.isr if one != node_id) or (node_id,)
        leader = self.orders.leader if self.orders.leader in isr else isr[0]
        self.elect(isr, leader)

    def _alter(self, node_id: int, proposal: Proposal) -> Granted | ErrorCode:
        """CLUSTER's order of checks: what is stale, what is so already, what may not be."""
        orders = self.orders
        if proposal.leader_epoch < orders.leader_epoch or node_id != orders.leader:
            return ErrorCode.FENCED_LEADER_EPOCH
        if proposal.isr == orders.isr:
            return Granted(orders.isr, orders.leader_epoch, orders.partition_epoch)
        if proposal.partition_epoch < orders.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        for member, epoch in zip(proposal.isr, proposal.broker_epochs, strict=True):
            if epoch not in (-1, self.hosts[member].broker_epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        self.orders = Orders(
            orders.leader, orders.leader_epoch, orders.partition_epoch + 1, tuple(sorted(proposal.isr))
        )
        return Granted(self.orders.isr, self.orders.leader_epoch, self.orders.partition_epoch)

    # The brokers

    def _obey(self, host: Host, orders: Orders, broker_epoch: int) -> None:
        if broker_epoch != host.broker_epoch:
            return  # They are for an earlier life.
        known = max(
            host.leading.partition_epoch if host.leading else -1,
            host.following.partition_epoch if host.following else -1,
        )
        if orders.partition_epoch < known:
            return
        if orders.leader == host.node_id:
            host.following = None
            if host.leading is None:
                host.leading = Leading(host.node_id, lag_max_ms=LAG_MS)
            if orders.leader_epoch > host.leading.leader_epoch:
                host.note_epoch(orders.leader_epoch)
            host.leading.become(
                leader_epoch=orders.leader_epoch,
                partition_epoch=orders.partition_epoch,
                replicas=self.hosts,
                isr=orders.isr,
                log_end_offset=len(host.log),
                now_ms=self.now_ms,
            )
            self._advance(host)
            return
        host.leading = None
        host.unacknowledged.clear()
        host.following = host.following or Following()
        host.following.become(
            leader_id=orders.leader,
            leader_epoch=orders.leader_epoch,
            partition_epoch=orders.partition_epoch,
        )

    def append(self, host: Host) -> None:
        leading = host.leading
        if leading is None or leading.judge_append(self.min_insync):
            return
        self.numbers += 1
        record = (leading.leader_epoch, self.numbers)
        host.log.append(record)
        host.unacknowledged.append((len(host.log), record))
        self._advance(host)

    def _advance(self, host: Host) -> None:
        leading = host.leading
        assert leading is not None
        offset = leading.replicated_offset(
            len(host.log),
            log_end_offset=len(host.log),
            now_ms=self.now_ms,
            min_insync=self.min_insync,
            alive=self.alive,
        )
        if offset is None or offset <= host.high_watermark:
            return
        host.high_watermark = offset
        for member in leading.maximal_isr:
            assert len(self.hosts[member].log) >= offset, "a member of the ISR, or one to be, has less"
        while host.unacknowledged and host.unacknowledged[0][0] <= offset:
            end, record = host.unacknowledged.pop(0)
            if not leading.judge_replicated(self.min_insync):
                assert self.committed.setdefault(end - 1, record) == record
        if leading.leader_epoch == self.orders.leader_epoch:
            for at, record in enumerate(host.log[:offset]):
                assert self.committed.setdefault(at, record) == record, "two leaders showed different records"

    def fetch(self, host: Host) -> None:
        following = host.following
        if following is None:
            return
        asked = following.ask(
            log_end_offset=len(host.log),
            log_start_offset=0,
            latest_epoch=host.latest_epoch,
            now_ms=self.now_ms,
        )
        if asked is not None:
            leader, broker_epoch = self.hosts[following.leader_id], host.broker_epoch
            self._send("fetch", partial(self._serve, leader, host, asked, broker_epoch))

    def _serve(self, host: Host, follower: Host, asked: Ask, broker_epoch: int) -> None:
        told, records = self._read(host, follower.node_id, asked, broker_epoch)
        self._send("records", partial(self._take, follower, asked, told, records, broker_epoch))

    def _read(self, host: Host, follower_id: int, asked: Ask, broker_epoch: int) -> tuple[Told, list[Record]]:
        leading = host.leading
        if leading is None:
            return Told(ErrorCode.NOT_LEADER_OR_FOLLOWER), []
        if asked.leader_epoch != leading.leader_epoch:
            older = asked.leader_epoch < leading.leader_epoch
            return Told(ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH), []
        code = leading.check_replica(follower_id, knows_epoch=True)
        if code:
            return Told(code), []
        if asked.last_fetched_epoch >= 0:
            end = led_epoch_end(host.entries, asked.last_fetched_epoch, len(host.log), leading.leader_epoch)
            if end.epoch < asked.last_fetched_epoch or end.end_offset < asked.fetch_offset:
                return Told(high_watermark=host.high_watermark, diverging=EpochEnd(*end)), []
        if asked.fetch_offset > len(host.log):
            return Told(ErrorCode.OFFSET_OUT_OF_RANGE), []
        code = leading.fetched(
            follower_id,
            asked.fetch_offset,
            log_start_offset=asked.log_start_offset,
            log_end_offset=len(host.log),
            now_ms=self.now_ms,
            broker_epoch=broker_epoch,
            alive=self.alive,
        )
        if code:
            return Told(code), []
        self._propose(host, leading.expand(follower_id, high_watermark=host.high_watermark, alive=self.alive))
        self._advance(host)
        piece = host.log[asked.fetch_offset : asked.fetch_offset + RECORDS_AT_ONCE]
        return Told(high_watermark=host.high_watermark, log_start_offset=0), piece

    def _take(self, host: Host, asked: Ask, told: Told, records: list[Record], broker_epoch: int) -> None:
        following = host.following
        if following is None or broker_epoch != host.broker_epoch:
            return
        step = following.told(
            asked,
            told,
            entries=host.entries,
            log_end_offset=len(host.log),
            high_watermark=host.high_watermark,
            now_ms=self.now_ms,
        )
        match step:
            case Append(high_watermark=high_watermark):
                for record in records:
                    host.note_epoch(record[0])
                    host.log.append(record)
                host.high_watermark = visible_offset(
                    high_watermark, log_start_offset=0, log_end_offset=len(host.log)
                )
            case Truncate(offset=offset):
                removed = host.cut(offset)
                # A deposed leader may lack what was committed since.
                if asked.leader_epoch == self.orders.leader_epoch:
                    for at, record in removed:
                        assert self.committed.get(at) != record, "a committed record was cut off"
            case StartAt():
                raise AssertionError("no log here loses its beginning")
            case _:
                pass

    def shrink(self, host: Host) -> None:
        if host.leading is not None:
            self._propose(host, host.leading.shrink(log_end_offset=len(host.log), now_ms=self.now_ms))

    def _propose(self, host: Host, proposal: Proposal | None) -> None:
        if proposal is None:
            return
        leading = host.leading

        def answered(answer: Granted | ErrorCode) -> None:
            if leading is None or host.leading is not leading:
                return
            match leading.altered(proposal, answer):
                case Altered.COMMITTED:
                    self._advance(host)
                case Altered.AGAIN:
                    self._propose(host, proposal)
                case _:
                    pass

        def decide() -> None:
            answer = self._alter(host.node_id, proposal)
            self._send("answer", partial(answered, answer))

        self._send("proposal", decide)

    # The story

    def step(self, dice: random.Random) -> None:
        """Let something happen: mostly work, now and then trouble."""
        host = dice.choice(list(self.hosts.values()))
        match dice.choices(("deliver", "append", "fetch", "trouble", "election", "restart"), self.weights)[0]:
            case "deliver" if self.on_their_way:
                self.on_their_way.pop(dice.randrange(len(self.on_their_way)))[1]()
            case "append":
                self.append(self.hosts[self.orders.leader] if dice.random() < 0.7 else host)
            case "fetch":
                self.fetch(host)
            case "trouble":
                dice.choice((partial(self.shrink, host), self._pass_time, partial(self._lose, dice)))()
            case "election":
                self.elect(self.orders.isr, dice.choice(self.orders.isr))
            case "restart":
                self.bounce(host.node_id)
            case _:
                pass

    def _lose(self, dice: random.Random) -> None:
        """A fetch, or its answer, never arrives. A controller and its channels repeat theirs."""
        lossy = [number for number, (name, _) in enumerate(self.on_their_way) if name in ("fetch", "records")]
        if lossy:
            del self.on_their_way[dice.choice(lossy)]

    def _pass_time(self) -> None:
        self.now_ms += LAG_MS // 2

    def check(self) -> None:
        for member in self.orders.isr:
            log = self.hosts[member].log
            for at, record in self.committed.items():
                assert log[at : at + 1] == [record], (
                    f"seed {self.seed}: {member} is in sync and lacks offset {at}"
                )

    def calm_down(self) -> None:
        """Deliver everything, and let everybody fetch until nothing changes."""
        self.elect(self.orders.isr, self.orders.leader)
        for _round in range(20 + 3 * self.numbers + 3 * self.orders.leader_epoch):
            self.now_ms += 1100  # Whoever backs off asks again.
            while self.on_their_way:
                self.on_their_way.pop(0)[1]()
                self.check()
            for host in self.hosts.values():
                self.fetch(host)
                self.shrink(host)


@pytest.mark.parametrize(("brokers", "min_insync"), [(2, 1), (3, 1), (3, 2), (4, 2)])
@pytest.mark.parametrize("seeds", [range(150), range(150, 300)], ids=str)
def test_what_is_committed_is_on_every_replica_in_sync(brokers: int, min_insync: int, seeds: range) -> None:
    for seed in seeds:
        dice = random.Random(seed)
        world = World(brokers, min_insync, seed)
        shown: dict[tuple[int, int, int], int] = {}
        for _step in range(dice.choice((40, 150, 400))):
            world.step(dice)
            world.check()
            for host in world.hosts.values():
                if host.leading is not None:
                    key = (host.node_id, host.broker_epoch, host.leading.leader_epoch)
                    assert host.high_watermark >= shown.get(key, 0), (
                        f"seed {seed}: the high watermark went back"
                    )
                    shown[key] = host.high_watermark
        world.calm_down()
        leader = world.hosts[world.orders.leader]
        assert world.orders.isr == tuple(world.hosts), f"seed {seed}: not all are in sync again"
        for host in world.hosts.values():
            assert host.log == leader.log, f"seed {seed}: {host.node_id} differs from its leader"
        assert leader.high_watermark == len(leader.log), f"seed {seed}: not everything is replicated"
