"""Nothing may open a transaction after its marker: the guard taken before asking must still hold at the write.

Method: the races that hung the last stable offset elsewhere, one story each.
"""

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate, Verdict
from semel.errors import ErrorCode, Refuse
from support.idempotence.idempotence_kit import NOW_MS, header


def partition() -> ProducerState:
    return ProducerState(verification_required=True)


def start(
    state: ProducerState, *, epoch: int = 0, sequence: int = 0, v2: bool = False, now_ms: int = NOW_MS
) -> int:
    token = state.start_verification(
        1, producer_epoch=epoch, base_sequence=sequence, supports_epoch_bump=v2, now_ms=now_ms
    )
    assert isinstance(token, int)
    return token


def judge(state: ProducerState, token: int | None, *, epoch: int = 0, sequence: int = 0) -> Verdict:
    batch = header(1, epoch, sequence, offset=state.map_end_offset, transactional=True)
    verdict = state.judge(batch, verification_token=token)
    if isinstance(verdict, Append):
        state.record(batch)
    return verdict


def mark(state: ProducerState, epoch: int) -> None:
    completed = state.record_marker(
        producer_id=1,
        producer_epoch=epoch,
        coordinator_epoch=0,
        commit=False,
        offset=state.map_end_offset,
        timestamp_ms=NOW_MS,
    )
    if completed is not None:
        state.complete(completed)


def is_refused(verdict: Verdict, code: ErrorCode) -> bool:
    return isinstance(verdict, Refuse) and verdict.code is code


def test_the_first_batch_of_a_transaction_needs_a_guard_and_the_next_ones_do_not() -> None:
    state = partition()
    assert is_refused(judge(state, None), ErrorCode.INVALID_TXN_STATE)
    assert isinstance(judge(state, start(state)), Append)
    assert isinstance(judge(state, None, sequence=1), Append)
    assert isinstance(judge(state, None, sequence=1), Duplicate)
    open_already = state.start_verification(
        1, producer_epoch=0, base_sequence=2, supports_epoch_bump=False, now_ms=NOW_MS
    )
    assert open_already is None


def test_a_marker_between_question_and_write_voids_the_guard() -> None:
    state = partition()
    token = start(state)
    mark(state, epoch=0)
    assert is_refused(judge(state, token), ErrorCode.INVALID_TXN_STATE)
    assert state.first_unstable_offset is None


def test_a_guard_started_again_is_another_guard() -> None:
    state = partition()
    stale = start(state)
    mark(state, epoch=0)
    fresh = start(state)
    assert fresh != stale
    assert is_refused(judge(state, stale), ErrorCode.INVALID_TXN_STATE)
    assert isinstance(judge(state, fresh), Append)


def test_under_v2_the_marker_that_brought_the_epoch_does_not_void_its_guard() -> None:
    state = partition()
    token = start(state, epoch=1, v2=True)
    mark(state, epoch=1)
    assert isinstance(judge(state, token, epoch=1), Append)


def test_under_v2_a_guarded_producer_without_state_starts_at_zero() -> None:
    state = partition()
    token = start(state, sequence=3, v2=True)
    assert is_refused(judge(state, token, sequence=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_of_batches_that_wait_together_the_lowest_sequence_goes_first() -> None:
    state = partition()
    token = start(state, sequence=4)
    assert start(state, sequence=0) == token
    assert is_refused(judge(state, token, sequence=4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert isinstance(judge(state, token, sequence=0), Append)
    token = start(partition_with_guard_of_newer_epoch(), sequence=9)
    assert token == 1


def partition_with_guard_of_newer_epoch() -> ProducerState:
    state = partition()
    start(state, epoch=0, sequence=0)
    start(state, epoch=1, sequence=5)
    guard = state._verifications.guards[1]
    assert (guard.producer_epoch, guard.lowest_sequence) == (1, 5)
    return state


def test_an_old_epoch_gets_no_guard() -> None:
    state = partition()
    mark(state, epoch=3)
    refused = state.start_verification(
        1, producer_epoch=2, base_sequence=0, supports_epoch_bump=True, now_ms=NOW_MS
    )
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert is_refused(judge(state, None, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_guards_nobody_used_are_forgotten() -> None:
    state = partition()
    token = start(state)
    state.expire(NOW_MS + state.producer_id_expiration_ms - 1)
    assert start(state) == token
    state.expire(NOW_MS + state.producer_id_expiration_ms)
    assert start(state) != token


def test_an_open_transaction_in_doubt_takes_nothing_before_it_is_confirmed_again() -> None:
    state = partition()
    assert isinstance(judge(state, start(state)), Append)
    state.doubt(1)
    assert is_refused(judge(state, None, sequence=1), ErrorCode.INVALID_TXN_STATE)
    assert isinstance(judge(state, None, sequence=0), Duplicate)
    assert isinstance(judge(state, start(state, sequence=1), sequence=1), Append)
    assert isinstance(judge(state, None, sequence=2), Append)


def test_a_doubt_between_question_and_write_voids_the_guard() -> None:
    state = partition()
    opening = start(state)
    state.doubt(1)
    assert is_refused(judge(state, opening), ErrorCode.INVALID_TXN_STATE)
    assert isinstance(judge(state, start(state)), Append)
    state.doubt(1)
    confirming = start(state, sequence=1)
    state.doubt(1)
    assert is_refused(judge(state, confirming, sequence=1), ErrorCode.INVALID_TXN_STATE)
    assert state.next_sequence(1, 0) == 1


def test_of_batches_in_doubt_none_has_to_go_first() -> None:
    """A batch that is stored already may ask first, and is answered without being written: the next one must not wait."""
    state = partition()
    assert isinstance(judge(state, start(state)), Append)
    state.doubt(1)
    token = start(state, sequence=0)
    assert isinstance(judge(state, token, sequence=0), Duplicate)
    assert start(state, sequence=1) == token
    assert isinstance(judge(state, token, sequence=1), Append)


def test_a_doubt_ends_with_the_transaction() -> None:
    state = partition()
    assert isinstance(judge(state, start(state)), Append)
    state.doubt_all()
    mark(state, epoch=1)
    assert isinstance(judge(state, start(state, epoch=1, v2=True), epoch=1), Append)
    assert isinstance(judge(state, None, epoch=1, sequence=1), Append)


def test_a_leader_that_begins_doubts_what_is_open_and_nothing_else() -> None:
    state = partition()
    assert isinstance(judge(state, start(state)), Append)
    state.record(header(2, 0, 0, offset=state.map_end_offset))
    fresh = partition()
    fresh.load(state.entries(), map_end_offset=state.map_end_offset)
    fresh.doubt_all()
    assert is_refused(judge(fresh, None, sequence=1), ErrorCode.INVALID_TXN_STATE)
    assert isinstance(fresh.judge(header(2, 0, 1, offset=fresh.map_end_offset)), Append)
    fresh.clear()
    assert isinstance(judge(fresh, start(fresh)), Append)
    assert isinstance(judge(fresh, None, sequence=1), Append)
