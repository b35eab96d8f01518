"""Opening a log after kill -9 costs as much per transaction in a long log as in a short one.

Method: logs of N and of 4 N transactions, written without a broker, are opened while every line of Python that runs is counted.
Lines are the same on every machine. Four times the transactions take about four times the lines; a walk over all transactions
at each of them would take sixteen times as many.
"""

import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from semel.bench.transaction_logs import TransactionLog
from semel.broker.coordinators.loading import Loading
from semel.core.coordination.outcome import LogRow, Shard
from semel.core.groups.group import Groups
from semel.core.groups.rows import GROUP_ROW_TIMES, GROUP_ROWS
from semel.core.groups.shard import GroupShard
from semel.core.idempotence.producer_state import ProducerState
from semel.core.records.build import build_batch
from semel.core.transactions import rows as transaction_rows
from semel.core.transactions.coordinator.decision import TransactionSettings
from semel.core.transactions.coordinator.shard import TransactionShard
from semel.core.transactions.states import TransactionState
from semel.core.transactions.transaction import Transaction
from semel.log import names, reading
from semel.log.compaction import cleaning as cleaning_module
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.log.verification import verify
from semel.runtime.files import join
from semel.runtime.memory_files import MemoryDisk, MemoryFile
from support.groups.classic_kit import NoTopics
from support.log.compaction_kit import clean, without_kernels
from support.log.log_kit import DIRECTORY, NOW, PARTITION, open_at
from support.transactions.transactions_kit import Ids

SMALL, LARGE = 300, 1200
RATIO_MAX = 5.0  # Four, and what is paid once makes it less; a square would be sixteen.
CONFIG = LogConfig(producer_id_expiration_ms=10**14)
KINDS: dict[str, Callable[[int], bool]] = {
    "commits": lambda _number: False,
    "aborts": lambda _number: True,
    "both": lambda number: number % 3 == 0,
}


class CountingDisk(MemoryDisk):
    """Counts how often files are opened, by how their names end."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.opened: Counter[str] = Counter()

    def open(self, path: str, *, create: bool = False, read_only: bool = False) -> MemoryFile:
        self.opened["." + path.rpartition(".")[2]] += 1
        return super().open(path, create=create, read_only=read_only)


@contextmanager
def lines_counted() -> Iterator[list[int]]:
    """Every line of Python that runs inside, on this thread."""
    count = [0]

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            count[0] += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def lines_of(work: Callable[[], object]) -> int:
    with lines_counted() as count:
        work()
    return count[0]


def written(log: TransactionLog) -> CountingDisk:
    """A disk with this log, as a kill leaves it: no index was written, nothing was synced."""
    files = CountingDisk()
    files.make_directory(DIRECTORY)
    for kind in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
        file = files.open(join(DIRECTORY, names.file_name(0, kind)), create=True)
        position = 0
        for piece in log.pieces() if kind == names.LOG else ():
            file.write_at(position, piece)
            position += len(piece)
        file.close()
    files.opened.clear()
    return files


def recovered(log: TransactionLog) -> PartitionLog:
    return open_at(written(log), CONFIG, clean=False)


def assert_linear(cost: Callable[[int], int]) -> None:
    small, large = cost(SMALL), cost(LARGE)
    assert large < RATIO_MAX * small, (
        f"{SMALL} took {small} lines, {LARGE} took {large}: {large / small:.1f} times"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_partition_of_transactions(kind: str) -> None:
    def cost(count: int) -> int:
        files = written(TransactionLog.of_records(count, aborts=KINDS[kind], now_ms=NOW))
        return lines_of(lambda: open_at(files, CONFIG, clean=False))

    assert_linear(cost)


@pytest.mark.parametrize("part", ["the log", "the coordinator"])
@pytest.mark.parametrize("kind", KINDS)
def test_offsets_committed_in_transactions(kind: str, part: str) -> None:
    def cost(count: int) -> int:
        story = TransactionLog.of_offsets(count, "billing", "orders", aborts=KINDS[kind], now_ms=NOW)
        files = written(story)
        opened: list[PartitionLog] = []
        of_log = lines_of(lambda: opened.append(open_at(files, CONFIG, clean=False)))
        shard = GroupShard(Groups(NoTopics()))
        loading = Loading(shard, opened[0], GROUP_ROWS, GROUP_ROW_TIMES, 0)
        of_coordinator = lines_of(lambda: _load(loading, shard))
        last = max((number for number in range(count) if not KINDS[kind](number)), default=None)
        found = shard.offsets.get("billing", "orders", 0)
        assert (None if found is None else found.offset) == last
        return of_log if part == "the log" else of_coordinator

    assert_linear(cost)


def test_rows_of_a_transaction_coordinator() -> None:
    """Each transaction leaves rows; ids that are used once, and one that is used for all."""

    def cost(count: int) -> int:
        log = open_at(CountingDisk(), CONFIG)
        for number in range(count):
            for transactional_id in (f"once-{number}", "always"):
                for state in (TransactionState.ONGOING, TransactionState.COMPLETE_COMMIT):
                    _append(log, transaction_rows.row_of(_transaction(transactional_id, number, state)))

        shard = TransactionShard(TransactionSettings(), Ids())
        loading = Loading(shard, log, transaction_rows.FORMAT, transaction_rows.ROW_TIMES, 0)
        lines = lines_of(lambda: _load(loading, shard))
        assert len(shard) == count + 1
        return lines

    assert_linear(cost)


@pytest.mark.parametrize("kind", KINDS)
def test_producers_brought_back_without_a_snapshot(kind: str) -> None:
    """After a truncation, and before a segment that retention is about to delete."""

    def cost(count: int) -> int:
        log = recovered(TransactionLog.of_records(count, aborts=KINDS[kind], now_ms=NOW))
        log.snapshots.remove(list(log.snapshots.offsets))
        state = ProducerState(producer_id_expiration_ms=10**14)
        lines = lines_of(lambda: log.restore(state, log.log_end_offset, NOW))
        assert state.entries() == log.producers.entries()
        return lines

    assert_linear(cost)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_is_verified(kind: str) -> None:
    def cost(count: int) -> int:
        log = recovered(TransactionLog.of_records(count, aborts=KINDS[kind], now_ms=NOW))
        log.close(NOW)
        found: list[object] = []
        lines = lines_of(lambda: found.extend(verify(log._files, DIRECTORY).findings))
        assert found == []
        return lines

    assert_linear(cost)


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_is_compacted(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets committed in transactions: all of one key, and every marker is looked at."""
    monkeypatch.setattr(cleaning_module, "key_offsets", without_kernels)

    def cost(count: int) -> int:
        story = TransactionLog.of_offsets(count, "billing", "orders", aborts=KINDS[kind], now_ms=NOW)
        log = recovered(story)
        log.roll(NOW)
        log.flush(NOW)
        begun = log.size_bytes
        lines = lines_of(lambda: clean(log, now_ms=NOW))
        assert log.size_bytes < begun
        return lines

    assert_linear(cost)


@pytest.mark.parametrize("kind", KINDS)
def test_the_transaction_index_is_written_once_for_a_segment(kind: str) -> None:
    story = TransactionLog.of_records(LARGE, aborts=KINDS[kind], now_ms=NOW)
    files = written(story)
    log = open_at(files, CONFIG, clean=False)
    assert len(log.active.txn_index.entries) == story.aborted_count
    assert files.opened[names.TXN_INDEX] <= 3, "rebuilt: written, and perhaps read and synced"
    again = open_at(files, CONFIG, recovery_point=log.recovery_point)
    assert again.active.txn_index.entries == log.active.txn_index.entries, "and it is on disk"


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_recovered_is_what_was(kind: str) -> None:
    """The same transactions appended one by one, as a broker does it."""
    story = TransactionLog.of_records(200, aborts=KINDS[kind], now_ms=NOW)
    live = open_at(CountingDisk(), CONFIG)
    for piece in story.pieces():
        assert live.append_as_follower(piece, NOW) is None
        live.advance_high_watermark(live.log_end_offset)
    log = recovered(story)
    assert (log.log_end_offset, log.last_stable_offset) == (story.end_offset, live.last_stable_offset)
    assert log.producers.entries() == live.producers.entries()
    for offset in range(0, story.end_offset, 7):
        bound = min(offset + 50, story.end_offset)
        aborted = reading.aborted_transactions(live, offset, bound)
        assert reading.aborted_transactions(log, offset, bound) == aborted
    assert log.topic_partition == PARTITION


def _load(loading: Loading[Any], shard: Shard[Any]) -> None:
    while not loading.step():
        pass
    shard.loaded(NOW)


def _append(log: PartitionLog, row: LogRow) -> None:
    log.append(
        build_batch([transaction_rows.FORMAT.encode(row, NOW)]),
        leader_epoch=0,
        now_ms=NOW,
        from_client=False,
    )
    log.advance_high_watermark(log.log_end_offset)


def _transaction(transactional_id: str, number: int, state: TransactionState) -> Transaction:
    return Transaction(
        transactional_id=transactional_id,
        producer_id=number,
        producer_epoch=0,
        timeout_ms=60_000,
        state=state,
        start_ms=NOW,
        last_update_ms=NOW,
    )
