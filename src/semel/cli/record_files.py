"""Records as files of columns: CSV, Parquet and Arrow, written and read with no object per record.

Role.   `Sink` writes what `consume -o` polls; `source` gives the columns of what `produce --input` reads.
Rules.  * Columns are those of `poll_arrow`: topic, partition, offset, timestamp, key, value, headers. A file that was written is read as
          it is: its topic and offset are passed over, because a record gets new ones.
        * A file appears under its name when it is whole. Parquet and Arrow have their index at the end, so a broken file would be none.
        * CSV is text: null is an empty cell, an empty text is "", headers are JSON. Bytes that are no text are refused with their place.
        * What cannot be read is told with file, row and column.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from semel.cli.contents import fields
from semel.errors import ConfigError, InvalidRecordError

if TYPE_CHECKING:
    import pyarrow as pa

PARQUET: Final = "parquet"
ARROW: Final = "arrow"
CSV: Final = "csv"
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
SUFFIXES: Final = {
    ".csv": CSV,
    ".parquet": PARQUET,
    ".arrow": ARROW,
    ".feather": ARROW,
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
_ARROW_MAGIC: Final = b"ARROW1"
_ROW_GROUP_ROWS: Final = 1 << 17
_ROW_GROUP_BYTES: Final = 128 << 20


def format_of(file: str | None) -> str | None:
    """The format that the end of a name says."""
    return None if file is None else SUFFIXES.get(Path(file).suffix.lower())


class OutputFile:
    """A file that appears when it is whole; a context that removes what was begun if an error leaves it."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._part = f"{path}.part"
        try:
            self.stream: BinaryIO = open(self._part, "wb")  # noqa: SIM115 - closed by the context.
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror or error}") from error

    def __enter__(self) -> BinaryIO:
        return self.stream

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        self.stream.close()
        if kind is None:
            os.replace(self._part, self._path)
            return
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._part)


class Sink:
    """Polled columns, written in one of the formats."""

    def __init__(self, output: str, stream: BinaryIO, *, is_stream: bool) -> None:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        from semel.core.records.arrow_schema import RECORDS_SCHEMA

        self._output = output
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0
        if output == PARQUET:
            self._writer: Any = pyarrow.parquet.ParquetWriter(stream, RECORDS_SCHEMA, compression="zstd")
        elif output == ARROW and is_stream:
            self._writer = pa.ipc.new_stream(stream, RECORDS_SCHEMA)
        elif output == ARROW:
            self._writer = pa.ipc.new_file(stream, RECORDS_SCHEMA)
        else:
            self._writer = pyarrow.csv.CSVWriter(stream, _csv_schema())

    def write(self, records: "pa.RecordBatch") -> None:
        """Some more records."""
        if self._output != PARQUET:
            self._writer.write_batch(_as_text(records) if self._output == CSV else records)
            return
        # A poll is small; a row group of Parquet is what a reader skips or reads as a whole.
        self._held.append(records)
        self._rows += records.num_rows
        self._bytes += records.nbytes
        if self._rows >= _ROW_GROUP_ROWS or self._bytes >= _ROW_GROUP_BYTES:
            self._write_held()

    def _write_held(self) -> None:
        import pyarrow as pa

        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held), row_group_size=_ROW_GROUP_ROWS)
        self._held, self._rows, self._bytes = [], 0, 0

    def end(self) -> None:
        """Nothing comes any more."""
        self._write_held()
        self._writer.close()


def _csv_schema() -> "pa.Schema":
    import pyarrow as pa

    types = {"partition": pa.int32(), "offset": pa.int64()}
    return pa.schema([(name, types.get(name, pa.string())) for name in COLUMNS])


def _as_text(records: "pa.RecordBatch") -> "pa.RecordBatch":
    """The columns as CSV has them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = []
    for name in COLUMNS:
        column = records.column(name)
        if name in ("key", "value"):
            try:
                column = column.cast(pa.string())
            except pa.ArrowInvalid:
                raise _no_text(records, name) from None
        elif name == "timestamp":
            column = pc.strftime(column, format="%Y-%m-%dT%H:%M:%SZ")
        elif name == "headers":
            column = pa.array([_headers_json(one) for one in column.to_pylist()], pa.string())
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=_csv_schema())


def _headers_json(headers: list[dict[str, Any]] | None) -> str | None:
    if headers is None:
        return None
    pairs = [{"name": one["key"], **fields("value", one["value"])} for one in headers]
    return json.dumps(pairs, ensure_ascii=False)


def _no_text(records: "pa.RecordBatch", name: str) -> InvalidRecordError:
    """The first record whose bytes are no text."""
    for row in records.select(["topic", "partition", "offset", name]).to_pylist():
        try:
            (row[name] or b"").decode()
        except UnicodeDecodeError as error:
            return InvalidRecordError(
                f"the {name} of {row['topic']}-{row['partition']} at offset {row['offset']} is not text (byte {error.start} is not "
                "UTF-8), and CSV has nothing else: use -o jsonl, which writes base64, or -o parquet or arrow"
            )
    raise AssertionError(f"every {name} is text, and Arrow said otherwise")


# Reading


def source(kind: str, file: str) -> "Iterator[pa.RecordBatch]":
    """The records of a file of columns, or of standard input ('-'), with the columns of `send_arrow` and others as they stand."""
    import pyarrow as pa

    name = "standard input" if file == "-" else file
    try:
        with contextlib.ExitStack() as open_files:
            stream: BinaryIO = sys.stdin.buffer if file == "-" else open_files.enter_context(open(file, "rb"))
            if kind == CSV:
                yield from _csv(stream, name)
            else:
                yield from _columns(kind, stream, name, open_files)
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise InvalidRecordError(f"{name} is not a whole file of {kind}: {error}") from error
        raise InvalidRecordError(f"{name} cannot be read: {error.strerror}") from error
    except pa.ArrowException as error:
        raise InvalidRecordError(f"{name} is not a whole file of {kind}: {error}") from error


def _columns(
    kind: str, stream: BinaryIO, name: str, open_files: contextlib.ExitStack
) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    import pyarrow.parquet

    if name == "standard input" and kind == PARQUET:
        stream = open_files.enter_context(_spooled(stream))
    if kind == PARQUET:
        yield from pyarrow.parquet.ParquetFile(stream).iter_batches()
        return
    if stream.seekable() and name != "standard input":
        is_file = stream.read(len(_ARROW_MAGIC)) == _ARROW_MAGIC
        stream.seek(0)
        if is_file:
            reader = pa.ipc.open_file(stream)
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)
            return
    yield from pa.ipc.open_stream(stream)


def _spooled(stream: BinaryIO) -> "contextlib.AbstractContextManager[BinaryIO]":
    """The rest of a pipe in a file without a name: Parquet is read from its end."""
    import shutil
    import tempfile

    kept = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it.
    shutil.copyfileobj(stream, kept)
    kept.seek(0)
    return kept


def _csv(stream: BinaryIO, name: str) -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa
    import pyarrow.csv

    types = {
        "key": pa.string(),
        "value": pa.string(),
        "headers": pa.string(),
        "timestamp": pa.string(),
        "partition": pa.int32(),
    }
    try:
        reader = pyarrow.csv.open_csv(
            stream,
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # Rows are counted only without.
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=types,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
        rows = 0
        for batch in reader:
            yield _from_text(batch, name, rows)
            rows += batch.num_rows
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(
            f"{name}: {error}; the first row of the file is 1, its columns' names"
        ) from error


def _from_text(batch: "pa.RecordBatch", name: str, rows_before: int) -> "pa.RecordBatch":
    """Times and headers out of their texts."""
    import pyarrow as pa

    from semel.core.records.arrow_schema import HEADERS_TYPE, TIMESTAMP_TYPE

    for column, read, kind in (("timestamp", time_of, TIMESTAMP_TYPE), ("headers", headers_of, HEADERS_TYPE)):
        place = batch.schema.get_field_index(column)
        if place < 0:
            continue
        values = []
        for at, text in enumerate(batch.column(place).to_pylist()):
            try:
                values.append(None if text is None else read(text))
            except ValueError as error:
                row = rows_before + at + 2
                raise InvalidRecordError(f"{name}, row {row}, column {column}: {error}") from error
        batch = batch.set_column(place, column, pa.array(values, kind))
    return batch


def time_of(given: object) -> int:
    """A timestamp in a file: milliseconds since 1970, or ISO 8601 as on the command line."""
    import click

    from semel.cli.times import timestamp_ms

    if isinstance(given, int) and not isinstance(given, bool) and given >= 0:
        return given
    try:
        if isinstance(given, str):
            return timestamp_ms(given)
    except click.BadParameter:
        pass  # Said below for whatever it is.
    raise ValueError(f"{given!r} is not a time: use milliseconds since 1970, or as 2026-01-31T12:00:00Z")


def headers_of(given: Any) -> list[dict[str, Any]] | None:
    """Headers in a file: as `consume -o jsonl` writes them, or an object of names and texts; a text is read as JSON."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except json.JSONDecodeError as error:
            raise ValueError(f"{given[:60]!r} is not JSON: {error}") from error
    if isinstance(given, dict):
        given = [{"name": name, "value": value} for name, value in given.items()]
    if not isinstance(given, list):
        raise ValueError(f"{given!r} are not headers: write a list of objects with name and value")
    return [_header_of(one) for one in given] or None


def _header_of(given: Any) -> dict[str, Any]:
    import base64
    import binascii

    name = given.get("name") if isinstance(given, dict) else None
    value = given.get("value") if isinstance(given, dict) else 0
    if not isinstance(given, dict) or not isinstance(name, str) or not isinstance(value, str | None):
        raise ValueError(f"{given!r} is not a header: write an object with name and value, both texts")
    encoded: Any = given.get("value_base64")
    if encoded is None:
        return {"key": name, "value": None if value is None else value.encode()}
    try:
        return {"key": name, "value": base64.b64decode(encoded, validate=True)}
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"{encoded!r} is not base64: {error}") from error
