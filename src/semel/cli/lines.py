"""The lines of a stream, as many at a time as are there: a file's in large groups, a person's one by one."""

from collections.abc import Iterator
from typing import BinaryIO, Final

from semel.errors import InvalidRecordError

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


def line_groups(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that are there at a time, without their ends; the last one may lack its newline."""
    read = getattr(stream, "read1", stream.read)
    rest = b""
    while chunk := read(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LINE_BYTES_MAX:
            raise InvalidRecordError(
                f"a line is longer than {_LINE_BYTES_MAX} bytes: no broker takes such a record"
            )
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]
