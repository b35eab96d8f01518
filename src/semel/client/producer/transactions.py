"""A producer's transactions: the application's calls, and the requests to coordinators they need.

Role.   Drives `core.transactions.producer` for one transactional id. It finds coordinators, sends what is next to one of
        them, and lets callers wait for what comes of it.
Flow.   `init` -> `begin` -> sends and `send_offsets` -> `commit` or `abort`, and again. The sender calls `step` every turn.
Rules.  * One request to a coordinator at a time, repeated until it has an answer. A caller that waited for `max.block.ms` may
          make the same call again, and no other; only offsets not stored in time may be given up by an abort.
        * A record belongs to the transaction that is open while it is given: before the end is asked for, the gate is
          closed and everything taken.
        * After an error the transaction can only be aborted, or, if the error is fatal, the producer only be closed.
        * v1 or v2 is decided once, by what the cluster says is switched on (`transaction.version`).
        * A guest in another's transaction (`join`) speaks v1, and only sends: the owner ends it.
Elsewhere. The next request and the meaning of answers: `core.transactions.producer`. Words for errors: `transaction_errors`.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from semel.client import arguments
from semel.client.calls.describe_transactions import ask_coordinator
from semel.client.calls.find_coordinator import CoordinatorKind, Coordinators
from semel.client.cluster import is_locked_out
from semel.client.producer import answers
from semel.client.producer import transaction_errors as errors
from semel.client.producer.outbox import Gate
from semel.client.producer.sender import Sender, gone
from semel.client.settings import ProducerConfig
from semel.client.troubles import Kind
from semel.core.idempotence.delivery import NO_IDENTITY, Identity
from semel.core.transactions.producer import (
    END_TXN_V1_MAX,
    PRODUCE_V1_MAX,
    TXN_OFFSET_COMMIT_V1_MAX,
    After,
    GroupMetadata,
    Outgoing,
    Position,
    TransactionalProducer,
)
from semel.core.transactions.producer_answers import code_of
from semel.core.transactions.producer_states import Fate, ProducerState
from semel.core.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from semel.core.wire.messages.end_txn import EndTxnRequest
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest
from semel.core.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from semel.core.wire.registry import ApiKey
from semel.errors import ErrorCode, RefusedError, SemelError
from semel.exceptions import IllegalStateException, KafkaException, TimeoutException, as_exception
from semel.types import TopicPartition

_logger: Final = logging.getLogger(__name__)
_S = ProducerState
_FAILED: Final = (_S.ABORTABLE_ERROR, _S.FATAL_ERROR)
_V2: Final = 2
_END_TXN_V2, _PRODUCE_V2 = END_TXN_V1_MAX + 1, PRODUCE_V1_MAX + 1
_ADD_PARTITIONS_BY_CLIENTS: Final = 3  # Later versions are for brokers.
_TWO_PHASE_INIT: Final = 6
_CONCURRENT_PAUSE_MS: Final = 20  # The last transaction is being ended: that takes a moment, no more.


class Transactions:
    """The transactions of one producer."""

    def __init__(self, sender: Sender, config: ProducerConfig, transactional_id: str) -> None:
        self._sender = sender
        self._outbox = sender.outbox
        self._config = config
        self._id = transactional_id
        self._producer: TransactionalProducer | None = None
        self._coordinators = Coordinators(sender.cluster)
        self._waits_for: str | None = None
        """The call that waited in vain; it may be made again."""
        self._offsets_asked: tuple[GroupMetadata, Mapping[TopicPartition, Position]] | None = None
        self._is_asking = False
        self._explanation: SemelError | None = None
        self._gate_of: ProducerState | None = None
        self._last_code = ErrorCode.NONE
        self._gate_lock = threading.Lock()
        self._outbox.shut(lambda: errors.illegal(self._id, "send", _S.UNINITIALIZED))

    @property
    def state(self) -> ProducerState:
        return _S.UNINITIALIZED if self._producer is None else self._producer.state

    @property
    def is_ready(self) -> bool:
        """Whether a transaction could be begun: none is open, and no call is to be made again."""
        return self.state is _S.READY and self._waits_for is None

    @property
    def is_guest(self) -> bool:
        """Whether the transaction is another's to end."""
        return self._producer is not None and self._producer.is_guest

    @property
    def ending(self) -> KafkaException | None:
        """Why this producer cannot go on; None while it can."""
        if self._sender.problem is not None:
            return self._sender.problem
        producer = self._producer
        if producer is None or producer.state is not _S.FATAL_ERROR:
            return None
        return errors.failed(producer, self._explanation)

    # The application

    async def init(self, timeout_ms: int, *, keep_prepared: bool = False) -> Identity:
        """Introduce itself to the coordinator; gives the new identity."""
        deadline_ms = self._now_ms() + timeout_ms
        producer = self._producer
        if producer is None:
            producer = await self._introduced(deadline_ms, timeout_ms)
            producer.init(keep_prepared=keep_prepared)
        elif not (self._waits_for == "init_transactions" and producer.state in (_S.INITIALIZING, _S.READY)):
            raise errors.illegal(self._id, "init_transactions", producer.state)
        await self._until(
            "init_transactions", lambda: producer.state is not _S.INITIALIZING, deadline_ms, timeout_ms
        )
        self._raise_if_failed(producer)
        return Identity(producer.producer_id, producer.producer_epoch)

    def join(self, identity: Identity) -> None:
        """Take part in a transaction another process begins and ends under this identity."""
        if self._producer is not None:
            raise errors.illegal(self._id, "join_transaction", self._producer.state)
        self._producer = TransactionalProducer(
            self._id,
            self._config.transaction_timeout_ms,
            v2=False,
            in_flight_max=self._config.max_in_flight_requests_per_connection,
        )
        self._sender.produce_version_max = PRODUCE_V1_MAX
        self._sender.delivery = self._producer
        self._producer.join(identity)
        self._sync_gate()

    async def _introduced(self, deadline_ms: int, timeout_ms: int) -> TransactionalProducer:
        cluster = self._sender.cluster
        features, served = await self._spoken(deadline_ms, timeout_ms)
        is_v2 = (
            features.get("transaction.version", 0) >= _V2
            and served.get(ApiKey.END_TXN, (0, 0))[1] >= _END_TXN_V2
            and served.get(ApiKey.PRODUCE, (0, 0))[1] >= _PRODUCE_V2
        )
        two_phase = self._config.transaction_two_phase_commit_enable
        if two_phase and served.get(ApiKey.INIT_PRODUCER_ID, (0, 0))[1] < _TWO_PHASE_INIT:
            raise errors.no_two_phase_commit(cluster.where)
        self._producer = TransactionalProducer(
            self._id,
            self._config.transaction_timeout_ms,
            v2=is_v2,
            two_phase=two_phase,
            in_flight_max=self._config.max_in_flight_requests_per_connection,
        )
        self._sender.produce_version_max = None if is_v2 else PRODUCE_V1_MAX
        self._sender.delivery = self._producer
        return self._producer

    async def _spoken(
        self, deadline_ms: int, timeout_ms: int
    ) -> tuple[dict[str, int], dict[int, tuple[int, int]]]:
        """The features the cluster has switched on, and the APIs it serves."""
        cluster, tries = self._sender.cluster, 0
        while True:
            try:
                features = await cluster.in_time(cluster.features, deadline_ms)
                return features, await cluster.served()
            except answers.NO_ANSWER as error:
                if is_locked_out(error):
                    raise as_exception(error) from error
                tries += 1
                pause_ms = self._sender.pause_ms(tries)
                if self._now_ms() + pause_ms >= deadline_ms:
                    raise TimeoutException(
                        f"no transaction could be begun within {timeout_ms} ms: {error}"
                    ) from error
                await self._sender.runtime.tasks.sleep(pause_ms / 1000)

    def begin(self) -> None:
        """Begin a transaction; nothing is sent for it. On any thread: between transactions the loop has nothing to do."""
        with self._gate_lock:
            producer = self._ready_for("begin_transaction", _S.READY)
            producer.begin()
            self._set_gate()

    async def send_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, Position], timeout_ms: int
    ) -> None:
        """Have offsets committed with the transaction; returns once they are stored."""
        asked = group, dict(offsets)
        if self._waits_for == "send_offsets_to_transaction" and self._producer is not None:
            producer = (
                self._producer
            )  # The same call again: the offsets are on their way. Others follow them.
            if offsets and asked != self._offsets_asked and producer.state is _S.IN_TRANSACTION:
                producer.send_offsets(group, offsets)
        else:
            producer = self._ready_for("send_offsets_to_transaction", _S.IN_TRANSACTION)
            if not offsets:
                return
            producer.send_offsets(group, offsets)
        self._offsets_asked = asked
        await self._until(
            "send_offsets_to_transaction",
            lambda: not producer.has_offsets_to_send or producer.state is not _S.IN_TRANSACTION,
            self._now_ms() + timeout_ms,
            timeout_ms,
        )
        self._raise_if_failed(producer, offsets_of=group)

    async def commit(self, timeout_ms: int) -> None:
        """Commit, once everything is stored."""
        if self._waits_for == "commit_transaction" and self._producer is not None:
            producer = self._producer
        else:
            producer = self._ready_for("commit_transaction", _S.IN_TRANSACTION, _S.PREPARED)
            self._hand_over(producer)
            producer.commit()
        await self._until(
            "commit_transaction",
            lambda: producer.state not in (_S.COMMITTING, _S.BUMPING),
            self._now_ms() + timeout_ms,
            timeout_ms,
        )
        if producer.fate is not Fate.COMMITTED:
            self._raise_if_failed(producer)

    async def abort(self, timeout_ms: int) -> None:
        """Abort: nothing of the transaction will be seen by those who read what is committed."""
        if self._waits_for == "abort_transaction" and self._producer is not None:
            producer = self._producer
        else:
            if self._waits_for == "send_offsets_to_transaction":
                self._waits_for = None  # Whether they were taken does not matter any more.
            producer = self._ready_for(
                "abort_transaction", _S.IN_TRANSACTION, _S.PREPARED, _S.ABORTABLE_ERROR
            )
            self.begin_abort(producer)
        await self._until(
            "abort_transaction",
            lambda: producer.state not in (_S.ABORTING, _S.BUMPING),
            self._now_ms() + timeout_ms,
            timeout_ms,
        )
        self._raise_if_failed(producer)

    def begin_abort(self, producer: TransactionalProducer) -> None:
        """Drop what has not left, and end the transaction."""
        aborted = errors.aborted(self._id)
        self._outbox.shut(lambda: errors.illegal(self._id, "send", _S.ABORTING))
        self._gate_of = _S.ABORTING
        for batch in self._outbox.take_all():
            self._outbox.fail(batch.batch_id, aborted)
        self._sender.carry_out(producer.abort())

    async def prepare(self, timeout_ms: int, *, may_time_out: bool = False) -> Identity:
        """Store everything and leave the transaction open; which it is. Only with two-phase commit it stays so for ever."""
        if self._waits_for == "prepare_transaction" and self._producer is not None:
            producer = self._producer
        else:
            producer = self._ready_for("prepare_transaction", _S.IN_TRANSACTION)
            if not self._config.transaction_two_phase_commit_enable and not may_time_out:
                raise errors.not_two_phase()
            self._hand_over(producer)
            producer.leave_open()
        await self._until(
            "prepare_transaction",
            lambda: producer.state is not _S.PREPARING,
            self._now_ms() + timeout_ms,
            timeout_ms,
        )
        self._raise_if_failed(producer)
        return producer.prepared

    @property
    def prepared(self) -> Identity:
        """The transaction that is prepared and not ended."""
        return NO_IDENTITY if self._producer is None else self._producer.prepared

    def refuse(self, code: ErrorCode) -> None:
        """A record was not taken: the transaction, if one is open, cannot be committed without it."""
        if self._producer is not None and self._producer.state is _S.IN_TRANSACTION:
            self._producer.refuse(code)
            self._outbox.wake()

    async def close(self) -> None:
        """Abort what is open, unless it is prepared or another's: then its end is not ours to choose."""
        producer = self._producer
        if producer is None or producer.is_guest:
            return
        if producer.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
            _logger.info("%s is closed with a transaction open: it is aborted", self._id)
            self.begin_abort(producer)
        await self._until_turn(
            lambda: producer.state not in (_S.COMMITTING, _S.ABORTING, _S.INITIALIZING, _S.PREPARING)
        )

    def _hand_over(self, producer: TransactionalProducer) -> None:
        """Everything given so far is part of the transaction, and nothing more."""
        self._outbox.shut(lambda: errors.illegal(self._id, "send", _S.COMMITTING))
        self._gate_of = _S.COMMITTING
        if producer.state is _S.IN_TRANSACTION:
            for batch in self._outbox.take_all():
                producer.enqueue(batch.partition, batch.batch_id, batch.records_count)

    def _ready_for(self, call: str, *states: ProducerState) -> TransactionalProducer:
        producer = self._producer
        if self._sender.problem is not None:
            raise gone(self._sender.problem)
        if self._waits_for is not None:
            raise IllegalStateException(
                f"TransactionalId {self._id}: {call} was called while {self._waits_for} is not done: call that again"
            )
        if producer is None:
            raise errors.illegal(self._id, call, _S.UNINITIALIZED)
        if producer.is_guest:
            raise errors.anothers(self._id, call)
        if producer.state in states:
            return producer
        self._raise_if_failed(producer, again=True)
        raise errors.illegal(self._id, call, producer.state)

    def _raise_if_failed(
        self, producer: TransactionalProducer, *, again: bool = False, offsets_of: GroupMetadata | None = None
    ) -> None:
        if producer.state in _FAILED:
            raise errors.failed(producer, self._explanation, again=again, offsets_of=offsets_of)

    async def _until(
        self, call: str, is_reached: Callable[[], bool], deadline_ms: int, timeout_ms: int
    ) -> None:
        """Wait for something the sender's turns bring about."""
        self._waits_for = call
        self._outbox.wake()
        since_ms = self._now_ms()
        if not await self._until_turn(is_reached, deadline_ms):
            raise TimeoutException(
                f"Timeout expired after {timeout_ms}ms while awaiting {call}: call it again to go on waiting"
                f"{self._sender.cluster.troubles.last(since_ms)}"
            )
        self._waits_for = None
        self._sync_gate()

    def _is_explaining(self) -> bool:
        return self._is_asking and self.state is _S.FATAL_ERROR

    async def _until_turn(self, is_reached: Callable[[], bool], deadline_ms: int | None = None) -> bool:
        while not (is_reached() and not self._is_explaining()):
            if self._sender.problem is not None:
                raise self._sender.problem
            if not await self._sender.next_turn(deadline_ms):
                return False
        return True

    # The sender's turns

    def step(self) -> None:
        """Send what is next, if nothing is under way; and see that the gate says what the state says."""
        producer = self._producer
        if producer is None:
            return
        self._sync_gate()
        if self._is_asking:
            return
        outgoing = producer.next_request()
        if outgoing is not None:
            self._is_asking = True
            self._sender.runtime.tasks.spawn(self._ask(producer, outgoing), name=f"{self._id} coordinator")

    def _sync_gate(self) -> None:
        with self._gate_lock:
            changed = self._set_gate()
        producer = self._producer
        if not changed or producer is None or producer.state not in _FAILED:
            return
        # Outside of the lock: callbacks of the application are called.
        reason = errors.failed(producer, self._explanation)
        if producer.state is _S.FATAL_ERROR:
            self._sender.fail_all(reason)
        for batch in self._outbox.take_all():
            self._outbox.fail(batch.batch_id, reason)

    def _set_gate(self) -> bool:
        """Have the gate say what the state says; whether that is something new."""
        producer = self._producer
        if producer is None or producer.state is self._gate_of or self._sender.problem is not None:
            return False
        state = self._gate_of = producer.state
        gate: Gate | None
        if state in _FAILED:
            gate = lambda: errors.failed(producer, self._explanation, again=True)  # noqa: E731 - one line says it.
        elif state is _S.IN_TRANSACTION:
            gate = None
        else:
            gate = lambda: errors.illegal(self._id, "send", state)  # noqa: E731 - as above.
        self._outbox.shut(gate)
        return True

    async def _ask(self, producer: TransactionalProducer, outgoing: Outgoing) -> None:
        tries = 0
        try:
            while True:
                after = await self._attempt(producer, outgoing)
                if after is After.GO_ON:
                    self._sender.cluster.troubles.over(Kind.TRANSACTION, self._id)
                    break
                tries += 1
                pause_ms = self._sender.pause_ms(tries)
                if self._last_code is ErrorCode.CONCURRENT_TRANSACTIONS:
                    pause_ms = min(pause_ms, _CONCURRENT_PAUSE_MS)
                await self._sender.runtime.tasks.sleep(pause_ms / 1000)
                repeated = producer.next_request()
                if repeated is None:
                    break
                outgoing = repeated
            if producer.state is _S.FATAL_ERROR and self._explanation is None:
                self._explanation = await self._explain(producer)
        finally:
            self._is_asking = False
            self._outbox.wake()

    async def _attempt(self, producer: TransactionalProducer, outgoing: Outgoing) -> After:
        """One attempt at one request."""
        self._last_code = ErrorCode.NONE
        where = (
            (CoordinatorKind.TRANSACTION, self._id)
            if outgoing.group_id is None
            else (CoordinatorKind.GROUP, outgoing.group_id)
        )
        try:
            node_id = await self._coordinators.of(*where)
        except RefusedError as error:
            if error.code.retriable:
                self._troubled(str(error))
                return producer.unsent(outgoing)
            return producer.refused(outgoing, error.code)
        except answers.NO_ANSWER:
            return producer.unsent(outgoing)
        cluster, metrics = self._sender.cluster, self._sender.metrics
        metrics.requested()
        try:
            response = await cluster.send(
                outgoing.request, node_id=node_id, version_max=self._version_max(producer, outgoing)
            )
        except answers.NO_ANSWER as error:
            _logger.debug("%s has no answer from its coordinator: %s", self._id, error)
            self._coordinators.forget(*where)
            return producer.lost(outgoing)
        except SemelError as error:
            self._explanation = as_exception(error)
            return producer.refused(outgoing, error.code)
        metrics.answered()
        self._last_code = code_of(response)
        after = producer.answered(outgoing, response)
        if after is After.FIND_COORDINATOR:
            self._coordinators.forget(*where)
        if after is not After.GO_ON and self._last_code:
            asked = type(outgoing.request).__name__.removesuffix("Request")
            self._troubled(f"{cluster.where} puts off {asked}: {self._last_code.name}")
        return after

    def _troubled(self, why: str) -> None:
        """A coordinator is asked again, for this reason."""
        what = f"TransactionalId {self._id}: {why}"
        self._sender.cluster.troubles.met(Kind.TRANSACTION, self._id, what, "it is asked again")

    def _version_max(self, producer: TransactionalProducer, outgoing: Outgoing) -> int | None:
        match outgoing.request:
            case AddPartitionsToTxnRequest():
                return _ADD_PARTITIONS_BY_CLIENTS
            case EndTxnRequest() if not producer.v2:
                return END_TXN_V1_MAX
            case TxnOffsetCommitRequest() if not producer.v2:
                return TXN_OFFSET_COMMIT_V1_MAX
            case InitProducerIdRequest() if self._config.transaction_two_phase_commit_enable:
                return _TWO_PHASE_INIT
            case _:
                return None

    async def _explain(self, producer: TransactionalProducer) -> KafkaException:
        """Why it is over; for one that was fenced, with the epoch that holds now, if the coordinator tells it."""
        current: tuple[int, int] | None = None
        if producer.error in errors.FENCED:
            try:
                node_id = await self._coordinators.of(CoordinatorKind.TRANSACTION, self._id)
                told = await ask_coordinator(self._sender.cluster, node_id, [self._id])
                for one in told.values():
                    if not isinstance(one, RefusedError):
                        current = one.producer_id, one.producer_epoch
            except SemelError as error:
                _logger.debug("the epoch that fenced %s is not known: %s", self._id, error)
        return errors.fatal(producer, current)

    def _now_ms(self) -> int:
        return self._sender.runtime.clock.monotonic_ms()


def group_metadata(group: Any) -> GroupMetadata:
    """A group id, or what a consumer's `group_metadata` gives; raises `IllegalArgumentException` for anything else."""
    accepted = "a group id, or what consumer.group_metadata() gives"
    if isinstance(group, str):
        return GroupMetadata(arguments.text("group_metadata", group, accepted))
    found = [getattr(group, name, None) for name in GroupMetadata._fields]
    if found[0] is None:
        raise arguments.refused("group_metadata", group, accepted)
    group_id, generation_id, member_id, instance_id = found
    return GroupMetadata(
        arguments.text("group_metadata: group_id", group_id, "a group id"),
        arguments.whole("group_metadata: generation_id", generation_id, "a number", most=arguments.INT32_MAX),
        arguments.text("group_metadata: member_id", member_id, "text", may_be_empty=True),
        None
        if instance_id is None
        else arguments.text("group_metadata: group_instance_id", instance_id, "text"),
    )


def positions(offsets: object) -> dict[TopicPartition, Position]:
    """Offsets as numbers, or with metadata, by partition or by a plain pair."""
    return {
        where: Position(offset, metadata, -1 if epoch is None else epoch)
        for where, (offset, metadata, epoch) in arguments.positions(offsets).items()
    }
