"""The five ways a batch's records are stored: plain, gzip, snappy, lz4, zstd.

Role.   `compress` and `decompress` for the records section of a batch, in the framings Kafka's clients read.
Flow.   `build` and `arrow` compress what they encode; every reader of records decompresses here first.
Rules.  * A reader never produces more than `size_max` bytes: block headers, or the length of a gzip stream, bound the
          decompressed size, and the target has no room above the limit.
        * Large sections are decompressed without the interpreter's lock into pages that take memory only once they are
          written.
        * Java's lz4 reader refuses blocks that refer to earlier blocks, the default of most libraries, so Semel writes
          independent blocks. It reads both kinds.
        * Snappy is written in the framing of snappy-java (xerial), which Java expects; bare blocks, as
          librdkafka and franz-go write them, are read too.
        * cramjam costs 2 MB and 3 ms to import and is as fast as pyarrow's codecs, which cost 47 MB.
"""

import zlib
from mmap import mmap
from struct import Struct
from typing import Final

import cramjam

from semel.core.records.codecs import Compression
from semel.errors import CorruptBatchError, UnsupportedCompressionError
from semel.types import BytesLike

DECOMPRESSED_SIZE_MAX: Final = 1 << 27
"""128 MiB: above the largest request a broker accepts by default, and therefore above any honest batch."""

_GZIP_WINDOW: Final = 31  # zlib's way to say: 32 KiB window, gzip header.
# The largest expansion of a byte: a deflate block repeats 258 bytes with two bits, snappy 64 bytes with three, lz4 255
# with one.
_GZIP_RATIO_MAX: Final = 1032
_GZIP_TRUSTED_BYTES: Final = 1 << 14
_SMALL_BYTES: Final = 1 << 20
_SNAPPY_RATIO_MAX: Final = 22
_LZ4_RATIO_MAX: Final = 256
_SNAPPY_HEADER: Final = (
    b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"  # Magic, version 1, readable by version 1.
)
_SNAPPY_MAGIC: Final = _SNAPPY_HEADER[:8]
_SNAPPY_BLOCK: Final = 32 * 1024
_LZ4_MAGIC: Final = 0x184D2204
_LZ4_FAST: Final = 1
_LZ4_LEVEL_MAX: Final = 12
_ZSTD_MAGIC: Final = 0xFD2FB528
_ZSTD_BLOCK_MAX: Final = 128 * 1024
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # To ...5F: frames that lz4 and zstd readers skip.

_U32_BE: Final = Struct(">I")
_U32_LE: Final = Struct("<I")


class _DamagedError(Exception):
    """Compressed bytes that break their format's rules."""


def known(codec: int) -> Compression:
    """The codec of an id; raises `UnsupportedCompressionError` for an undefined id."""
    try:
        return Compression(codec)
    except ValueError:
        raise UnsupportedCompressionError(f"compression id {codec}: only 0 to 4 are defined") from None


def compress(codec: int, data: BytesLike, *, level: int | None = None) -> BytesLike:
    """The records compressed with this codec; `level` applies to codecs with levels."""
    match known(codec):
        case Compression.NONE:
            return data
        case Compression.GZIP:
            gzip = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP_WINDOW)
            return gzip.compress(data) + gzip.flush()
        case Compression.SNAPPY:
            return _compress_snappy(memoryview(data))
        case Compression.LZ4:
            speed = _LZ4_FAST if level is None else min(level, _LZ4_LEVEL_MAX)
            lz4 = cramjam.lz4.Compressor(speed, content_checksum=False, block_linked=False)
            lz4.compress(bytes(data))
            return memoryview(lz4.finish())
        case Compression.ZSTD:
            return memoryview(cramjam.zstd.compress(data, level))


def decompress(
    codec: int, data: BytesLike, *, size_max: int = DECOMPRESSED_SIZE_MAX, base_offset: int | None = None
) -> BytesLike:
    """The uncompressed records; raises `CorruptBatchError` for damaged bytes and above `size_max`."""
    kind = known(codec)
    if kind is Compression.NONE:
        return data
    try:
        match kind:
            case Compression.GZIP:
                return _decompress_gzip(memoryview(data), size_max)
            case Compression.SNAPPY:
                return _decompress_snappy(memoryview(data), size_max)
            case Compression.LZ4:
                bound = _lz4_bound(memoryview(data), size_max)
                return _decompress_bounded(cramjam.lz4, data, bound, size_max)
            case Compression.ZSTD:
                bound = _zstd_bound(memoryview(data), size_max)
                return _decompress_bounded(cramjam.zstd, data, bound, size_max)
    except (_DamagedError, cramjam.DecompressionError) as damage:
        raise CorruptBatchError(f"{kind.name.lower()} records: {damage}", base_offset=base_offset) from None


def unpacked_bound(codec: int, data: memoryview, size_max: int) -> int:
    """Upper bound of the decompressed size; a result above `size_max` may be too small. 0 for damaged bytes."""
    try:
        match codec:
            case Compression.GZIP:
                return _gzip_bound(data)
            case Compression.SNAPPY:
                return len(data) * _SNAPPY_RATIO_MAX
            case Compression.LZ4:
                return min(_lz4_bound(data, size_max), len(data) * _LZ4_RATIO_MAX)
            case Compression.ZSTD:
                return _zstd_bound(data, size_max)
            case _:
                return len(data)
    except _DamagedError:
        return 0


def _too_large(size_max: int) -> _DamagedError:
    return _DamagedError(f"they decompress to more than the limit of {size_max} bytes")


def _decompress_gzip(data: memoryview, size_max: int) -> memoryview:
    """Decompress a gzip stream, which may have several members."""
    return _decompress_bounded(cramjam.gzip, data, _gzip_bound(data), size_max)


def _gzip_bound(data: memoryview) -> int:
    """Upper bound of the decompressed size; for a short stream, the size it claims: a false claim costs 16 MB."""
    if len(data) > _GZIP_TRUSTED_BYTES:
        return len(data) * _GZIP_RATIO_MAX
    return _u32(data, max(0, len(data) - _U32_LE.size))


def _compress_snappy(data: memoryview) -> bytearray:
    out = bytearray(_SNAPPY_HEADER)
    for start in range(0, len(data), _SNAPPY_BLOCK):
        block = cramjam.snappy.compress_raw(data[start : start + _SNAPPY_BLOCK])
        out += _U32_BE.pack(len(block))
        out += memoryview(block)
    return out


def _decompress_snappy(data: memoryview, size_max: int) -> BytesLike:
    if data[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        return _snappy_block(data, size_max)
    blocks: list[memoryview] = []
    size = 0
    position = 0
    while position < len(data):
        if data[position : position + len(_SNAPPY_MAGIC)] == _SNAPPY_MAGIC:  # Streams may be concatenated.
            position += len(_SNAPPY_HEADER)
            continue
        if len(data) - position < _U32_BE.size:
            raise _DamagedError(f"{len(data) - position} bytes where a block length belongs")
        (length,) = _U32_BE.unpack_from(data, position)
        position += _U32_BE.size
        if length > len(data) - position:
            raise _DamagedError(f"a block of {length} bytes, {len(data) - position} are left")
        block = data[position : position + length]
        size += cramjam.snappy.decompress_raw_len(block)
        if size > size_max:
            raise _too_large(size_max)
        blocks.append(block)
        position += length
    if len(blocks) == 1:
        return memoryview(cramjam.snappy.decompress_raw(blocks[0]))
    out = memoryview(_room(size))
    filled = 0
    for block in blocks:
        filled += cramjam.snappy.decompress_raw_into(block, out[filled:])
    return out[:filled]


def _snappy_block(block: memoryview, size_max: int) -> memoryview:
    if cramjam.snappy.decompress_raw_len(block) > size_max:
        raise _too_large(size_max)
    return memoryview(cramjam.snappy.decompress_raw(block))


def _room(size: int) -> bytearray | mmap:
    """A buffer of this size; pages of a large one take memory only once written."""
    return bytearray(size) if size <= _SMALL_BYTES else mmap(-1, size)


def _decompress_bounded(module: object, data: BytesLike, bound: int, size_max: int) -> memoryview:
    """Decompress freely if the bound is small, else into a buffer of that bound."""
    if bound <= min(_SMALL_BYTES, size_max):
        made = memoryview(module.decompress(data))  # type: ignore[attr-defined]  # cramjam has no types
        if len(made) > size_max:  # The bound may be a false claim.
            raise _too_large(size_max)
        return made
    out = memoryview(_room(min(bound, size_max)))
    try:
        size = module.decompress_into(data, out)  # type: ignore[attr-defined]  # as above
    except cramjam.DecompressionError as error:
        if bound <= size_max:
            raise
        raise _DamagedError(
            f"damaged, or more than the limit of {size_max} bytes when decompressed ({error})"
        ) from None
    return out[:size]


def _lz4_bound(data: memoryview, size_max: int) -> int:
    """Upper bound of the frames' decompressed size; a result above `size_max` may be too small."""
    bound = position = 0
    while position < len(data):
        magic = _u32(data, position)
        if magic & ~0xF == _SKIPPABLE_MAGIC:
            position += 8 + _u32(data, position + 4)
            continue
        if magic != _LZ4_MAGIC:
            raise _DamagedError(f"{magic:#010x} is not the magic number of a frame")
        flags, sizes = _u16(data, position + 4) & 0xFF, _u16(data, position + 4) >> 8
        block_max = 1 << (8 + 2 * ((sizes >> 4) & 7))
        position += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while (size := _u32(data, position)) != 0:
            bound += size & 0x7FFFFFFF if size >> 31 else block_max
            if bound > size_max:
                return bound
            position += 4 + (size & 0x7FFFFFFF) + (4 if flags & 0x10 else 0)
        position += 4 + (4 if flags & 0x04 else 0)
    return bound


def _zstd_bound(data: memoryview, size_max: int) -> int:
    """As for lz4. A block's header gives its decompressed size; for a compressed block the bound is 128 KiB."""
    bound = position = 0
    while position < len(data):
        magic = _u32(data, position)
        if magic & ~0xF == _SKIPPABLE_MAGIC:
            position += 8 + _u32(data, position + 4)
            continue
        if magic != _ZSTD_MAGIC:
            raise _DamagedError(f"{magic:#010x} is not the magic number of a frame")
        flags = _u16(data, position + 4) & 0xFF
        single_segment = bool(flags & 0x20)
        content_size_bytes = (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
        position += 5 + (not single_segment) + (0, 1, 2, 4)[flags & 3] + content_size_bytes
        last = False
        while not last:
            block = _u16(data, position) | (_u16(data, position + 1) >> 8) << 16
            last, kind, size = bool(block & 1), (block >> 1) & 3, block >> 3
            bound += _ZSTD_BLOCK_MAX if kind == 2 else size
            if bound > size_max:
                return bound
            position += 3 + (1 if kind == 1 else size)
        position += 4 if flags & 0x04 else 0
    return bound


def _u32(data: memoryview, position: int) -> int:
    if len(data) - position < _U32_LE.size:
        raise _DamagedError("cut off inside a frame")
    value: int = _U32_LE.unpack_from(data, position)[0]
    return value


def _u16(data: memoryview, position: int) -> int:
    if len(data) - position < 2:
        raise _DamagedError("cut off inside a frame")
    return data[position] | data[position + 1] << 8
