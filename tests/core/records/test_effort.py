"""A batch that would hold the loop is told from its header and its first bytes, whatever it claims.

Method: batches of every codec by property, whose real size must not be above what was foreseen; bombs; and batches of ordinary
producers, which must stay on the loop.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records import build, compression, effort
from semel.core.records.batch import HEADER_SIZE, read_header
from semel.core.records.build import RecordInput, build_batch
from semel.core.records.codecs import Compression
from semel.core.records.compression import compress, unpacked_bound
from support.records.records_kit import CODECS, record_lists

LIMIT = 1 << 21


@pytest.fixture(autouse=True)
def _compiled() -> None:
    build.load_kernels()


@given(records=record_lists, codec=st.sampled_from(CODECS))
def test_records_never_become_more_than_foreseen(records: list[RecordInput], codec: int) -> None:
    data = build_batch(records, compression=codec)
    real = len(build.records_section(data, 0, read_header(data)))
    assert unpacked_bound(codec, memoryview(data)[HEADER_SIZE:], LIMIT) >= real


@pytest.mark.parametrize("codec", CODECS)
def test_an_ordinary_batch_stays_on_the_loop(codec: int) -> None:
    records = [RecordInput(b"key-%d" % number, b"value" * 20, number) for number in range(150)]
    assert not effort.is_heavy(build_batch(records, compression=codec))


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != Compression.NONE])
@pytest.mark.parametrize("size", [LIMIT * 2, LIMIT * 30])
def test_a_bomb_is_heavy(codec: int, size: int) -> None:
    data = build_batch([RecordInput(None, bytes(size), 1)], compression=codec)
    assert effort.is_heavy(data)


def test_a_gzip_stream_that_lies_about_its_size_costs_little() -> None:
    """The claim of a short stream is believed; what can come of it at most is less than the loop's few milliseconds allow to hurt."""
    packed = bytearray(compress(Compression.GZIP, bytes(10 << 20)))
    packed[-4:] = (100).to_bytes(4, "little")
    assert len(packed) < 1 << 14
    assert unpacked_bound(Compression.GZIP, memoryview(packed), LIMIT) == 100
    assert len(packed) * 1032 < 1 << 24


def test_many_records_are_heavy_and_more_so_without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    few = build_batch([RecordInput(None, None, 1)] * (effort.RECORDS_IN_PYTHON_MAX + 1))
    many = build_batch([RecordInput(None, None, 1)] * (effort.RECORDS_MAX + 1))
    assert not effort.is_heavy(few)
    assert effort.is_heavy(many)
    monkeypatch.setattr(build, "kernels_loaded", lambda: False)
    assert effort.is_heavy(few)


def test_packing_is_more_work_than_looking() -> None:
    plain = build_batch([RecordInput(None, bytes(effort.PACKED_BYTES_MAX), 1)])
    assert not effort.is_heavy(plain)
    assert not effort.is_heavy(plain, Compression.NONE)
    assert effort.is_heavy(plain, Compression.ZSTD)


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != Compression.NONE])
def test_damaged_bytes_are_no_surprise(codec: int) -> None:
    packed = bytes(compress(codec, b"some records, " * 9))
    for length in range(len(packed)):
        assert unpacked_bound(codec, memoryview(packed)[:length], LIMIT) >= 0
    assert compression.unpacked_bound(codec, memoryview(b""), LIMIT) == 0


def test_what_is_no_batch_is_no_work() -> None:
    assert not effort.is_heavy(b"")
    assert not effort.is_heavy(bytes(HEADER_SIZE - 1))
