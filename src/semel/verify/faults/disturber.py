"""The faults of a proof: the way to the system harmed; a broker of its own killed, frozen, its disk and clock harmed.

Role.   `Disturber` runs beside the programs and writes down every fault with its time.
Rules.  * The same seed gives the same faults in the same order; when they meet whom depends on the machine.
        * On a cluster that is not ours only the way to it is harmed: to all brokers, or one is cut off. Only Produce and Fetch
          are copied: under transactions v1 no broker can tell a late EndTxn from the next transaction's (KIP-890).
        * A fault without effect is told as such: one met by no request, a torn write with nothing written, a kill without a
          driver. A broker that ended by itself is not started again: that is an error of its own.
        * A kill, a freeze and a full disk block everybody: the time until the broker serves again is written down with it.
        * `once` plays every kind of fault that can be done here, the way's kinds one by one, in the dice's order; a fault without effect
          is played again, a few times at most. Then time is over.
        * A clock is set wrong by less than what brokers refuse records for (an hour), and by less than producers are forgotten.
"""

import asyncio
import random
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from semel.core.wire.registry import ApiKey
from semel.errors import SemelError
from semel.verify.fault_proxy import Fate, FaultProxy, Plan, at_random, no_faults
from semel.verify.faults.cluster import FaultCluster
from semel.verify.faults.harm import Harm
from semel.verify.faults.harmed_process import HarmedBroker
from semel.verify.history.events import Fault
from semel.verify.proof.programs import Stage

NETWORK: Final = "network"
CUT_OFF: Final = "cut-off"
KILL: Final = "kill"
FREEZE: Final = "freeze"
TORN: Final = "torn-write"
SLOW: Final = "slow-disk"
FULL: Final = "full-disk"
CLOCK: Final = "clock"
DRIVER: Final = "driver"
FAULTS: Final = (NETWORK, CUT_OFF, KILL, FREEZE, TORN, SLOW, FULL, CLOCK, DRIVER)
"""All faults, and their places: CUT_OFF in a cluster, DRIVER with Spark, the way everywhere, all others on our own broker."""

_WAY: Final[dict[str, dict[Fate, float]]] = {
    "connections cut before or after a request": {Fate.CUT_BEFORE: 0.04, Fate.CUT_AFTER: 0.04},
    "requests and answers late": {Fate.LATE: 0.05, Fate.DELAY: 0.05},
    "answers that never come": {Fate.SILENCE: 0.02, Fate.SWALLOW: 0.02},
    "requests that arrive twice": {Fate.REPEAT: 0.08, Fate.ECHO: 0.08},
    "requests overtaken by their retry": {Fate.OVERTAKEN: 0.05, Fate.LATE_COPY: 0.05},
}
_OWN: Final = (KILL, FREEZE, TORN, SLOW, FULL, CLOCK)
_ENDS_A_LIFE: Final = (KILL, TORN)
NEEDS: Final = {
    CUT_OFF: "a cluster of several brokers (--against)",
    DRIVER: "Spark (semel verify spark)",
    **dict.fromkeys(_OWN, "a broker of its own (no --against)"),
}
"""The condition without which a fault is not possible."""
_NETWORK_SHARE: Final = 0.4
_TRIES_MAX: Final = 3
"""How often a fault without effect is played in a row of all kinds."""
_UNMET: Final = "nobody met it"
_UNWRITTEN: Final = "killed, nothing being written"
_UNDRIVEN: Final = "started, none was there"
_COPIES: Final = frozenset({Fate.REPEAT, Fate.ECHO, Fate.OVERTAKEN, Fate.LATE_COPY})
_COPIED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_FAULTS_MAX: Final = 100_000
_DELAY_MAX_SECONDS: Final = 1.0
_TORN_WITHIN_SECONDS: Final = 5.0
_TORN_AFTER_MAX: Final = 20
_CLOCK_MAX_MS: Final = 40 * 60 * 1000
_KILLED: Final = -signal.SIGKILL

Proxy = FaultProxy | FaultCluster


class BrokerEndedError(SemelError):
    """The broker ended, and nobody ended it."""


def requests_harmed(proxy: Proxy) -> int:
    """How many requests were lost, late or repeated on the way."""
    return sum(count for fate, count in Counter(proxy.tally).items() if fate is not Fate.PASS)


@dataclass(slots=True)
class Disturber:
    """Harms, until it is told to stop."""

    stage: Stage
    proxy: Proxy
    dice: random.Random
    every_seconds: float
    broker: HarmedBroker | None = None
    """One of our own, to which everything may be done."""
    chosen: tuple[str, ...] = FAULTS
    life_seconds: float = 0.0
    """How long a broker lives at least before it is killed, through as many rounds as that takes."""
    kill_driver: Callable[[], Awaitable[bool]] | None = None
    """Kills Spark's driver and starts it again; whether there was one."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How often each was done."""
    played: dict[str, int] = field(default_factory=dict)
    """The same by the names of `FAULTS`."""
    once: bool = False
    """Play every kind once, and then end."""

    def possible(self) -> list[str]:
        """The chosen faults that can be done here and now."""
        young = self.broker is not None and self.broker.age_seconds < self.life_seconds
        never = self.impossible()
        return [one for one in self.chosen if one not in never and not (young and one in _ENDS_A_LIFE)]

    def impossible(self) -> list[str]:
        """The chosen faults that can never be done here."""
        several = isinstance(self.proxy, FaultCluster) and len(self.proxy.brokers) > 1
        return [
            one
            for one in self.chosen
            if (one == CUT_OFF and not several)
            or (one == DRIVER and self.kill_driver is None)
            or (one in _OWN and self.broker is None)
        ]

    async def run(self) -> None:
        """Faults until time is over; then the way is free again and the broker serves."""
        try:
            await (self._each_once() if self.once else self._until_over())
        finally:
            self.proxy.plan = no_faults
            if isinstance(self.proxy, FaultCluster):
                self.proxy.isolate(None)
            self.stage.doing = ""

    async def _until_over(self) -> None:
        while await self._paused():
            if possible := self.possible():
                weighty = NETWORK in possible and (len(possible) == 1 or self.dice.random() < _NETWORK_SHARE)
                others = [one for one in possible if one != NETWORK]
                await self._harm(NETWORK if weighty else self.dice.choice(others))

    async def _each_once(self) -> None:
        never = self.impossible()
        left = [(one, "") for one in self.chosen if one not in (*never, NETWORK)]
        left += [(NETWORK, way) for way in _WAY if NETWORK in self.chosen]
        self.dice.shuffle(left)
        tries: Counter[tuple[str, str]] = Counter()
        while left and await self._paused():
            play = left.pop(0)
            tries[play] += 1
            what = await self._harm(*play)
            if any(one in what for one in (_UNMET, _UNWRITTEN, _UNDRIVEN)) and tries[play] < _TRIES_MAX:
                left.append(play)
        if not left:
            self.stage.seconds = self.stage.now()

    async def _paused(self) -> bool:
        """The time between two faults; whether there is time for one more."""
        if not self.stage.is_over():
            await asyncio.sleep(self.dice.expovariate(1 / self.every_seconds))
        return not self.stage.is_over()

    async def _harm(self, kind: str, way: str = "") -> str:
        """One fault, written down; gives its name."""
        began = self.stage.now()
        what, blocks = await self._do(kind, way)
        self.stage.doing = ""
        self.kinds[what] = self.kinds.get(what, 0) + 1
        self.played[kind] = self.played.get(kind, 0) + 1
        self.stage.add(Fault(began, self.stage.now(), what, blocks=blocks))
        return what

    async def _do(self, kind: str, way: str) -> tuple[str, bool]:
        """One fault, from its beginning to its end; gives its name, and whether it blocks everybody."""
        if kind == NETWORK:
            return await self._way(way or self.dice.choice(list(_WAY))), False
        if kind == CUT_OFF and isinstance(self.proxy, FaultCluster):
            return await self._cut_off(self.proxy), False
        if kind == DRIVER and self.kill_driver is not None:
            self.stage.doing = "Spark's driver is killed"
            was_there = await self.kill_driver()
            return f"Spark's driver {'killed (kill -9)' if was_there else _UNDRIVEN}", False
        if self.broker is None:
            raise ValueError(f"{kind} is not possible here")
        return await self._own(kind, self.broker)

    async def _way(self, what: str) -> str:
        self.stage.doing = what
        before = requests_harmed(self.proxy)
        self.proxy.plan = self._plan(_WAY[what])
        await asyncio.sleep(self.dice.uniform(0.5, 2.0))
        self.proxy.plan = no_faults
        return self._met(what, before)

    def _met(self, what: str, before: int) -> str:
        return what if requests_harmed(self.proxy) > before else f"{what}: {_UNMET}"

    async def _cut_off(self, proxy: FaultCluster) -> str:
        what = "one broker cut off from its clients"
        self.stage.doing = what
        before = requests_harmed(proxy)
        proxy.isolate(self.dice.choice(proxy.brokers))
        await asyncio.sleep(self.dice.uniform(0.5, 4.0))
        proxy.isolate(None)
        return self._met(what, before)

    async def _own(self, kind: str, broker: HarmedBroker) -> tuple[str, bool]:
        seconds = self.dice.uniform(0.2, 3.0)
        _check_alive(broker)
        match kind:
            case "kill":
                self.stage.doing = "the broker is dead"
                await asyncio.to_thread(broker.kill)
                await self._again(broker)
                return "the broker killed (kill -9)", True
            case "torn-write":
                self.stage.doing = "the broker dies within a write"
                torn = Harm(
                    tear_after=self.dice.randrange(_TORN_AFTER_MAX),
                    tear_share=self.dice.random() * 0.999,
                    clock_ms=broker.clock_ms,
                )
                await asyncio.to_thread(broker.harm, torn)
                by_itself = await asyncio.to_thread(broker.is_dead_within, _TORN_WITHIN_SECONDS)
                _check_alive(broker, _KILLED)
                await asyncio.to_thread(broker.kill)
                await self._again(broker)
                how = "killed within a write" if by_itself else _UNWRITTEN
                return f"the broker {how} (kill -9)", True
            case "freeze":
                self.stage.doing = "the broker is frozen"
                broker.pause()
                await asyncio.sleep(seconds)
                broker.resume()
                return "the broker frozen", True
            case "slow-disk":
                self.stage.doing = "the disk is slow"
                slow = Harm(
                    write_seconds=self.dice.uniform(0.001, 0.03),
                    sync_seconds=self.dice.uniform(0.05, 0.5),
                    clock_ms=broker.clock_ms,
                )
                await self._while_harmed(broker, slow, seconds)
                return "the disk slow", False
            case "full-disk":
                self.stage.doing = "the disk is full"
                await self._while_harmed(broker, Harm(full=True, clock_ms=broker.clock_ms), seconds)
                return "the disk full", True
            case _:
                jump_ms = self.dice.randint(-_CLOCK_MAX_MS, _CLOCK_MAX_MS)
                forward = jump_ms > broker.clock_ms
                await asyncio.to_thread(broker.harm, Harm(clock_ms=jump_ms))
                return f"the clock set {'forward' if forward else 'back'}", False

    async def _while_harmed(self, broker: HarmedBroker, harm: Harm, seconds: float) -> None:
        await asyncio.to_thread(broker.harm, harm)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(broker.heal)

    async def _again(self, broker: HarmedBroker) -> None:
        await asyncio.sleep(self.dice.uniform(0.0, 1.0))
        await asyncio.to_thread(broker.start)
        if isinstance(self.proxy, FaultProxy):
            self.proxy.point_to(broker.bootstrap)

    def _plan(self, fates: dict[Fate, float]) -> Plan:
        return at_random(
            self.dice.getrandbits(32),
            fates,
            keys=_COPIED if _COPIES & set(fates) else None,
            faults_max=_FAULTS_MAX,
            delay_max_seconds=_DELAY_MAX_SECONDS,
        )


def _check_alive(broker: HarmedBroker, killed: int | None = None) -> None:
    """It runs, or ended as it was told to."""
    if broker.code is not None and broker.code != killed:
        raise BrokerEndedError(f"the broker ended by itself, with {broker.code}: {broker.last_words()}")
