"""Transactions in one log: what is open, what was aborted, how far committed readers may see.

Method: interleaved transactions of a few producers, compared with what a reader of the whole log would say.
"""

import random
from collections import Counter
from struct import iter_unpack

import pytest

from semel.core.records import batch
from semel.core.records.batch import TimestampType
from semel.core.records.visibility import CommittedOnly
from semel.errors import ErrorCode, Refuse
from semel.log import reading
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.log.txn_index import AbortedTxn
from support.log.log_kit import DIRECTORY, NOW, batch_of, content, disk, end, file_bytes, open_at, send


def put(log: PartitionLog, producer_id: int, sequence: int = 0, epoch: int = 0) -> None:
    send(log, batch_of(b"x", producer_id=producer_id, sequence=sequence, epoch=epoch, transactional=True))


@pytest.mark.mission("READ-11", "R-32")
def test_the_aborted_index_appears_with_the_first_abort_and_lists_aborts_only() -> None:
    log = open_at(disk())
    put(log, 1)
    end(log, 1, commit=True)
    log.flush(NOW)
    assert not file_bytes(log._files, endings=[".txnindex"])
    put(log, 1, sequence=1)
    end(log, 1, commit=False)
    assert list(file_bytes(log._files, endings=[".txnindex"])) == ["00000000000000000000.txnindex"]
    put(log, 1, sequence=2)
    end(log, 1, commit=True)
    assert log.active.txn_index.entries == [AbortedTxn(1, 2, 3, 4)]


def test_an_entry_of_the_aborted_index_has_34_bytes_in_kafkas_layout() -> None:
    log = open_at(disk())
    put(log, 1)
    put(log, 2)
    end(log, 2, commit=False)
    raw = file_bytes(log._files, endings=[".txnindex"]).popitem()[1]
    assert len(raw) == 34
    assert list(iter_unpack(">hqqqq", raw)) == [(0, 2, 1, 2, 0)]


@pytest.mark.mission("READ-13")
def test_a_marker_computes_enters_and_closes_in_this_order(monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_at(disk())
    put(log, 1)
    told: list[str] = []
    state, index = log.producers, log.active.txn_index

    def tell(name: str, was_open: bool) -> None:
        told.append(f"{name}, open: {was_open}")

    class Watched(type(state)):  # type: ignore[misc]  # The class of the live object, watched.
        __slots__ = ()

        def last_stable_offset_after(self, completed: object) -> int:
            tell("last stable offset", bool(list(self.open_transactions)))
            return int(super().last_stable_offset_after(completed))

        def complete(self, completed: object) -> None:
            tell("close", bool(list(self.open_transactions)))
            super().complete(completed)

    class WatchedIndex(type(index)):  # type: ignore[misc]  # As above.
        __slots__ = ()

        def append(self, entry: AbortedTxn) -> None:
            tell("index", bool(list(state.open_transactions)))
            super().append(entry)

    state.__class__ = Watched
    index.__class__ = WatchedIndex
    end(log, 1, commit=False)
    assert told == ["last stable offset, open: True", "index, open: True", "close, open: True"]
    assert not list(state.open_transactions)


@pytest.mark.mission("READ-10")
def test_the_worked_example_of_a_fetch_over_an_aborted_transaction() -> None:
    """Offsets 0..4 are fetched; producer 2's 2..5 were aborted; the list names it, the reader leaves it out."""
    log = open_at(disk())
    put(log, 1)  # 0
    send(log, batch_of(b"plain"))  # 1
    put(log, 2)  # 2
    put(log, 1, sequence=1)  # 3
    put(log, 2, sequence=1)  # 4
    end(log, 2, commit=False)  # 5
    end(log, 1, commit=True)  # 6
    aborted = reading.aborted_transactions(log, 0, 5)
    assert [(entry.producer_id, entry.first_offset) for entry in aborted] == [(2, 2)]
    piece = reading.read(log, 0, max_bytes=1 << 20, upper_bound=5)
    assert piece is not None
    delivered = [
        header.base_offset
        for _position, header in batch.headers(piece.read())
        if not header.is_control
        and not any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset <= entry.last_offset
            for entry in aborted
        )
    ]
    assert delivered == [0, 1, 3]


def test_trap_17_aborted_lists_hold_transactions_begun_before_the_fetch() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=300))
    put(log, 1)
    for n in range(8):
        send(log, batch_of(b"filler" * 10, producer_id=9, sequence=n))
    end(log, 1, commit=False)
    assert len(log.segments) > 2
    assert [entry.first_offset for entry in reading.aborted_transactions(log, 5, 8)] == [0]
    assert reading.aborted_transactions(log, 10, 11) == []


@pytest.mark.mission("READ-05", "R-31")
def test_the_last_stable_offset_is_the_first_open_transaction_or_the_high_watermark() -> None:
    log = open_at(disk())
    send(log, batch_of(b"plain"))
    assert log.last_stable_offset == 1
    put(log, 1)  # 1
    put(log, 2)  # 2
    send(log, batch_of(b"plain"))  # 3
    assert log.last_stable_offset == 1
    end(log, 2, commit=True)  # 4
    assert log.last_stable_offset == 1
    end(log, 1, commit=True)  # 5
    assert log.last_stable_offset == 6


@pytest.mark.mission("READ-07")
def test_the_last_stable_offset_never_moves_back() -> None:
    log = open_at(disk())
    seen = [log.last_stable_offset]
    for n in range(60):
        producer = n * 7 % 4 + 1
        window = log.producers.producers.get(producer)
        sequence = 0 if window is None else window.last_sequence + 1
        if window is not None and window.has_open_transaction and n % 3 == 0:
            end(log, producer, commit=n % 2 == 0)
        else:
            put(log, producer, sequence=sequence)
        seen.append(log.last_stable_offset)
    assert seen == sorted(seen)


@pytest.mark.mission("READ-06")
def test_the_last_stable_offset_after_a_restart_is_what_the_log_says() -> None:
    files = disk()
    log = open_at(files, LogConfig(segment_bytes=400))
    put(log, 1)
    end(log, 1, commit=True)
    for n in range(6):
        put(log, 2, sequence=n)
    put(log, 3)
    end(log, 3, commit=False)
    assert log.last_stable_offset == 2
    files.kill()
    assert open_at(files, log.config, clean=False).last_stable_offset == 2
    log = open_at(files, log.config, clean=False)
    end(log, 2, commit=True)
    log.close(NOW)
    again = open_at(files, log.config)
    assert again.last_stable_offset == again.high_watermark == again.log_end_offset


@pytest.mark.mission("LOG-09")
def test_data_and_markers_stand_in_one_log() -> None:
    log = open_at(disk())
    put(log, 1)
    end(log, 1, commit=True)
    stored = [header for _position, header in batch.headers(content(log))]
    assert [(h.base_offset, h.is_control, h.is_transactional) for h in stored] == [
        (0, False, True),
        (1, True, True),
    ]
    assert [name for name in file_bytes(log._files) if name.endswith(".log")] == ["00000000000000000000.log"]


def test_a_marker_of_an_older_coordinator_is_fenced() -> None:
    log = open_at(disk())
    put(log, 1)
    log.append_marker(
        producer_id=1, producer_epoch=0, coordinator_epoch=5, commit=True, leader_epoch=0, now_ms=NOW
    )
    put(log, 1, sequence=1)
    refused = log.append_marker(
        producer_id=1, producer_epoch=0, coordinator_epoch=4, commit=True, leader_epoch=0, now_ms=NOW
    )
    assert isinstance(refused, Refuse)
    assert refused.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == 3


def test_trap_27_retention_stops_at_an_open_transaction() -> None:
    log = open_at(disk(), LogConfig(segment_bytes=300, retention_ms=1))
    for n in range(6):
        send(log, batch_of(b"x" * 40, producer_id=9, sequence=n))
    put(log, 1)
    opened = log.segment_at(6).base_offset
    for n in range(6, 12):
        send(log, batch_of(b"x" * 40, producer_id=9, sequence=n))
    assert log.delete_old_segments(NOW + 10_000) > 0
    assert log.segments[0].base_offset == log.log_start_offset == opened
    assert log.last_stable_offset == 6
    end(log, 1, commit=True)
    log.delete_old_segments(NOW + 10_000)
    assert log.log_start_offset == log.log_end_offset
    assert {entry.producer_id for entry in log.producers.entries()} == {1, 9}
    assert log._files.exists(DIRECTORY)


def test_a_marker_is_stamped_where_the_broker_stamps_records() -> None:
    """As Kafka stamps it: see the compat tests, where its own file is read."""
    log = open_at(disk(), LogConfig(message_timestamp_type=TimestampType.LOG_APPEND_TIME))
    send(log, batch_of(b"x", producer_id=1, transactional=True))
    end(log, 1, commit=True, now_ms=NOW + 5)
    marker = [header for _position, header in batch.headers(content(log))][-1]
    assert marker.is_control
    assert marker.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert marker.max_timestamp == NOW + 5
    batch.check_crc(content(log)[-marker.size_bytes :], 0, marker)


@pytest.mark.mission("READ-02")
def test_ten_thousand_mixed_transactions_read_as_the_model_says() -> None:
    """Twenty producers interleave, commit and abort; plain records stand between. A reader that fetches small pieces from
    anywhere gets the plain and the committed records below the last stable offset, in order, and no others."""
    dice = random.Random(2)
    log = open_at(disk(), LogConfig(segment_bytes=200_000, index_interval_bytes=500))
    fates: dict[int, bool | None] = {}  # Offset -> committed; None while it is open.
    open_ones: dict[int, list[int]] = {}
    sequences: Counter[int] = Counter()
    ended = 0
    while ended < 10_000:
        producer_id = dice.randrange(20)
        if dice.random() < 0.1:
            fates[log.log_end_offset] = True
            send(log, batch_of(b"plain"))
        elif producer_id in open_ones and dice.random() < 0.6:
            commit = dice.random() < 0.7
            end(log, producer_id, commit=commit)
            for offset in open_ones.pop(producer_id):
                fates[offset] = commit
            ended += 1
        else:
            open_ones.setdefault(producer_id, []).append(log.log_end_offset)
            fates[log.log_end_offset] = None
            put(log, producer_id, sequence=sequences[producer_id])
            sequences[producer_id] += 1
    assert log.last_stable_offset == min(first for first, *_rest in open_ones.values())
    expected = [
        offset for offset, committed in fates.items() if committed and offset < log.last_stable_offset
    ]
    assert read_committed(log, 0)[0] == expected
    for first in dice.sample(range(log.last_stable_offset), 20):
        found, end_offset = read_committed(log, first, pieces_max=3)
        assert found == [offset for offset in expected if first <= offset < end_offset]


def read_committed(log: PartitionLog, offset: int, pieces_max: int = 1_000_000) -> tuple[list[int], int]:
    """The offsets a reader is given, piece by piece as a fetch gives them, and where it stands then."""
    found: list[int] = []
    for _ in range(pieces_max):
        piece = reading.read(log, offset, max_bytes=20_000, upper_bound=log.last_stable_offset)
        if piece is None:
            break
        aborted = reading.aborted_transactions(log, offset, piece.end_offset)
        shows = CommittedOnly((entry.producer_id, entry.first_offset) for entry in aborted)
        data = piece.read()
        for position, header in batch.headers(data):
            if header.last_offset >= offset and shows(data, position, header) and not header.is_control:
                found.append(header.base_offset)
            offset = max(offset, header.last_offset + 1)
    return found, offset
