"""Two-phase commit, epochs that run out, topics deleted under open transactions: the promises of transactions hold there too.

Method: whole worlds on the simulated runtime, as in `test_transactions`, each with one or more of these. Then the broker is
broken on purpose where only these matter, and the judgement must notice within a few seeds.
"""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from semel.broker.markers import Markers
from semel.core.coordination.outcome import LogRow, Origin
from semel.core.groups.rows import OFFSETS_TOPIC
from semel.core.transactions import rows
from semel.core.transactions.coordinator import init_producer_id, two_phase
from semel.core.transactions.coordinator.decision import Decision, ProducerIdSource
from semel.core.transactions.coordinator.end_txn import abort_by_broker
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.transaction import EPOCH_MAX, Transaction
from semel.core.wire.messages.init_producer_id import InitProducerIdResponse
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, TopicPartition
from semel.verify.scenarios import rare_transactions
from semel.verify.scenarios.rare_transactions import LAST_EPOCHS, MORTAL_TOPIC, TWO_PHASES
from story_kit import Break, must_be_noticed, must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 8
_RANDOM = 4
_SEEDS_TO_FIND_IT = 30


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(rare_transactions.run, first, _CHUNK)


def test_random_seeds() -> None:
    run_random_seeds(rare_transactions.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("rare_transactions", 1)


# Broken on purpose


def _lets_time_run_out_for_two_phases(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(two_phase, "timeout_ms", lambda request: request.transaction_timeout_ms)


def _aborts_what_was_to_be_kept(patch: pytest.MonkeyPatch) -> None:
    def keep(
        transaction: Transaction, _timeout_ms: int, producer_ids: ProducerIdSource, now_ms: int
    ) -> Decision:
        return abort_by_broker(transaction, producer_ids, now_ms)._replace(
            code=ErrorCode.CONCURRENT_TRANSACTIONS
        )

    patch.setattr(two_phase, "keep", keep)


def _names_the_keeper_instead_of_the_writer(patch: pytest.MonkeyPatch) -> None:
    """Whoever keeps a transaction is told its own identity as that of the transaction: it cannot know it again."""
    answer = TransactionShard.init_producer_id

    def told(self: TransactionShard, *arguments: Any, **more: Any) -> Any:
        outcome = answer(self, *arguments, **more)
        for _ticket, response in outcome.replies:
            if isinstance(response, InitProducerIdResponse) and response.ongoing_txn_producer_id >= 0:
                response.ongoing_txn_producer_epoch = response.producer_epoch
        return outcome

    patch.setattr(TransactionShard, "init_producer_id", told)


def _forgets_who_keeps_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    apply = TransactionShard.apply

    def applied(self: TransactionShard, row: LogRow, origin: Origin) -> None:
        transaction = rows.transaction_of(row)
        if self._expiry_ms is None and transaction is not None and transaction.is_kept:
            row = rows.row_of(
                replace(transaction, next_producer_id=-1, next_producer_epoch=NO_PRODUCER_EPOCH)
            )
        apply(self, row, origin)

    patch.setattr(TransactionShard, "apply", applied)


def _never_rotates(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "is_exhausted", property(lambda self: self.client_producer_epoch >= EPOCH_MAX))


def _rotates_for_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transaction, "is_exhausted", property(lambda _self: True))


def _begins_the_next_id_where_the_last_one_ended(patch: pytest.MonkeyPatch) -> None:
    decide = init_producer_id.decide

    def decided(transaction: Transaction | None, request: Any, **more: Any) -> Decision:
        decision = decide(transaction, request, **more)
        if (
            transaction is not None
            and decision.moved is not None
            and decision.moved.producer_id != transaction.producer_id
        ):
            return decision._replace(moved=replace(decision.moved, producer_epoch=transaction.producer_epoch))
        return decision

    patch.setattr(init_producer_id, "decide", decided)


def _waits_for_topics_that_are_gone(patch: pytest.MonkeyPatch) -> None:
    write = Markers.write

    def stubborn(
        self: Markers, topic_partition: TopicPartition, **more: Any
    ) -> ErrorCode | Awaitable[ErrorCode]:
        result = write(self, topic_partition, **more)
        is_missing = result is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if is_missing else result

    patch.setattr(Markers, "write", stubborn)


def _gives_up_where_a_topic_is_gone(patch: pytest.MonkeyPatch) -> None:
    """The partitions after the missing one get no marker."""
    write_all = Markers._write_all

    def half(self: Markers, markers: Any, partitions: Any, coordinator_epoch: int) -> Any:
        here = []
        for topic_partition in partitions:
            if topic_partition.topic != OFFSETS_TOPIC and not self._exists(topic_partition):
                break
            here.append(topic_partition)
        return write_all(self, markers, here, coordinator_epoch)

    patch.setattr(Markers, "_write_all", half)


@pytest.mark.parametrize(
    ("break_it", "rarity", "noticed", "first"),
    [
        (_lets_time_run_out_for_two_phases, TWO_PHASES, "was decided for good", 0),
        (_aborts_what_was_to_be_kept, TWO_PHASES, "was decided for good", 0),
        (_names_the_keeper_instead_of_the_writer, TWO_PHASES, "was decided for good", 0),
        (
            _forgets_who_keeps_at_a_restart,
            TWO_PHASES,
            "both are producer|is given producer|after it was calm",
            19,
        ),
        (_never_rotates, LAST_EPOCHS, "both are producer|kept for markers", 0),
        (_rotates_for_everybody, LAST_EPOCHS, "its producer went from", 0),
        (_begins_the_next_id_where_the_last_one_ended, LAST_EPOCHS, "its producer went from", 0),
        (_waits_for_topics_that_are_gone, MORTAL_TOPIC, "after it was calm", 0),
        (_gives_up_where_a_topic_is_gone, MORTAL_TOPIC, "is torn|is lost|after it was calm", 0),
    ],
)
def test_a_broken_broker_is_found(
    break_it: Break, rarity: str, noticed: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    monkeypatch.setattr(rare_transactions, "RARITIES", (rarity,))
    must_be_noticed(rare_transactions.run, noticed, range(first, first + _SEEDS_TO_FIND_IT))
