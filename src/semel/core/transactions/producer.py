"""The producer's end of transactions: the next request, and the effect of each answer.

Role.   A transactional producer without I/O. The application's calls (init, begin, enqueue, send_offsets, commit,
        abort) change its state; `next_request` and `send` give the requests and batches to send; the sender reports
        answers and losses.
Flow.   The sender asks `next_request` for coordinator requests, one at a time, and `send` for batches; it reports to
        `answered`, `lost` and `handle`. Each report returns an `After`: the step before the next request.
Rules.  * A request without an answer is resent until it has one, and no later request overtakes it: its effect is known
          before the next step depends on it.
        * v1 (AddPartitionsToTxn, Produce < 12, EndTxn < 5): a partition joins before its first batch leaves. One epoch
          serves many transactions, so a late request could arrive in the next one. After a lost answer or a missing
          sequence, InitProducerId bumps the epoch before the next transaction.
        * v2 (Produce 12+, EndTxn 5+): the broker adds partitions implicitly, and every end gives the next epoch.
        * A transaction is committed only if every batch and its offsets are stored. If the producer is fenced while a
          commit is unanswered, the fate is UNKNOWN, never ABORTED.
        * A group's offsets are sent a second time only if no answer to the first was lost: a late attempt of the first
          could overwrite the second. Otherwise the transaction must be aborted.
        * A transaction ends only after every sent batch is settled. An empty transaction ends without a request.
        * A guest joins a transaction that another process began and will end, under that process's identity (v1). The
          guest is the only writer of its partitions in that epoch, from sequence 0; it never ends the transaction.
        * Two-phase commit (KIP-939): a prepared transaction is stored in full and stays open after the client is gone.
          A client that keeps it may only end it.
Elsewhere. Sequences and answers to batches: `core.idempotence.in_flight`. Back-off, connections, finding the
        coordinators, batching: the client.

    init --> READY --begin--> IN_TRANSACTION --commit--> COMMITTING --> READY
               ^                |      \\--> ABORTABLE_ERROR --abort--> ABORTING
               |                \\-----abort---------------------------^   |
               \\---- BUMPING (v1, where something is unsure) <-----------/
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple

from semel.core.idempotence.delivery import (
    NO_IDENTITY,
    Decision,
    Event,
    Fail,
    Identity,
    Lost,
    NeedAbort,
    Send,
)
from semel.core.idempotence.in_flight import IN_FLIGHT_MAX, InFlight
from semel.core.transactions.producer_answers import ABORTABLE, code_of
from semel.core.transactions.producer_states import MOVES, Fate, ProducerState
from semel.core.wire.message import Request, Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from semel.errors import ErrorCode, InvariantError
from semel.types import NO_PRODUCER_ID, TopicPartition

PRODUCE_V1_MAX: Final = 11
END_TXN_V1_MAX: Final = 4
TXN_OFFSET_COMMIT_V1_MAX: Final = 4
"""The highest versions of transactions v1; higher ones use v2."""

_FIND: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FATAL_FOR_BATCHES: Final = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


_SENDING: Final = (ProducerState.IN_TRANSACTION, ProducerState.PREPARING, ProducerState.COMMITTING)


class After(Enum):
    """The step before the next request."""

    GO_ON = "go on"
    BACK_OFF = "back off"
    FIND_COORDINATOR = "find the coordinator"


class GroupMetadata(NamedTuple):
    """The group member that sends offsets (KIP-447); without a generation it is not fenced."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Position(NamedTuple):
    """An offset to commit, its metadata text, and the leader epoch of the record before it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


class Outgoing(NamedTuple):
    """A request to a coordinator: the transaction's, or with `group_id` that of the group."""

    request: Request[Any]
    group_id: str | None = None


@dataclass(slots=True)
class _Progress:
    """Progress of the current transaction."""

    to_add: dict[TopicPartition, None] = field(default_factory=dict)
    added: dict[TopicPartition, None] = field(default_factory=dict)
    offsets: deque[tuple[GroupMetadata, Mapping[TopicPartition, int | Position]]] = field(
        default_factory=deque
    )
    """Offsets to store; the first entry is being sent."""
    groups_added: dict[str, None] = field(default_factory=dict)
    groups_unsure: dict[str, None] = field(default_factory=dict)
    """Groups with a lost TxnOffsetCommit that may still arrive."""
    begun: bool = False
    """Whether the coordinator may know of the transaction."""


class TransactionalProducer:
    """One instance of a transactional id."""

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        *,
        v2: bool,
        two_phase: bool = False,
        in_flight_max: int = IN_FLIGHT_MAX,
    ) -> None:
        self.transactional_id = transactional_id
        self.v2 = v2
        self.state = ProducerState.UNINITIALIZED
        self.fate = Fate.OPEN
        self.error = ErrorCode.NONE
        """The cause of an error state."""
        self.prepared = NO_IDENTITY
        """The identity under which the prepared transaction was written."""
        self.is_guest = False
        """Whether another process owns the transaction."""
        self._two_phase = two_phase
        self._keeps = False
        self._timeout_ms = timeout_ms
        self._in_flight: InFlight[TopicPartition] = InFlight(in_flight_max=in_flight_max, transactional=True)
        self._progress = _Progress()
        self._under_way: Outgoing | None = None
        self._is_sent = False
        self._commit_is_open = False
        """Whether an EndTxn commit was sent that the coordinator may have carried out."""
        self._needs_bump = False

    @property
    def producer_id(self) -> int:
        return self._in_flight.identity.producer_id

    @property
    def producer_epoch(self) -> int:
        return self._in_flight.identity.producer_epoch

    # The application

    def init(self, *, keep_prepared: bool = False) -> None:
        """Start with InitProducerId: fence earlier owners of the transactional id; abort or keep their open
        transaction."""
        self._move(ProducerState.INITIALIZING)
        self._keeps = keep_prepared

    def join(self, identity: Identity) -> None:
        """Join the transaction of the producer with this identity. Partitions are added as batches come, by v1's
        requests."""
        if self.v2:
            raise InvariantError(f"{self.transactional_id}: a transaction is shared under v1 alone")
        self._expect(ProducerState.UNINITIALIZED)
        self._move(ProducerState.IN_TRANSACTION)
        self._in_flight.use_identity(*identity)
        self.is_guest = True

    def begin(self) -> None:
        """Begin a transaction; nothing is sent yet."""
        self._expect(ProducerState.READY)
        self._move(ProducerState.IN_TRANSACTION)
        self._progress = _Progress()
        self.fate = Fate.OPEN
        self._commit_is_open = False

    def enqueue(self, partition: TopicPartition, batch_id: int, records_count: int) -> None:
        """Queue a batch of the transaction."""
        self._expect(ProducerState.IN_TRANSACTION)
        if not self.v2 and partition not in self._progress.added:
            self._progress.to_add[partition] = None
        self._in_flight.enqueue(partition, batch_id, records_count)

    def send_offsets(self, group: GroupMetadata, offsets: Mapping[TopicPartition, int | Position]) -> None:
        """Queue consumed offsets: they are committed with the transaction, or not at all."""
        self._expect(ProducerState.IN_TRANSACTION)
        self._progress.offsets.append((group, dict(offsets)))

    @property
    def has_offsets_to_send(self) -> bool:
        """Whether some offsets are not stored yet."""
        return bool(self._progress.offsets)

    def refuse(self, code: ErrorCode) -> None:
        """A record of the transaction was refused before sending: the transaction is incomplete and must be aborted."""
        self._expect(ProducerState.IN_TRANSACTION)
        self._fail(code)

    def commit(self) -> None:
        """Commit, once everything is stored."""
        self._move(ProducerState.COMMITTING)
        self._end_without_request()

    def prepare(self) -> None:
        """Store every batch and offset, then leave the transaction open until it is committed or aborted."""
        if not self._two_phase:
            raise InvariantError(f"{self.transactional_id}: it was made without two-phase commit")
        self.leave_open()

    def leave_open(self) -> None:
        """As `prepare`, without two-phase commit: a process that knows the identity may end the transaction before it
        times out."""
        self._move(ProducerState.PREPARING)
        self._prepare_if_stored()

    def _prepare_if_stored(self) -> None:
        progress = self._progress
        if self.state is not ProducerState.PREPARING or progress.to_add or progress.offsets:
            return
        if self._under_way is None and next(self.partitions(), None) is None:
            self.prepared = self._in_flight.identity
            self._move(ProducerState.PREPARED)

    def abort(self) -> list[Decision[TopicPartition]]:
        """Abort; queued batches are never sent."""
        self._move(ProducerState.ABORTING)
        decisions = self._in_flight.abandon(ErrorCode.OPERATION_NOT_ATTEMPTED)
        self._note(decisions)
        self._end_without_request()
        return decisions

    # Batches

    def partitions(self) -> Iterator[TopicPartition]:
        """Partitions with unsettled batches."""
        return self._in_flight.partitions()

    def send(self, partition: TopicPartition, now_ms: int) -> Send[TopicPartition] | None:
        """The partition's next batch to send; None while it must wait."""
        if self.state not in _SENDING:
            return None
        if not self.v2 and partition not in self._progress.added:
            return None
        send = self._in_flight.send(partition, now_ms)
        self._progress.begun = self._progress.begun or send is not None
        return send

    def upcoming(self, partition: TopicPartition) -> int | None:
        """As `InFlight.upcoming`."""
        return self._in_flight.upcoming(partition)

    def has_room(self, partition: TopicPartition, now_ms: int) -> bool:
        """Whether a batch enqueued now could leave once its partition is added."""
        return self.state is ProducerState.IN_TRANSACTION and self._in_flight.has_room(partition, now_ms)

    def split(self, partition: TopicPartition, batch_id: int, pieces: Sequence[tuple[int, int]]) -> None:
        """As `InFlight.split`."""
        self._in_flight.split(partition, batch_id, pieces)

    def handle(self, event: Event[TopicPartition], now_ms: int) -> list[Decision[TopicPartition]]:
        """An event of a batch in flight."""
        decisions = self._in_flight.handle(event, now_ms)
        if isinstance(event, Lost):
            self._be_unsure()
        if self.state in (ProducerState.ABORTING, ProducerState.ABORTABLE_ERROR, ProducerState.FATAL_ERROR):
            decisions += self._in_flight.abandon(ErrorCode.OPERATION_NOT_ATTEMPTED)
        self._note(decisions)
        self._prepare_if_stored()
        return decisions

    def _note(self, decisions: list[Decision[TopicPartition]]) -> None:
        """A failed batch or a missing sequence prevents the commit."""
        for decision in decisions:
            match decision:
                case NeedAbort():
                    self._needs_bump = True
                    self._fail(decision.code)
                case Fail() if decision.code in _FATAL_FOR_BATCHES:
                    self._fail(decision.code, fatal=True)
                case Fail():
                    self._fail(decision.code)
                case _:
                    pass

    # Requests to the coordinators

    def next_request(self) -> Outgoing | None:
        """The next request to a coordinator; None while one is in flight, or none is due."""
        if self._is_sent:
            return None
        if self._under_way is None:
            self._under_way = self._due()
        self._is_sent = self._under_way is not None
        return self._under_way

    def _due(self) -> Outgoing | None:
        progress = self._progress
        match self.state:
            case ProducerState.INITIALIZING:
                return Outgoing(
                    InitProducerIdRequest(
                        transactional_id=self.transactional_id,
                        transaction_timeout_ms=self._timeout_ms,
                        enable_2pc=self._two_phase,
                        keep_prepared_txn=self._keeps,
                    )
                )
            case ProducerState.BUMPING:
                return Outgoing(
                    InitProducerIdRequest(
                        transactional_id=self.transactional_id,
                        transaction_timeout_ms=self._timeout_ms,
                        producer_id=self.producer_id,
                        producer_epoch=self.producer_epoch,
                        enable_2pc=self._two_phase,
                    )
                )
            case ProducerState.IN_TRANSACTION | ProducerState.PREPARING | ProducerState.COMMITTING:
                if progress.to_add:
                    return Outgoing(self._add_partitions())
                if progress.offsets:
                    return self._offsets(*progress.offsets[0])
                if self.state is ProducerState.COMMITTING and next(self.partitions(), None) is None:
                    return Outgoing(self._end(commit=True))
            case ProducerState.ABORTING if next(self.partitions(), None) is None:
                return Outgoing(self._end(commit=False))
            case _:
                pass
        return None

    def _add_partitions(self) -> AddPartitionsToTxnRequest:
        topics: dict[str, AddPartitionsToTxnTopic] = {}
        for topic, partition in self._progress.to_add:
            topics.setdefault(topic, AddPartitionsToTxnTopic(name=topic)).partitions.append(partition)
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=list(topics.values()),
        )

    def _offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, int | Position]
    ) -> Outgoing | None:
        if group.group_id in self._progress.groups_unsure:
            self._fail(ErrorCode.TRANSACTION_ABORTABLE)
            return None
        if not self.v2 and group.group_id not in self._progress.groups_added:
            return Outgoing(
                AddOffsetsToTxnRequest(
                    transactional_id=self.transactional_id,
                    producer_id=self.producer_id,
                    producer_epoch=self.producer_epoch,
                    group_id=group.group_id,
                )
            )
        self._progress.begun = True
        topics: dict[str, TxnOffsetCommitRequestTopic] = {}
        for (topic, partition), position in offsets.items():
            where = position if isinstance(position, Position) else Position(position)
            topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic)).partitions.append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=where.offset,
                    committed_leader_epoch=where.leader_epoch,
                    committed_metadata=where.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=list(topics.values()),
        )
        return Outgoing(request, group.group_id)

    def _end(self, *, commit: bool) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commit,
        )

    def _end_without_request(self) -> None:
        """End an empty transaction locally: no coordinator knows of it."""
        if self._progress.begun or self._under_way is not None or next(self.partitions(), None) is not None:
            return
        if self.state is ProducerState.ABORTING:
            self._over(Fate.ABORTED)
        elif not self._progress.to_add and not self._progress.offsets:
            self._over(Fate.COMMITTED)

    # Answers of the coordinators

    def lost(self, outgoing: Outgoing) -> After:
        """This attempt gets no answer: resend the request."""
        self._expect_sent(outgoing)
        self._is_sent = False
        self._be_unsure()
        if isinstance(outgoing.request, TxnOffsetCommitRequest):
            self._progress.groups_unsure[outgoing.request.group_id] = None
        if isinstance(outgoing.request, EndTxnRequest) and outgoing.request.committed:
            self._commit_is_open = True
        return After.BACK_OFF

    def unsent(self, outgoing: Outgoing) -> After:
        """The request was not sent, because its coordinator was not found: try again."""
        self._expect_sent(outgoing)
        self._is_sent = False
        return After.BACK_OFF

    def answered(self, outgoing: Outgoing, response: Response) -> After:
        """The coordinator answered."""
        code = code_of(response)
        if code is not ErrorCode.NONE:
            return self.refused(outgoing, code)
        self._expect_sent(outgoing)
        self._is_sent = False
        self._under_way = None
        self._accepted(outgoing.request, response)
        self._prepare_if_stored()
        return After.GO_ON

    def refused(self, outgoing: Outgoing, code: ErrorCode) -> After:
        """The coordinator, or FindCoordinator, returned an error."""
        self._expect_sent(outgoing)
        self._is_sent = False
        if code.retriable and not (self._is_aborting and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            if isinstance(outgoing.request, EndTxnRequest) and outgoing.request.committed:
                self._commit_is_open = True  # The coordinator may have stored the decision before it failed.
            return After.FIND_COORDINATOR if code in _FIND else After.BACK_OFF
        self._under_way = None
        passes = code in ABORTABLE or (self._is_aborting and code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self._fail(code, fatal=not passes or self.state is ProducerState.INITIALIZING)
        if self.state is ProducerState.ABORTING:
            self._end_without_request()
        return After.GO_ON

    @property
    def _is_aborting(self) -> bool:
        return self.state in (ProducerState.ABORTING, ProducerState.ABORTABLE_ERROR)

    def _accepted(self, request: Request[Any], response: Response) -> None:
        progress = self._progress
        match response:
            case InitProducerIdResponse():
                self._in_flight.use_identity(response.producer_id, response.producer_epoch)
                self._needs_bump = False
                kept = Identity(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
                if kept == NO_IDENTITY:
                    self._move(ProducerState.READY)
                else:
                    self._keep(kept)
            case AddPartitionsToTxnResponse():
                assert isinstance(request, AddPartitionsToTxnRequest)
                for topic in request.v3_and_below_topics:
                    for partition in topic.partitions:  # `to_add` may hold newer ones too.
                        where = TopicPartition(topic.name, partition)
                        progress.added[where] = None
                        progress.to_add.pop(where, None)
                progress.begun = True
            case AddOffsetsToTxnResponse():
                assert isinstance(request, AddOffsetsToTxnRequest)
                progress.groups_added[request.group_id] = None
                progress.begun = True
            case TxnOffsetCommitResponse():
                progress.offsets.popleft()
            case EndTxnResponse():
                if self.v2 and response.producer_id != NO_PRODUCER_ID:
                    self._in_flight.use_identity(response.producer_id, response.producer_epoch)
                self._over(Fate.COMMITTED if self.state is ProducerState.COMMITTING else Fate.ABORTED)
            case _:
                raise InvariantError(f"{self.transactional_id}: {response} answers nothing that was asked")

    def _keep(self, prepared: Identity) -> None:
        self.prepared = prepared
        self._progress = _Progress(begun=True)
        self.fate = Fate.OPEN
        self._commit_is_open = False
        self._move(ProducerState.PREPARED)

    def _over(self, fate: Fate) -> None:
        self.fate = fate
        self.prepared = NO_IDENTITY
        self.error = ErrorCode.NONE
        bumps = self._needs_bump and not self.v2  # Under v2 EndTxn gave the next epoch.
        self._needs_bump = bumps
        self._move(ProducerState.BUMPING if bumps else ProducerState.READY)

    # Errors

    def _be_unsure(self) -> None:
        """A lost request may still arrive: under v1 the next transaction needs a new epoch."""
        if not self.v2 and self.state not in (ProducerState.INITIALIZING, ProducerState.BUMPING):
            self._needs_bump = True

    def _fail(self, code: ErrorCode, *, fatal: bool = False) -> None:
        if self.state is ProducerState.FATAL_ERROR:
            return
        if fatal:
            if self.fate is Fate.OPEN:
                self.fate = Fate.UNKNOWN if self._commit_is_open else Fate.ABORTED
            self._move(ProducerState.FATAL_ERROR)
        elif self.state in _SENDING:
            self._move(ProducerState.ABORTABLE_ERROR)
        else:
            return
        self.error = code

    def _move(self, state: ProducerState) -> None:
        if state not in MOVES[self.state]:
            raise InvariantError(f"{self.transactional_id}: no move from {self.state.value} to {state.value}")
        self.state = state

    def _expect(self, state: ProducerState) -> None:
        if self.state is not state:
            raise InvariantError(
                f"{self.transactional_id}: it is {self.state.value}, this needs {state.value}"
            )

    def _expect_sent(self, outgoing: Outgoing) -> None:
        if not self._is_sent or outgoing is not self._under_way:
            raise InvariantError(f"{self.transactional_id}: {outgoing.request} is not on its way")
