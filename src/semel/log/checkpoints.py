"""The small text files beside the logs: offset checkpoints, partition metadata, the directory's identity.

Role.   Kafka's formats, read and written whole: `recovery-point-offset-checkpoint` and its kin,
        `partition.metadata`, `meta.properties`, `.kafka_cleanshutdown`.
Rules.  * Every write is atomic: after a crash either the old or the new file is there, complete.
        * A malformed file raises `CorruptLogError` naming the line; the caller decides whether it can be rebuilt.
"""

import base64
import binascii
import json
import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from semel.errors import CorruptLogError
from semel.runtime.files import Files, read_whole, write_atomically
from semel.types import TopicPartition

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"

_VERSION: Final = "0"
_UUID_LENGTH: Final = 22


def read_lines(files: Files, path: str, fields: int) -> list[list[str]]:
    """The rows of a checkpoint: version, count, then that many lines of `fields` words. A missing file has no rows."""
    if not files.exists(path):
        return []
    text = read_whole(files, path).decode("utf-8", errors="replace")
    if not text:
        return []  # Kafka creates some of these files empty and fills them later.
    lines = text.splitlines()
    if len(lines) < 2 or lines[0].strip() != _VERSION:
        raise CorruptLogError(
            f"{path}: line 1 is {lines[0]!r}, a checkpoint begins with version {_VERSION} and a count"
        )
    rows = [line.split() for line in lines[2:] if line.strip()]
    if not lines[1].strip().isdecimal() or int(lines[1]) != len(rows):
        raise CorruptLogError(f"{path}: line 2 announces {lines[1]!r} rows, {len(rows)} follow")
    for number, row in enumerate(rows, start=3):
        if len(row) != fields:
            raise CorruptLogError(
                f"{path}: line {number} has {len(row)} fields instead of {fields}: {' '.join(row)!r}"
            )
    return rows


def write_lines(files: Files, path: str, rows: Iterable[str]) -> None:
    lines = list(rows)
    write_atomically(
        files, path, "".join(f"{line}\n" for line in (_VERSION, str(len(lines)), *lines)).encode()
    )


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """Partition → offset."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in read_lines(files, path, fields=3)
        }
    except ValueError as error:
        raise CorruptLogError(f"{path}: {error}") from error


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    write_lines(
        files, path, (f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items()))
    )


def encode_uuid(value: uuid.UUID) -> str:
    """An id in Kafka's form: 22 characters, URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> uuid.UUID:
    """The id from Kafka's form; raises `ValueError` for other text."""
    if len(text) != _UUID_LENGTH:
        raise ValueError(f"{text!r} is not an id: {_UUID_LENGTH} characters are expected, {len(text)} found")
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except binascii.Error as error:
        raise ValueError(f"{text!r} is not an id: {error}") from error


def read_topic_id(files: Files, path: str) -> uuid.UUID | None:
    """The topic id in `partition.metadata`, or None if there is no such file."""
    if not files.exists(path):
        return None
    values = _properties(read_whole(files, path).decode("utf-8", errors="replace"), separator=":")
    if values.get("version") != _VERSION or "topic_id" not in values:
        raise CorruptLogError(f"{path}: version 0 and a topic_id are expected, found {values}")
    try:
        return decode_uuid(values["topic_id"])
    except ValueError as error:
        raise CorruptLogError(f"{path}: {error}") from error


def write_topic_id(files: Files, path: str, topic_id: uuid.UUID) -> None:
    write_atomically(files, path, f"version: {_VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode())


def read_meta_properties(files: Files, path: str) -> dict[str, str]:
    """`meta.properties` as a mapping; empty if there is none."""
    if not files.exists(path):
        return {}
    return _properties(read_whole(files, path).decode("utf-8", errors="replace"), separator="=")


def write_meta_properties(files: Files, path: str, values: Mapping[str, str]) -> None:
    write_atomically(files, path, "".join(f"{key}={value}\n" for key, value in values.items()).encode())


def write_clean_shutdown(files: Files, path: str) -> None:
    """Mark a clean shutdown: the next start trusts the indexes and snapshots."""
    write_atomically(
        files, path, json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()
    )


def _properties(text: str, separator: str) -> dict[str, str]:
    pairs = (
        line.partition(separator) for line in text.splitlines() if line.strip() and not line.startswith("#")
    )
    return {key.strip(): value.strip() for key, _separator, value in pairs}
