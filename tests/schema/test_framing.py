"""The bytes in front of a payload: what is written is read, other bytes are refused with what they are."""

import uuid
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.exceptions import SerializationException
from semel.schema.rules.framing import (
    SCHEMA_ID_MAX,
    Frame,
    guid_prefix,
    header_frame,
    header_of,
    id_prefix,
    is_framed,
    message_indexes,
    read_message_indexes,
    read_prefix,
)


@given(schema_id=st.integers(0, SCHEMA_ID_MAX), payload=st.binary(max_size=20))
def test_an_id_is_read_as_it_was_written(schema_id: int, payload: bytes) -> None:
    content = id_prefix(schema_id) + payload
    assert read_prefix(content) == Frame(schema_id, None, 5)
    assert is_framed(content)


@given(guid=st.uuids(), payload=st.binary(max_size=20))
def test_a_guid_is_read_as_it_was_written(guid: uuid.UUID, payload: bytes) -> None:
    assert read_prefix(guid_prefix(guid) + payload) == Frame(None, guid, 17)


@given(path=st.lists(st.integers(0, SCHEMA_ID_MAX), min_size=1, max_size=100), payload=st.binary(max_size=20))
def test_message_indexes_are_read_as_they_were_written(path: list[int], payload: bytes) -> None:
    content = message_indexes(path)
    assert read_message_indexes(content + payload, 0) == (tuple(path), len(content))


def test_the_bytes_are_confluent_s() -> None:
    assert id_prefix(1) == b"\0\0\0\0\1"
    assert message_indexes([0]) == b"\0"  # The first message: one byte instead of two.
    assert message_indexes([1]) == b"\x02\x02"
    assert message_indexes([0, 0]) == b"\x04\x00\x00"
    assert message_indexes([64]) == b"\x02\x80\x01"
    assert read_message_indexes(b"\x02\x00", 0) == ((0,), 2)  # The long form, which some clients write.


@given(content=st.binary(max_size=12))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    for read in (lambda: read_prefix(content), lambda: read_message_indexes(content, 0)):
        with suppress(SerializationException):
            read()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "begin with nothing"),
        (b"\0\0\0", "3 bytes are too few for a schema's prefix of 5"),
        (b"\1" + bytes(3), "4 bytes are too few for a schema's prefix of 17"),
        (b'{"id": 1}', "not with magic byte 0 or 1"),
        (b"\0\xff\xff\xff\xff", "schema id 4294967295 is above"),
    ],
)
def test_other_bytes_are_no_prefix(content: bytes, said: str) -> None:
    with pytest.raises(SerializationException, match=said):
        read_prefix(content)
    assert not is_framed(content)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "inside the message indexes"),
        (b"\x04\x02", "inside the message indexes"),
        (b"\x01", "-1 message indexes"),
        (b"\x02\x01", "message index -1 is negative"),
        (b"\x80\x80\x80\x80\x80\x01", "longer than 5 bytes"),
        (b"\xca\x01", "101 message indexes"),
    ],
)
def test_other_bytes_are_no_message_indexes(content: bytes, said: str) -> None:
    with pytest.raises(SerializationException, match=said):
        read_message_indexes(content, 0)


@pytest.mark.parametrize("schema_id", [-1, SCHEMA_ID_MAX + 1])
def test_an_id_out_of_range_is_not_written(schema_id: int) -> None:
    with pytest.raises(SerializationException, match="is not between 0 and"):
        id_prefix(schema_id)


def test_the_last_header_of_the_field_counts() -> None:
    headers = [
        ("__value_schema_id", b"a"),
        ("other", b"b"),
        ("__value_schema_id", b"c"),
        ("__value_schema_id", None),
    ]
    assert header_frame(headers, "value") == b"c"
    assert header_frame(headers, "key") is None
    assert header_of("key") == "__key_schema_id"
