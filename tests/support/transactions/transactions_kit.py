"""What the tests of the transaction coordinator share: a shard with the plainest host there is.

`Hosted` does what a host does, in one step: ask, append the rows as bytes, apply them, answer, keep the effects. Its log
is a list of records; `restart` builds a new shard from it. Markers are sent when a test says so; fences reach every leader at
once, before the answer.
"""

from collections.abc import Callable, Iterable

from semel.core.coordination.outcome import Origin, Outcome, Ticket
from semel.core.records.build import Record, RecordInput
from semel.core.transactions.coordinator.decision import (
    FencePredecessor,
    SendMarkers,
    TransactionEffect,
    TransactionSettings,
)
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.rows import FORMAT, row_of
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import Transaction
from semel.core.wire.message import Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.errors import ErrorCode
from semel.types import TopicPartition

NOW_MS = 1_800_000_000_000
ID = "orders-1"
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 12)
TIMEOUT_MS = 60_000


class Ids:
    """Producer ids from 1000 on, while they last."""

    def __init__(self) -> None:
        self.next = 1000
        self.dry = False

    def take(self) -> int | None:
        if self.dry:
            return None
        self.next += 1
        return self.next - 1


class Hosted:
    """A shard, its log and its clock."""

    def __init__(self, settings: TransactionSettings = TransactionSettings()) -> None:  # noqa: B008  # immutable
        self.settings = settings
        self.ids = Ids()
        self.now_ms = NOW_MS
        self.log: list[RecordInput] = []
        self.markers: list[SendMarkers] = []
        self.fences: list[FencePredecessor] = []
        self.shard = TransactionShard(settings, self.ids)
        self._take(self.shard.loaded(self.now_ms))

    # The host's part.

    def ask(self, operation: Callable[[Ticket, int], Outcome[TransactionEffect]]) -> Response:
        ticket = Ticket(object())
        outcome = operation(ticket, self.now_ms)
        self._take(outcome)
        replies = outcome.replies
        for effect in outcome.effects:
            if isinstance(effect, FencePredecessor):  # Every leader has heard of it.
                assert not replies, "an answer that does not wait for the fence"
                replies = self.shard.fenced(effect).replies
        ((answered, response),) = replies
        assert answered is ticket
        return response

    def _take(self, outcome: Outcome[TransactionEffect]) -> None:
        for row in outcome.rows:
            record = FORMAT.encode(row, self.now_ms)
            self.log.append(record)
            self._apply(record, len(self.log) - 1)
        for effect in outcome.effects:
            match effect:
                case SendMarkers():
                    self.markers.append(effect)
                case FencePredecessor():
                    self.fences.append(effect)

    def _apply(self, record: RecordInput, offset: int) -> None:
        row = FORMAT.decode(Record(offset, record.timestamp_ms, record.key, record.value, (), -1))
        assert row is not None
        self.shard.apply(row, Origin(offset, record.timestamp_ms))

    def restart(self, *, compacted: bool = False) -> None:
        """The process is gone, and what it knew; the log is not."""
        records = list(enumerate(self.log))
        if compacted:
            records = sorted({record.key: (offset, record) for offset, record in records}.values())
        self.shard = TransactionShard(self.settings, self.ids)
        self.markers.clear()
        for offset, record in records:
            self._apply(record, offset)
        self._take(self.shard.loaded(self.now_ms))

    def pass_time(self, ms: int) -> None:
        """Let time pass, waking the shard whenever it asked to be."""
        end_ms = self.now_ms + ms
        while (at_ms := self.shard.next_deadline_ms()) is not None and at_ms <= end_ms:
            self.now_ms = max(self.now_ms, at_ms)
            self._take(self.shard.due(self.now_ms))
        self.now_ms = end_ms

    def write_markers(self) -> list[SendMarkers]:
        """Every marker that is on its way arrives."""
        sent, self.markers = self.markers, []
        for markers in sent:
            self.complete(markers)
        return sent

    def complete(self, markers: SendMarkers) -> None:
        self._take(self.shard.complete(markers, self.now_ms))

    def put(self, transaction: Transaction) -> None:
        """Begin a test in the middle of a story."""
        self._take(Outcome(rows=[row_of(transaction)]))

    @property
    def transaction(self) -> Transaction:
        transaction = self.shard.get(ID)
        assert transaction is not None
        return transaction

    def state(self) -> TransactionState:
        return self.transaction.state

    # The requests.

    def init(
        self,
        producer_id: int = -1,
        epoch: int = -1,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
        version: int = 5,
        enable_2pc: bool = False,
        keep: bool = False,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable_2pc=enable_2pc,
            keep_prepared_txn=keep,
        )
        response = self.ask(
            lambda ticket, now_ms: self.shard.init_producer_id(request, ticket, now_ms, version=version)
        )
        assert isinstance(response, InitProducerIdResponse)
        return response

    def add(
        self,
        producer_id: int,
        epoch: int,
        partitions: Iterable[TopicPartition] = (T0,),
        *,
        transactional_id: str = ID,
        version: int = 3,
        verify_only: bool = False,
    ) -> list[ErrorCode]:
        """The code of each partition."""
        request = AddPartitionsToTxnTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify_only,
            topics=[AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions],
        )
        response = self.ask(
            lambda ticket, now_ms: self.shard.add_partitions(request, ticket, now_ms, version=version)
        )
        assert isinstance(response, AddPartitionsToTxnResponse)
        topics = response.results_by_topic_v3_and_below
        if version > 3:
            (result,) = response.results_by_transaction
            assert result.transactional_id == transactional_id
            topics = result.topic_results
        return [ErrorCode(one.partition_error_code) for topic in topics for one in topic.results_by_partition]

    def add_offsets(self, producer_id: int, epoch: int, *, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=ID, producer_id=producer_id, producer_epoch=epoch, group_id="g"
        )
        response = self.ask(
            lambda ticket, now_ms: self.shard.add_offsets(request, OFFSETS, ticket, now_ms, version=version)
        )
        assert isinstance(response, AddOffsetsToTxnResponse)
        return ErrorCode(response.error_code)

    def end(
        self, producer_id: int, epoch: int, *, commit: bool, version: int = 4, transactional_id: str = ID
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=commit
        )
        response = self.ask(
            lambda ticket, now_ms: self.shard.end_txn(request, ticket, now_ms, version=version)
        )
        assert isinstance(response, EndTxnResponse)
        return response
