"""Faults on the way x ways to write: the public client, one fault at a time, a seed for every cell of the table.

Role.   `run(seed)` plays one story on the simulated runtime: the real broker, and a link in front of it that knows Kafka's
        frames. Programs use `semel.aio.Producer` and `semel.aio.Consumer` as applications do. `seed % 12` is the cell:

            drop        a request or an answer is lost; the connection stays open and silent
            delay       requests or answers are late, often later than the client waits
            cut         the connection breaks before the broker sees a request, or after it has handled it
            duplicate   a request arrives twice, its copy over another connection, before it or later
            reorder     the client reconnects and sends again; its earlier requests arrive behind that
            freeze      the broker's process stands still, then goes on

        each with an idempotent producer and with transactions: of a writer, or of a program that reads, transforms and writes.
Flow.   programs run while the link harms requests of every kind -> calm -> everybody finishes -> `public_invariants`.
Rules.  * The promises: nothing acknowledged is lost, nothing is there twice, order, all or nothing. A reader is handed visible
          records, once and in order. A transformer's outputs are its inputs', once and in order.
        * With transactions v1 only Produce and Fetch are duplicated and reordered. A late EndTxn or TxnOffsetCommit of the last
          transaction is taken for part of the next one: for this Kafka made v2 (KIP-890).
"""

import asyncio
import itertools
import random
from enum import StrEnum
from typing import Any, Final

from semel.client.producer.producer import AsyncProducer
from semel.core.wire.registry import ApiKey
from semel.runtime.bundle import Runtime
from semel.runtime.randomness import seeded_dice
from semel.verify.faults.disturbances import Disturbance, FreezeHost, play
from semel.verify.faults.link import Fate, Plan, at_random, no_faults
from semel.verify.simulation.actors.faulty_link import LINK, FaultyLink
from semel.verify.simulation.actors.public_reader import READER, PublicReader
from semel.verify.simulation.actors.public_transformer import SOURCE, PublicTransformer, output_of
from semel.verify.simulation.actors.public_writer import CLIENT, TOPIC, PublicWriter, producer_settings
from semel.verify.simulation.promise import PromiseBroken
from semel.verify.simulation.public_invariants import TopicContent, content, judge_reader, judge_writer
from semel.verify.simulation.world import BROKER, PORT, World, watched

SETTLE_SECONDS: Final = 300.0
_ID: Final = "application"
_BROKEN_SHOWN_MAX: Final = 5


class Fault(StrEnum):
    """What goes wrong."""

    DROP = "drop"
    DELAY = "delay"
    CUT = "cut"
    DUPLICATE = "duplicate"
    REORDER = "reorder"
    FREEZE = "freeze"


class Writing(StrEnum):
    """How records are written."""

    IDEMPOTENT = "idempotent"
    TRANSACTIONAL = "transactional"


CELLS: Final = tuple(itertools.product(Fault, Writing))
FATES: Final = {
    Fault.DROP: (Fate.SWALLOW, Fate.SILENCE),
    Fault.DELAY: (Fate.LATE, Fate.DELAY),
    Fault.CUT: (Fate.CUT_BEFORE, Fate.CUT_AFTER),
    Fault.DUPLICATE: (Fate.REPEAT, Fate.ECHO),
    Fault.REORDER: (Fate.OVERTAKEN, Fate.LATE_COPY),
    Fault.FREEZE: (),
}
_COPIES: Final = (Fault.DUPLICATE, Fault.REORDER)


class Story:
    """One run."""

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.seed = seed
        self.fault, self.writing = CELLS[seed % len(CELLS)]
        dice = self._dice = seeded_dice(seed, "client matrix")
        self.seconds = dice.uniform(3.0, 10.0)
        self._partitions = dice.randint(1, 3)
        settings: dict[str, str | int | bool] = {
            "num.partitions": self._partitions,
            "group.initial.rebalance.delay.ms": 0,
        }
        self.world = World(seed, settings, traced=traced)
        is_transactional = self.writing is Writing.TRANSACTIONAL
        is_older = is_transactional and dice.random() < 0.3
        self.link = FaultyLink(self._harm(is_older=is_older))
        self.freezes = dice.randint(1, 5) if self.fault is Fault.FREEZE else 0
        self.inputs = dice.randint(5, 60)
        self.program: PublicWriter | PublicTransformer
        if is_transactional and dice.random() < 0.5:
            self.program = PublicTransformer(
                self.world,
                _producer_settings(dice, self.writing),
                _group_settings(dice),
                is_older,
                self._partitions,
                self.inputs,
                dice.randint(1, 20),
            )
        else:
            records = dice.randint(3, 10) if is_transactional else dice.randint(20, 100)
            self.program = PublicWriter(
                self.world,
                _producer_settings(dice, self.writing),
                is_transactional,
                is_older,
                self._partitions,
                records,
                self.seconds / records,
            )
        self.reader = PublicReader(
            self.world, _reader_settings(dice, committed=is_transactional), TOPIC, self._partitions
        )

    def _harm(self, *, is_older: bool) -> Plan:
        fates = FATES[self.fault]
        if not fates:
            return no_faults
        share = self._dice.uniform(0.02, 0.3) / len(fates)
        only_records = is_older and self.fault in _COPIES
        return at_random(
            self._dice.getrandbits(32),
            dict.fromkeys(fates, share),
            keys=frozenset({ApiKey.PRODUCE, ApiKey.FETCH}) if only_records else None,
            delay_max_seconds=self._dice.choice([0.05, 0.5, 3.0, 8.0]),
        )

    def run(self) -> None:
        """Play and judge; raises `PromiseBroken`."""
        try:
            with watched(self.world):
                self.world.simulation.run(self._main())
        except Exception as error:
            raise self._broken([f"the run failed: {type(error).__name__}: {error}"]) from error
        broken = [*self.world.history.flaws, *self._judge()]
        if broken:
            raise self._broken(broken)

    def _broken(self, what: list[str]) -> PromiseBroken:
        shown = "\n".join(what[:_BROKEN_SHOWN_MAX])
        cell = f"{self.fault}, {self.writing}"
        return PromiseBroken(
            f"client matrix ({cell}) seed {self.seed}: {shown}\n{self.world.history.story(None)}"
        )

    def digest(self) -> str:
        """Of everything that ran, in order, with its time; the story must be traced."""
        return self.world.simulation.loop.trace_digest()

    async def _main(self) -> None:
        world = self.world
        keeper = asyncio.create_task(world.broker.keep(), name="keeper of the broker")
        await world.broker.until_serving()
        if isinstance(self.program, PublicTransformer):
            await self._fill()
        for actor in (self.link, self.program, self.reader):
            world.add(actor)
            world.start(actor)
        await play(world, self._freezing(), self.seconds)
        world.tell("calm")
        self.link.finish()
        await world.settle([self.program], SETTLE_SECONDS)
        await world.settle([self.reader], SETTLE_SECONDS)
        for failure in self.link.failures:
            world.flaw(f"the link failed: {failure!r}")
        world.broker.read_logs(without=["__transaction_state", "__consumer_offsets"])
        world.is_over = True
        keeper.cancel()

    async def _fill(self) -> None:
        """Write the transformer's inputs, in peace."""

        async def fill(runtime: Runtime) -> None:
            async with AsyncProducer({"bootstrap.servers": f"{BROKER}:{PORT}"}, runtime=runtime) as producer:
                for number in range(self.inputs):
                    await producer.send(SOURCE, b"%d" % number, partition=number % self._partitions)

        await self.world.host("filler").start(fill)

    def _freezing(self) -> list[tuple[float, Disturbance]]:
        dice = self._dice
        times = sorted(dice.uniform(0.0, self.seconds) for _ in range(self.freezes))
        return [(at, FreezeHost(dice.choice([0.2, 1.0, 5.0, 12.0]) * dice.random())) for at in times]

    def _judge(self) -> list[str]:
        held = content(self.world.history, TOPIC)
        broken = judge_reader(self.reader.handed, held, who=READER)
        if isinstance(self.program, PublicWriter):
            return broken + judge_writer(self.program, held)
        return broken + self._judge_transformer(held)

    def _judge_transformer(self, held: TopicContent) -> list[str]:
        given = content(self.world.history, SOURCE)
        broken = []
        for partition, inputs in given.visible.items():
            wanted = [output_of(value) for _, value in inputs]
            found = [value for _, value in held.visible.get(partition, [])]
            if found != wanted:
                missing = [one for one in wanted if one not in found]
                twice = len(found) - len(set(found))
                broken.append(
                    f"{len(found)} outputs of {len(wanted)} inputs of partition {partition}: {twice} twice, "
                    f"missing {missing[:3]}, {'out of order' if sorted(found) == sorted(wanted) else 'torn'}"
                )
        return broken


def _producer_settings(dice: random.Random, writing: Writing) -> dict[str, Any]:
    settings = producer_settings(dice, f"{LINK}:{PORT}")
    if writing is Writing.TRANSACTIONAL:
        settings["transactional.id"] = _ID
        settings["transaction.timeout.ms"] = dice.choice([2000, 60_000])
    return settings


def _reader_settings(dice: random.Random, *, committed: bool) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"{LINK}:{PORT}",
        "client.id": READER,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed" if committed else "read_uncommitted",
        "request.timeout.ms": dice.choice([500, 2000, 5000]),
        "default.api.timeout.ms": 6000,
        "fetch.max.wait.ms": dice.choice([50, 500]),
        "max.partition.fetch.bytes": dice.choice([300, 1 << 20]),
        "max.poll.records": dice.choice([1, 7, 500]),
        "retry.backoff.ms": dice.choice([10, 100]),
    }


def _group_settings(dice: random.Random) -> dict[str, Any]:
    settings = _reader_settings(dice, committed=True)
    settings |= {"client.id": f"{CLIENT} consumer", "group.id": "transformers", "enable.auto.commit": False}
    settings["max.poll.interval.ms"] = (
        15_000  # So long, and a little, a JoinGroup that was lost is waited for.
    )
    if dice.random() < 0.5:
        settings["group.protocol"] = "consumer"
    else:
        settings |= {"session.timeout.ms": 6000, "heartbeat.interval.ms": 500}
    return settings


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()
