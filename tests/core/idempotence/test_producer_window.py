"""One producer on one partition: every kind of state with every kind of batch, and nothing else changed.

Method: a table of states (unknown, known, full, after a marker, at the wrap, ...) crossed with batches, each with the
verdict Apache Kafka 4.3.1 gives (`test_kafka_agrees` asks Kafka itself). Then the stories of the mission's rows.
"""

import copy
from collections.abc import Callable
from typing import TypeAlias

import pytest

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import (
    Append,
    Duplicate,
    ProducerWindow,
    Verdict,
    WindowBatch,
)
from semel.errors import ErrorCode, Refuse
from support.idempotence.idempotence_kit import NOW_MS, header

LAST = 2**31 - 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
BAD_STATE = ErrorCode.INVALID_TXN_STATE


def window_of(*batches: tuple[int, int, int], transactional: bool = False) -> ProducerWindow:
    """A window that has recorded (epoch, first sequence, count), offsets counting from 100."""
    window, offset = ProducerWindow(), 100
    for epoch, sequence, count in batches:
        window.record(header(7, epoch, sequence, count, offset=offset, transactional=transactional))
        offset += count
    return window


def with_marker(window: ProducerWindow, epoch: int) -> ProducerWindow:
    window.record_marker(producer_epoch=epoch, coordinator_epoch=3, timestamp_ms=NOW_MS)
    return window


STATES: dict[str, Callable[[], ProducerWindow]] = {
    "unknown": ProducerWindow,
    "one batch": lambda: window_of((1, 0, 10)),
    "five batches": lambda: window_of(*((1, 10 * i, 10) for i in range(5))),
    "six batches": lambda: window_of(*((1, 10 * i, 10) for i in range(6))),
    "began anywhere": lambda: window_of((1, 4000, 10)),
    "new epoch": lambda: window_of((0, 0, 10), (0, 10, 10), (1, 0, 10)),
    "at the end": lambda: window_of((1, LAST - 9, 10)),
    "straddling": lambda: window_of((1, LAST - 4, 10)),
    "open transaction": lambda: window_of((1, 0, 10), transactional=True),
    "marker, same epoch": lambda: with_marker(window_of((1, 0, 10), transactional=True), 1),
    "marker, next epoch": lambda: with_marker(window_of((0, 0, 10), transactional=True), 1),
    "marker only": lambda: with_marker(ProducerWindow(), 1),
}

# (epoch, first sequence, count) -> what each state says: "append", the base offset of the copy, or the error.
Answer: TypeAlias = str | int | ErrorCode


def row(default: Answer, but: dict[str, Answer]) -> dict[str, Answer]:
    return dict.fromkeys(STATES, default) | but


TABLE: dict[tuple[int, int, int], dict[str, Answer]] = {
    (1, 0, 10): {
        "unknown": "append",
        "one batch": 100,
        "five batches": 100,
        "six batches": OUT_OF_ORDER,  # Older than the window.
        "began anywhere": OUT_OF_ORDER,
        "new epoch": 120,
        "at the end": "append",  # The wrap.
        "straddling": OUT_OF_ORDER,
        "open transaction": 100,  # A duplicate is answered before the transaction is looked at.
        "marker, same epoch": 100,
        "marker, next epoch": "append",
        "marker only": "append",
    },
    (1, 10, 10): {
        "unknown": "append",
        "one batch": "append",
        "five batches": 110,
        "six batches": 110,
        "began anywhere": OUT_OF_ORDER,
        "new epoch": "append",
        "at the end": OUT_OF_ORDER,
        "straddling": OUT_OF_ORDER,
        "open transaction": BAD_STATE,
        "marker, same epoch": "append",
        "marker, next epoch": OUT_OF_ORDER,
        "marker only": OUT_OF_ORDER,
    },
    (1, 5, 10): row(OUT_OF_ORDER, {"unknown": "append", "straddling": "append"}),
    (1, 50, 10): row(OUT_OF_ORDER, {"unknown": "append", "five batches": "append", "six batches": 150}),
    (1, 4010, 1): row(OUT_OF_ORDER, {"unknown": "append", "began anywhere": "append"}),
    (1, LAST - 4, 10): row(OUT_OF_ORDER, {"unknown": "append", "straddling": 100}),
    (1, 0, 9): row(
        OUT_OF_ORDER,
        {
            "unknown": "append",
            "at the end": "append",
            "marker, next epoch": "append",
            "marker only": "append",
        },
    ),
    (0, 0, 10): row(FENCED, {"unknown": "append"}),
    (0, 10, 10): row(FENCED, {"unknown": "append"}),
    (2, 0, 10): row("append", {"open transaction": BAD_STATE}),
    (2, 1, 10): row(OUT_OF_ORDER, {"unknown": "append"}),
}


def answer_of(verdict: Verdict) -> Answer:
    match verdict:
        case Append():
            return "append"
        case Duplicate(base_offset=offset):
            return offset
        case Refuse(code=code, reason=reason):
            assert "producer 7" in reason
            return code


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("batch", TABLE, ids=str)
def test_every_state_with_every_batch(state: str, batch: tuple[int, int, int]) -> None:
    window = STATES[state]()
    before = window.entry(7)
    assert answer_of(window.judge(header(7, *batch, offset=900))) == TABLE[batch][state]
    assert window.entry(7) == before, "judging changed the window"


def test_the_table_is_complete() -> None:
    assert all(set(row) == set(STATES) for row in TABLE.values())


@pytest.mark.mission("IDEM-20")
def test_a_batch_is_accepted_only_if_it_follows_the_last_one() -> None:
    for last_batch, following in (((0, 0, 100), 100), ((0, LAST - 6, 7), 0), ((0, LAST - 6, 6), LAST)):
        for sequence in {following, following + 1, following - 1, 0, 1, 5, LAST} - {-1, LAST + 1}:
            verdict = window_of(last_batch).judge(header(7, 0, sequence, 3))
            assert isinstance(verdict, Append) == (sequence == following), (last_batch, sequence)


@pytest.mark.mission("IDEM-30", "R-42")
def test_a_batch_moves_the_last_sequence_by_its_records_and_an_overlap_is_refused() -> None:
    state, offset, sequence = ProducerState(), 0, 0
    for count in (1, 3, 500, 2):
        batch = header(7, 0, sequence, count, offset=offset)
        assert isinstance(state.judge(batch), Append)
        state.record(batch)
        offset, sequence = offset + count, sequence + count
        assert state.producers[7].last_sequence == sequence - 1
    before = (state.entries(), state.map_end_offset)
    for first, count in (
        (sequence - 1, 2),
        (sequence - 1, 1),
        (sequence - 2, 3),
        (4, 501),
        (4, 499),
        (5, 499),
        (0, 506),
    ):
        verdict = state.judge(header(7, 0, first, count, offset=offset))
        assert isinstance(verdict, Refuse), (first, count)
        assert verdict.code is OUT_OF_ORDER
    assert (state.entries(), state.map_end_offset) == before


@pytest.mark.parametrize(("last_sequence", "sequence"), [(4, 7), (2, 27)])
def test_a_gap_is_refused_with_45(last_sequence: int, sequence: int) -> None:
    window = window_of((0, 0, last_sequence + 1))
    before = window.entry(7)
    verdict = window.judge(header(7, 0, sequence))
    assert isinstance(verdict, Refuse)
    assert verdict.code is OUT_OF_ORDER
    assert f"sequence {sequence} does not follow {last_sequence}" in verdict.reason
    assert window.entry(7) == before


@pytest.mark.mission("IDEM-26", "R-03")
def test_an_unknown_producer_may_start_anywhere_except_under_transactions_v2() -> None:
    for sequence in (0, 1, 100, LAST):
        state = ProducerState()
        batch = header(7, 0, sequence, offset=40)
        assert isinstance(state.judge(batch), Append)
        state.record(batch)
        assert state.producers[7].last_sequence == sequence
        assert state.producers[7].batches == (WindowBatch(sequence, 40, 0, NOW_MS),)
        under_v2 = ProducerState().judge(batch, transactions_v2=True)
        if sequence == 0:
            assert isinstance(under_v2, Append)
        else:
            assert isinstance(under_v2, Refuse)
            assert under_v2.code is OUT_OF_ORDER


@pytest.mark.mission("IDEM-27")
def test_a_lower_epoch_is_refused_with_47_and_changes_nothing() -> None:
    """The seed's example: epoch 0 with sequence 5, against a producer that is at epoch 1 with sequence 3."""
    state = ProducerState()
    state.record(header(123, 1, 0, 4))
    before = (copy.deepcopy(state.entries()), state.map_end_offset)
    verdict = state.judge(header(123, 0, 5, offset=4))
    assert isinstance(verdict, Refuse)
    assert verdict.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert "epoch 0 is older than the known epoch 1" in verdict.reason
    assert (state.entries(), state.map_end_offset) == before


@pytest.mark.mission("IDEM-28", "R-03")
def test_a_new_epoch_starts_again_at_zero() -> None:
    window = window_of((0, 90, 11))
    refused = window.judge(header(7, 1, 101))
    assert isinstance(refused, Refuse)
    assert refused.code is OUT_OF_ORDER
    first = header(7, 1, 0, 5, offset=111)
    assert isinstance(window.judge(first), Append)
    window.record(first)
    assert window.producer_epoch == 1
    assert window.batches == (WindowBatch(4, 115, 4, NOW_MS),)
    assert isinstance(window.judge(header(7, 1, 5)), Append)


@pytest.mark.mission("IDEM-32", "R-41")
def test_five_batches_are_kept_and_the_sixth_evicts_the_oldest() -> None:
    window, kept = ProducerWindow(), list[int]()
    for number in range(20):
        window.record(header(7, 0, 3 * number, 3, offset=1000 + 3 * number, timestamp_ms=NOW_MS + number))
        kept = [*kept, number][-5:]
        assert [batch.base_offset for batch in window.batches] == [1000 + 3 * one for one in kept]
        for one in range(number + 1):
            verdict = window.judge(header(7, 0, 3 * one, 3, offset=5000))
            if one in kept:
                assert verdict == Duplicate(1000 + 3 * one, 1002 + 3 * one, NOW_MS + one)
            else:
                assert isinstance(verdict, Refuse)
                assert verdict.code is OUT_OF_ORDER


@pytest.mark.mission("IDEM-35")
def test_two_producers_on_one_partition_are_validated_independently() -> None:
    state, offset = ProducerState(), 0
    for producer_id, epoch, sequence, count in ((1, 0, 0, 3), (2, 5, 0, 2), (1, 0, 3, 4), (2, 5, 2, 1)):
        batch = header(producer_id, epoch, sequence, count, offset=offset)
        assert isinstance(state.judge(batch), Append)
        state.record(batch)
        offset += count
    ones, twos = state.producers[1].entry(1), state.producers[2].entry(2)
    assert (ones.last_sequence, ones.producer_epoch) == (6, 0)
    assert (twos.last_sequence, twos.producer_epoch) == (2, 5)
    assert answer_of_code(state.judge(header(1, 0, 3, 1))) is OUT_OF_ORDER  # The second's next sequence.
    assert answer_of_code(state.judge(header(2, 5, 7, 1))) is OUT_OF_ORDER  # The first's next sequence.
    assert answer_of_code(state.judge(header(2, 0, 3, 1))) is FENCED  # The first's epoch.
    assert isinstance(state.judge(header(1, 0, 7, 1)), Append)
    assert isinstance(state.judge(header(2, 5, 3, 1)), Append)


def answer_of_code(verdict: Verdict) -> ErrorCode:
    assert isinstance(verdict, Refuse)
    return verdict.code


def test_partitions_share_nothing() -> None:
    one, other = ProducerState(), ProducerState()
    batch = header(7, 0, 0, 5)
    for state in (one, other):
        assert isinstance(state.judge(batch), Append)
    one.record(batch)
    before = other.entries()
    for sequence in range(5, 50, 5):
        one.record(header(7, 0, sequence, 5, offset=sequence))
    assert other.entries() == before == []
    assert isinstance(other.judge(batch), Append)


def test_a_negative_sequence_with_a_producer_id_is_an_invalid_record() -> None:
    for sequence in (-1, -2, -(2**31)):
        verdict = ProducerState().judge(header(7, 0, sequence))
        assert isinstance(verdict, Refuse)
        assert verdict.code is ErrorCode.INVALID_RECORD
        assert str(sequence) in verdict.reason


def test_a_batch_without_a_producer_is_never_judged() -> None:
    state = ProducerState()
    for _ in range(3):
        batch = header(-1, -1, -1, 4, offset=state.map_end_offset)
        assert isinstance(state.judge(batch), Append)
        state.record(batch)
    assert len(state) == 0
    assert state.map_end_offset == 12


def test_a_batch_may_straddle_the_wrap_and_still_be_recognised() -> None:
    window = window_of((0, LAST - 2, 6))
    assert window.last_sequence == 2
    assert window.judge(header(7, 0, LAST - 2, 6)) == Duplicate(100, 105, NOW_MS)
    assert isinstance(window.judge(header(7, 0, 3, 1)), Append)
    assert isinstance(window.judge(header(7, 0, 0, 1)), Refuse)


def test_what_a_coordinator_writes_for_a_producer_has_no_sequence() -> None:
    state = ProducerState()
    for offset in range(3):
        batch = header(7, 2, -1, 1, offset=offset, transactional=True)
        assert isinstance(state.judge(batch, by_coordinator=True), Append)
        state.record(batch)
    fenced = state.judge(header(7, 1, -1, 1, offset=3, transactional=True), by_coordinator=True)
    assert answer_of_code(fenced) is FENCED
    assert state.producers[7].current_txn_first_offset == 0
