"""The producer's end of transactions: what it sends, in which order, and what every answer does to it.

Method: first the table: each state with each call of the application. Then stories of both protocols, told request by
request, with lost answers at every place; and the whole machine against the real coordinator, with answers lost at random,
where the coordinator's own state says what is true.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest

from semel.core.idempotence.delivery import NO_IDENTITY, Answered, Identity, Lost
from semel.core.transactions.producer import After, GroupMetadata, Outgoing, Position, TransactionalProducer
from semel.core.transactions.producer_states import MOVES, Fate, ProducerState
from semel.core.transactions.states import TransactionState
from semel.core.wire.message import Response
from semel.core.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from semel.core.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from semel.core.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from semel.core.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from semel.core.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from semel.errors import ErrorCode, InvariantError
from semel.types import TopicPartition
from support.transactions.transactions_kit import ID, T0, T1, Hosted

S = ProducerState
GROUP = GroupMetadata("readers", 3, "member")
INPUT = TopicPartition("inputs", 0)
OK, FENCED = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED


def answer(outgoing: Outgoing, code: ErrorCode = OK, epoch: int = 0) -> Response:
    """A coordinator's response to a request."""
    match outgoing.request:
        case InitProducerIdRequest():
            return InitProducerIdResponse(error_code=code, producer_id=8000, producer_epoch=epoch)
        case AddPartitionsToTxnRequest():
            results = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=code)
                        for one in topic.partitions
                    ],
                )
                for topic in outgoing.request.v3_and_below_topics
            ]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        case AddOffsetsToTxnRequest():
            return AddOffsetsToTxnResponse(error_code=code)
        case TxnOffsetCommitRequest():
            partition = TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)
            return TxnOffsetCommitResponse(
                topics=[TxnOffsetCommitResponseTopic(name=INPUT.topic, partitions=[partition])]
            )
        case EndTxnRequest():
            return EndTxnResponse(error_code=code, producer_id=8000, producer_epoch=epoch)
        case _:
            raise AssertionError(outgoing)


def asked(producer: TransactionalProducer) -> Outgoing:
    outgoing = producer.next_request()
    assert outgoing is not None
    assert producer.next_request() is None, "one at a time"
    return outgoing


def ready(*, v2: bool, two_phase: bool = False) -> TransactionalProducer:
    producer = TransactionalProducer(ID, 60_000, v2=v2, two_phase=two_phase)
    producer.init()
    assert (
        producer.answered(asked(producer), answer(Outgoing(InitProducerIdRequest()), epoch=5)) is After.GO_ON
    )
    return producer


def deliver(producer: TransactionalProducer, partition: TopicPartition, code: ErrorCode = OK) -> list[Any]:
    send = producer.send(partition, 0)
    assert send is not None
    return producer.handle(Answered(partition, send.batch_id, code, 0), 0)


# The table

LEGAL = {
    "init": {S.UNINITIALIZED},
    "join": {S.UNINITIALIZED},
    "begin": {S.READY},
    "enqueue": {S.IN_TRANSACTION},
    "send_offsets": {S.IN_TRANSACTION},
    "prepare": {S.IN_TRANSACTION},
    "commit": {S.IN_TRANSACTION, S.PREPARED},
    "abort": {S.IN_TRANSACTION, S.PREPARED, S.ABORTABLE_ERROR},
}
CALLS: dict[str, Callable[[TransactionalProducer], object]] = {
    "init": lambda one: one.init(),
    "join": lambda one: one.join(Identity(8000, 3)),
    "begin": lambda one: one.begin(),
    "enqueue": lambda one: one.enqueue(T0, 99, 1),
    "send_offsets": lambda one: one.send_offsets(GROUP, {INPUT: 1}),
    "prepare": lambda one: one.prepare(),
    "commit": lambda one: one.commit(),
    "abort": lambda one: one.abort(),
}


def _ended(producer: TransactionalProducer, how: str) -> None:
    producer.begin()
    producer.enqueue(T0, 0, 1)
    add = asked(producer)
    producer.answered(add, answer(add))
    CALLS[how](producer)


def _bumping(producer: TransactionalProducer) -> None:
    _ended(producer, "abort")
    producer.lost(asked(producer))
    producer.answered(asked(producer), EndTxnResponse())


def _prepared(producer: TransactionalProducer) -> None:
    _ended(producer, "prepare")
    deliver(producer, T0)


def _failed(producer: TransactionalProducer) -> None:
    producer.begin()
    producer.send_offsets(GROUP, {INPUT: 1})
    producer.answered(asked(producer), AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTION_ABORTABLE))


def _fenced(producer: TransactionalProducer) -> None:
    producer.begin()
    producer.send_offsets(GROUP, {INPUT: 1})
    producer.answered(asked(producer), AddOffsetsToTxnResponse(error_code=FENCED))


IN_STATE: dict[ProducerState, Callable[[TransactionalProducer], None]] = {
    S.UNINITIALIZED: lambda _one: None,
    S.INITIALIZING: lambda one: one.init(),
    S.READY: lambda _one: None,
    S.IN_TRANSACTION: lambda one: one.begin(),
    S.PREPARING: lambda one: _ended(one, "prepare"),
    S.PREPARED: _prepared,
    S.COMMITTING: lambda one: _ended(one, "commit"),
    S.ABORTING: lambda one: _ended(one, "abort"),
    S.BUMPING: _bumping,
    S.ABORTABLE_ERROR: _failed,
    S.FATAL_ERROR: _fenced,
}


def in_state(state: ProducerState) -> TransactionalProducer:
    new = state in (S.UNINITIALIZED, S.INITIALIZING)
    fresh = TransactionalProducer(ID, 60_000, v2=False, two_phase=True)
    producer = fresh if new else ready(v2=False, two_phase=True)
    IN_STATE[state](producer)
    assert producer.state is state
    return producer


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", ProducerState)
def test_every_state_with_every_call(state: ProducerState, call: str) -> None:
    producer = in_state(state)
    if state in LEGAL[call]:
        CALLS[call](producer)
        assert producer.state is state or producer.state in _reachable(state)
    else:
        with pytest.raises(InvariantError, match=state.value):
            CALLS[call](producer)
        assert producer.state is state


def _reachable(state: ProducerState) -> set[ProducerState]:
    """The moves a call may cause: one, or two if no request has to be sent."""
    return {*MOVES[state], *(two for one in MOVES[state] for two in MOVES[one])}


# Stories


def test_v1_adds_what_it_writes_to_before_it_writes_and_ends_with_its_epoch() -> None:
    producer = ready(v2=False)
    producer.begin()
    producer.enqueue(T0, 0, 2)
    assert producer.send(T0, 0) is None
    added = asked(producer)
    assert isinstance(added.request, AddPartitionsToTxnRequest)
    assert (added.request.v3_and_below_producer_id, added.request.v3_and_below_producer_epoch) == (8000, 5)
    producer.answered(added, answer(added))
    producer.send_offsets(GROUP, {INPUT: 7})
    producer.commit()
    group_added = asked(producer)
    assert isinstance(group_added.request, AddOffsetsToTxnRequest)
    producer.answered(group_added, answer(group_added))
    offsets = asked(producer)
    assert isinstance(offsets.request, TxnOffsetCommitRequest)
    assert offsets.group_id == GROUP.group_id
    assert (offsets.request.generation_id, offsets.request.member_id) == (3, "member")
    producer.answered(offsets, answer(offsets))
    assert producer.next_request() is None, "a batch is not stored yet"
    deliver(producer, T0)
    end = asked(producer)
    assert isinstance(end.request, EndTxnRequest)
    assert end.request.committed
    producer.answered(end, answer(end))
    assert (producer.state, producer.fate, producer.producer_epoch) == (S.READY, Fate.COMMITTED, 5)


def test_v1_a_partition_that_comes_while_others_are_added_waits_for_its_own_turn() -> None:
    producer = ready(v2=False)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    first = asked(producer)
    producer.enqueue(T1, 1, 1)
    producer.answered(first, answer(first))
    assert producer.send(T0, 0) is not None
    assert producer.send(T1, 0) is None, "the coordinator has not heard of it"
    second = asked(producer)
    assert isinstance(second.request, AddPartitionsToTxnRequest)
    assert [(one.name, one.partitions) for one in second.request.v3_and_below_topics] == [
        (T1.topic, [T1.partition])
    ]
    producer.answered(second, answer(second))
    assert producer.send(T1, 0) is not None


def test_v2_writes_at_once_and_its_end_gives_the_next_epoch() -> None:
    producer = ready(v2=True)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    deliver(producer, T0)
    producer.commit()
    end = asked(producer)
    producer.answered(end, answer(end, epoch=6))
    assert (producer.state, producer.fate, producer.producer_epoch) == (S.READY, Fate.COMMITTED, 6)
    producer.begin()
    producer.enqueue(T0, 1, 1)
    send = producer.send(T0, 0)
    assert send is not None
    assert (send.identity.producer_epoch, send.base_sequence) == (6, 0)


def test_a_guest_writes_under_anothers_identity_and_ends_nothing() -> None:
    guest = TransactionalProducer(ID, 60_000, v2=False)
    guest.join(Identity(8000, 3))
    assert guest.is_guest
    guest.enqueue(T0, 0, 4)
    guest.enqueue(T0, 1, 2)
    assert guest.send(T0, 0) is None, "its partition is not part of the transaction yet"
    add = asked(guest)
    assert isinstance(add.request, AddPartitionsToTxnRequest)
    assert (add.request.v3_and_below_producer_id, add.request.v3_and_below_producer_epoch) == (8000, 3)
    guest.answered(add, answer(add))
    for batch_id, sequence in ((0, 0), (1, 4)):
        send = guest.send(T0, 0)
        assert send is not None
        assert (send.identity, send.base_sequence) == (Identity(8000, 3), sequence)
        guest.handle(Answered(T0, batch_id, OK, 0), 0)
    assert (guest.next_request(), list(guest.partitions())) == (None, [])
    assert guest.state is S.IN_TRANSACTION


def test_no_guest_under_v2() -> None:
    with pytest.raises(InvariantError, match="v1"):
        TransactionalProducer(ID, 60_000, v2=True).join(Identity(8000, 3))


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("commit", [False, True])
def test_nothing_sent_nothing_to_end(v2: bool, commit: bool) -> None:
    producer = ready(v2=v2)
    producer.begin()
    if not commit:
        producer.enqueue(T0, 0, 1)
    CALLS["commit" if commit else "abort"](producer)
    assert producer.next_request() is None
    assert (producer.state, producer.fate) == (S.READY, Fate.COMMITTED if commit else Fate.ABORTED)


def test_v1_takes_a_new_epoch_after_an_answer_was_lost() -> None:
    """A request that was given up may arrive in the next transaction: its epoch must be outdated by then."""
    producer = ready(v2=False)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    added = asked(producer)
    assert producer.lost(added) is After.BACK_OFF
    again = asked(producer)
    assert again is added
    producer.answered(again, answer(again))
    deliver(producer, T0)
    producer.commit()
    end = asked(producer)
    producer.answered(end, answer(end))
    assert (producer.state, producer.fate) == (S.BUMPING, Fate.COMMITTED)
    bump = asked(producer)
    assert isinstance(bump.request, InitProducerIdRequest)
    assert (bump.request.producer_id, bump.request.producer_epoch) == (8000, 5)
    producer.answered(bump, answer(bump, epoch=6))
    assert (producer.state, producer.producer_epoch) == (S.READY, 6)


@pytest.mark.parametrize("v2", [False, True])
def test_a_commit_without_an_answer_that_is_fenced_is_unknown(v2: bool) -> None:
    producer = ready(v2=v2)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    if not v2:
        added = asked(producer)
        producer.answered(added, answer(added))
    deliver(producer, T0)
    producer.commit()
    producer.lost(asked(producer))
    end = asked(producer)
    producer.answered(end, answer(end, FENCED))
    assert (producer.state, producer.fate, producer.error) == (S.FATAL_ERROR, Fate.UNKNOWN, FENCED)


def test_a_commit_that_is_fenced_at_once_is_none() -> None:
    producer = ready(v2=True)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    deliver(producer, T0)
    producer.commit()
    end = asked(producer)
    producer.answered(end, answer(end, FENCED))
    assert (producer.state, producer.fate) == (S.FATAL_ERROR, Fate.ABORTED)


@pytest.mark.parametrize("v2", [False, True])
def test_a_batch_that_failed_leads_to_an_abort_and_an_epoch_without_gaps(v2: bool) -> None:
    producer = ready(v2=v2)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    producer.enqueue(T0, 1, 1)
    if not v2:
        added = asked(producer)
        producer.answered(added, answer(added))
    producer.commit()
    deliver(producer, T0, ErrorCode.MESSAGE_TOO_LARGE)
    assert (producer.state, producer.error) == (S.ABORTABLE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)
    producer.abort()
    end = asked(producer)
    assert isinstance(end.request, EndTxnRequest)
    assert not end.request.committed
    producer.answered(end, answer(end, epoch=6))
    if not v2:
        bump = asked(producer)
        producer.answered(bump, answer(bump, epoch=6))
    assert (producer.state, producer.fate, producer.producer_epoch) == (S.READY, Fate.ABORTED, 6)


def test_an_abort_waits_for_what_is_on_its_way() -> None:
    producer = ready(v2=True)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    send = producer.send(T0, 0)
    assert send is not None
    producer.abort()
    assert producer.next_request() is None
    producer.handle(Lost(T0, send.batch_id), 0)
    assert isinstance(asked(producer).request, EndTxnRequest)


@pytest.mark.parametrize(
    ("code", "after"),
    [
        (ErrorCode.CONCURRENT_TRANSACTIONS, After.BACK_OFF),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, After.BACK_OFF),
        (ErrorCode.NOT_COORDINATOR, After.FIND_COORDINATOR),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, After.FIND_COORDINATOR),
    ],
)
def test_what_passes_is_asked_again(code: ErrorCode, after: After) -> None:
    producer = TransactionalProducer(ID, 60_000, v2=True)
    producer.init()
    first = asked(producer)
    assert producer.answered(first, answer(first, code)) is after
    assert asked(producer) is first


def test_offsets_may_be_sent_again_once_the_first_are_stored() -> None:
    producer = ready(v2=True)
    producer.begin()
    for offset in (1, 2):
        producer.send_offsets(GROUP, {INPUT: Position(offset, "text", 3)})
        assert producer.has_offsets_to_send
        outgoing = asked(producer)
        assert isinstance(outgoing.request, TxnOffsetCommitRequest)
        ((sent,),) = [topic.partitions for topic in outgoing.request.topics]
        assert (sent.committed_offset, sent.committed_metadata, sent.committed_leader_epoch) == (
            offset,
            "text",
            3,
        )
        producer.answered(outgoing, answer(outgoing))
        assert not producer.has_offsets_to_send


def test_offsets_are_not_sent_again_while_a_lost_attempt_may_arrive_after_them() -> None:
    producer = ready(v2=True)
    producer.begin()
    producer.send_offsets(GROUP, {INPUT: 1})
    first = asked(producer)
    producer.lost(first)
    assert asked(producer) is first
    producer.answered(first, answer(first))
    producer.send_offsets(GROUP, {INPUT: 2})
    assert producer.next_request() is None
    assert (producer.state, producer.error) == (S.ABORTABLE_ERROR, ErrorCode.TRANSACTION_ABORTABLE)


def test_a_transaction_that_lacks_a_record_cannot_be_committed() -> None:
    producer = ready(v2=True)
    producer.begin()
    producer.refuse(ErrorCode.MESSAGE_TOO_LARGE)
    assert (producer.state, producer.error) == (S.ABORTABLE_ERROR, ErrorCode.MESSAGE_TOO_LARGE)


# Two-phase commit


def test_a_prepared_transaction_is_stored_and_open_until_it_is_ended() -> None:
    producer = ready(v2=True, two_phase=True)
    producer.begin()
    producer.enqueue(T0, 0, 1)
    producer.send_offsets(GROUP, {INPUT: 1})
    producer.prepare()
    deliver(producer, T0)
    assert producer.state is S.PREPARING
    offsets = asked(producer)
    producer.answered(offsets, answer(offsets))
    assert (producer.state, producer.prepared) == (S.PREPARED, Identity(8000, 5))
    assert producer.next_request() is None
    producer.commit()
    end = asked(producer)
    producer.answered(end, answer(end, epoch=6))
    assert (producer.state, producer.fate, producer.prepared) == (S.READY, Fate.COMMITTED, NO_IDENTITY)


@pytest.mark.parametrize("how", ["commit", "abort"])
def test_who_keeps_a_prepared_transaction_ends_it_under_its_own_identity(how: str) -> None:
    producer = TransactionalProducer(ID, 60_000, v2=True, two_phase=True)
    producer.init(keep_prepared=True)
    first = asked(producer)
    assert isinstance(first.request, InitProducerIdRequest)
    assert first.request.enable_2pc
    assert first.request.keep_prepared_txn
    producer.answered(
        first,
        InitProducerIdResponse(
            producer_id=8000, producer_epoch=7, ongoing_txn_producer_id=8000, ongoing_txn_producer_epoch=5
        ),
    )
    assert (producer.state, producer.prepared) == (S.PREPARED, Identity(8000, 5))
    CALLS[how](producer)
    end = asked(producer)
    assert isinstance(end.request, EndTxnRequest)
    assert (end.request.producer_epoch, end.request.committed) == (7, how == "commit")
    producer.answered(end, answer(end, epoch=8))
    assert producer.state is S.READY


def test_without_two_phase_commit_nothing_is_prepared() -> None:
    producer = ready(v2=True)
    producer.begin()
    with pytest.raises(InvariantError, match="without two-phase commit"):
        producer.prepare()


def test_what_was_not_sent_and_what_was_refused_before_it_left() -> None:
    producer = TransactionalProducer(ID, 60_000, v2=False)
    producer.init()
    first = asked(producer)
    assert producer.unsent(first) is After.BACK_OFF
    assert asked(producer) is first
    assert producer.refused(first, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) is After.GO_ON
    assert producer.state is S.FATAL_ERROR


# Beside the real coordinator


@pytest.mark.parametrize("v2", [False, True])
@pytest.mark.parametrize("seed", range(30))
def test_beside_the_coordinator_the_fate_it_knows_is_the_true_one(v2: bool, seed: int) -> None:
    """Requests are lost before or after they are carried out; the coordinator's state must agree with every fate."""
    dice, host = random.Random(seed), Hosted()
    producer = TransactionalProducer(ID, 60_000, v2=v2)
    producer.init()
    _drive(producer, host, dice)
    epochs = [producer.producer_epoch]
    for number in range(20):
        producer.begin()
        for batch, partition in enumerate(dice.sample([T0, T1], dice.randint(1, 2))):
            producer.enqueue(partition, 2 * number + batch, 1)
        commit = dice.random() < 0.6
        if commit:
            producer.commit()
        else:
            producer.abort()
        _drive(producer, host, dice)
        assert producer.state is S.READY
        assert producer.fate is (Fate.COMMITTED if commit else Fate.ABORTED)
        if commit:
            assert host.transaction.state in (TransactionState.COMPLETE_COMMIT, TransactionState.EMPTY)
        assert (producer.producer_id, producer.producer_epoch) == (
            host.transaction.producer_id,
            host.transaction.producer_epoch,
        )
        epochs.append(producer.producer_epoch)
    assert epochs == sorted(epochs)
    assert not v2 or len(set(epochs)) > 5


def _drive(producer: TransactionalProducer, host: Hosted, dice: random.Random) -> None:
    while producer.state not in (S.READY, S.FATAL_ERROR):
        outgoing = producer.next_request()
        if outgoing is not None:
            lost = dice.random()
            response = None if lost < 0.1 else _carried_out(outgoing, host, producer.v2)
            if response is None or lost < 0.25:
                producer.lost(outgoing)
            else:
                producer.answered(outgoing, response)
            host.write_markers()
            continue
        for partition in list(producer.partitions()):
            send = producer.send(partition, 0)
            if send is None:
                continue
            if producer.v2:
                assert host.add(producer.producer_id, producer.producer_epoch, [partition], version=5) == [OK]
            producer.handle(Answered(partition, send.batch_id, OK, 0), 0)


def _carried_out(outgoing: Outgoing, host: Hosted, v2: bool) -> Response:
    match outgoing.request:
        case InitProducerIdRequest() as init:
            return host.ask(lambda ticket, now: host.shard.init_producer_id(init, ticket, now, version=5))
        case AddPartitionsToTxnRequest() as add:
            one = AddPartitionsToTxnTransaction(
                transactional_id=add.v3_and_below_transactional_id,
                producer_id=add.v3_and_below_producer_id,
                producer_epoch=add.v3_and_below_producer_epoch,
                topics=add.v3_and_below_topics,
            )
            return host.ask(lambda ticket, now: host.shard.add_partitions(one, ticket, now, version=3))
        case EndTxnRequest() as end:
            version = 5 if v2 else 4
            return host.ask(lambda ticket, now: host.shard.end_txn(end, ticket, now, version=version))
        case _:
            raise AssertionError(outgoing)
