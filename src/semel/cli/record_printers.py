"""Records as lines: values, a format of the user's, tables, JSON.

Role.   `printer_for` gives the printer of an output; `consume` hands it records and control records in their order.
Rules.  * A tombstone is told from an empty value: `(tombstone)` in tables, `null` in JSON, `--null` in lines of values.
        * A table's columns keep the greatest width they had. A cell is one line: control characters are spelled out, and where a person
          watches, a line of `table` is cut at the terminal's width.
        * Bytes that are no text are base64 in JSON, under `key_base64` and `value_base64`; lines of values pass them on as they are.
"""

import json
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol

from semel.cli.contents import Contents, as_bytes, fields
from semel.cli.output import JSON, TABLE, WIDE, cut, one_line, padded, styled, width
from semel.cli.record_format import Filler, content, headers_text, shown
from semel.errors import InvariantError
from semel.insight.sentences import time_text
from semel.runtime.terminal import is_watched

if TYPE_CHECKING:
    from semel.client.calls.fetch_control import ControlRecord
    from semel.client.values.consuming import ConsumerRecord

_ROWS_HELD_MAX: Final = 500
_TABLE: Final = ("PARTITION", "OFFSET", "TIME", "KEY", "HEADERS", "VALUE")
_WIDE: Final = ("TOPIC", "PARTITION", "OFFSET", "TIME", "TIME OF", "EPOCH", "KEY", "HEADERS", "VALUE")
_NUMBERS: Final = ("PARTITION", "OFFSET", "EPOCH")
_WIDTH_MAX: Final = 40
"""A longer cell moves its own line and no other."""


class Printer(Protocol):
    """Where records go."""

    def record(self, record: "ConsumerRecord") -> None:
        """One more record."""

    def control(self, record: "ControlRecord") -> None:
        """One more control record."""

    def flush(self) -> None:
        """All that was given is to be seen now."""

    def end(self) -> None:
        """There is nothing more."""


def printer_for(output: str, stream: BinaryIO, contents: Contents) -> Printer:
    """The printer of `table`, `wide`, `json` or `jsonl`."""
    if output in (TABLE, WIDE):
        return _Table(stream, contents, is_wide=output == WIDE)
    return _Objects(stream, contents, is_array=output == JSON)


class Lines:
    """A line for every record, or whatever the format makes of it."""

    def __init__(self, stream: BinaryIO, fill: Filler) -> None:
        self._stream = stream
        self._fill = fill

    def record(self, record: "ConsumerRecord") -> None:
        self._stream.write(self._fill(record))

    def control(self, record: "ControlRecord") -> None:
        raise InvariantError(f"lines of values have no place for {record}: consume refuses --control")

    def flush(self) -> None:
        self._stream.flush()

    def end(self) -> None:
        self.flush()


def value_lines(contents: Contents, key_separator: str | None, null: bytes) -> Filler:
    """Values as they are, behind their keys if there is something to stand between."""
    separator = None if key_separator is None else key_separator.encode()

    def fill(record: "ConsumerRecord") -> bytes:
        value = content(record, contents, is_key=False)
        line = null if value is None else value
        if separator is None:
            return line + b"\n"
        key = content(record, contents, is_key=True)
        return (null if key is None else key) + separator + line + b"\n"

    return fill


class _Objects:
    """JSON: an object in each line, or one array of them."""

    def __init__(self, stream: BinaryIO, contents: Contents, *, is_array: bool) -> None:
        self._stream = stream
        self._contents = contents
        self._is_array = is_array
        self._count = 0

    def record(self, record: "ConsumerRecord") -> None:
        self._put(
            {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                **self._fields("key", record, is_key=True),
                **self._fields("value", record, is_key=False),
                "headers": [{"name": name, **fields("value", value)} for name, value in record.headers],
            }
        )

    def control(self, record: "ControlRecord") -> None:
        document = record._asdict()
        self._put(
            {**{key: value for key, value in document.items() if key != "kind"}, "control": record.kind}
        )

    def _fields(self, name: str, record: "ConsumerRecord", *, is_key: bool) -> dict[str, Any]:
        found = record.key if is_key else record.value
        if isinstance(found, bytes):
            return fields(name, shown(record, self._contents, found, is_key=is_key))
        if isinstance(found, bool | int | float | str | None):
            return {name: found}
        return {name: str(found)}

    def _put(self, document: dict[str, Any]) -> None:
        line = json.dumps(document, ensure_ascii=False).encode()
        if self._is_array:
            line = (b",\n" if self._count else b"[\n") + line
        else:
            line += b"\n"
        self._count += 1
        self._stream.write(line)

    def flush(self) -> None:
        self._stream.flush()

    def end(self) -> None:
        if self._is_array:
            self._stream.write(b"\n]\n" if self._count else b"[]\n")
        self.flush()


class _Table:
    """Aligned columns, some hundred rows at a time."""

    def __init__(self, stream: BinaryIO, contents: Contents, *, is_wide: bool) -> None:
        self._stream = stream
        self._contents = contents
        self._is_wide = is_wide
        self._header = _WIDE if is_wide else _TABLE
        self._widths = [width(name) for name in self._header]
        self._rows: list[Sequence[str]] = []
        self._is_begun = False
        watched = is_watched(sys.stdout) and not is_wide
        self._columns = shutil.get_terminal_size().columns if watched else None

    def record(self, record: "ConsumerRecord") -> None:
        key = content(record, self._contents, is_key=True)
        value = content(record, self._contents, is_key=False)
        self._put(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp,
            "LogAppend" if record.timestamp_type else "Create",
            record.leader_epoch,
            "-" if key is None else _text(key),
            _text(headers_text(record)) or "-",
            "(tombstone)" if value is None else _text(value),
        )

    def control(self, record: "ControlRecord") -> None:
        what = f"({record.kind} of producer {record.producer_id} epoch {record.producer_epoch})"
        self._put(record.topic, record.partition, record.offset, record.timestamp, "-", None, "-", "-", what)

    def _put(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp: int,
        time_of: str,
        epoch: int | None,
        key: str,
        headers: str,
        value: str,
    ) -> None:
        time = time_text(timestamp) or "-"
        shown = (str(partition), str(offset), time)
        epoch_text = "-" if epoch is None else str(epoch)
        self._rows.append(
            (topic, *shown, time_of, epoch_text, key, headers, value)
            if self._is_wide
            else (*shown, key, headers, value)
        )
        if len(self._rows) >= _ROWS_HELD_MAX:
            self._print()

    def _print(self) -> None:
        rows, self._rows = self._rows, []
        for row in rows:
            for at, cell in enumerate(row[:-1]):  # Nothing stands behind the value.
                self._widths[at] = max(self._widths[at], min(width(cell), _WIDTH_MAX))
        if not self._is_begun:
            self._is_begun = True
            self._line(self._header, is_header=True)
        for row in rows:
            self._line(row)

    def _line(self, cells: Sequence[str], *, is_header: bool = False) -> None:
        line = "  ".join(
            padded(cell, columns, right=name in _NUMBERS)
            for name, cell, columns in zip(self._header, cells, self._widths, strict=True)
        ).rstrip()
        if self._columns is not None:
            line = cut(line, self._columns)
        self._stream.write((styled(line, bold=True) if is_header else line).encode() + b"\n")

    def flush(self) -> None:
        self._print()
        self._stream.flush()

    def end(self) -> None:
        self.flush()


def _text(data: bytes) -> str:
    """The bytes in one line of text."""
    return one_line(as_bytes(data).decode(errors="backslashreplace"))
