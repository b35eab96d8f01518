"""A broker that ends, shows and remembers transactions wrongly.

Role.   Mutations found by `scenarios.transactions` and `scenarios.wide_transactions`.
"""

import contextlib
from collections.abc import Awaitable
from typing import Any, Final

from semel.broker.coordinators.host import CoordinatorHost
from semel.broker.coordinators.transactions import TransactionCoordinator
from semel.broker.markers.here import Marker, MarkersHere
from semel.broker.markers.sending import Markers
from semel.core.coordination.outcome import LogRow, Origin, Outcome
from semel.core.groups.classic.group import ClassicGroup
from semel.core.groups.shard import GroupShard
from semel.core.idempotence.verification import Verifications
from semel.core.transactions import rows
from semel.core.transactions.coordinator import end_txn, init_producer_id
from semel.core.transactions.coordinator.decision import Decision, SendMarkers
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.transaction import Transaction
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.errors import ErrorCode, LogError
from semel.log import reading
from semel.log.partition_log import PartitionLog
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from semel.verify.mutations.mutation import Mutation, Patch
from semel.verify.simulation.actors.transactional import Session
from semel.verify.simulation.actors.transactional_worker import TransactionalWorker
from semel.verify.simulation.scenarios import transactions


def _writes_no_marker_to_one_partition(patch: Patch) -> None:
    write = MarkersHere.write

    def forgetful(
        self: MarkersHere, topic_partition: TopicPartition, marker: Marker
    ) -> ErrorCode | Awaitable[ErrorCode]:
        if topic_partition.topic.endswith("outputs") and topic_partition.partition == 0:
            return ErrorCode.NONE
        return write(self, topic_partition, marker)

    patch.setattr(MarkersHere, "write", forgetful)


def _commits_on_some_partitions_only(patch: Patch) -> None:
    write = MarkersHere.write

    def torn(
        self: MarkersHere, topic_partition: TopicPartition, marker: Marker
    ) -> ErrorCode | Awaitable[ErrorCode]:
        commit = marker.commit and topic_partition.partition != 1
        return write(self, topic_partition, marker._replace(commit=commit))

    patch.setattr(MarkersHere, "write", torn)


def _shows_what_is_open(patch: Patch) -> None:
    patch.setattr(PartitionLog, "last_stable_offset", property(lambda self: self.high_watermark))


def _is_less_stable_now_and_then(patch: Patch) -> None:
    stable = PartitionLog.last_stable_offset.fget  # type: ignore[attr-defined]  # A property.

    def wavering(log: PartitionLog) -> int:
        found: int = stable(log)
        return max(log.log_start_offset, found - 1) if log.log_end_offset % 3 == 0 else found

    patch.setattr(PartitionLog, "last_stable_offset", property(wavering))


def _lists_no_aborted_transactions(patch: Patch) -> None:
    patch.setattr(reading, "aborted_transactions", lambda *_: [])


def _ends_for_any_epoch(patch: Patch) -> None:
    end = end_txn.end

    def trusting(transaction: Transaction | None, **more: Any) -> Decision:
        if transaction is not None:
            more["producer_epoch"] = transaction.client_producer_epoch
        return end(transaction, **more)

    patch.setattr(end_txn, "end", trusting)


def _gives_an_epoch_twice(patch: Patch) -> None:
    decide = init_producer_id.decide

    def generous(transaction: Transaction | None, request: Any, **more: Any) -> Decision:
        decision = decide(transaction, request, **more)
        if decision.code is ErrorCode.NONE and decision.moved is not None and transaction is not None:
            same = decision.moved._replace(producer_epoch=transaction.producer_epoch)
            return decision._replace(moved=same)
        return decision

    patch.setattr(init_producer_id, "decide", generous)


def _stores_offsets_at_once(patch: Patch) -> None:
    commit = GroupShard.commit_in_transaction

    def hasty(self: GroupShard, *arguments: Any) -> Any:
        outcome = commit(self, *arguments)
        outcome.producer_id, outcome.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        return outcome

    patch.setattr(GroupShard, "commit_in_transaction", hasty)


def _leaves_prepared_transactions_after_a_crash(patch: Patch) -> None:
    patch.setattr(TransactionShard, "loaded", lambda *_: Outcome())
    # Where every log takes its marker at once, no crash comes between decision and markers: let some time pass.
    send = Markers.send

    def later(self: Markers, markers: SendMarkers, **more: Any) -> None:
        self._runtime.tasks.call_later(0.2, lambda: send(self, markers, **more))

    patch.setattr(Markers, "send", later)


def _forgets_a_partition_at_a_restart(patch: Patch) -> None:
    """A row that is read back lacks its first partition, as long as it is not complete."""
    apply = TransactionShard.apply

    def applied(self: TransactionShard, row: LogRow, origin: Origin) -> None:
        transaction = rows.transaction_of(row)
        is_loading = self._expiry_ms is None
        if is_loading and transaction is not None and transaction.partitions:
            fewer = dict(list(transaction.partitions.items())[1:])
            row = rows.row_of(transaction._replace(partitions=fewer))
        apply(self, row, origin)

    patch.setattr(TransactionShard, "apply", applied)


def _lets_nobody_time_out(patch: Patch) -> None:
    patch.setattr(TransactionShard, "next_deadline_ms", lambda _self: None)


def _verifies_nothing(patch: Patch) -> None:
    """A batch that comes late opens a transaction nobody will end. Only v1 needs to ask: under v2 its epoch is gone."""
    patch.setattr(transactions, "_v2", lambda dice: transactions._v1(dice, True))
    admit = TransactionCoordinator.admit

    def trusting(self: TransactionCoordinator, *arguments: Any, add: bool) -> Any:
        return admit(self, *arguments, add=True) if add else [ErrorCode.NONE] * len(arguments[3])

    patch.setattr(TransactionCoordinator, "admit", trusting)
    patch.setattr(Verifications, "holds", lambda *_: True)


def _answers_before_its_rows_are_synced(patch: Patch) -> None:
    async def hasty(self: CoordinatorHost[Any, Any], hosted: Any) -> None:
        while hosted.unsettled:
            end_offset, outcome = hosted.unsettled.popleft()
            self._finish(hosted, outcome)
            with contextlib.suppress(LogError):
                await hosted.partition.settle(end_offset)

    patch.setattr(CoordinatorHost, "_settle", hasty)


def _in_a_restless_group(patch: Patch) -> None:
    """Where these rules matter: workers that share a group and stand still now and then."""
    pause = TransactionalWorker.pause

    async def long(self: TransactionalWorker) -> None:
        if self.world.dice.random() < 0.03 and not self.finishing:
            self.freeze(self.world.dice.uniform(1.0, 6.0))
        await pause(self)

    patch.setattr(transactions, "WORKERS_PROBABILITY", 1.0)
    patch.setattr(transactions, "GROUP_PROBABILITY", 1.0)
    patch.setattr(TransactionalWorker, "pause", long)


def _takes_offsets_of_earlier_generations(patch: Patch) -> None:
    _in_a_restless_group(patch)
    patch.setattr(ClassicGroup, "check_commit", lambda *_: ErrorCode.NONE)


def _shows_offsets_that_are_not_stable(patch: Patch) -> None:
    _in_a_restless_group(patch)
    fetch = GroupShard.fetch
    ask = Session._ask

    def hasty(self: GroupShard, *arguments: Any, **more: Any) -> Any:
        return fetch(self, *arguments, **{**more, "require_stable": False})

    async def then_rest(self: Session, outgoing: Any) -> None:
        """Where it shows: with its offsets in the transaction, and the transaction not ended, a worker stands still."""
        await ask(self, outgoing)
        if isinstance(outgoing.request, TxnOffsetCommitRequest) and self._runtime.dice.random() < 0.3:
            await self._runtime.tasks.sleep(self._runtime.dice.uniform(1.0, 6.0))

    patch.setattr(GroupShard, "fetch", hasty)
    patch.setattr(Session, "_ask", then_rest)


def _takes_a_fenced_end_for_a_retry(patch: Patch) -> None:
    """As Kafka does, where producers of both protocols share a transactional id."""
    patch.setattr(Transaction, "bumps_epochs", property(lambda _self: True))


def _aborts_on_one_topic(patch: Patch) -> None:
    write = MarkersHere.write

    def torn(
        self: MarkersHere, topic_partition: TopicPartition, marker: Marker
    ) -> ErrorCode | Awaitable[ErrorCode]:
        commit = marker.commit and topic_partition.topic != "others"
        return write(self, topic_partition, marker._replace(commit=commit))

    patch.setattr(MarkersHere, "write", torn)


MUTATIONS: Final = (
    Mutation(
        "no marker for one partition",
        "a transaction ends on every partition",
        _writes_no_marker_to_one_partition,
        "transactions",
        "after it was calm",
        range(30),
        quick=True,
    ),
    Mutation(
        "commit here, abort there",
        "a transaction is visible whole or not at all",
        _commits_on_some_partitions_only,
        "transactions",
        "is torn",
        range(30),
        quick=True,
    ),
    Mutation(
        "a topic told of an abort",
        "a wide transaction is visible whole or not at all",
        _aborts_on_one_topic,
        "wide_transactions",
        "is torn",
        range(2),
    ),
    Mutation(
        "the last stable offset ignored",
        "readers of committed records see none of an open transaction",
        _shows_what_is_open,
        "transactions",
        "which is not committed",
        range(30),
        quick=True,
    ),
    Mutation(
        "a last stable offset that wavers",
        "the last stable offset only grows",
        _is_less_stable_now_and_then,
        "transactions",
        "the last stable offset went back",
        range(30),
        quick=True,
    ),
    Mutation(
        "no list of aborted transactions",
        "readers of committed records see none of an aborted one",
        _lists_no_aborted_transactions,
        "transactions",
        "which is not committed",
        range(30),
        quick=True,
    ),
    Mutation(
        "any epoch may end a transaction",
        "a fenced producer ends nothing",
        _ends_for_any_epoch,
        "transactions",
        "never asked for|all the same|both are producer|is given producer",
        range(30),
    ),
    Mutation(
        "an epoch given twice",
        "who begins again fences who was there before",
        _gives_an_epoch_twice,
        "transactions",
        "both are producer",
        range(30),
        quick=True,
    ),
    Mutation(
        "offsets outside the transaction",
        "a position is stored with its output or not at all",
        _stores_offsets_at_once,
        "transactions",
        "has no output",
        range(30),
    ),
    Mutation(
        "decided, and forgotten in a crash",
        "a transaction that was decided ends after a restart, too",
        _leaves_prepared_transactions_after_a_crash,
        "transactions",
        "after it was calm",
        range(30),
    ),
    Mutation(
        "a partition forgotten in a crash",
        "a transaction ends on every partition after a restart, too",
        _forgets_a_partition_at_a_restart,
        "transactions",
        "after it was calm",
        range(30),
    ),
    Mutation(
        "nobody times out",
        "a transaction that was left open is aborted in time",
        _lets_nobody_time_out,
        "transactions",
        "after it was calm",
        range(30),
    ),
    Mutation(
        "transactions not verified",
        "a batch that comes late opens no transaction (v1)",
        _verifies_nothing,
        "transactions",
        "never asked for that|after it was calm",
        range(20, 50),
        quick=True,
    ),
    Mutation(
        "answered before its rows are synced",
        "what a coordinator answered outlives a power cut",
        _answers_before_its_rows_are_synced,
        "transactions",
        "is torn|is lost|both are producer|is given producer",
        range(50, 80),
        quick=True,
    ),
    Mutation(
        "offsets of an earlier generation",
        "a worker that lost its partitions stores no position",
        _takes_offsets_of_earlier_generations,
        "transactions",
        "has . outputs",
        range(15, 45),
    ),
    Mutation(
        "offsets shown that are not stable",
        "who takes over begins behind the last transaction",
        _shows_offsets_that_are_not_stable,
        "transactions",
        "has . outputs",
        range(30),
    ),
    Mutation(
        "a fenced end taken for a retry",
        "a fenced producer is told so, also where both protocols share an id",
        _takes_a_fenced_end_for_a_retry,
        "transactions",
        "both are producer",
        range(30),
    ),
)
