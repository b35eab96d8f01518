"""The rows of `produce --input`: columns that `send_arrow` takes, and nothing else.

Role.   `rows` reads JSON lines here, and files of columns through `record_files`; both are judged before they are given.
Rules.  * A mistake is told with file, row and column. Rows count from 1; the first row of CSV is its columns' names.
        * The columns `topic` and `offset`, which `consume` writes, are passed over, and so are its control records. Any other column is
          refused unless it is to be ignored: nothing of a user's is dropped in silence.
        * A row without a value is refused: a tombstone says so, with null.
"""

import base64
import binascii
import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from semel.cli.contents import AS_STORED, Contents
from semel.cli.lines import line_groups
from semel.cli.record_files import CSV, headers_of, source, time_of
from semel.errors import InvalidRecordError
from semel.insight.sentences import several

if TYPE_CHECKING:
    import pyarrow as pa

_TAKEN: Final = ("key", "value", "timestamp", "headers", "partition")
_PASSED_OVER: Final = ("topic", "offset")
_ENCODED: Final = ("key_base64", "value_base64")
_CONTROL: Final = "control"
_SHOWN_MAX: Final = 60


def rows(
    kind: str, file: str, ignored: Sequence[str], topic: str, partitions: int, contents: Contents
) -> "Iterator[pa.RecordBatch]":
    """The records of a file, or of standard input ('-'), some at a time."""
    name = "standard input" if file == "-" else file
    if kind == "jsonl":
        yield from _objects(file, name, ignored, topic, partitions, contents)
        return
    before = 1 if kind == CSV else 0
    for batch in source(kind, file):
        yield _judged(batch, name, ignored, topic, partitions, contents, before)
        before += batch.num_rows


# JSON lines


def _objects(
    file: str, name: str, ignored: Sequence[str], topic: str, partitions: int, contents: Contents
) -> "Iterator[pa.RecordBatch]":
    with contextlib.ExitStack() as open_files:
        try:
            stream: BinaryIO = sys.stdin.buffer if file == "-" else open_files.enter_context(open(file, "rb"))
        except OSError as error:
            raise InvalidRecordError(f"{name} cannot be read: {error.strerror}") from error
        number = 0
        for lines in line_groups(stream):
            found: dict[str, list[Any]] = {column: [] for column in _TAKEN}
            for line in lines:
                number += 1
                if line.strip():
                    one = _object(line, f"{name}, line {number}", ignored, topic, partitions, contents)
                    for column, value in one.items():
                        found[column].append(value)
            if found["value"]:
                yield _columns(found)


def _object(
    line: bytes, where: str, ignored: Sequence[str], topic: str, partitions: int, contents: Contents
) -> dict[str, Any]:
    """One line as a record's columns; none for a control record."""
    try:
        given = json.loads(line)
    except ValueError as error:  # No JSON, or no UTF-8.
        shown = line[:_SHOWN_MAX].decode(errors="replace")
        raise InvalidRecordError(f"{where}: {shown!r} is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise InvalidRecordError(
            f"{where}: {line[:_SHOWN_MAX].decode()!r} is not an object with key and value"
        )
    if _CONTROL in given:
        return {}
    for column in given:
        if column not in (*_TAKEN, *_PASSED_OVER, *_ENCODED, *ignored):
            raise _unknown(f"{where}, column {column}", column)
    if "value" not in given and "value_base64" not in given:
        raise InvalidRecordError(
            f'{where}, column value: it is missing; a tombstone has "value": null, and without --input a line is a value as it stands'
        )
    readers: dict[str, Callable[[], Any]] = {
        "key": lambda: _content(given, "key", topic, contents),
        "value": lambda: _content(given, "value", topic, contents),
        "timestamp": lambda: None if given.get("timestamp") is None else time_of(given["timestamp"]),
        "headers": lambda: None if given.get("headers") is None else headers_of(given["headers"]),
        "partition": lambda: _partition(given.get("partition"), topic, partitions),
    }
    found = {}
    for column, read in readers.items():
        try:
            found[column] = None if column in ignored else read()
        except ValueError as error:
            raise InvalidRecordError(f"{where}, column {column}: {error}") from error
    return found


def _content(given: dict[str, Any], name: str, topic: str, contents: Contents) -> bytes | None:
    encoded = given.get(f"{name}_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True)
        except (binascii.Error, TypeError) as error:
            raise ValueError(f"{encoded!r} is not base64: {error}") from error
    value = given.get(name)
    return None if value is None else contents.stored(topic, name == "key", value)


def _partition(given: object, topic: str, partitions: int) -> int | None:
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given < partitions:
        raise ValueError(_no_partition(given, topic, partitions))
    return given


def _no_partition(given: object, topic: str, partitions: int) -> str:
    return f"{given!r} is not a partition of {topic}, which has {several(partitions, 'partition')}: --ignore partition lets keys decide"


def _columns(found: dict[str, list[Any]]) -> "pa.RecordBatch":
    import pyarrow as pa

    from semel.core.records.arrow_schema import HEADERS_TYPE, TIMESTAMP_TYPE

    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "timestamp": TIMESTAMP_TYPE,
        "headers": HEADERS_TYPE,
        "partition": pa.int32(),
    }
    arrays = {column: pa.array(found[column], types[column]) for column in _TAKEN}
    return pa.RecordBatch.from_pydict(arrays)


def _unknown(where: str, column: str) -> InvalidRecordError:
    return InvalidRecordError(
        f"{where}: no record has it; records have {', '.join(_TAKEN)}. Rename it, or pass over it with --ignore {column}"
    )


# Columns


def _judged(
    batch: "pa.RecordBatch",
    name: str,
    ignored: Sequence[str],
    topic: str,
    partitions: int,
    contents: Contents,
    before: int,
) -> "pa.RecordBatch":
    """The columns of records alone, each of a type and with values that records can have."""
    import pyarrow as pa

    kept = [column for column in batch.schema.names if column not in (*_PASSED_OVER, *ignored)]
    for column in kept:
        if column not in _TAKEN:
            raise _unknown(f"{name}, column {column}", column)
    if "value" not in kept:
        raise InvalidRecordError(
            f"{name}, column value: it is missing; there are {', '.join(batch.schema.names)}"
        )
    batch = batch.select(kept)
    for column in kept:
        _check_type(batch.schema.field(column), name)
    for column, wrong in (
        ("partition", _wrong_partition),
        ("timestamp", _wrong_time),
        ("headers", _wrong_header),
    ):
        if column in kept and not pa.types.is_null(batch.column(column).type):
            found = wrong(batch.column(column), topic, partitions)
            if found is not None:
                row, text = found
                raise InvalidRecordError(f"{name}, row {before + row + 1}, column {column}: {text}")
    return batch if contents is AS_STORED else _stored(batch, topic, contents)


def _check_type(field: "pa.Field", name: str) -> None:
    import pyarrow as pa

    from semel.client.producer import arrow
    from semel.exceptions import IllegalArgumentException

    try:
        arrow.check(pa.schema([field]))
    except IllegalArgumentException as error:
        raise InvalidRecordError(f"{name}: {error}") from error


def _wrong_partition(column: "pa.Array", topic: str, partitions: int) -> tuple[int, str] | None:
    import pyarrow.compute as pc

    row = pc.index(pc.or_(pc.less(column, 0), pc.greater_equal(column, partitions)), True).as_py()
    return None if row < 0 else (row, _no_partition(column[row].as_py(), topic, partitions))


def _wrong_time(column: "pa.Array", _topic: str, _partitions: int) -> tuple[int, str] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    numbers = column.view(pa.int64()) if pa.types.is_timestamp(column.type) else column
    row = pc.index(pc.less(numbers, 0), True).as_py()
    return None if row < 0 else (row, f"{column[row].as_py()} is before 1970")


def _wrong_header(column: "pa.Array", _topic: str, _partitions: int) -> tuple[int, str] | None:
    import pyarrow.compute as pc

    pairs = column.flatten()
    for array, flaw in ((pairs, "a header is null"), (pc.struct_field(pairs, "key"), "a header has no key")):
        at = pc.index(pc.is_null(array), True).as_py()
        if at >= 0:
            return pc.list_parent_indices(column)[at].as_py(), f"{flaw}: give it a key, or leave it out"
    return None


def _stored(batch: "pa.RecordBatch", topic: str, contents: Contents) -> "pa.RecordBatch":
    """Keys and values as they are to be stored, one by one."""
    import pyarrow as pa

    for column in ("key", "value"):
        place = batch.schema.get_field_index(column)
        if place >= 0:
            values = [
                None if one is None else contents.stored(topic, column == "key", one)
                for one in batch.column(place).to_pylist()
            ]
            batch = batch.set_column(place, column, pa.array(values, pa.binary()))
    return batch
