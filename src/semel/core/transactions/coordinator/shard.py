"""One partition of `__transaction_state`: its transactional ids and the requests for them.

Role.   The coordinator's entry point: each operation takes a request and returns the rows, the reply and the effects.
Flow.   The host (`broker.coordinators`) calls an operation, appends the rows, applies them and, once they are
        committed, gives the reply and runs the effects. The host answers `SendMarkers` with `complete` once every
        partition has its marker. It answers `FencePredecessor` with `fenced` once every leader doubts the former owner
        of a kept transaction.
Rules.  * Deciding changes no transaction: only `apply` does, live and in replay alike.
        * Kafka's rows do not carry the epoch before the last bump, by which a retried InitProducerId is recognised. It
          is kept in memory and lost at a restart; the retry is then fenced, never accepted wrongly.
        * A bump whose append failed is neither repeated nor undone: the host reloads the shard from the log. No client
          was given the epoch.
        * A crash loses no decision: `loaded` resends the markers of every prepared transaction, and `apply` restarts
          the timeouts of ongoing ones.
Elsewhere. The rules of each request: `init_producer_id`, `partitions`, `end_txn`, `two_phase`, `expiry`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from semel.core.coordination.deadlines import Deadlines
from semel.core.coordination.outcome import LogRow, Origin, Outcome, Ticket
from semel.core.transactions import rows
from semel.core.transactions.coordinator import end_txn, expiry, init_producer_id, listing, partitions
from semel.core.transactions.coordinator.decision import (
    Decision,
    FencePredecessor,
    ProducerIdSource,
    SendMarkers,
    TransactionEffect,
    TransactionSettings,
    as_of,
)
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import TRANSACTIONS_V1, TRANSACTIONS_V2, Transaction
from semel.core.wire.message import Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.messages.describe_transactions import TransactionState as DescribedTransaction
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import ErrorCode
from semel.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition

_END_TXN_V2_SINCE: Final = 5
_ADD_PARTITIONS_V2_SINCE: Final = 4
_AGAIN_MS: Final = 100


class TransactionShard:
    """The transactional ids of one partition."""

    def __init__(self, settings: TransactionSettings, producer_ids: ProducerIdSource) -> None:
        self.settings = settings
        self._producer_ids = producer_ids
        self._transactions: dict[str, Transaction] = {}
        self._last_epochs: dict[str, int] = {}
        self._timeouts: Deadlines[str] = Deadlines()
        self._expiry_ms: int | None = None

    def __len__(self) -> int:
        return len(self._transactions)

    def __iter__(self) -> Iterator[Transaction]:
        """Every transaction, the longest known first."""
        return iter(self._transactions.values())

    def get(self, transactional_id: str) -> Transaction | None:
        return self._transactions.get(transactional_id)

    # Requests.

    def init_producer_id(
        self, request: InitProducerIdRequest, ticket: Ticket, now_ms: int, *, version: int
    ) -> Outcome[TransactionEffect]:
        """InitProducerId: make the caller the owner of the transactional id."""
        transactional_id = request.transactional_id or ""
        unfit = init_producer_id.unfit(request, self.settings)
        if unfit is not ErrorCode.NONE:
            decision = Decision(unfit)
        else:
            decision = init_producer_id.decide(
                self._transactions.get(transactional_id),
                request,
                last_epoch=self._last_epochs.get(transactional_id, NO_PRODUCER_EPOCH),
                producer_ids=self._producer_ids,
                now_ms=now_ms,
            )
        owned = decision.moved if decision.code is ErrorCode.NONE else None
        if owned is None:
            code = as_of(decision.code, "InitProducerId", version)
            return self.outcome_of(
                decision,
                ticket,
                InitProducerIdResponse(
                    error_code=code, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH
                ),
            )
        response = InitProducerIdResponse(
            producer_id=owned.client_producer_id, producer_epoch=owned.client_producer_epoch
        )
        if not owned.is_kept:
            return self.outcome_of(decision, ticket, response)
        response.ongoing_txn_producer_id = owned.producer_id
        response.ongoing_txn_producer_epoch = owned.producer_epoch
        outcome: Outcome[TransactionEffect] = Outcome()
        self._take_up(decision, outcome)
        fence = FencePredecessor(owned.producer_id, tuple(owned.partitions), ticket, response)
        outcome.effects.append(fence)
        return outcome

    def add_partitions(
        self, request: AddPartitionsToTxnTransaction, ticket: Ticket, now_ms: int, *, version: int
    ) -> Outcome[TransactionEffect]:
        """AddPartitionsToTxn for one transaction: add the partitions, or verify that they were added."""
        named = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partitions]
        decision = Decision()
        if not request.transactional_id:
            codes = [ErrorCode.INVALID_REQUEST] * len(named)
        elif request.verify_only:
            codes = self.verify(request.transactional_id, request.producer_id, request.producer_epoch, named)
        else:
            decision = self.decide_add(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                named,
                client_version=TRANSACTIONS_V2 if version >= _ADD_PARTITIONS_V2_SINCE else TRANSACTIONS_V1,
                now_ms=now_ms,
            )
            codes = [as_of(decision.code, "AddPartitionsToTxn", version)] * len(named)
        result = _result(request.transactional_id, named, codes)
        if version < _ADD_PARTITIONS_V2_SINCE:
            response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
        else:
            response = AddPartitionsToTxnResponse(results_by_transaction=[result])
        return self.outcome_of(decision, ticket, response)

    def add_offsets(
        self,
        request: AddOffsetsToTxnRequest,
        offsets_partition: TopicPartition,
        ticket: Ticket,
        now_ms: int,
        *,
        version: int,
    ) -> Outcome[TransactionEffect]:
        """AddOffsetsToTxn: add the group's partition of `__consumer_offsets`."""
        if not request.transactional_id:
            decision = Decision(ErrorCode.INVALID_REQUEST)
        else:
            decision = self.decide_add(
                request.transactional_id,
                request.producer_id,
                request.producer_epoch,
                [offsets_partition],
                client_version=TRANSACTIONS_V1,
                now_ms=now_ms,
            )
        code = as_of(decision.code, "AddOffsetsToTxn", version)
        return self.outcome_of(decision, ticket, AddOffsetsToTxnResponse(error_code=code))

    def end_txn(
        self, request: EndTxnRequest, ticket: Ticket, now_ms: int, *, version: int
    ) -> Outcome[TransactionEffect]:
        """EndTxn: commit or abort."""
        is_v2 = version >= _END_TXN_V2_SINCE
        known = self._transactions.get(request.transactional_id)
        if not request.transactional_id:
            decision = Decision(ErrorCode.INVALID_REQUEST)
        else:
            decision = end_txn.end(
                known,
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                commit=request.committed,
                client_version=TRANSACTIONS_V2 if is_v2 else TRANSACTIONS_V1,
                producer_ids=self._producer_ids,
                now_ms=now_ms,
            )
        response = EndTxnResponse(error_code=as_of(decision.code, "EndTxn", version))
        if is_v2 and decision.code is ErrorCode.NONE:
            if decision.moved is not None:
                response.producer_id, response.producer_epoch = decision.moved.identity_after
            elif known is not None:
                response.producer_id, response.producer_epoch = known.producer_id, known.producer_epoch
        return self.outcome_of(decision, ticket, response)

    # The broker's own calls.

    def decide_add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        named: Sequence[TopicPartition],
        *,
        client_version: int,
        now_ms: int,
    ) -> Decision:
        """The decision about adding these partitions."""
        return partitions.add(
            self._transactions.get(transactional_id),
            named,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            client_version=client_version,
            now_ms=now_ms,
        )

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, named: Sequence[TopicPartition]
    ) -> list[ErrorCode]:
        """For each partition: whether it is in the producer's transaction."""
        return partitions.verify(
            self._transactions.get(transactional_id),
            named,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )

    def complete(self, markers: SendMarkers, now_ms: int) -> Outcome[TransactionEffect]:
        """Every partition has the marker. A repeated or late call changes nothing."""
        transaction = self._transactions.get(markers.transactional_id)
        if (
            transaction is None
            or not transaction.state.is_prepared
            or self._markers_of(transaction) != markers
        ):
            return Outcome()
        return Outcome(rows=[rows.row_of(transaction.completed(now_ms))])

    def fenced(self, fence: FencePredecessor) -> Outcome[TransactionEffect]:
        """Every leader fences the predecessor: answer the client that keeps the transaction."""
        return Outcome(replies=[(fence.ticket, fence.response)])

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """DescribeTransactions for one id."""
        return listing.described(transactional_id, self._transactions.get(transactional_id))

    # Calls of the host: rows and time.

    def apply(self, row: LogRow, origin: Origin) -> None:  # noqa: ARG002  # The origin of a row has no meaning here.
        """Take a row over."""
        transactional_id = rows.id_in(row)
        transaction = rows.transaction_of(row)
        if transaction is None:
            self._transactions.pop(transactional_id, None)
            self._last_epochs.pop(transactional_id, None)
            self._timeouts.cancel(transactional_id)
            return
        before = self._transactions.get(transactional_id)
        self._transactions[transactional_id] = transaction
        deadline_ms = expiry.deadline_ms(transaction)
        if before is not None and deadline_ms == expiry.deadline_ms(before):
            return  # Adding partitions neither extends the deadline nor undoes the one `loaded` set.
        if deadline_ms is None:
            self._timeouts.cancel(transactional_id)
        else:
            self._timeouts.set(transactional_id, deadline_ms)

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """Do nothing: rows of this topic are never transactional."""

    def loaded(self, now_ms: int) -> Outcome[TransactionEffect]:
        """Resend the markers of prepared transactions. A transaction with a start in the future (the clock went back)
        starts now."""
        self._expiry_ms = now_ms + self.settings.expiration_interval_ms
        for transaction in self._transactions.values():
            if transaction.start_ms > now_ms:
                deadline_ms = expiry.deadline_ms(transaction._replace(start_ms=now_ms))
                if deadline_ms is not None:
                    self._timeouts.set(transaction.transactional_id, deadline_ms)
        return Outcome(
            effects=[
                self._markers_of(transaction)
                for transaction in self._transactions.values()
                if transaction.state.is_prepared
            ]
        )

    def next_deadline_ms(self) -> int | None:
        timeout_ms, expiry_ms = self._timeouts.next_ms(), self._expiry_ms
        if timeout_ms is None or expiry_ms is None:
            return expiry_ms if timeout_ms is None else timeout_ms
        return min(timeout_ms, expiry_ms)

    def due(self, now_ms: int) -> Outcome[TransactionEffect]:
        """Abort timed-out transactions and forget expired ids."""
        outcome: Outcome[TransactionEffect] = Outcome()
        for transaction in expiry.overdue(self._timeouts, self._transactions, now_ms):
            decision = end_txn.abort_by_broker(transaction, self._producer_ids, now_ms)
            if decision.moved is None:  # Its epochs are exhausted, and no producer id is at hand.
                self._timeouts.set(transaction.transactional_id, now_ms + _AGAIN_MS)
                continue
            self._take_up(decision, outcome)
        if self._expiry_ms is not None and self._expiry_ms <= now_ms:
            gone = expiry.expired(
                self._transactions.values(), expiration_ms=self.settings.id_expiration_ms, now_ms=now_ms
            )
            outcome.rows.extend(rows.tombstone_of(transactional_id) for transactional_id in gone)
            more = len(gone) == expiry.FORGET_MAX
            self._expiry_ms = now_ms if more else now_ms + self.settings.expiration_interval_ms
        return outcome

    # From a decision to an outcome.

    def outcome_of(
        self, decision: Decision, ticket: Ticket, response: Response
    ) -> Outcome[TransactionEffect]:
        """A decision as rows, effects and the reply."""
        outcome: Outcome[TransactionEffect] = Outcome(replies=[(ticket, response)])
        self._take_up(decision, outcome)
        return outcome

    def _take_up(self, decision: Decision, outcome: Outcome[TransactionEffect]) -> None:
        moved = decision.moved
        if moved is None:
            return
        outcome.rows.append(rows.row_of(moved))
        if decision.last_epoch == NO_PRODUCER_EPOCH:
            self._last_epochs.pop(moved.transactional_id, None)
        elif decision.last_epoch is not None:
            self._last_epochs[moved.transactional_id] = decision.last_epoch
        if moved.state.is_prepared:
            outcome.effects.append(self._markers_of(moved))

    def _markers_of(self, transaction: Transaction) -> SendMarkers:
        return SendMarkers(
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.state is TransactionState.PREPARE_COMMIT,
            tuple(transaction.partitions),
            transaction.marker_version,
        )


def _result(
    transactional_id: str, named: Sequence[TopicPartition], codes: Sequence[ErrorCode]
) -> AddPartitionsToTxnResult:
    by_topic: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for (topic, index), code in zip(named, codes, strict=True):
        by_topic.setdefault(topic, []).append(
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
        )
    return AddPartitionsToTxnResult(
        transactional_id=transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(name=topic, results_by_partition=results)
            for topic, results in by_topic.items()
        ],
    )
