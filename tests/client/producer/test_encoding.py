"""A batch's bytes are the same whoever writes them, and the same again for every attempt.

Method: random batches written in plain Python and by the kernels; stamped under another epoch; cut in two.
"""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.client.producer import encoding
from semel.client.producer.encoding import FEW_RECORDS, Codec, Kernels, encoded, halves
from semel.core.client.accumulator import Accumulator, Batch
from semel.core.idempotence.delivery import Identity, Send
from semel.core.records import batch as batches
from semel.core.records.build import RecordInput, build_batch, iter_records
from semel.types import TopicPartition

P = TopicPartition("t", 0)
PLAIN = Codec(0, None, False)
records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=20),
        st.none() | st.binary(max_size=50),
        st.integers(0, 2**41),
        st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2),
    ),
    min_size=1,
    max_size=FEW_RECORDS + 20,
)
Given = list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]


@pytest.fixture(scope="module", autouse=True)
def _kernels() -> None:
    Kernels.load()


def made(rows: Given) -> Batch:
    accumulator = Accumulator(batch_size_bytes=1 << 30, linger_ms=0, buffer_bytes=1 << 30)
    for key, value, timestamp, headers in rows:
        accumulator.append(P, key, value, timestamp, headers, 1, 0)
    return accumulator.take(P)


def attempt(sequence: int, *, epoch: int = 0) -> Send[TopicPartition]:
    return Send(P, 0, Identity(7, epoch), sequence, 1)


@given(rows=records)
@settings(max_examples=60, deadline=None)
def test_kernels_and_plain_python_write_the_same_bytes(rows: Given) -> None:
    expected = build_batch(
        [RecordInput(*row) for row in rows],
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
    )
    codec = Codec(0, None, True)
    assert encoding._written_by_kernels(made(rows), Identity(7, 3), 11, codec) == expected
    assert encoded(made(rows), attempt(11, epoch=3), codec) == expected


def test_an_attempt_has_the_bytes_of_the_one_before_and_another_epoch_is_stamped() -> None:
    rows: Given = [(b"k", b"v%d" % n, 5, []) for n in range(3)]
    batch = made(rows)
    first = bytes(encoded(batch, attempt(4), PLAIN))
    assert not batch.values, "they are in the bytes now"
    assert bytes(encoded(batch, attempt(4), PLAIN)) == first
    stamped = encoded(batch, attempt(0, epoch=1), PLAIN)
    header = batches.read_header(stamped)
    batches.check_crc(stamped, 0, header)
    assert (header.producer_epoch, header.base_sequence) == (1, 0)
    assert bytes(stamped[batches.HEADER_SIZE :]) == first[batches.HEADER_SIZE :]


@pytest.mark.parametrize("compression", range(5))
def test_two_halves_hold_the_records_of_the_whole(compression: int) -> None:
    rows: Given = [(None, b"v%d" % n, n, [("h", b"x")] if n % 3 == 0 else []) for n in range(7)]
    codec = Codec(compression, None, False)
    whole = encoded(made(rows), attempt(0), codec)
    found = []
    for data, count, largest in halves(whole, codec):
        header = batches.read_header(data)
        assert (header.records_count, header.max_timestamp, header.compression) == (
            count,
            largest,
            compression,
        )
        found += [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in iter_records(data, 0, header)]
    assert found == rows
