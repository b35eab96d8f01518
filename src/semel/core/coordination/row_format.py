"""Rows of a coordinator's topic as records: Kafka's bytes, so that Kafka's own formatters print them.

Role.   `RowFormat` knows the kinds of rows one topic holds; `encode` and `decode` are each other's reverse.
Rules.  * A record's key begins with the kind's number, its value with the value's version, both int16.
        * A row of an unknown kind is skipped (None): a newer broker may have written it. A row that does not decode as
          its kind is corrupt.
        * Where older brokers read the rows too, `up_to` holds their values to versions that these know. Fields that came later are
          not written then; all versions are read.
"""

import struct
from collections.abc import Mapping
from typing import Final

from semel.core.coordination.outcome import LogRow
from semel.core.records.build import Record, RecordInput
from semel.core.wire.message import Row
from semel.errors import CorruptLogError, UnsupportedVersionError, WireError

_INT16: Final = struct.Struct(">h")
_NO_LIMITS: Final[Mapping[type[Row], int]] = {}


class RowFormat:
    """The kinds of rows in one topic: number -> (class of keys, class of values)."""

    def __init__(
        self,
        topic: str,
        kinds: Mapping[int, tuple[type[Row], type[Row]]],
        value_versions_max: Mapping[type[Row], int] = _NO_LIMITS,
    ) -> None:
        self._topic = topic
        self._kinds = dict(kinds)
        self._value_versions_max = dict(value_versions_max)

    def up_to(self, value_versions_max: Mapping[type[Row], int]) -> "RowFormat":
        """The same rows, with values of these classes in these versions at most."""
        return RowFormat(self._topic, self._kinds, value_versions_max)

    def encode(self, row: LogRow, timestamp_ms: int) -> RecordInput:
        """The record that carries a row."""
        key = _INT16.pack(row.key.schema.api_key) + row.key.encode(0)
        value = None
        if row.value is not None:
            version = row.value_version
            if self._value_versions_max:
                version = min(version, self._value_versions_max.get(type(row.value), version))
            value = _INT16.pack(version) + row.value.encode(version)
        return RecordInput(key, value, timestamp_ms)

    def decode(self, record: Record) -> LogRow | None:
        """The row in a record, or None if its kind is unknown."""
        if record.key is None or len(record.key) < _INT16.size:
            raise CorruptLogError(f"{self._topic}: the record at {record.offset} has no key of a row")
        (number,) = _INT16.unpack_from(record.key)
        kind = self._kinds.get(number)
        if kind is None:
            return None
        key_class, value_class = kind
        try:
            key = key_class.decode(record.key, 0, _INT16.size)
            if record.value is None:
                return LogRow(key, None)
            if len(record.value) < _INT16.size:
                raise WireError("its value has no version")
            (version,) = _INT16.unpack_from(record.value)
            return LogRow(key, value_class.decode(record.value, version, _INT16.size), version)
        except (WireError, UnsupportedVersionError) as fault:
            raise CorruptLogError(
                f"{self._topic}: the record at {record.offset} is no {key_class.__name__} row: {fault}"
            ) from fault
