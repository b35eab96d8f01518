"""The records of a poll, made into Python objects, Arrow columns or data frames when asked.

Role.   `ConsumerRecords`, an iterable of `ConsumerRecord` as in Java, that holds columns until somebody looks at records.
Flow.   `FetchBuffer.take` -> pieces -> `readable` applies the deserializers, if there are any -> the user.
Rules.  * Without deserializers no object is made per record until one is asked for; `to_arrow` never makes any.
        * Columns hold what was stored: deserializers are for records, not for columns.
        * A record that cannot be deserialized ends a poll in front of it, and raises when it is the first.
"""

import html
import importlib
from collections.abc import Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from semel.client.serializers import Deserializer, from_topic, unchanged
from semel.client.values.consuming import ConsumerRecord, OffsetAndMetadata
from semel.core.client.accumulator import Headers
from semel.core.client.fetched import Piece
from semel.exceptions import RecordDeserializationException
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

_SHOWN_MAX: Final = 10
_NULL_SIZE: Final = -1


class Records(Sequence[ConsumerRecord]):
    """The records of one piece, made when they are looked at."""

    __slots__ = ("_made", "_piece")

    def __init__(self, piece: Piece, made: list[ConsumerRecord] | None = None) -> None:
        self._piece = piece
        self._made = made

    def made(self) -> list[ConsumerRecord]:
        if self._made is None:
            self._made = _records(self._piece, None, None)
        return self._made

    def __len__(self) -> int:
        return self._piece.count

    def __getitem__(self, index: Any) -> Any:
        return self.made()[index]

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return iter(self.made())


class ConsumerRecords:
    """Records in the order they are to be worked on: by partition, and in each by offset."""

    __slots__ = ("_parts", "_pieces")

    def __init__(self, pieces: Sequence[Piece] = (), parts: "Sequence[Records] | None" = None) -> None:
        self._pieces = tuple(pieces)
        self._parts = tuple(map(Records, pieces)) if parts is None else tuple(parts)

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        return sum(piece.count for piece in self._pieces)

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def count(self) -> int:
        """How many."""
        return len(self)

    def is_empty(self) -> bool:
        return not self

    def partitions(self) -> tuple[TopicPartition, ...]:
        """The partitions with records here."""
        return tuple(dict.fromkeys(piece.where for piece in self._pieces))

    def records(self, where: str | tuple[str, int]) -> list[ConsumerRecord]:
        """The records of one partition, or of all partitions of a topic."""
        if isinstance(where, str):
            wanted = {one for one in self.partitions() if one.topic == where}
        else:
            wanted = {TopicPartition(*where)}
        return [
            record
            for piece, part in zip(self._pieces, self._parts, strict=True)
            if piece.where in wanted
            for record in part
        ]

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where each partition goes on once these records are worked on: the positions to commit then."""
        return {
            piece.where: OffsetAndMetadata(piece.next_offset, "", piece.last_leader_epoch)
            for piece in self._pieces
        }

    # Columns

    def to_arrow(self) -> "pa.RecordBatch":
        """topic, partition, offset, timestamp, key, value, headers; as stored."""
        return to_arrow(self._pieces)

    def to_pandas(self) -> Any:
        """The columns of `to_arrow` as a data frame of pandas, which must be installed."""
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The columns of `to_arrow` as a data frame of polars, which must be installed."""
        return importlib.import_module("polars").from_arrow(self.to_arrow())

    def __repr__(self) -> str:
        where = ", ".join(map(str, self.partitions()))
        return f"<ConsumerRecords: {len(self)} of {where}>" if self else "<ConsumerRecords: none>"

    def _repr_html_(self) -> str:
        names = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
        shown = [record for _, record in zip(range(_SHOWN_MAX), self, strict=False)]
        rows = "".join(
            "<tr>"
            + "".join(f"<td>{html.escape(_short(getattr(record, name)))}</td>" for name in names)
            + "</tr>"
            for record in shown
        )
        more = len(self) - len(shown)
        rest = f"<p>and {more} more</p>" if more else ""
        head = "".join(f"<th>{name}</th>" for name in names)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{rest}"


def to_arrow(pieces: Sequence[Piece]) -> "pa.RecordBatch":
    """Pieces as one batch of columns."""
    import pyarrow as pa

    from semel.core.records.arrow_schema import RECORDS_SCHEMA

    batches = []
    for piece in pieces:
        columns = piece.columns()
        topic = pa.repeat(pa.scalar(piece.where.topic, pa.string()), piece.count)
        partition = pa.repeat(pa.scalar(piece.where.partition, pa.int32()), piece.count)
        batches.append(
            pa.RecordBatch.from_arrays([topic, partition, *columns.columns], schema=RECORDS_SCHEMA)
        )
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema=RECORDS_SCHEMA)
    return pa.concat_batches(batches)


class Unreadable(Exception):  # noqa: N818 - it never leaves the consumer.
    """A record its deserializer cannot take: the records before it, those that begin with it, and the error."""

    def __init__(
        self, before: ConsumerRecords, rest: list[Piece], error: RecordDeserializationException
    ) -> None:
        self.before = before
        self.rest = rest
        self.error = error
        super().__init__(str(error))


def readable(pieces: Sequence[Piece], key: Deserializer, value: Deserializer) -> ConsumerRecords:
    """The records as the user wants them; raises `Unreadable`."""
    keys = None if key is unchanged else key
    values = None if value is unchanged else value
    if keys is None and values is None:
        return ConsumerRecords(pieces)
    done: list[Piece] = []
    parts: list[Records] = []
    for index, piece in enumerate(pieces):
        try:
            parts.append(Records(piece, _records(piece, keys, values)))
        except _StoppedError as stopped:
            rest = [piece, *pieces[index + 1 :]]
            if stopped.index:
                first, rest[0] = piece.split(stopped.index)
                done.append(first)
                parts.append(Records(first, _records(first, keys, values)))
            raise Unreadable(ConsumerRecords(done, parts), rest, stopped.error) from stopped.error
        done.append(piece)
    return ConsumerRecords(done, parts)


class _StoppedError(Exception):
    def __init__(self, index: int, error: RecordDeserializationException) -> None:
        self.index = index
        self.error = error
        super().__init__(str(error))


def _records(
    piece: Piece, key_of: Deserializer | None, value_of: Deserializer | None
) -> list[ConsumerRecord]:
    lists = piece.lists()
    keys: Sequence[Any] = lists.keys
    values: Sequence[Any] = lists.values
    if key_of is not None:
        keys = _deserialized(piece, keys, key_of, "key", lists.headers)
    if value_of is not None:
        values = _deserialized(piece, values, value_of, "value", lists.headers)
    types, epochs = piece.shared()
    return list(
        map(
            ConsumerRecord._make,
            zip(
                repeat(piece.where.topic, piece.count),
                repeat(piece.where.partition, piece.count),
                lists.offsets,
                lists.timestamps,
                types,
                keys,
                values,
                lists.headers,
                epochs,
                [_NULL_SIZE if one is None else len(one) for one in lists.keys],
                [_NULL_SIZE if one is None else len(one) for one in lists.values],
                strict=True,
            ),
        )
    )


def _deserialized(
    piece: Piece,
    contents: Sequence[bytes | None],
    deserialize: Deserializer,
    what: str,
    headers: Sequence[Headers],
) -> list[Any]:
    found: list[Any] = []
    try:
        read, topic = from_topic(deserialize), piece.where.topic
        if read is not None:
            for content, beside in zip(contents, headers, strict=True):
                found.append(None if content is None else read(topic, what, content, beside))
            return found
        for content in contents:
            found.append(None if content is None else deserialize(content))  # noqa: PERF401 - how far it got matters.
    except Exception as error:  # Any exception of the user's callable.
        index = len(found)
        offset = piece.offset_at(index)
        unreadable = RecordDeserializationException(
            f"the {what} of {piece.where} at offset {offset} cannot be deserialized: {error}; "
            f"seek to {offset + 1} to go on behind it"
        )
        unreadable.topic_partition = piece.where
        unreadable.offset = offset
        unreadable.__cause__ = error
        raise _StoppedError(index, unreadable) from error
    return found


def _short(value: object) -> str:
    text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    return text if len(text) <= 80 else text[:79] + "…"
