"""`-f FORMAT`: each letter and escape, and what is neither.

Method: one record with everything in it.
"""

from typing import Final

import click
import pytest

from semel.cli.contents import AS_STORED
from semel.cli.record_format import LETTERS, compiled
from semel.client.values.consuming import ConsumerRecord
from semel.core.records.batch import TimestampType

_RECORD: Final = ConsumerRecord(
    "orders", 3, 96, 1_767_225_600_123, TimestampType.CREATE_TIME, "clé".encode(), b"\xff\x00", (("a", b"1"), ("b", None)), 7, 4, 2
)  # fmt: skip
_NULLS: Final = _RECORD._replace(
    key=None, value=None, headers=(), leader_epoch=None, serialized_key_size=-1, serialized_value_size=-1
)


def filled(text: str, record: ConsumerRecord = _RECORD, null: bytes = b"") -> bytes:
    return compiled(text, AS_STORED, null)(record)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%t-%p@%o", b"orders-3@96"),
        ("%k=%v", "clé=".encode() + b"\xff\x00"),
        ("%s", b"\xff\x00"),
        ("%h %H", b"a=1,b 2"),
        ("%T %d", b"1767225600123 2026-01-01T00:00:00.123Z"),
        ("%e %K %V %S", b"7 4 2 2"),
        ("100%%\\n\\t\\r\\0\\\\\\x1f", b"100%\n\t\r\0\\\x1f"),
        ("größer", "größer".encode()),
        ("", b""),
    ],
)
def test_a_format_is_filled_in(text: str, wanted: bytes) -> None:
    assert filled(text) == wanted


def test_nulls_are_what_the_user_says() -> None:
    assert filled("[%k|%v|%h|%e|%V]", _NULLS) == b"[|||-|-1]"
    assert filled("[%k|%v]", _NULLS, b"NULL") == b"[NULL|NULL]"


def test_what_a_deserializer_made_is_text() -> None:
    assert filled("%v", _RECORD._replace(value=42)) == b"42"


@pytest.mark.parametrize("text", ["%z", "%", "a%", "\\q", "\\", "\\x1", "\\xzz"])
def test_what_is_no_format_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"there are (%t topic|\\n, \\t)"):
        compiled(text, AS_STORED, b"")


def test_every_letter_has_its_filler() -> None:
    for letter in LETTERS:
        assert filled(f"%{letter}")
