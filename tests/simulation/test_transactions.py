"""Transactions through everything that goes wrong: all or nothing, fenced, never stuck, each input once in the output.

Method: whole worlds on the simulated runtime, each from one integer: writers of both protocols that commit, abort, freeze and
vanish, two instances of one transactional id, workers that consume, transform and produce, a broker that is killed and loses
power, a bad network. Fixed seeds keep what holds, random ones look for what does not; a failing seed fails again, alone:
`semel.verify.scenarios.transactions.run(seed)`. Then the broker is broken on purpose, one rule at a time, and the judgement
must notice within a few seeds.
"""

import contextlib
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

import pytest

from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.markers import Markers
from semel.core.coordination.outcome import LogRow, Origin, Outcome
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.group import CommitFrom
from semel.core.groups.shard import GroupShard
from semel.core.idempotence.verification import Verifications
from semel.core.transactions import rows
from semel.core.transactions.coordinator import end_txn, init_producer_id
from semel.core.transactions.coordinator.decision import Decision, SendMarkers
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.transaction import Transaction
from semel.errors import ErrorCode, LogError
from semel.log import reading
from semel.log.partition_log import PartitionLog
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from semel.verify.actors.transactional_worker import TransactionalWorker
from semel.verify.scenarios import transactions
from story_kit import Break, must_be_noticed, must_be_reproduced, run_random_seeds, run_seeds

_CHUNK = 8
_FIXED = 16
_RANDOM = 8
_SEEDS_TO_FIND_IT = 30


@pytest.mark.parametrize("first", range(0, _FIXED, _CHUNK))
def test_fixed_seeds(first: int) -> None:
    run_seeds(transactions.run, first, _CHUNK)


def test_a_worker_that_is_far_behind_catches_up() -> None:
    """Its outputs were one batch, larger than a segment: refused, and tried again for ever."""
    transactions.run(160641565)


def test_random_seeds() -> None:
    run_random_seeds(transactions.run, _RANDOM)


def test_a_run_is_reproduced_to_the_byte_by_its_seed() -> None:
    must_be_reproduced("transactions", 5)


# Broken on purpose


def _writes_no_marker_to_one_partition(patch: pytest.MonkeyPatch) -> None:
    write = Markers.write

    def forgetful(
        self: Markers, topic_partition: TopicPartition, **more: Any
    ) -> ErrorCode | Awaitable[ErrorCode]:
        if topic_partition == TopicPartition("outputs", 0):
            return ErrorCode.NONE
        return write(self, topic_partition, **more)

    patch.setattr(Markers, "write", forgetful)


def _commits_on_some_partitions_only(patch: pytest.MonkeyPatch) -> None:
    write = Markers.write

    def torn(
        self: Markers, topic_partition: TopicPartition, *, commit: bool, **more: Any
    ) -> ErrorCode | Awaitable[ErrorCode]:
        return write(self, topic_partition, commit=commit and topic_partition.partition != 1, **more)

    patch.setattr(Markers, "write", torn)


def _shows_what_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _lists_no_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reading, "aborted_transactions", lambda *_: [])


def _ends_for_any_epoch(patch: pytest.MonkeyPatch) -> None:
    end = end_txn.end

    def trusting(transaction: Transaction | None, **more: Any) -> Decision:
        if transaction is not None:
            more["producer_epoch"] = transaction.client_producer_epoch
        return end(transaction, **more)

    patch.setattr(end_txn, "end", trusting)


def _gives_an_epoch_twice(patch: pytest.MonkeyPatch) -> None:
    decide = init_producer_id.decide

    def generous(transaction: Transaction | None, request: Any, **more: Any) -> Decision:
        decision = decide(transaction, request, **more)
        if decision.code is ErrorCode.NONE and decision.moved is not None and transaction is not None:
            same = replace(decision.moved, producer_epoch=transaction.producer_epoch)
            return decision._replace(moved=same)
        return decision

    patch.setattr(init_producer_id, "decide", generous)


def _stores_offsets_at_once(patch: pytest.MonkeyPatch) -> None:
    commit = GroupShard.commit_in_transaction

    def hasty(self: GroupShard, *arguments: Any) -> Any:
        outcome = commit(self, *arguments)
        outcome.producer_id, outcome.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        return outcome

    patch.setattr(GroupShard, "commit_in_transaction", hasty)


def _leaves_prepared_transactions_after_a_crash(patch: pytest.MonkeyPatch) -> None:
    def loaded(self: TransactionShard, now_ms: int) -> Outcome[SendMarkers]:
        return Outcome()

    patch.setattr(TransactionShard, "loaded", loaded)
    # Where every log takes its marker at once, no crash comes between decision and markers: let some time pass.
    send = Markers.send

    def later(self: Markers, markers: SendMarkers, **more: Any) -> None:
        self._runtime.tasks.call_later(0.2, lambda: send(self, markers, **more))

    patch.setattr(Markers, "send", later)


def _forgets_a_partition_at_a_restart(patch: pytest.MonkeyPatch) -> None:
    """A row that is read back lacks its first partition, as long as it is not complete."""
    apply = TransactionShard.apply

    def applied(self: TransactionShard, row: LogRow, origin: Origin) -> None:
        transaction = rows.transaction_of(row)
        is_loading = self._expiry_ms is None
        if is_loading and transaction is not None and transaction.partitions:
            fewer = dict(list(transaction.partitions.items())[1:])
            row = rows.row_of(replace(transaction, partitions=fewer))
        apply(self, row, origin)

    patch.setattr(TransactionShard, "apply", applied)


def _lets_nobody_time_out(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(TransactionShard, "next_deadline_ms", lambda _self: None)


def _verifies_nothing(patch: pytest.MonkeyPatch) -> None:
    """A batch that comes late opens a transaction nobody will end. Only v1 needs to ask: under v2 its epoch is gone."""
    patch.setattr(transactions, "_v2", lambda dice: transactions._v1(dice, True))
    admit = TransactionCoordinator.admit

    def trusting(self: TransactionCoordinator, *arguments: Any, add: bool) -> Any:
        return admit(self, *arguments, add=True) if add else [ErrorCode.NONE] * len(arguments[3])

    patch.setattr(TransactionCoordinator, "admit", trusting)
    patch.setattr(Verifications, "holds", lambda *_: True)


def _answers_before_its_rows_are_synced(patch: pytest.MonkeyPatch) -> None:
    async def hasty(self: CoordinatorHost[Any, Any], hosted: Any) -> None:
        while hosted.unsettled:
            end_offset, outcome = hosted.unsettled.popleft()
            self._finish(hosted, outcome)
            with contextlib.suppress(LogError):
                await hosted.partition.settle(end_offset)

    patch.setattr(CoordinatorHost, "_settle", hasty)


def _in_a_restless_group(patch: pytest.MonkeyPatch) -> None:
    """Where these rules matter: workers that share a group and stand still now and then."""
    pause = TransactionalWorker.pause

    async def long(self: TransactionalWorker) -> None:
        if self.world.dice.random() < 0.03 and not self.finishing:
            self.freeze(self.world.dice.uniform(1.0, 6.0))
        await pause(self)

    patch.setattr(transactions, "WORKERS_PROBABILITY", 1.0)
    patch.setattr(transactions, "GROUP_PROBABILITY", 1.0)
    patch.setattr(TransactionalWorker, "pause", long)


def _takes_offsets_of_earlier_generations(patch: pytest.MonkeyPatch) -> None:
    _in_a_restless_group(patch)

    def check(self: ClassicGroup, commit: CommitFrom) -> ErrorCode:
        return ErrorCode.NONE

    patch.setattr(ClassicGroup, "check_commit", check)


def _shows_offsets_that_are_not_stable(patch: pytest.MonkeyPatch) -> None:
    _in_a_restless_group(patch)
    fetch = GroupShard.fetch

    def hasty(self: GroupShard, *arguments: Any, require_stable: bool, by_id: bool) -> Any:
        return fetch(self, *arguments, require_stable=False, by_id=by_id)

    patch.setattr(GroupShard, "fetch", hasty)


def _takes_a_fenced_end_for_a_retry(patch: pytest.MonkeyPatch) -> None:
    """As Kafka does, where producers of both protocols share a transactional id."""
    patch.setattr(Transaction, "bumps_epochs", property(lambda _self: True))


@pytest.mark.parametrize(
    ("break_it", "noticed", "first"),
    [
        (_writes_no_marker_to_one_partition, "after it was calm", 0),
        (_commits_on_some_partitions_only, "is torn", 0),
        (_shows_what_is_open, "which is not committed", 0),
        (_lists_no_aborted_transactions, "which is not committed", 0),
        (_ends_for_any_epoch, "never asked for|all the same|both are producer|is given producer", 0),
        (_gives_an_epoch_twice, "both are producer", 0),
        (_stores_offsets_at_once, "has no output", 0),
        (_leaves_prepared_transactions_after_a_crash, "after it was calm", 0),
        (_forgets_a_partition_at_a_restart, "after it was calm", 0),
        (_lets_nobody_time_out, "after it was calm", 0),
        (_verifies_nothing, "never asked for that|after it was calm", 20),
        (_answers_before_its_rows_are_synced, "is torn|is lost|both are producer|is given producer", 50),
        (_takes_offsets_of_earlier_generations, "has . outputs", 15),
        (_shows_offsets_that_are_not_stable, "has . outputs", 100),
        (_takes_a_fenced_end_for_a_retry, "both are producer", 0),
    ],
)
def test_a_broken_broker_is_found(
    break_it: Break, noticed: str, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_it(monkeypatch)
    must_be_noticed(transactions.run, noticed, range(first, first + _SEEDS_TO_FIND_IT))
