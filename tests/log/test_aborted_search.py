"""The aborted transactions of a fetch are found by searching, and a slice never needs too many of them.

Method: transaction indexes by property, compared with a look at every entry; and a log with thousands of aborts read to its end in
slices, each with its list, as a consumer would.
"""

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.handlers import fetch
from semel.core.records.batch import headers
from semel.core.records.build import RecordInput, build_batch
from semel.log import reading
from semel.log.txn_index import AbortedTxn, TxnIndex
from support.log.log_kit import NOW, disk, open_at


@st.composite
def indexes(draw: st.DrawFn) -> list[AbortedTxn]:
    """Aborts in the order of their markers; each last stable offset is at or above the one before."""
    entries: list[AbortedTxn] = []
    last, stable = 0, 0
    for _ in range(draw(st.integers(0, 12))):
        last += draw(st.integers(1, 5))
        stable = max(stable, last - draw(st.integers(0, 8)) + 1)
        entries.append(AbortedTxn(1, draw(st.integers(0, last)), last, stable))
    return entries


@given(entries=indexes(), fetch_offset=st.integers(0, 60), length=st.integers(1, 60))
def test_a_search_finds_what_a_look_at_every_entry_finds(
    entries: list[AbortedTxn], fetch_offset: int, length: int
) -> None:
    upper_bound = fetch_offset + length
    found = list(TxnIndex(disk(), "x.txnindex", entries).collect(fetch_offset, upper_bound))
    expected: list[AbortedTxn] = []
    for entry in entries:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
            expected.append(entry)
        if entry.last_offset >= fetch_offset and entry.last_stable_offset >= upper_bound:
            break
    assert [entry for entry in found if entry is not None] == expected


class Watched(list[AbortedTxn]):
    """Counts how many entries are looked at."""

    looks = 0

    def __getitem__(self, index: object) -> AbortedTxn:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(index)  # type: ignore[call-overload, no-any-return]


def test_the_tail_of_a_long_index_is_found_with_few_looks() -> None:
    """A read_committed consumer at the end of the log asks again and again: 400,000 entries took 42 ms each time."""
    count = 100_000
    entries = Watched(AbortedTxn(1, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(count))
    found = list(TxnIndex(disk(), "x.txnindex", entries).collect(2 * count - 4, 2 * count))
    assert [entry.first_offset for entry in found if entry] == [2 * count - 4, 2 * count - 2]
    assert entries.looks < 50


def test_a_slice_ends_before_it_needs_too_many_aborted_transactions() -> None:
    log = open_at(disk())
    count, aborted_max = 300, 20
    for number in range(count):
        data = build_batch(
            [RecordInput(None, b"v", NOW)],
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        log.append(data, leader_epoch=0, now_ms=NOW)
        log.append_marker(
            producer_id=number,
            producer_epoch=0,
            coordinator_epoch=0,
            commit=False,
            leader_epoch=0,
            now_ms=NOW,
        )
    log.advance_high_watermark(log.log_end_offset)
    offset, slices, seen = 0, 0, set[int]()
    while offset < log.log_end_offset:
        bound = reading.committed_bound(log, offset, log.last_stable_offset, aborted_max)
        piece = reading.read(log, offset, max_bytes=1 << 20, upper_bound=bound)
        assert piece is not None
        listed = reading.aborted_transactions(log, offset, piece.end_offset)
        assert 0 < len(listed) <= aborted_max + 1
        batches = [header for _position, header in headers(memoryview(piece.read()))]
        void = {entry.producer_id for entry in listed}
        assert {header.producer_id for header in batches} <= void, (
            "every record of the slice is known to be void"
        )
        seen |= void
        offset = batches[-1].last_offset + 1
        slices += 1
    assert seen == set(range(count))
    assert slices >= count // (aborted_max + 1)
    assert aborted_max < fetch.ABORTED_MAX
