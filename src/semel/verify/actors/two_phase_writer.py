"""A program that keeps two systems in step: its own database and a log, by two-phase commit (KIP-939).

Role.   `Ledger` is the database: one row that says which transaction is to be committed. `TwoPhaseWriter` prepares
        transactions, has the ledger decide, ends them, and vanishes anywhere; whoever comes next ends what is open.
Flow.   everything is stored -> the ledger takes the transaction's identity: that is the decision -> EndTxn. A new instance
        keeps the open transaction (InitProducerId 6), commits it if it is the ledger's, else aborts it.
Rules.  * The ledger has one owner at a time, the latest that came: nobody else decides, or ends what another left.
        * What the ledger has decided must come about, however long it takes and whoever does it; what it has not must not.
        * The identity tells transactions apart, for every end of v2 gives the next epoch: this needs v2.
"""

import asyncio
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from semel.core.transactions.producer import Outgoing
from semel.core.transactions.producer_states import Fate, ProducerState
from semel.core.wire.message import Response
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import DisconnectedError, ErrorCode
from semel.runtime.bundle import Runtime
from semel.types import NO_PRODUCER_ID, TopicPartition
from semel.verify.actors.transactional import Manners, Session
from semel.verify.actors.transactional_writer import VANISHED_SECONDS, TransactionalActor, TransactionalWriter
from semel.verify.history import Decided, Deciding, Introduced
from semel.verify.world import World

_INIT_VERSION: Final = 6
_END_VERSION: Final = 5
_END_ATTEMPTS_MAX: Final = 4
_FENCED: Final = InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
_AGAIN: Final = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)

Wish: TypeAlias = Literal["commit", "abort", "vanish undecided", "vanish decided"]
_WISHES: Final[tuple[Wish, ...]] = ("commit", "abort", "vanish undecided", "vanish decided")
_WEIGHTS: Final = (5, 1, 1, 2)


class Prepared(NamedTuple):
    """The identity under which a transaction was written."""

    producer_id: int
    producer_epoch: int


class Ledger:
    """The other system: it survives everything, and takes a decision only of its owner."""

    def __init__(self) -> None:
        self.owner = ""
        self.decided: Prepared | None = None

    def decide(self, owner: str, prepared: Prepared) -> bool:
        """Write down that this transaction is to be committed; False if somebody else is the owner now."""
        if owner != self.owner:
            return False
        self.decided = prepared
        return True


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
        await self._until_stored()
        if producer.state is not ProducerState.IN_TRANSACTION or wish == "abort":
            await self._end(number, given, commit=False, offsets={})
            return self._over(number, "aborted")
        await self._pause()
        prepared = Prepared(producer.producer_id, producer.producer_epoch)
        if wish == "vanish undecided" or not self._ledger.decide(self.name, prepared):
            return "open"
        history.add(Deciding(self._world.now(), self.name, number, True, tuple(given), {}, is_final=True))
        if wish == "vanish decided":
            return "open"
        producer.commit()
        await self._until(lambda: producer.state is not ProducerState.COMMITTING)
        if producer.fate is Fate.COMMITTED:
            return self._over(number, "committed")
        # Somebody else has come, and goes by the ledger: whatever this instance was told, it is committed in the end.
        history.add(Decided(self._world.now(), self.name, number, "unknown"))
        return "open"

    async def _exchange(self, outgoing: Outgoing) -> Response:
        if isinstance(outgoing.request, InitProducerIdRequest):
            return await self._take_over(outgoing.request)
        return await super()._exchange(outgoing)

    async def _take_over(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        """Introduce itself; what is open is ended first, and then it introduces itself anew."""
        since = self._world.now()
        request.enable_2pc = request.keep_prepared_txn = True
        response = await self._coordinator.ask(request, _INIT_VERSION)
        await self._pause()
        if response.error_code or response.ongoing_txn_producer_id == NO_PRODUCER_ID:
            return response
        if self._ledger.owner != self.name:
            return _FENCED
        self._world.history.add(
            Introduced(
                *(self._world.now(), since, self.name, self.producer.transactional_id),
                *(response.producer_id, response.producer_epoch, {}),
            )
        )
        left = Prepared(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
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
                session.leave()
                if not self.finishing:
                    await runtime.tasks.sleep(dice.uniform(*VANISHED_SECONDS))
                return
            self.is_done = self.finishing and fate == "committed"
            await self.pause()
            if not self.finishing:
                await runtime.tasks.sleep(dice.expovariate(1 / self.manners.pause_seconds))
