"""A partition's producers: transactions and the last stable offset, markers, forgetting, replay.

Method: short stories with the offsets written out; then random logs, written live and read back from any snapshot,
which must end in the same state.
"""

import random
import tracemalloc

import pytest

from semel.core.idempotence import snapshot
from semel.core.idempotence.producer_state import CompletedTxn, ProducerState
from semel.core.idempotence.producer_window import Append, Duplicate, Verdict
from semel.core.records.batch import BatchHeader
from semel.errors import ErrorCode, InvariantError, Refuse
from support.idempotence.idempotence_kit import NOW_MS, header

DAY_MS = 86_400_000


def write(state: ProducerState, producer_id: int, sequence: int, *, count: int = 1, epoch: int = 0) -> int:
    """Append a transactional batch at the end; its base offset."""
    offset = state.map_end_offset
    batch = header(producer_id, epoch, sequence, count, offset=offset, transactional=True)
    assert isinstance(state.judge(batch), Append)
    state.record(batch)
    return offset


def mark(state: ProducerState, producer_id: int, *, commit: bool, epoch: int = 0) -> CompletedTxn | None:
    """Append a marker at the end."""
    return state.record_marker(
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=1,
        commit=commit,
        offset=state.map_end_offset,
        timestamp_ms=NOW_MS,
    )


def end(state: ProducerState, producer_id: int, *, commit: bool, epoch: int = 0) -> CompletedTxn | None:
    """Append a marker at the end, and complete what it ended."""
    completed = mark(state, producer_id, commit=commit, epoch=epoch)
    if completed is not None:
        state.complete(completed)
    return completed


def unstable(state: ProducerState) -> int | None:
    """The first unstable offset, asked anew: the type checker does not see that it changes."""
    return state.first_unstable_offset


def code_of(verdict: Verdict) -> ErrorCode:
    assert isinstance(verdict, Refuse)
    return verdict.code


# Transactions and the last stable offset.


def test_the_last_stable_offset_is_the_first_open_transaction_or_the_high_watermark() -> None:
    state = ProducerState()
    state.record(header(-1, -1, -1, 10))
    assert state.last_stable_offset(10) == 10
    assert write(state, 1, 0, count=5) == 10
    assert write(state, 2, 0, count=5) == 15
    assert unstable(state) == state.first_undecided_offset == 10
    assert [state.last_stable_offset(high_watermark) for high_watermark in (7, 10, 12, 20)] == [7, 10, 10, 10]
    assert end(state, 1, commit=True) == CompletedTxn(1, 10, 20, is_aborted=False)
    assert state.first_undecided_offset == 15
    assert unstable(state) == 10, "its marker is not replicated yet"
    state.on_high_watermark(20)
    assert state.last_stable_offset(20) == 10, "the marker is at 20, the high watermark does not cover it"
    state.on_high_watermark(21)
    assert state.last_stable_offset(21) == 15
    assert end(state, 2, commit=False) == CompletedTxn(2, 15, 21, is_aborted=True)
    state.on_high_watermark(22)
    assert unstable(state) is None
    assert state.last_stable_offset(22) == 22


def test_a_later_transaction_completed_first_stays_behind_the_earlier_one() -> None:
    state = ProducerState()
    write(state, 1, 0)
    write(state, 2, 0)
    end(state, 2, commit=True)
    state.on_high_watermark(3)
    assert state.last_stable_offset(3) == 0
    end(state, 1, commit=True)
    assert unstable(state) == 0
    state.on_high_watermark(4)
    assert state.last_stable_offset(4) == 4


def test_the_index_entry_carries_the_last_stable_offset_after_the_marker() -> None:
    state = ProducerState()
    write(state, 1, 0)
    write(state, 2, 0)
    write(state, 3, 0)
    second = mark(state, 2, commit=False)
    assert second is not None
    assert state.last_stable_offset_after(second) == 0
    state.complete(second)
    first = mark(state, 1, commit=False)
    assert first is not None
    assert state.last_stable_offset_after(first) == 2
    state.complete(first)
    third = mark(state, 3, commit=False)
    assert third is not None
    assert state.last_stable_offset_after(third) == 6


def test_the_last_stable_offset_never_falls_below_the_log_start() -> None:
    state = ProducerState()
    write(state, 1, 0, count=10)
    state.record(header(-1, -1, -1, 10, offset=10))
    assert state.last_stable_offset(20, log_start_offset=5) == 5
    assert state.last_stable_offset(20, log_start_offset=20) == 20


def test_completing_a_transaction_that_is_not_open_stops_the_shard() -> None:
    with pytest.raises(InvariantError, match="no transaction is open"):
        ProducerState().complete(CompletedTxn(1, 5, 9, is_aborted=False))


def test_a_marker_is_not_data() -> None:
    state = ProducerState()
    with pytest.raises(InvariantError, match="offset 3"):
        state.record(header(1, 0, -1, 1, offset=3, transactional=True, control=True))
    emptied = header(1, 0, -1, 1, offset=3, transactional=True, control=True)._replace(records_count=0)
    state.record(emptied)  # The cleaner took the marker out.
    assert (len(state), state.map_end_offset) == (0, 4)


def test_data_outside_of_transactions_is_refused_while_one_is_open() -> None:
    state = ProducerState()
    write(state, 1, 0)
    assert code_of(state.judge(header(1, 0, 1))) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(state.judge(header(2, 0, 0)), Append)
    end(state, 1, commit=True)
    assert isinstance(state.judge(header(1, 0, 1)), Append)


def test_ten_thousand_open_transactions_end_in_order_without_looking_at_each_other() -> None:
    """Written so that a first unstable offset found by walking all transactions would take minutes."""
    state = ProducerState()
    for producer_id in range(10_000):
        write(state, producer_id, 0)
    for producer_id in range(10_000):
        assert state.first_undecided_offset == producer_id
        end(state, producer_id, commit=producer_id % 2 == 0)
        state.on_high_watermark(state.map_end_offset)
    assert unstable(state) is None


# Markers.


@pytest.mark.parametrize(
    ("known", "is_open", "epoch", "version", "expected"),
    [
        (4, True, 4, 0, None),
        (4, True, 4, 1, None),
        (4, True, 3, 0, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, True, 3, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (4, True, 5, 1, None),
        (4, True, 5, 2, None),
        (4, True, 4, 2, ErrorCode.INVALID_PRODUCER_EPOCH),  # It would end the next transaction.
        (4, False, 4, 2, None),  # Sent again after it was written: harmless.
        (4, False, 3, 2, ErrorCode.INVALID_PRODUCER_EPOCH),
        (32767, True, 32767, 2, None),  # There is no higher epoch.
        (32767, False, 32767, 2, None),
    ],
)
def test_a_marker_is_fenced_by_epoch(
    known: int, is_open: bool, epoch: int, version: int, expected: ErrorCode | None
) -> None:
    state = ProducerState()
    write(state, 1, 0, epoch=known)
    if not is_open:
        end(state, 1, commit=True, epoch=known)
    before = state.entries()
    verdict = state.judge_marker(
        producer_id=1, producer_epoch=epoch, coordinator_epoch=1, transaction_version=version
    )
    assert (verdict.code if isinstance(verdict, Refuse) else None) is expected
    assert state.entries() == before


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    state = ProducerState()
    write(state, 1, 0)
    end(state, 1, commit=True)  # Coordinator epoch 1.
    for coordinator_epoch, expected in ((0, ErrorCode.TRANSACTION_COORDINATOR_FENCED), (1, None), (2, None)):
        verdict = state.judge_marker(
            producer_id=1, producer_epoch=0, coordinator_epoch=coordinator_epoch, transaction_version=1
        )
        assert (verdict.code if isinstance(verdict, Refuse) else None) is expected


def test_a_marker_makes_an_unknown_producer_known_and_its_epoch_fence() -> None:
    state = ProducerState()
    verdict = state.judge_marker(producer_id=1, producer_epoch=4, coordinator_epoch=0, transaction_version=2)
    assert isinstance(verdict, Append)
    assert end(state, 1, commit=False, epoch=4) is None, "there was nothing to complete"
    assert unstable(state) is None
    assert code_of(state.judge(header(1, 3, 0))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(state.judge(header(1, 4, 5))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(state.judge(header(1, 4, 0)), Append)


def test_a_marker_with_the_bumped_epoch_shuts_out_what_arrives_late() -> None:
    state = ProducerState()
    write(state, 1, 0)
    end(state, 1, commit=True, epoch=1)
    late = header(1, 0, 1, offset=2, transactional=True)
    assert code_of(state.judge(late, transactions_v2=True)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(
        state.judge(header(1, 1, 0, offset=2, transactional=True), transactions_v2=True), Append
    )


# Forgetting.


@pytest.mark.mission("PST-05")
def test_a_hundred_thousand_one_shot_producers_are_forgotten_after_a_day() -> None:
    state = ProducerState()
    assert state.producer_id_expiration_ms == DAY_MS
    for producer_id in range(100_000):
        state.record(header(producer_id, 0, 0, offset=producer_id, timestamp_ms=NOW_MS + producer_id))
    write(state, 500_000, 0)
    state.expire(NOW_MS + DAY_MS - 1)
    assert len(state) == 100_001
    state.expire(NOW_MS + DAY_MS + 49_999)
    assert len(state) == 50_001
    assert state.expire(NOW_MS + 3 * DAY_MS) == 50_000
    assert list(state.producers) == [500_000], "its transaction is open"
    end(state, 500_000, commit=True)
    assert state.expire(NOW_MS + DAY_MS) == 1
    assert state.entries() == []


def test_expiry_counts_from_the_last_write_not_from_the_first() -> None:
    state = ProducerState(producer_id_expiration_ms=1000)
    state.record(header(1, 0, 0, timestamp_ms=NOW_MS))
    state.record(header(1, 0, 1, offset=1, timestamp_ms=NOW_MS + 900))
    assert state.expire(NOW_MS + 1899) == 0
    assert state.expire(NOW_MS + 1900) == 1


def test_a_producer_of_old_events_is_not_forgotten_while_it_writes() -> None:
    """Timestamps are the client's: a backfill of last year's events must not lose its protection at once."""
    state = ProducerState(producer_id_expiration_ms=1000)
    state.record(header(1, 0, 0, timestamp_ms=NOW_MS - 365 * DAY_MS), now_ms=NOW_MS)
    assert state.expire(NOW_MS + 999) == 0
    assert isinstance(state.judge(header(1, 0, 0, timestamp_ms=NOW_MS - 365 * DAY_MS)), Duplicate)
    restarted = ProducerState(producer_id_expiration_ms=1000)
    saved = snapshot.encode(state.entries(), keep_windows=True)
    restarted.load(snapshot.decode(saved), map_end_offset=1, now_ms=NOW_MS + 999)
    assert isinstance(restarted.judge(header(1, 0, 0, timestamp_ms=NOW_MS - 365 * DAY_MS)), Duplicate)
    assert restarted.expire(NOW_MS + 1000) == state.expire(NOW_MS + 1000) == 1


def test_a_forgotten_producer_goes_on_where_it_was() -> None:
    """An idle producer must never get a fatal error; under transactions v2 it has a new epoch and starts at 0."""
    state = ProducerState(producer_id_expiration_ms=1000)
    state.record(header(1, 0, 0, 40))
    state.expire(NOW_MS + 5000)
    assert isinstance(state.judge(header(1, 0, 40, offset=40)), Append)
    verdict = state.judge(header(1, 0, 40, offset=40, transactional=True), transactions_v2=True)
    assert code_of(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_deleting_records_forgets_no_producer_and_no_open_transaction() -> None:
    state = ProducerState()
    state.record(header(1, 0, 0, 10))
    write(state, 2, 0, count=10)
    before = state.entries()
    state.on_log_start_offset(15)
    assert (state.entries(), state.first_unstable_offset, state.map_end_offset) == (before, 10, 20)
    state.on_log_start_offset(30)
    assert (state.entries(), state.map_end_offset) == (before, 30)
    assert isinstance(state.judge(header(1, 0, 0, 10, offset=30)), Duplicate)


def test_a_late_transaction_is_one_that_outlived_every_timeout() -> None:
    state = ProducerState()
    assert not state.has_late_transaction(NOW_MS, transaction_timeout_max_ms=1)
    write(state, 1, 0)
    limit = NOW_MS + 900_000 + 300_000
    assert not state.has_late_transaction(limit, transaction_timeout_max_ms=900_000)
    assert state.has_late_transaction(limit + 1, transaction_timeout_max_ms=900_000)


def test_a_producer_takes_less_than_a_kibibyte() -> None:
    """Five batches, large numbers everywhere and an open transaction: nothing is shared, nothing is small."""
    count = 4_000
    state = ProducerState()
    batches = [
        header(
            10**9 + producer_id,
            3,
            10**6 + 1000 * number,
            1000,
            offset=10**12 + 6000 * producer_id + 1000 * number,
            timestamp_ms=NOW_MS + 6 * producer_id + number,
            transactional=True,
        )
        for producer_id in range(count)
        for number in range(6)
    ]
    tracemalloc.start()
    try:
        for number, batch in enumerate(batches):
            state.record(batch, now_ms=NOW_MS + number)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(state) == count
    assert used / count < 1024, f"{used / count:.0f} bytes per producer"


# Replay.


def random_log(rng: random.Random, length: int) -> list[BatchHeader | tuple[int, int, bool, int]]:
    """The entries of a log: data headers, and markers as (producer id, epoch, commit, offset)."""
    log: list[BatchHeader | tuple[int, int, bool, int]] = []
    state = ProducerState()
    while len(log) < length:
        producer_id, offset = rng.randrange(5), state.map_end_offset
        window = state.producers.get(producer_id)
        epoch, sequence = (
            (0, 0) if window is None else (window.producer_epoch, (window.last_sequence + 1) & 0x7FFFFFFF)
        )
        if rng.random() < 0.2 and window is not None:
            end(state, producer_id, commit=rng.random() < 0.5, epoch=(epoch := epoch + rng.randrange(2)))
            log.append((producer_id, epoch, rng.random() < 0.5, offset))
            continue
        if rng.random() < 0.1:
            epoch, sequence = epoch + 1, 0
        batch = header(
            producer_id,
            epoch,
            sequence,
            1 + rng.randrange(5),
            offset=offset,
            timestamp_ms=NOW_MS + offset,
            transactional=rng.random() < 0.5 or (window is not None and window.has_open_transaction),
        )
        if isinstance(state.judge(batch), Append):
            state.record(batch)
            log.append(batch)
    return log


def replay(state: ProducerState, log: list[BatchHeader | tuple[int, int, bool, int]]) -> list[CompletedTxn]:
    done = []
    for item in log:
        if isinstance(item, BatchHeader):
            state.record(item)
        else:
            producer_id, epoch, commit, _ = item
            if (completed := end(state, producer_id, commit=commit, epoch=epoch)) is not None:
                done.append(completed)
    return done


def shown(state: ProducerState) -> tuple[object, ...]:
    return (
        state.entries(),
        list(state.open_transactions),
        state.first_undecided_offset,
        state.map_end_offset,
    )


@pytest.mark.parametrize("seed", range(40))
def test_replay_from_the_start_and_from_any_snapshot_equals_live(seed: int) -> None:
    rng = random.Random(seed)
    log = random_log(rng, 60)
    live = ProducerState()
    snapshots = [(0, b"", 0)]
    done = list[CompletedTxn]()
    for position, item in enumerate(log):
        done += replay(live, [item])
        snapshots.append(
            (position + 1, snapshot.encode(live.entries(), keep_windows=True), live.map_end_offset)
        )
    again = ProducerState()
    assert replay(again, log) == done
    assert shown(again) == shown(live)
    for position, data, map_end_offset in snapshots[1:]:
        restarted = ProducerState()
        restarted.record(header(99, 0, 0, 3))  # The former state is replaced.
        restarted.load(snapshot.decode(data), map_end_offset=map_end_offset)
        replay(restarted, log[position:])
        assert shown(restarted) == shown(live)
        restarted.on_high_watermark(restarted.map_end_offset)
        assert restarted.first_unstable_offset == restarted.first_undecided_offset


def test_judging_changes_nothing() -> None:
    rng = random.Random(3)
    state = ProducerState()
    replay(state, random_log(rng, 80))
    before = (*shown(state), state.first_unstable_offset)
    for _ in range(2_000):
        batch = header(
            rng.randrange(7),
            rng.randrange(4),
            rng.randrange(30),
            1 + rng.randrange(3),
            transactional=rng.random() < 0.5,
        )
        state.judge(batch, transactions_v2=rng.random() < 0.5, by_coordinator=rng.random() < 0.2)
        state.judge_marker(
            producer_id=rng.randrange(7),
            producer_epoch=rng.randrange(4),
            coordinator_epoch=rng.randrange(3),
            transaction_version=rng.randrange(3),
        )
    assert (*shown(state), state.first_unstable_offset) == before


def test_truncation_is_loading_an_older_snapshot_and_replaying_up_to_the_cut() -> None:
    state = ProducerState()
    state.record(header(1, 0, 0, 5))
    early, early_end = snapshot.encode(state.entries(), keep_windows=True), state.map_end_offset
    kept = header(1, 0, 5, 5, offset=5)
    state.record(kept)
    write(state, 2, 0)
    assert unstable(state) == 10
    state.load(snapshot.decode(early), map_end_offset=early_end)
    state.record(kept)
    assert list(state.producers) == [1]
    assert (unstable(state), state.map_end_offset) == (None, 10)
    assert isinstance(state.judge(header(1, 0, 10, offset=10)), Append)
    state.clear(7)
    assert (state.entries(), state.map_end_offset) == ([], 7)


def test_loading_leaves_out_what_has_expired_but_keeps_open_transactions() -> None:
    state = ProducerState(producer_id_expiration_ms=1000)
    state.record(header(1, 0, 0, offset=0, timestamp_ms=NOW_MS))
    state.record(header(2, 0, 0, offset=1, timestamp_ms=NOW_MS, transactional=True))
    state.record(header(3, 0, 0, offset=2, timestamp_ms=NOW_MS + 1))
    entries = snapshot.decode(snapshot.encode(reversed(state.entries())))
    state.load(entries, map_end_offset=3, now_ms=NOW_MS + 1000)
    assert sorted(state.producers) == [2, 3]
    assert list(state.open_transactions) == [(1, 2)]
    assert unstable(state) == 1
