"""Files of offsets: what Kafka's ConsumerGroupCommand exports and takes, and the same as JSON.

Rules.  CSV without a header: topic, partition, offset; or with the group before them. JSON: a list of objects with the same
        names. A line that is neither is refused with its number.
"""

import csv
import io
import json
from collections.abc import Mapping, Sequence

from semel.cli.times import OFFSET_MAX
from semel.errors import ConfigError
from semel.insight.sentences import several
from semel.types import TopicPartition

_PARTITION_MAX = 2**31 - 1
_FIELDS = ("topic", "partition", "offset")


def write(offsets: Mapping[TopicPartition, int], *, file_format: str, group: str | None) -> str:
    """The file's content; with the group in each row if one is named."""
    if file_format == "json":
        rows = [
            {
                **({} if group is None else {"group": group}),
                "topic": where.topic,
                "partition": where.partition,
                "offset": offset,
            }
            for where, offset in offsets.items()
        ]
        return json.dumps(rows, indent=1) + "\n"
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    prefix = [] if group is None else [group]
    writer.writerows([*prefix, *where, offset] for where, offset in offsets.items())
    return text.getvalue()


def read(content: str, *, name: str, group: str) -> dict[TopicPartition, int]:
    """The offsets of a group in a file of either kind; raises `ConfigError` naming the place of what is wrong."""
    found: dict[TopicPartition, int] = {}
    rows = _json_rows(content, name) if content.lstrip().startswith("[") else _csv_rows(content, name)
    for place, owner, fields in rows:
        if owner is not None and owner != group:
            continue
        topic, partition, offset = fields
        if not topic or not _is_number(partition, _PARTITION_MAX) or not _is_number(offset, OFFSET_MAX):
            raise ConfigError(
                f"{name}, {place}: {','.join(fields)!r} is not a topic with a partition and an offset from 0 on"
            )
        where = TopicPartition(topic, int(partition))
        if found.setdefault(where, int(offset)) != int(offset):
            raise ConfigError(
                f"{name}, {place}: {where} has two offsets, {found[where]} and {offset}: keep one"
            )
    if not found:
        raise ConfigError(
            f"{name} has no offsets of group {group}: it has lines TOPIC,PARTITION,OFFSET or none"
        )
    return found


def _is_number(text: str, most: int) -> bool:
    return text.isdecimal() and int(text) <= most


def _csv_rows(content: str, name: str) -> list[tuple[str, str | None, Sequence[str]]]:
    rows: list[tuple[str, str | None, Sequence[str]]] = []
    for number, row in enumerate(csv.reader(io.StringIO(content)), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == len(_FIELDS):
            rows.append((f"line {number}", None, cells))
        elif len(cells) == len(_FIELDS) + 1:
            rows.append((f"line {number}", cells[0], cells[1:]))
        else:
            raise ConfigError(
                f"{name}, line {number} has {several(len(cells), 'value')}: use TOPIC,PARTITION,OFFSET "
                "or GROUP,TOPIC,PARTITION,OFFSET"
            )
    return rows


def _json_rows(content: str, name: str) -> list[tuple[str, str | None, Sequence[str]]]:
    try:
        document = json.loads(content)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{name} is no JSON: {error}") from error
    rows: list[tuple[str, str | None, Sequence[str]]] = []
    for number, row in enumerate(document, start=1):
        if not isinstance(row, dict) or not row.keys() >= set(_FIELDS):
            raise ConfigError(
                f"{name}, entry {number}: {row!r} is not an object with topic, partition and offset"
            )
        owner = row.get("group")
        rows.append(
            (
                f"entry {number}",
                None if owner is None else str(owner),
                [str(row[field]) for field in _FIELDS],
            )
        )
    return rows
