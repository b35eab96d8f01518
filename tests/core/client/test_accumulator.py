"""Records wait in batches of their partition, within the memory they were given.

Method: stories of one accumulator; sizes by property against the bytes that are really written.
"""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.client.accumulator import Accumulator, Batch, record_size
from semel.core.records.batch import HEADER_SIZE
from semel.core.records.build import RecordInput, build_batch
from semel.errors import SemelError
from semel.types import TopicPartition

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)
RECORD = 100


def accumulator(*, batch_size: int = 1000, linger_ms: int = 5, buffer: int = 100_000) -> Accumulator:
    return Accumulator(batch_size_bytes=batch_size, linger_ms=linger_ms, buffer_bytes=buffer)


def give(to: Accumulator, partition: TopicPartition = P, size: int = RECORD, now_ms: int = 0) -> Batch:
    placed = to.append(partition, None, b"v", now_ms, (), size, now_ms)
    assert placed is not None
    return placed[0]


def test_a_batch_has_one_partition_and_at_most_batch_size() -> None:
    waiting = accumulator(batch_size=HEADER_SIZE + 3 * RECORD)
    batches = [give(waiting) for _ in range(4)]
    assert batches[0] is batches[1] is batches[2] is not batches[3]
    assert give(waiting, Q).partition == Q
    assert [waiting.take(P).records_count, waiting.take(P).records_count] == [3, 1]
    assert waiting.partitions() == [Q]


def test_a_record_larger_than_a_batch_has_one_of_its_own() -> None:
    waiting = accumulator()
    first, large, last = give(waiting), give(waiting, size=5000), give(waiting)
    assert len({first.batch_id, large.batch_id, last.batch_id}) == 3
    assert large.records_count == 1


def test_what_is_full_or_has_lingered_may_leave_and_the_rest_waits() -> None:
    waiting = accumulator(batch_size=HEADER_SIZE + 2 * RECORD)
    assert not waiting.is_ready(P, 0)
    give(waiting, now_ms=10)
    assert not waiting.is_ready(P, 14)
    assert waiting.due_ms(P) == 15
    assert waiting.is_ready(P, 15)
    give(waiting, now_ms=11)
    assert waiting.is_ready(P, 11), "it is full"
    give(waiting, Q, now_ms=11)
    assert not waiting.is_ready(Q, 12)
    for reason in ("flushes", "is_closing"):
        setattr(waiting, reason, True)
        assert waiting.is_ready(Q, 12)
        setattr(waiting, reason, False)
    waiting.waiting.append(print)
    assert waiting.is_ready(Q, 12), "somebody waits for memory"


def test_the_sender_is_called_for_the_first_record_and_for_a_full_batch_only() -> None:
    waiting = accumulator(batch_size=HEADER_SIZE + 10 * RECORD)
    looks = []
    for _ in range(25):
        placed = waiting.append(P, None, b"v", 0, (), RECORD, 0)
        assert placed is not None
        looks.append(placed[2])
    assert [at for at, look in enumerate(looks) if look] == [0, 9, 10]


def test_the_open_batch_grows_until_it_is_taken() -> None:
    waiting = accumulator(linger_ms=0)
    first = give(waiting)
    assert waiting.is_ready(P, 0)
    assert give(waiting) is first
    assert waiting.take(P) is first
    assert give(waiting) is not first


def test_memory_is_bounded_and_comes_back_when_a_batch_has_ended() -> None:
    waiting = accumulator(batch_size=10_000, buffer=1000)
    while waiting.append(P, None, b"v", 0, (), RECORD, 0) is not None:
        pass
    assert waiting.used_bytes <= 1000 < waiting.used_bytes + RECORD + HEADER_SIZE
    batch = waiting.take(P)
    assert waiting.append(P, None, b"v", 0, (), RECORD, 0) is None, "what is under way counts"
    waiting.free(batch)
    assert waiting.used_bytes == 0
    assert waiting.append(P, None, b"v", 0, (), 5000, 0) is not None, "an empty buffer takes anything"
    assert waiting.append_sealed(P, bytearray(100), 1, 0, 0) is None


def test_a_sealed_batch_comes_behind_what_was_given_before_it() -> None:
    waiting = accumulator()
    first = give(waiting)
    sealed = waiting.append_sealed(P, bytearray(500), 7, 12, 0)
    last = give(waiting)
    assert sealed is not None
    assert (sealed.records_count, sealed.max_timestamp_ms, sealed.size_bytes) == (7, 12, 500)
    assert [waiting.take(P) for _ in range(3)] == [first, sealed, last]


def test_what_waited_too_long_is_taken_out() -> None:
    waiting = accumulator(batch_size=HEADER_SIZE + RECORD)
    old, older, young = give(waiting, now_ms=2), give(waiting, Q, now_ms=1), give(waiting, now_ms=9)
    assert waiting.oldest_ms() == 1
    assert list(waiting.expired(2)) == [old, older]
    assert waiting.take(P) is young
    assert waiting.oldest_ms() is None


def test_partitions_take_turns() -> None:
    waiting = accumulator(batch_size=HEADER_SIZE + RECORD)
    for _ in range(2):
        give(waiting, P)
        give(waiting, Q)
    waiting.take(P)
    assert waiting.partitions() == [Q, P]


def test_everybody_who_listens_hears_of_the_end_once_in_order() -> None:
    batch, heard = Batch(0, P, 0), list[str]()
    for name in "abc":
        batch.listeners.append(partial(heard.append, name))
    batch.settle(5, -1)
    batch.tell()
    batch.tell()
    assert heard == ["a", "b", "c"]


def test_a_batch_that_was_split_ends_with_its_last_piece_and_knows_where_each_record_is() -> None:
    batch = Batch(0, P, 0)
    pieces = [Batch(1, P, 0), Batch(2, P, 0)]
    for piece, count, offset in zip(pieces, (3, 2), (10, 50), strict=True):
        piece.records_count, piece.base_offset = count, offset
    batch.split_into(pieces)
    for piece in pieces:
        assert not batch.is_done
        piece.fail(SemelError("no")) if piece is pieces[1] else piece.settle(10, -1)
        piece.tell()
    assert batch.is_done
    assert [batch.place(index) for index in range(5)] == [
        *((pieces[0], index) for index in range(3)),
        *((pieces[1], index) for index in range(2)),
    ]
    assert list(batch.leaves()) == pieces


headers = st.lists(st.tuples(st.text(max_size=9), st.none() | st.binary(max_size=9)), max_size=3)
records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=300),
        headers,
        st.none() | st.integers(0, 2**41),
    ),
    min_size=1,
    max_size=30,
)


@given(given_records=records)
def test_the_size_is_never_less_than_what_is_written(
    given_records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]], int | None]],
) -> None:
    now_ms = 1_700_000_000_000
    size = HEADER_SIZE + sum(
        record_size(key, value, pairs, has_timestamp=timestamp is not None)
        for key, value, pairs, timestamp in given_records
    )
    written = build_batch(
        [
            RecordInput(key, value, now_ms if timestamp is None else timestamp, pairs)
            for key, value, pairs, timestamp in given_records
        ]
    )
    if given_records[0][3] is None:  # Deltas count from the first; far from it, they take a few bytes more.
        assert len(written) <= size


@pytest.mark.parametrize("length", [0, 59, 60, 61, 7999, 8000, 8191, 8192, 1 << 20, 1 << 21])
def test_the_size_of_large_records(length: int) -> None:
    written = build_batch([RecordInput(b"k" * length, b"v" * length, 5)] * 3)
    assert len(written) <= HEADER_SIZE + 3 * record_size(
        b"k" * length, b"v" * length, (), has_timestamp=False
    )
