"""A hundred thousand histories of producers that resend, skip, overlap, restart and lag: one copy of each batch.

Method: random steps from one seed, each judged by `ProducerState` and by the plainest model there is, a list of all
that was appended. Sequences start near the wrap as often as anywhere else. A hypothesis search beside it shrinks what
it finds to the smallest history.
"""

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.idempotence.producer_state import ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate
from semel.core.records.batch import BatchHeader
from semel.errors import ErrorCode, Refuse
from support.idempotence.idempotence_kit import PlainModel, header

HISTORIES = 100_000
STEPS = (2, 4, 5, 15)  # Long enough, now and then, for batches to fall out of the window.


def step(state: ProducerState, model: PlainModel, batch: BatchHeader) -> str:
    """Judge, compare, append if told to; the name of the outcome."""
    expected = model.outcome(batch)
    match state.judge(batch):
        case Append():
            assert expected is None, f"appended, the model says {expected}: {batch}"
            state.record(batch)
            model.append(batch)
            return "append"
        case Duplicate(base_offset=offset):
            assert offset == expected, f"duplicate of {offset}, the model says {expected}: {batch}"
            return "duplicate"
        case Refuse(code=code):
            assert code is expected, f"refused with {code!r}, the model says {expected!r}: {batch}"
            return code.name


def next_batch(rng: random.Random, model: PlainModel, offset: int) -> BatchHeader:
    """A batch some producer could send: mostly the next one, a resend, or something close to either."""
    producer_id = rng.choice((0, 0, 0, 1))
    mine = [one for one in model.appended if one.producer_id == producer_id]
    if not mine:
        sequence = rng.choice((0, 0, 5, 2**31 - 4, 2**31 - 1))
        return header(producer_id, rng.randrange(2), sequence, 1 + rng.randrange(4), offset=offset)
    last = mine[-1]
    following = (last.base_sequence + last.records_count) % 2**31
    kind = rng.random()
    if kind < 0.45:
        return header(producer_id, last.producer_epoch, following, 1 + rng.randrange(4), offset=offset)
    if kind < 0.75:
        again = mine[-1 - min(len(mine) - 1, rng.randrange(7))]
        return again._replace(base_offset=offset)
    if kind < 0.85:
        epoch, sequence = last.producer_epoch + rng.choice((-1, 1, 1, 2)), rng.choice((0, 0, 1, following))
        return header(producer_id, max(0, epoch), sequence, 1 + rng.randrange(4), offset=offset)
    sequence = (following + rng.randrange(-6, 7)) % 2**31
    return header(producer_id, last.producer_epoch, sequence, 1 + rng.randrange(4), offset=offset)


@pytest.mark.mission("IDEM-29")
def test_a_hundred_thousand_histories_agree_with_the_model() -> None:
    rng = random.Random(20_240_711)
    outcomes: Counter[str] = Counter()
    for history in range(HISTORIES):
        state, model, offset = ProducerState(), PlainModel(), 0
        for _ in range(rng.choice(STEPS)):
            batch = next_batch(rng, model, offset)
            try:
                outcome = step(state, model, batch)
            except AssertionError as wrong:
                raise AssertionError(f"history {history}: {[*model.appended, batch]}") from wrong
            if outcome == "append":
                offset += batch.records_count
            outcomes[outcome] += 1
    # All four outcomes were seen, each many times: the comparison was not empty.
    assert set(outcomes) == {
        "append",
        "duplicate",
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER.name,
        ErrorCode.INVALID_PRODUCER_EPOCH.name,
    }
    assert min(outcomes.values()) > HISTORIES // 20


@given(st.data())
def test_the_smallest_history_that_disagrees(data: st.DataObject) -> None:
    state, model, offset = ProducerState(), PlainModel(), 0
    small = st.one_of(st.integers(0, 12), st.integers(2**31 - 6, 2**31 - 1))
    for _ in range(data.draw(st.integers(1, 25))):
        batch = header(
            data.draw(st.integers(0, 1)),
            data.draw(st.integers(0, 2)),
            data.draw(small),
            data.draw(st.integers(1, 4)),
            offset=offset,
        )
        if step(state, model, batch) == "append":
            offset += batch.records_count


@given(steps_back=st.lists(st.integers(0, 5), max_size=200))  # 0: the next new batch.
def test_a_retry_is_never_appended_twice(steps_back: list[int]) -> None:
    state, log = ProducerState(), list[BatchHeader]()
    for back in steps_back:
        number = max(0, len(log) - back)
        batch = header(7, 0, 2 * number, 2, offset=2 * len(log))
        match state.judge(batch):
            case Append():
                state.record(batch)
                log.append(batch)
            case Duplicate(base_offset=offset):
                assert log[offset // 2].base_sequence == batch.base_sequence
            case Refuse() as refused:
                raise AssertionError(refused)
    assert len({batch.base_sequence for batch in log}) == len(log)
