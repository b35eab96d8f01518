"""Rows of the coordinators' topics as text, for `semel log dump`.

Role.   `RowText` turns the key and value of one record of `__transaction_state` or `__consumer_offsets` into the JSON that
        Kafka's DumpLogSegments prints with --transaction-log-decoder and --offsets-decoder.
Rules.  * Member metadata and assignments of a consumer group are decoded if possible, and else shown as base64.
        * An unreadable row gives an error line and does not end the dump.
"""

import json
import struct
from collections.abc import Mapping
from typing import Final, TypeAlias

from semel.core.coordination.outcome import LogRow
from semel.core.coordination.row_format import RowFormat
from semel.core.groups.rows import GROUP_ROWS, OFFSETS_TOPIC
from semel.core.records.build import Record
from semel.core.transactions.rows import FORMAT as TRANSACTION_ROWS
from semel.core.transactions.rows import TOPIC as TRANSACTION_TOPIC
from semel.core.wire.kafka_json import Json, kafka_json
from semel.core.wire.message import Row
from semel.core.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from semel.core.wire.messages.group_rows import GroupMetadataValue, MemberMetadata
from semel.errors import CorruptLogError, UnsupportedVersionError, WireError

_INT16: Final = struct.Struct(">h")
_CONSUMERS: Final = "consumer"
_Described: TypeAlias = dict[str, Json]


class RowText:
    """The text form of one topic's records."""

    def __init__(self, rows: RowFormat) -> None:
        self._rows = rows

    def fields(self, record: Record) -> str:
        """A record's key and value in a line of the dump."""
        try:
            row = self._rows.decode(record)
        except CorruptLogError as error:
            return f" key: Error at offset {record.offset}, skipping. {error}"
        kind = _INT16.unpack_from(record.key or b"\xff\xff")[0]
        if row is None:
            return f" key: Unknown record type {kind} at offset {record.offset}, skipping."
        key = _text({"type": str(kind), "data": kafka_json(row.key, 0)})
        return f" key: {key} payload: {_value_text(row)}"


ROW_TEXTS: Final[Mapping[str, RowText]] = {
    TRANSACTION_TOPIC: RowText(TRANSACTION_ROWS),
    OFFSETS_TOPIC: RowText(GROUP_ROWS),
}


def row_text_of(directory: str) -> RowText | None:
    """The text form of a partition's records, by the name of its directory; None for user topics."""
    return ROW_TEXTS.get(directory.rpartition("-")[0])


def _value_text(row: LogRow) -> str:
    if row.value is None:
        return "<DELETE>"
    data = kafka_json(row.value, row.value_version)
    if isinstance(row.value, GroupMetadataValue) and row.value.protocol_type == _CONSUMERS:
        data["members"] = [_member(one, row.value_version) for one in row.value.members]
    return _text({"version": str(row.value_version), "data": data})


def _member(member: MemberMetadata, version: int) -> Json:
    described = kafka_json(member, version)
    subscription = _described(ConsumerProtocolSubscription, member.subscription)
    if subscription is not None:
        described["subscription"] = subscription
    assignment = _described(ConsumerProtocolAssignment, member.assignment)
    if assignment is not None:
        described["assignment"] = assignment
    return described


def _described(kind: type[Row], data: bytes) -> _Described | None:
    """None if the bytes are not of that kind: members may use any format."""
    if len(data) < _INT16.size:
        return None
    (version,) = _INT16.unpack_from(data)
    try:
        return kafka_json(kind.decode(data, version, _INT16.size), version)
    except (WireError, UnsupportedVersionError):
        return None


def _text(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
