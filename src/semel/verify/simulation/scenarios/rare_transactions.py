"""Transactions where few go: two-phase commit, producer ids whose epochs run out, topics deleted while they are written.

Role.   `run(seed)` plays a story of `transactions` with some of these added, and judges it by the same promises.
Flow.   Before anybody comes, transactional ids get their last epochs. Writers that keep a ledger prepare, vanish, and end
        what others left. One topic is deleted and made again, at once or after a while, and in the end for good.
Rules.  * The same seed gives the same run, to the byte.
        * A transaction the ledger decided is committed in the end: no time runs out for it, no restart forgets it. So is the
          position that went with it, but no record that a predecessor adds once another keeps its transaction.
        * Epochs of a producer id are given up to the last, and then the next id begins; nobody is given one twice.
        * A topic that goes takes its records along and holds nothing up: not its transactions, not the other topics'.
"""

import random
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import Final

from semel.core.coordination.outcome import Outcome, Ticket
from semel.core.transactions.coordinator.decision import TransactionEffect
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.rows import row_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import EPOCH_LAST, TRANSACTIONS_V2, Transaction
from semel.core.wire.messages.init_producer_id import InitProducerIdResponse
from semel.types import TopicPartition
from semel.verify.faults.disturbances import Disturbance, Draw, MakeTopicAgain, Reach
from semel.verify.simulation.actors.admin import TopicPlan
from semel.verify.simulation.actors.consumer import Tastes
from semel.verify.simulation.actors.transactional_writer import HeldWriter, TransactionalActor
from semel.verify.simulation.actors.two_phase_writer import Ledger, TwoPhaseWriter
from semel.verify.simulation.scenarios import transactions
from semel.verify.simulation.scenarios.transactions import draw_manners, partitions_of
from semel.verify.simulation.transaction_audit import OffsetsAuditor

TWO_PHASES: Final = "two phases"
LAST_EPOCHS: Final = "last epochs"
MORTAL_TOPIC: Final = "a topic that is deleted"
RARITIES: tuple[str, ...] = (TWO_PHASES, LAST_EPOCHS, MORTAL_TOPIC)
_TOPIC: Final = "mortal"
HELD_MS: Final = 600_000
_EPOCHS_LEFT_MAX: Final = 6
_ABSENT_SECONDS_MAX: Final = 5.0


class Story(transactions.Story):
    """One run."""

    name = "rare_transactions"

    def __init__(self, seed: int, *, traced: bool = False) -> None:
        self.rarities: list[str] = []
        self.mortal: tuple[TopicPartition, ...] = ()
        self.ledgers: list[Ledger] = []
        super().__init__(seed, traced=traced)
        if MORTAL_TOPIC in self.rarities:
            self.aftermath.mortal_topics = frozenset({_TOPIC})

    def _settings(self, dice: random.Random) -> dict[str, str | int | bool]:
        self.rarities = dice.sample(RARITIES, dice.randint(1, len(RARITIES)))
        return {
            **super()._settings(dice),
            "transaction.two.phase.commit.enable": TWO_PHASES in self.rarities,
        }

    async def _set_up(self) -> None:
        """Ids that have been used for long: few of their epochs are left."""
        if LAST_EPOCHS not in self.rarities:
            return
        for transactional_id in sorted({one.transactional_id for one in (*self.writers, *self.workers)}):
            await self._wear_out(transactional_id, EPOCH_LAST - self.dice.randint(0, _EPOCHS_LEFT_MAX))

    async def _wear_out(self, transactional_id: str, producer_epoch: int) -> None:
        broker = self.world.broker.broker
        if broker is None:
            raise LookupError("nothing disturbs the broker yet, and it is not there")
        producer_id = await broker.parts.coordinators.producer_ids.next()
        if producer_id is None:
            raise LookupError("a broker alone waits for its own disk until it has an id")
        state = self.dice.choice([TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT])

        def write(_shard: TransactionShard, ticket: Ticket, now_ms: int) -> Outcome[TransactionEffect]:
            row = row_of(
                Transaction(
                    transactional_id,
                    producer_id,
                    producer_epoch,
                    timeout_ms=1000,
                    state=state,
                    last_update_ms=now_ms,
                    client_version=TRANSACTIONS_V2,
                )
            )
            return Outcome(rows=[row], replies=[(ticket, InitProducerIdResponse())])

        answer = broker.parts.transactions.host.ask(transactional_id, write)
        if isinstance(answer, Awaitable):
            answer = await answer
        if not isinstance(answer, InitProducerIdResponse):
            raise LookupError(f"{transactional_id} cannot be made old: {answer}")

    async def _wind_up(self) -> None:
        """The topic goes for good while a transaction is open on it: that is the end of the topic, not of the others."""
        if not self.mortal:
            return
        manners = replace(draw_manners(self.dice), transaction_timeout_ms=HELD_MS)
        held = HeldWriter(self.world, "held", manners, self._written())
        self._start([held])
        await self.world.settle([held], transactions.SETTLE_SECONDS)
        self.admin.delete(self.topics[-1])
        await self.world.settle([self.admin], transactions.SETTLE_SECONDS)
        held.let_go()
        await self.world.settle([held], transactions.SETTLE_SECONDS)

    async def _end_once_more(self) -> None:
        await super()._end_once_more()
        for ledger in self.ledgers:
            if ledger.position is not None:
                await self._audit(ledger, ledger.position)

    async def _audit(self, ledger: Ledger, position: int) -> None:
        """The position of the last decided transaction is the group's."""
        beyond = {ledger.place: position - 1}
        auditor = OffsetsAuditor(self.world, ledger.group_id, [ledger.place], beyond)
        await self.world.settle([auditor], transactions.SETTLE_SECONDS)
        found = auditor.offsets.get(ledger.place, -1)
        if found > position:
            self.world.flaw(
                f"{ledger.group_id} has the position {found} of {ledger.place}, the last that was decided is {position}: "
                "a fenced producer committed it"
            )

    # The actors, and their topics

    def _topics(self) -> list[TopicPlan]:
        topics = super()._topics()
        if MORTAL_TOPIC in self.rarities:
            mortal = self._topic(_TOPIC)
            self.mortal = partitions_of(mortal)
            topics.append(mortal)
        return topics

    def _written(self) -> list[TopicPartition]:
        return [
            *self.mortal,
            *super()._written(),
        ]  # Partitions named after a deleted one must be told, too.

    def _tastes(self, *, committed: bool) -> Tastes:
        tastes = super()._tastes(committed=committed)
        return replace(tastes, version=self.dice.choice([13, 17])) if self.mortal else tastes

    def _writers(self) -> list[TransactionalActor]:
        writers = super()._writers()
        if TWO_PHASES not in self.rarities:
            return writers
        partitions = self._written()
        for index in range(self.dice.randint(1, 2)):
            ledger = Ledger(f"ledger{index}", self.inputs[0])
            self.ledgers.append(ledger)
            some = sorted(self.dice.sample(partitions, self.dice.randint(1, len(partitions))))
            for instance in range(self.dice.choice([1, 2])):
                name = f"ledger{index}{'ab'[instance]}"
                manners = draw_manners(self.dice, v2_only=True)
                writers.append(TwoPhaseWriter(self.world, name, f"ledger{index}", manners, some, ledger))
        return writers

    def _kinds(self) -> Mapping[str, Draw]:
        kinds = super()._kinds()
        if MORTAL_TOPIC not in self.rarities:
            return kinds

        def delete(dice: random.Random, reach: Reach) -> Disturbance:
            absent_seconds = dice.choice([0.0, dice.uniform(0.1, _ABSENT_SECONDS_MAX)])
            return MakeTopicAgain(reach.admin, self.topics[-1], absent_seconds)

        return {**kinds, "topic": delete, "topic again": delete}


def run(seed: int) -> None:
    """Play the story of a seed; raises `PromiseBroken` if a promise is."""
    Story(seed).run()
