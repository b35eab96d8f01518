"""A broker that is wrong where transactions are rare: two phases, the last epochs, topics that are deleted.

Role.   Mutations found by `scenarios.rare_transactions`, each in stories of the one rarity that it concerns.
"""

from collections.abc import Callable
from typing import Any, Final

from semel.broker.markers.sending import Markers
from semel.core.coordination.outcome import LogRow, Origin
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.idempotence.producer_state import ProducerState
from semel.core.transactions import rows
from semel.core.transactions.coordinator import init_producer_id, two_phase
from semel.core.transactions.coordinator.decision import Decision, FencePredecessor, ProducerIdSource
from semel.core.transactions.coordinator.end_txn import abort_by_broker
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.transaction import EPOCH_MAX, Transaction
from semel.core.wire.messages.init_producer_id import InitProducerIdResponse
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH
from semel.verify.mutations.mutation import Mutation, Patch
from semel.verify.simulation.actors import two_phase_writer
from semel.verify.simulation.actors.two_phase_writer import Prepared, TwoPhaseSession
from semel.verify.simulation.scenarios import rare_transactions
from semel.verify.simulation.scenarios.rare_transactions import LAST_EPOCHS, MORTAL_TOPIC, TWO_PHASES


def _lets_time_run_out_for_two_phases(patch: Patch) -> None:
    patch.setattr(two_phase, "timeout_ms", lambda request: request.transaction_timeout_ms)


def _aborts_what_was_to_be_kept(patch: Patch) -> None:
    def keep(
        transaction: Transaction, _timeout_ms: int, producer_ids: ProducerIdSource, now_ms: int
    ) -> Decision:
        return abort_by_broker(transaction, producer_ids, now_ms)._replace(
            code=ErrorCode.CONCURRENT_TRANSACTIONS
        )

    patch.setattr(two_phase, "keep", keep)


def _names_the_keeper_instead_of_the_writer(patch: Patch) -> None:
    """A producer that keeps a transaction is told its own identity as the transaction's: it cannot recognize the transaction."""
    answer = TransactionShard.init_producer_id

    def told(self: TransactionShard, *arguments: Any, **more: Any) -> Any:
        outcome = answer(self, *arguments, **more)
        for effect in outcome.effects:
            if isinstance(effect, FencePredecessor) and isinstance(effect.response, InitProducerIdResponse):
                effect.response.ongoing_txn_producer_epoch = effect.response.producer_epoch
        return outcome

    patch.setattr(TransactionShard, "init_producer_id", told)


def _forgets_who_keeps_at_a_restart(patch: Patch) -> None:
    apply = TransactionShard.apply

    def applied(self: TransactionShard, row: LogRow, origin: Origin) -> None:
        transaction = rows.transaction_of(row)
        if self._expiry_ms is None and transaction is not None and transaction.is_kept:
            row = rows.row_of(
                transaction._replace(next_producer_id=-1, next_producer_epoch=NO_PRODUCER_EPOCH)
            )
        apply(self, row, origin)

    patch.setattr(TransactionShard, "apply", applied)


def _tells_no_leader_who_was_fenced(patch: Patch) -> None:
    patch.setattr(ProducerState, "doubt", lambda *_: None)


def _trusts_what_is_open_after_a_restart(patch: Patch) -> None:
    """A leader that begins has not heard of a fence. It shows where the broker ends before the kept transaction does."""
    patch.setattr(ProducerState, "doubt_all", lambda *_: None)
    kept = TwoPhaseSession._is_kept_by_another

    async def and_then_restarted(self: TwoPhaseSession, prepared: Prepared) -> bool:
        is_kept = await kept(self, prepared)
        if is_kept:
            self._world.broker.end("kill", 0.01)
        return is_kept

    patch.setattr(TwoPhaseSession, "_is_kept_by_another", and_then_restarted)
    patch.setattr(two_phase_writer, "BESIDE_SECONDS_MAX", 5.0)


def _takes_a_predecessor_for_the_owner(patch: Patch) -> None:
    patch.setattr(two_phase, "is_predecessor", lambda *_: False)


def _lets_a_predecessor_abort(patch: Patch) -> None:
    patch.setattr(two_phase, "is_closed_to", lambda *_: False)


def _never_rotates(patch: Patch) -> None:
    patch.setattr(Transaction, "is_exhausted", property(lambda self: self.client_producer_epoch >= EPOCH_MAX))


def _rotates_for_everybody(patch: Patch) -> None:
    patch.setattr(Transaction, "is_exhausted", property(lambda _self: True))


def _begins_the_next_id_where_the_last_one_ended(patch: Patch) -> None:
    decide = init_producer_id.decide

    def decided(transaction: Transaction | None, request: Any, **more: Any) -> Decision:
        decision = decide(transaction, request, **more)
        if (
            transaction is not None
            and decision.moved is not None
            and decision.moved.producer_id != transaction.producer_id
        ):
            return decision._replace(moved=decision.moved._replace(producer_epoch=transaction.producer_epoch))
        return decision

    patch.setattr(init_producer_id, "decide", decided)


def _waits_for_topics_that_are_gone(patch: Patch) -> None:
    """A partition without a topic is tried again, as one that has no leader just now."""
    patch.setattr(Markers, "_exists", lambda _self, _topic_partition: True)


def _gives_up_where_a_topic_is_gone(patch: Patch) -> None:
    """The partitions after the missing one get no marker."""
    write_all = Markers._write_all

    def half(self: Markers, sending: Any, partitions: Any) -> Any:
        here = []
        for topic_partition in partitions:
            if topic_partition.topic != OFFSETS_TOPIC and not self._exists(topic_partition):
                break
            here.append(topic_partition)
        return write_all(self, sending, here)

    patch.setattr(Markers, "_write_all", half)


def _where(rarity: str, change: Callable[[Patch], None]) -> Callable[[Patch], None]:
    """The change, in stories that have this rarity."""

    def changed(patch: Patch) -> None:
        patch.setattr(rare_transactions, "RARITIES", (rarity,))
        change(patch)

    return changed


def _rare(
    name: str, breaks: str, change: Callable[[Patch], None], rarity: str, noticed: str, first: int = 0
) -> Mutation:
    seeds = range(first, first + 30)
    return Mutation(name, breaks, _where(rarity, change), "rare_transactions", noticed, seeds, quick=True)


MUTATIONS: Final = (
    _rare(
        "leaders that hear of no fence",
        "a prepared transaction grows no more once another keeps it",
        _tells_no_leader_who_was_fenced,
        TWO_PHASES,
        "never asked for that|was written after",
    ),
    _rare(
        "a fence forgotten at a restart",
        "a prepared transaction grows no more after a restart, either",
        _trusts_what_is_open_after_a_restart,
        TWO_PHASES,
        "never asked for that|was written after",
    ),
    _rare(
        "a predecessor taken for the owner",
        "a fenced producer commits no position with what it prepared",
        _takes_a_predecessor_for_the_owner,
        TWO_PHASES,
        "a fenced producer committed it",
    ),
    _rare(
        "a predecessor that aborts",
        "a fenced producer has nothing aborted that it prepared",
        _lets_a_predecessor_abort,
        TWO_PHASES,
        "was decided for good",
    ),
    _rare(
        "two phases that time out",
        "a prepared transaction waits for its decision",
        _lets_time_run_out_for_two_phases,
        TWO_PHASES,
        "was decided for good",
    ),
    _rare(
        "aborted, though it was to be kept",
        "who keeps a prepared transaction finds it",
        _aborts_what_was_to_be_kept,
        TWO_PHASES,
        "was decided for good",
    ),
    _rare(
        "the keeper named for the writer",
        "who keeps a transaction learns whose it is",
        _names_the_keeper_instead_of_the_writer,
        TWO_PHASES,
        "was decided for good",
    ),
    _rare(
        "the keeper forgotten at a restart",
        "who keeps a transaction is known after a restart, too",
        _forgets_who_keeps_at_a_restart,
        TWO_PHASES,
        "both are producer|is given producer|after it was calm",
        19,
    ),
    _rare(
        "the last epoch given",
        "an id whose epochs run out is replaced",
        _never_rotates,
        LAST_EPOCHS,
        "both are producer|kept for markers",
    ),
    _rare(
        "a new id each time",
        "an id is replaced only when its epochs run out",
        _rotates_for_everybody,
        LAST_EPOCHS,
        "its producer went from",
    ),
    _rare(
        "a new id with an old epoch",
        "a new id begins at epoch 0",
        _begins_the_next_id_where_the_last_one_ended,
        LAST_EPOCHS,
        "its producer went from",
    ),
    _rare(
        "waiting for a topic that is gone",
        "a deleted topic keeps no transaction open",
        _waits_for_topics_that_are_gone,
        MORTAL_TOPIC,
        "after it was calm",
    ),
    _rare(
        "giving up at a topic that is gone",
        "the other partitions get their markers",
        _gives_up_where_a_topic_is_gone,
        MORTAL_TOPIC,
        "is torn|is lost|after it was calm",
    ),
)
