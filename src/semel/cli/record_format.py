"""`-f FORMAT`: one record as text, in the letters of kcat and rpk.

Role.   `compiled` reads the format once and gives the function that fills it in for a record.
Rules.  * Nothing is added: a line ends where the format says `\\n`.
        * A null key or value is `null`'s text, empty unless the user gave another.
        * An unknown letter or escape is refused with the letters there are.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from semel.cli.contents import Contents, as_bytes
from semel.cli.output import Json
from semel.exceptions import SerializationException
from semel.insight.sentences import time_text

if TYPE_CHECKING:
    from semel.client.values.consuming import ConsumerRecord

LETTERS: Final = {
    "t": "topic",
    "p": "partition",
    "o": "offset",
    "k": "key",
    "v": "value",
    "s": "value, as in kcat",
    "h": "headers: name=value,…",
    "H": "how many headers",
    "T": "timestamp in milliseconds",
    "d": "timestamp in UTC, ISO 8601",
    "e": "leader epoch",
    "K": "bytes of the key, -1 for null",
    "V": "bytes of the value, -1 for null",
    "S": "bytes of the value, as in kcat",
    "%": "a percent sign",
}
_ESCAPES: Final = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_HEX_DIGITS: Final = 2

Filler = Callable[["ConsumerRecord"], bytes]


def content(record: "ConsumerRecord", contents: Contents, *, is_key: bool) -> bytes | None:
    """A key or value as bytes to print; None for null."""
    found = record.key if is_key else record.value
    if found is None:
        return None
    if isinstance(found, bytes):
        return as_bytes(shown(record, contents, found, is_key=is_key))
    return str(found).encode()  # A deserializer of -X made it.


def shown(record: "ConsumerRecord", contents: Contents, data: bytes, *, is_key: bool) -> Json | bytes:
    """A key or value as its contents show it; an error names the record."""
    try:
        return contents.shown(record.topic, is_key, data)
    except SerializationException as error:
        raise SerializationException(
            f"the {'key' if is_key else 'value'} of {record.topic}-{record.partition} at offset {record.offset} cannot be "
            f"decoded: {error}; --decode none shows it as it is stored, --offset goes on behind it"
        ) from error


def headers_text(record: "ConsumerRecord") -> bytes:
    """`name=value`, with commas between them; a null value has no `=`."""
    return b",".join(
        name.encode() if value is None else name.encode() + b"=" + value for name, value in record.headers
    )


def compiled(text: str, contents: Contents, null: bytes) -> Filler:
    """The function that fills the format in."""
    parts: list[bytes | Filler] = []
    at = 0
    while at < len(text):
        one = text[at]
        if one == "\\":
            piece, at = _escape(text, at)
            parts.append(piece)
        elif one == "%":
            letter = text[at + 1 : at + 2]
            if letter not in LETTERS or not letter:
                known = ", ".join(f"%{name} {what}" for name, what in LETTERS.items())
                raise click.BadParameter(
                    f"%{letter} is not part of a record; there are {known}.", param_hint="--format"
                )
            parts.append(b"%" if letter == "%" else _filler(letter, contents, null))
            at += 2
        else:
            parts.append(one.encode())
            at += 1

    def filled(record: "ConsumerRecord") -> bytes:
        return b"".join(one if isinstance(one, bytes) else one(record) for one in parts)

    return filled


def _escape(text: str, at: int) -> tuple[bytes, int]:
    """The byte behind a backslash, and where the text goes on."""
    letter = text[at + 1 : at + 2]
    if letter in _ESCAPES and letter:
        return _ESCAPES[letter], at + 2
    digits = text[at + 2 : at + 2 + _HEX_DIGITS]
    try:
        if letter == "x" and len(digits) == _HEX_DIGITS:
            return bytes.fromhex(digits), at + 2 + _HEX_DIGITS
    except ValueError:
        pass  # Said below, with every other escape that is none.
    raise click.BadParameter(
        f"\\{letter} is not an escape; there are \\n, \\t, \\r, \\0, \\\\ and \\xFF.", param_hint="--format"
    )


def _filler(letter: str, contents: Contents, null: bytes) -> Filler:
    if letter in "kvs":
        return _content_filler(contents, null, is_key=letter == "k")
    fillers: dict[str, Filler] = {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "h": headers_text,
        "H": lambda record: b"%d" % len(record.headers),
        "T": lambda record: b"%d" % record.timestamp,
        "d": lambda record: (time_text(record.timestamp) or "-").encode(),
        "e": lambda record: str("-" if record.leader_epoch is None else record.leader_epoch).encode(),
        "K": lambda record: b"%d" % record.serialized_key_size,
        "V": lambda record: b"%d" % record.serialized_value_size,
        "S": lambda record: b"%d" % record.serialized_value_size,
    }
    return fillers[letter]


def _content_filler(contents: Contents, null: bytes, *, is_key: bool) -> Filler:
    def fill(record: "ConsumerRecord") -> bytes:
        found = content(record, contents, is_key=is_key)
        return null if found is None else found

    return fill
