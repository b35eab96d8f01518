"""What a proof does to the system: requests lost, late and repeated on the way; a broker of its own killed and frozen.

Role.   `Disturber` runs beside the programs and writes down every fault with its time.
Rules.  * The same seed gives the same faults in the same order; when they meet whom depends on the machine.
        * On a cluster that is not ours only the way to it is harmed. Copies of requests are made of Produce and Fetch alone:
          under transactions v1 a late EndTxn may be taken for the next transaction's, which no broker can tell (KIP-890).
        * A kill or a freeze blocks everybody: the time until the broker serves again is written down with it.
"""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Final

from semel.core.wire.registry import ApiKey
from semel.verify.demo.processes import BrokerProcess
from semel.verify.fault_proxy import Fate, FaultProxy, Plan, at_random, no_faults
from semel.verify.proof.events import Fault
from semel.verify.proof.programs import Stage

_WAY: Final[dict[str, dict[Fate, float]]] = {
    "connections cut before or after a request": {Fate.CUT_BEFORE: 0.04, Fate.CUT_AFTER: 0.04},
    "requests and answers late": {Fate.LATE: 0.05, Fate.DELAY: 0.05},
    "answers that never come": {Fate.SILENCE: 0.02, Fate.SWALLOW: 0.02},
    "requests that arrive twice": {Fate.REPEAT: 0.08, Fate.ECHO: 0.08},
    "requests overtaken by their retry": {Fate.OVERTAKEN: 0.05, Fate.LATE_COPY: 0.05},
}
_KILL: Final = "the broker killed (kill -9)"
_FREEZE: Final = "the broker frozen"
_COPIES: Final = frozenset({Fate.REPEAT, Fate.ECHO, Fate.OVERTAKEN, Fate.LATE_COPY})
_COPIED: Final = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
_FAULTS_MAX: Final = 100_000
_DELAY_MAX_SECONDS: Final = 1.0


@dataclass(slots=True)
class Disturber:
    """Harms, until it is told to stop."""

    stage: Stage
    proxy: FaultProxy
    dice: random.Random
    every_seconds: float
    broker: BrokerProcess | None = None
    """One of our own, which may be killed."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How often each was done."""

    async def run(self) -> None:
        """Faults until time is over; then the way is free again and the broker serves."""
        try:
            while not self.stage.is_over():
                await asyncio.sleep(self.dice.expovariate(1 / self.every_seconds))
                if not self.stage.is_over():
                    await self._harm()
        finally:
            self.proxy.plan = no_faults

    async def _harm(self) -> None:
        broker = self.broker
        what = self.dice.choice([*_WAY, *(() if broker is None else (_KILL, _FREEZE))])
        began = self.stage.now()
        if broker is None or what in _WAY:
            self.proxy.plan = self._plan(_WAY[what])
            await asyncio.sleep(self.dice.uniform(0.5, 2.0))
            self.proxy.plan = no_faults
        elif what == _KILL:
            await asyncio.to_thread(broker.kill)
            await asyncio.sleep(self.dice.uniform(0.0, 1.0))
            await asyncio.to_thread(broker.start)
            self.proxy.point_to(broker.bootstrap)
        else:
            broker.pause()
            await asyncio.sleep(self.dice.uniform(0.2, 3.0))
            broker.resume()
        self.kinds[what] = self.kinds.get(what, 0) + 1
        self.stage.add(Fault(began, self.stage.now(), what, blocks=what not in _WAY))

    def _plan(self, fates: dict[Fate, float]) -> Plan:
        return at_random(
            self.dice.getrandbits(32),
            fates,
            keys=_COPIED if _COPIES & set(fates) else None,
            faults_max=_FAULTS_MAX,
            delay_max_seconds=_DELAY_MAX_SECONDS,
        )
