"""A program that keeps two systems in step: its own database and a log, by two-phase commit (KIP-939).

Role.   `Ledger` is the database: one row that says which transaction is to be committed. `TwoPhaseWriter` prepares
        transactions, has the ledger decide, ends them, and vanishes anywhere; the next instance ends open ones. Some
        instances only seem to be gone: once another keeps what they prepared, they go on as if nothing had happened.
Flow.   everything is stored, records and a position -> the ledger takes the transaction's identity: that is the decision ->
        EndTxn. A new instance keeps the open transaction (InitProducerId 6), commits it if it is the ledger's, else aborts it.
Rules.  * The ledger has one owner at a time, the latest that came: nobody else decides, or ends what another left.
        * A transaction the ledger decided must commit, however late and by any instance; one it did not decide must not.
        * An instance that lingers acts only after another was told that it keeps the transaction: from then on it is fenced.
        * The identity tells transactions apart, for every end of v2 gives the next epoch: this needs v2.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, NamedTuple, TypeAlias

from semel.core.transactions.producer import GroupMetadata, Outgoing
from semel.core.transactions.producer_states import Fate, ProducerState
from semel.core.wire.message import Response
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import NO_PRODUCER_ID, TopicPartition
from semel.verify.history.events import Deciding, Ended, Took
from semel.verify.simulation.actors.transactional import Manners, Session
from semel.verify.simulation.actors.transactional_writer import (
    VANISHED_SECONDS,
    Batches,
    TransactionalActor,
    TransactionalWriter,
)
from semel.verify.simulation.world import World

_INIT_VERSION: Final = 6
_END_VERSION: Final = 5
_END_ATTEMPTS_MAX: Final = 4
_OFFSETS_PROBABILITY: Final = 0.6
_LINGER_SECONDS_MAX: Final = 20.0
"""How long an instance that lingers waits for somebody to keep its transaction."""
_LINGER_POLL_SECONDS: Final = 0.01
_LINGER_TURNS_MAX: Final = 3
_LINGER_STEPS: Final = 3
BESIDE_SECONDS_MAX = 0.4
"""How long who keeps a transaction lets an instance that lingers go on before it ends it."""
_FENCED: Final = InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
_AGAIN: Final = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)

Wish: TypeAlias = Literal[
    "commit", "abort", "vanish undecided", "vanish decided", "linger undecided", "linger decided"
]
_WISHES: Final[tuple[Wish, ...]] = (
    *("commit", "abort", "vanish undecided", "vanish decided", "linger undecided", "linger decided"),
)
_WEIGHTS: Final = (5, 1, 1, 2, 1, 3)
Turn: TypeAlias = Literal["write", "commit a position", "end", "introduce itself"]
_TURNS: Final[tuple[Turn, ...]] = ("write", "commit a position", "end", "introduce itself")
_TURN_WEIGHTS: Final = (4, 3, 1, 1)


class Prepared(NamedTuple):
    """The identity under which a transaction was written."""

    producer_id: int
    producer_epoch: int


class Ledger:
    """The other system: it survives everything, and takes a decision only of its owner."""

    def __init__(self, group_id: str, place: TopicPartition) -> None:
        self.group_id = group_id
        self.place = place
        """The input whose position some of its transactions commit, for this group."""
        self.owner = ""
        self.decided: Prepared | None = None
        self.position: int | None = None
        """Of the last decided transaction that committed one."""
        self.lingering: set[Prepared] = set()
        self.kept: set[Prepared] = set()
        """Prepared transactions that an instance was told it keeps."""
        self._positions = 0

    def decide(self, owner: str, prepared: Prepared, position: int | None) -> bool:
        """Write down that this transaction is to be committed; False if somebody else is the owner now."""
        if owner != self.owner:
            return False
        self.decided = prepared
        self.position = self.position if position is None else position
        return True

    def next_position(self) -> dict[TopicPartition, int]:
        """One nobody had before."""
        self._positions += 1
        return {self.place: self._positions}


class TwoPhaseSession(Session):
    """One instance: it ends what was left open before it begins anything."""

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        manners: Manners,
        runtime: Runtime,
        actor: TransactionalActor,
        ledger: Ledger,
    ) -> None:
        super().__init__(world, name, transactional_id, manners, runtime, actor.pause)
        self._ledger = ledger

    async def introduce(self) -> bool:
        self._ledger.owner = self.name
        return await super().introduce()

    async def run_two_phase(
        self, batches: Sequence[tuple[TopicPartition, tuple[bytes, ...]]], wish: Wish
    ) -> str:
        """A transaction; gives its fate, or "open" where it is left to whoever comes next."""
        producer, history = self.producer, self._world.history
        number, given = self._begin(batches)
        offsets: dict[TopicPartition, int] = {}
        if self._runtime.dice.random() < _OFFSETS_PROBABILITY:
            offsets = self._ledger.next_position()
            producer.send_offsets(GroupMetadata(self._ledger.group_id), offsets)
        await self._until_all_is_stored()
        if producer.state is not ProducerState.IN_TRANSACTION or wish == "abort":
            await self._end(number, given, commit=False, offsets={})
            return self._over(number, "aborted")
        await self._pause()
        prepared = Prepared(producer.producer_id, producer.producer_epoch)
        if wish.startswith("linger"):
            self._ledger.lingering.add(prepared)
        if wish.endswith("undecided"):
            return "open"
        if not self._ledger.decide(self.name, prepared, offsets.get(self._ledger.place)):
            return "open"
        history.add(Deciding(self._world.now(), self.name, number, True, tuple(given), {}, is_final=True))
        if wish != "commit":
            return "open"
        producer.commit()
        await self._until(lambda: producer.state is not ProducerState.COMMITTING)
        if producer.fate is Fate.COMMITTED:
            return self._over(number, "committed")
        # Somebody else has come, and goes by the ledger: even against the answers to this instance, it is committed in the end.
        history.add(Ended(self._world.now(), self.name, number, "unknown"))
        return "open"

    async def _until_all_is_stored(self) -> None:
        producer = self.producer
        await self._until(
            lambda: (
                producer.state is not ProducerState.IN_TRANSACTION
                or not (any(producer.partitions()) or producer.has_offsets_to_send)
            )
        )

    async def linger(self, turns: Sequence[Sequence[tuple[TopicPartition, tuple[bytes, ...]]]]) -> None:
        """Go on with what it has prepared, in any protocol, once somebody else keeps it; nothing of that may come about."""
        producer, dice = self.producer, self._runtime.dice
        prepared = Prepared(producer.producer_id, producer.producer_epoch)
        if not await self._is_kept_by_another(prepared):
            return
        self._world.tell(f"{self.name} lingers: somebody else keeps its {prepared}")
        versions = replace(
            self._manners.versions,
            produce=dice.choice([9, 11, 12, 13]),
            txn_offset_commit=dice.choice([3, 4, 5]),
        )
        self._manners = replace(self._manners, versions=versions)
        for batches in turns:
            turn = dice.choices(_TURNS, _TURN_WEIGHTS)[0]
            if turn == "write":
                await self._go_on(batches, {})
            elif turn == "commit a position":
                await self._go_on([], self._ledger.next_position())
            else:
                await self._stir(turn, prepared)
            await self._runtime.tasks.sleep(dice.uniform(0, BESIDE_SECONDS_MAX / 4))
        self.leave()

    async def _is_kept_by_another(self, prepared: Prepared) -> bool:
        """Wait until somebody was told so; False if nobody comes."""
        until = self._world.now() + _LINGER_SECONDS_MAX
        while prepared not in self._ledger.kept:
            if self._world.now() > until:
                return False
            await self._runtime.tasks.sleep(_LINGER_POLL_SECONDS)
        return True

    async def _go_on(
        self,
        batches: Sequence[tuple[TopicPartition, tuple[bytes, ...]]],
        position: Mapping[TopicPartition, int],
    ) -> None:
        producer = self.producer
        if producer.state is ProducerState.IN_TRANSACTION:
            for partition, values in batches:
                self._give(partition, values)
            if position:
                producer.send_offsets(GroupMetadata(self._ledger.group_id), position)
        for _ in range(_LINGER_STEPS):
            if producer.state is ProducerState.IN_TRANSACTION:
                await self._step()

    async def _stir(self, turn: Turn, prepared: Prepared) -> None:
        """Ask for the end of the transaction, or for a new epoch in exchange for its old one, once."""
        transactional_id = self.producer.transactional_id
        try:
            if turn == "end":
                commit = self._runtime.dice.random() < 0.5
                await self._coordinator.ask(
                    EndTxnRequest(
                        transactional_id=transactional_id,
                        producer_id=prepared.producer_id,
                        producer_epoch=prepared.producer_epoch,
                        committed=commit,
                    ),
                    self._runtime.dice.choice([4, 5]),
                )
            else:
                await self._coordinator.ask(
                    InitProducerIdRequest(
                        transactional_id=transactional_id,
                        transaction_timeout_ms=self._manners.transaction_timeout_ms,
                        producer_id=prepared.producer_id,
                        producer_epoch=prepared.producer_epoch,
                    ),
                    self._runtime.dice.choice([3, 4, 5]),
                )
        except DisconnectedError:
            self._world.tell(f"{self.name} hears nothing")

    async def _exchange(self, outgoing: Outgoing) -> Response:
        if isinstance(outgoing.request, InitProducerIdRequest):
            return await self._take_over(outgoing.request)
        return await super()._exchange(outgoing)

    async def _take_over(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Introduce itself; an open transaction is ended first, and then it introduces itself anew."""
        since = self._world.now()
        request.enable_2pc = request.keep_prepared_txn = True
        response = await self._coordinator.ask(request, _INIT_VERSION)
        await self._pause()
        if response.error_code or response.ongoing_txn_producer_id == NO_PRODUCER_ID:
            return response
        left = Prepared(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        self._world.history.add(
            Took(
                self._world.now(),
                self.name,
                self.producer.transactional_id,
                since,
                response.producer_id,
                response.producer_epoch,
                self._world.broker.log_ends(),
                keeps=True,
            )
        )
        self._ledger.kept.add(left)
        if left in self._ledger.lingering:
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(0, BESIDE_SECONDS_MAX))
        if self._ledger.owner != self.name:
            return _FENCED
        commit = left == self._ledger.decided
        self._world.tell(f"{self.name} {'commits' if commit else 'aborts'} what {left} left open")
        return await self._end_left(response, commit)

    async def _end_left(self, identity: InitProducerIdResponse, commit: bool) -> InitProducerIdResponse:
        request = EndTxnRequest(
            transactional_id=self.producer.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.producer_epoch,
            committed=commit,
        )
        for _ in range(_END_ATTEMPTS_MAX):
            try:
                code = ErrorCode((await self._coordinator.ask(request, _END_VERSION)).error_code)
            except DisconnectedError:
                code = ErrorCode.NETWORK_EXCEPTION
            await self._pause()
            if code is ErrorCode.NONE:
                return _AGAIN
            if not code.retriable:
                self._world.tell(f"{self.name} cannot end it: {code.name}")
                return _FENCED
            await self._back_off()
        return _AGAIN


class TwoPhaseWriter(TransactionalWriter):
    """The actor. Several may share a ledger, each on a host of its own."""

    def __init__(
        self,
        world: World,
        name: str,
        transactional_id: str,
        manners: Manners,
        partitions: list[TopicPartition],
        ledger: Ledger,
    ) -> None:
        super().__init__(world, name, transactional_id, manners, partitions)
        self._ledger = ledger

    def new_session(self, name: str, runtime: Runtime) -> Session:
        return TwoPhaseSession(
            self.world, name, self.transactional_id, self.manners, runtime, self, self._ledger
        )

    async def work(self, session: Session, runtime: Runtime) -> None:
        if not isinstance(session, TwoPhaseSession):
            raise TypeError(f"{session.name} knows one phase only")
        dice = runtime.dice
        while not session.is_lost:
            if self.is_done:
                await asyncio.Event().wait()
            wish: Wish = "commit"
            if self.finishing:
                batches = self.last_batches(session)
            else:
                batches = self.batches(session, dice)
                wish = dice.choices(_WISHES, _WEIGHTS)[0]
            fate = await session.run_two_phase(batches, wish)
            if fate == "open":
                self.world.tell(f"{session.name} vanishes ({wish})")
                if wish.startswith("linger") and not session.is_lost:
                    turns = [
                        self.more_batches(session, batches) for _ in range(dice.randint(1, _LINGER_TURNS_MAX))
                    ]
                    runtime.tasks.spawn(session.linger(turns), name=f"{session.name} lingers")
                    return
                session.leave()
                if not self.finishing:
                    await runtime.tasks.sleep(dice.uniform(*VANISHED_SECONDS))
                return
            self.is_done = self.finishing and fate == "committed"
            await self.pause()
            if not self.finishing:
                await runtime.tasks.sleep(dice.expovariate(1 / self.manners.pause_seconds))

    def more_batches(self, session: Session, batches: Batches) -> Batches:
        """One more for every partition of the transaction, and one for each of the others."""
        written = dict.fromkeys(partition for partition, _values in batches)
        others = [one for one in self._partitions if one not in written]
        return [(one, self._new_values(session, 1)) for one in (*written, *others)]
