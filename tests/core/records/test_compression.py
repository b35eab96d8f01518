"""Compressed records come back as they were, and hostile ones cost an error, not memory.

Method: round trips by property in every codec and framing a client may send; each format cut, flipped and
over-sized on purpose; bombs in a process of their own whose peak memory is read.
"""

import random
import struct
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.records.codecs import Compression
from semel.core.records.compression import compress, decompress
from semel.errors import CorruptBatchError, UnsupportedCompressionError
from support.records.records_kit import CODECS

TEXT = b"".join(
    b"record %d of many; " % number for number in range(20_000)
)  # Several blocks in every format.
COMPRESSED = [codec for codec in CODECS if codec != Compression.NONE]


@given(data=st.binary(max_size=2000), codec=st.sampled_from(CODECS))
def test_what_is_compressed_comes_back(data: bytes, codec: int) -> None:
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_many_blocks_come_back_from_any_kind_of_buffer(codec: int) -> None:
    for data in (TEXT, bytearray(TEXT), memoryview(TEXT)):
        packed = compress(codec, data)
        assert len(packed) < len(TEXT) // 2
        for buffer in (bytes(packed), bytearray(packed), memoryview(bytes(packed))):
            assert bytes(decompress(codec, buffer)) == TEXT


@pytest.mark.parametrize(("codec", "levels"), [(1, (1, 9)), (3, (1, 9, 17)), (4, (-5, 1, 19))])
def test_levels_trade_size_for_time(codec: int, levels: tuple[int, ...]) -> None:
    sizes = [len(compress(codec, TEXT, level=level)) for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert all(bytes(decompress(codec, compress(codec, TEXT, level=level))) == TEXT for level in levels)


def test_other_framings_that_clients_send_are_read() -> None:
    linked = cramjam.lz4.Compressor(1, content_checksum=True, block_linked=True)
    linked.compress(TEXT)
    streamed = cramjam.zstd.Compressor(3)  # As the Java client does: no content size in the frame.
    streamed.compress(TEXT)
    half = len(TEXT) // 2
    framings = {
        "bare snappy": (2, bytes(cramjam.snappy.compress_raw(TEXT))),
        "joined xerial": (2, bytes(compress(2, TEXT[:half])) + bytes(compress(2, TEXT[half:]))),
        "gzip members": (1, bytes(compress(1, TEXT[:half])) + bytes(compress(1, TEXT[half:]))),
        "linked lz4": (3, bytes(linked.finish())),
        "lz4 frames": (3, bytes(compress(3, TEXT[:half])) + bytes(compress(3, TEXT[half:]))),
        "streamed zstd": (4, bytes(streamed.finish())),
        "zstd frames": (4, bytes(compress(4, TEXT[:half])) + bytes(compress(4, TEXT[half:]))),
        "skipped frame": (4, struct.pack("<II", 0x184D2A50, 3) + b"abc" + bytes(compress(4, TEXT))),
    }
    for name, (codec, packed) in framings.items():
        assert bytes(decompress(codec, packed)) == TEXT, name


def test_java_reads_only_lz4_blocks_that_stand_alone() -> None:
    frame = bytes(compress(3, TEXT))
    independent_blocks = 0x20
    assert frame[:4] == struct.pack("<I", 0x184D2204)
    assert frame[4] & independent_blocks


@pytest.mark.parametrize("codec", [5, 6, 7, -1])
def test_an_id_nobody_defined_is_named(codec: int) -> None:
    for use in (compress, decompress):
        with pytest.raises(UnsupportedCompressionError, match=f"compression id {codec}"):
            use(codec, b"")


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_cut_is_noticed(codec: int) -> None:
    packed = bytes(compress(codec, b"some records, " * 9))
    for length in range(len(packed)):
        with pytest.raises(CorruptBatchError, match=Compression(codec).name.lower()):
            _whole(codec, packed[:length])


def _whole(codec: int, data: bytes) -> bytes:
    """Decompress what must be all of it: a cut xerial stream may end between two blocks and be sound."""
    out = bytes(decompress(codec, data, base_offset=5))
    if out != b"some records, " * 9:
        raise CorruptBatchError(f"{Compression(codec).name.lower()}: less than there was")
    return out


@pytest.mark.parametrize("codec", COMPRESSED)
def test_damage_is_refused_or_harmless(codec: int) -> None:
    """Random damage gives other bytes or `CorruptBatchError`: nothing else escapes, and the limit holds."""
    random_ = random.Random(codec)
    packed = bytes(compress(codec, TEXT[:3000]))
    reasons = list[str]()
    for _ in range(600):
        hurt = bytearray(packed)
        for _ in range(random_.choice([1, 1, 3])):
            hurt[random_.randrange(len(hurt))] = random_.randrange(256)
        try:
            assert len(decompress(codec, hurt, size_max=5000)) <= 5000
        except CorruptBatchError as error:
            reasons.append(error.reason)
    assert len(reasons) > 100
    assert all(reason.startswith(Compression(codec).name.lower()) for reason in reasons)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_the_limit_is_exact(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert len(decompress(codec, packed, size_max=len(TEXT))) == len(TEXT)
    with pytest.raises(CorruptBatchError, match=f"limit of {len(TEXT) - 1} bytes"):
        decompress(codec, packed, size_max=len(TEXT) - 1)


def test_many_small_blocks_may_look_larger_than_the_limit_and_fit() -> None:
    """A zstd stream flushed often: each block could be 128 KiB, so the sum says nothing; the bytes do."""
    empty_blocks = b"\x00\x00\x00" * 50  # Raw blocks of no bytes.
    block = b"abc"
    raw = struct.pack("<I", 1 | len(block) << 3)[:3] + block
    frame = struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + empty_blocks + raw
    assert bytes(decompress(4, frame, size_max=3)) == block
    streamed = cramjam.zstd.Compressor(3)
    parts = []
    for start in range(0, 5000, 100):
        streamed.compress(TEXT[start : start + 100])
        parts.append(bytes(streamed.flush()))
    parts.append(bytes(streamed.finish()))
    assert bytes(decompress(4, b"".join(parts), size_max=5000)) == TEXT[:5000]
    with pytest.raises(CorruptBatchError, match="limit of 4999"):
        decompress(4, b"".join(parts), size_max=4999)


BOMBS = """
import resource, struct, sys, zlib, cramjam
from semel.core.records.compression import compress, decompress
from semel.errors import CorruptBatchError

def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
zeros = bytes(1 << 20)
gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
rle = struct.pack("<I", 1 << 1 | (128 * 1024) << 3)[:3] + b"x"
snappy = bytes(cramjam.snappy.compress_raw(zeros))
bombs = {
    1: b"".join(gzip.compress(zeros) for _ in range(200)) + gzip.flush(),          # 200 MiB
    2: bytes(compress(2, b""))[:16] + (struct.pack(">I", len(snappy)) + snappy) * 200,  # 200 MiB
    3: bytes(compress(3, zeros)) * 200,                                            # 200 MiB
    4: struct.pack("<IBB", 0xFD2FB528, 0, 0x58) + rle * 200_000,                   # 24 GiB
}
decompress(1, compress(1, b"warm")), decompress(3, compress(3, b"warm"))
before = peak()
for codec, bomb in bombs.items():
    try:
        decompress(codec, bomb, size_max=8 << 20)
    except CorruptBatchError as error:
        print(codec, "limit of 8388608" in str(error), len(bomb) < 14_000_000)
print("grew", peak() - before < 64)
"""


def test_bombs_cost_an_error_and_no_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BOMBS], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.split("\n")[:5] == [
        "1 True True",
        "2 True True",
        "3 True True",
        "4 True True",
        "grew True",
    ]


def test_gzip_is_gzip() -> None:
    assert zlib.decompress(bytes(compress(1, TEXT)), 31) == TEXT
