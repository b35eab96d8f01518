"""The smallest pieces must be Kafka's bytes, and anything else must be refused with its place and values.

Method: known encodings, properties over all varints, and one wrong input per rule.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.core.wire.primitives import STRING_SIZE_MAX, Reader, Writer, unsigned_varint, varint, varlong
from semel.errors import WireError


@pytest.mark.parametrize(
    ("value", "raw"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (16383, "ff7f"),
        (16384, "808001"),
        (2**31 - 1, "ffffffff07"),
    ],
)
def test_unsigned_varints_are_seven_bits_a_byte_lowest_first(value: int, raw: str) -> None:
    assert unsigned_varint(value).hex() == raw
    assert Reader(bytes.fromhex(raw)).unsigned_varint() == value


@pytest.mark.parametrize(("value", "raw"), [(0, "00"), (-1, "01"), (1, "02"), (-64, "7f"), (64, "8001")])
def test_signed_varints_are_zigzag(value: int, raw: str) -> None:
    assert varint(value).hex() == varlong(value).hex() == raw


@given(st.integers(-(2**31), 2**31 - 1))
def test_a_varint_reads_back(value: int) -> None:
    reader = Reader(varint(value))
    assert (reader.varint(), reader.position) == (value, reader.end)


@given(st.integers(-(2**63), 2**63 - 1))
def test_a_varlong_reads_back(value: int) -> None:
    reader = Reader(varlong(value))
    assert (reader.varlong(), reader.position) == (value, reader.end)


def test_a_varint_longer_than_kafka_allows_is_refused() -> None:
    with pytest.raises(WireError, match="unsigned varint is longer than 5 bytes"):
        Reader(b"\x80" * 5 + b"\x00").unsigned_varint()
    with pytest.raises(WireError, match="varlong is longer than 10 bytes"):
        Reader(b"\x80" * 10 + b"\x00").varlong()
    with pytest.raises(WireError, match="is above 2147483647"):
        Reader(b"\xff\xff\xff\xff\x0f").unsigned_varint()
    with pytest.raises(WireError, match="more than 32 bits"):
        Reader(b"\xff\xff\xff\xff\x1f").varint()
    with pytest.raises(WireError, match="more than 64 bits"):
        Reader(b"\xff" * 9 + b"\x02").varlong()
    with pytest.raises(WireError, match="cut off after 2 bytes"):
        Reader(b"\x80\x80").unsigned_varint()


def test_fixed_pieces_are_big_endian() -> None:
    writer = Writer()
    writer.int8(-1)
    writer.int16(1)
    writer.int32(-2)
    writer.int64(3)
    writer.float64(1.0)
    writer.boolean(True)
    writer.uuid(bytes(range(16)))
    raw = b"".join(writer.parts)
    assert raw.hex() == "ff0001fffffffe00000000000000033ff0000000000000" + "01" + bytes(range(16)).hex()
    reader = Reader(raw)
    assert [reader.int8(), reader.int16(), reader.int32(), reader.int64(), reader.float64(), reader.boolean()] == [
        -1, 1, -2, 3, 1.0, True,
    ]  # fmt: skip
    assert reader.uuid() == bytes(range(16))


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("text", [None, "", "orders", "über→𝄞", "x" * 200])
def test_strings_and_bytes_read_back_null_and_empty_kept_apart(text: str | None, compact: bool) -> None:
    writer = Writer()
    writer.string(text, compact=compact, nullable=True)
    writer.bytes_(None if text is None else text.encode(), compact=compact, nullable=True)
    reader = Reader(b"".join(writer.parts))
    assert reader.string(compact=compact, nullable=True) == text
    assert reader.bytes_(compact=compact, nullable=True) == (None if text is None else text.encode())
    assert reader.position == reader.end


def test_null_where_it_may_not_be_is_refused_both_ways() -> None:
    for compact, raw in ((False, b"\xff\xff"), (True, b"\x00")):
        with pytest.raises(WireError, match=r"at byte 0: string of length -1 \(null\)"):
            Reader(raw).string(compact=compact, nullable=False)
        with pytest.raises(WireError, match="may not be null"):
            Writer().string(None, compact=compact, nullable=False)
    with pytest.raises(WireError, match="string of length -2 is not allowed"):
        Reader(b"\xff\xfe").string(compact=False, nullable=True)


def test_a_length_beyond_the_buffer_names_both_sizes() -> None:
    with pytest.raises(WireError, match="string of 9 bytes, 1 are left"):
        Reader(b"\x00\x09x").string(compact=False, nullable=False)
    with pytest.raises(WireError, match="records of 2147483647 bytes, 2 are left"):
        Reader(b"\x7f\xff\xff\xffab").records(compact=False, nullable=False)
    with pytest.raises(WireError, match="int64 needs 8 bytes, 3 are left"):
        Reader(b"abc").int64()


def test_a_count_the_bytes_cannot_hold_is_refused_before_anything_is_made() -> None:
    with pytest.raises(WireError, match="array of 1000000 elements needs at least 8000000 bytes, 4 are left"):
        Reader(b"\x00\x0f\x42\x40" + b"abcd").count(compact=False, nullable=False, size_min=8)
    assert Reader(b"\x00\x00\x00\x01" + b"abcd").count(compact=False, nullable=False, size_min=4) == 1


def test_a_string_longer_than_kafka_allows_is_refused_both_ways() -> None:
    long = "x" * (STRING_SIZE_MAX + 1)
    raw = unsigned_varint(len(long) + 1) + long.encode()
    with pytest.raises(WireError, match="string of 32768 bytes is longer than 32767"):
        Reader(raw).string(compact=True, nullable=False)
    with pytest.raises(WireError, match="32768 bytes is longer than 32767"):
        Writer().string(long, compact=True, nullable=False)


def test_text_that_is_not_unicode_is_refused_both_ways() -> None:
    with pytest.raises(WireError, match="not UTF-8: invalid start byte at its byte 1"):
        Reader(b"\x00\x02a\xff").string(compact=False, nullable=False)
    with pytest.raises(WireError, match="surrogates not allowed"):
        Writer().string("\ud800", compact=False, nullable=False)


def test_a_boolean_is_zero_or_one() -> None:
    with pytest.raises(WireError, match="a boolean is 0 or 1, not 2"):
        Reader(b"\x02").boolean()


def test_records_are_a_slice_of_the_buffer_not_a_copy() -> None:
    buffer = bytearray(b"\x00\x00\x00\x02ab")
    records = Reader(memoryview(buffer)).records(compact=False, nullable=False)
    assert records is not None
    buffer[4] = ord("z")
    assert bytes(records) == b"zb"
