"""`semel consume`: a topic's records on standard output.

Flow.   a `_Reading` says what the public consumer reads and when that is all; what it gives is printed, and in a group what was
        printed is committed.
"""

import base64
import json
import sys
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from semel.cli.options import PATIENCE, connection_options, partitions_of
from semel.cli.output import Json, drop_output
from semel.cli.times import OFFSET_MAX, timestamp_ms
from semel.exceptions import KafkaException, OffsetOutOfRangeException
from semel.insight.sentences import time_text
from semel.types import TopicPartition

if TYPE_CHECKING:
    from semel.client.sync.consumer import Consumer
    from semel.client.values.consuming import ConsumerRecord

_POLL_MS: Final = 500
_COMMIT_MS: Final = 5_000
"""How long what was printed is tried to be committed when partitions go, or at the end."""


def _start(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int]:
    """earliest, latest, an offset, or @ and a time."""
    if value in ("earliest", "latest"):
        return value, 0
    if value.isdecimal() and int(value) <= OFFSET_MAX:
        return "offset", int(value)
    if not value.startswith("@"):
        raise click.BadParameter(f"{value!r} is neither earliest, latest, an offset nor @TIME.")
    return "time", timestamp_ms(value[1:])


@click.command(
    name="consume",
    epilog="Example: semel consume orders --offset @2026-01-31T12:00:00Z --max-messages 10 -o json",
)
@click.argument("topic")
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Read this partition only.")
@click.option(
    "--offset",
    "start",
    callback=_start,
    default="earliest",
    show_default=True,
    metavar="earliest|latest|N|@TIME",
    help="Where to begin; a time is in milliseconds since 1970 or ISO 8601, without a zone UTC.",
)
@click.option(
    "--group",
    metavar="NAME",
    help="Read as a member of this group: go on where it has committed, and commit what was printed.",
)
@click.option("-n", "--max-messages", type=click.IntRange(1), metavar="N", help="End after so many records.")
@click.option("-f", "--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option(
    "--key-separator", metavar="TEXT", help="With -o value: print the key and this before the value."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["value", "table", "json"]),
    default="value",
    show_default=True,
    help="Values as they are, a line per record with its place, or JSON lines.",
)
@connection_options
def command(
    topic: str,
    partition: int | None,
    start: tuple[str, int],
    group: str | None,
    max_messages: int | None,
    follow: bool,
    key_separator: str | None,
    output: str,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """Print the records of TOPIC, up to where it ends now.

    Records of open and aborted transactions are not shown: -X isolation.level=read_uncommitted shows them.
    A reader that closes the pipe, as head does, ends the command like --max-messages.
    With --group the partitions are shared with the group's other members, and --offset is where those begin that nothing is
    committed for.
    """
    if group is not None and (partition is not None or start[0] not in ("earliest", "latest")):
        raise click.UsageError(
            "With --group the group decides what is read: leave --partition out, and --offset is earliest or latest."
        )
    from semel.client.sync.consumer import Consumer

    partitions = partitions_of(topic, bootstrap, settings, partition)
    given: dict[str, str | bool] = {"bootstrap.servers": bootstrap, **PATIENCE}
    given |= {"auto.offset.reset": "none" if group is None else start[0], "enable.auto.commit": False}
    given |= settings
    if group is not None:
        given |= {
            "group.id": group,
            "enable.auto.commit": False,
        }  # Only printed records are committed.
    printer = _Printer(sys.stdout.buffer, output, key_separator)
    with Consumer(given) as consumer:
        reading: _Places | _Member
        if group is None:
            reading = _Places(
                consumer, [TopicPartition(topic, index) for index in partitions], start, bootstrap
            )
        else:
            reading = _Member(consumer, topic)
        try:
            try:
                _print_all(consumer, reading, printer, follow=follow, max_messages=max_messages)
            except KeyboardInterrupt:
                if not follow:
                    raise
            finally:
                printer.flush()
                reading.end()
        except BrokenPipeError:
            drop_output()  # The reader has enough. A record that did not reach it is not committed.


def _print_all(
    consumer: "Consumer",
    reading: "_Places | _Member",
    printer: "_Printer",
    *,
    follow: bool,
    max_messages: int | None,
) -> None:
    if printer.output == "table":
        printer.line(b"PARTITION  OFFSET  TIME  KEY  VALUE")
    left = max_messages
    while follow or not reading.is_over():
        records = consumer.poll(_POLL_MS, left)
        for record in records:
            if not follow and record.offset >= reading.ends[record.topic_partition]:
                continue  # It came after the command.
            printer.show(record)
            reading.printed(record)
            if left is not None:
                left -= 1
        if records and (follow or reading.commits):
            printer.flush()  # Somebody is waiting for it, or it is about to be committed.
        reading.all_printed(records.partitions())
        if left == 0:
            return


class _Places:
    """Partitions of a topic from some offset on."""

    commits = False

    def __init__(
        self, consumer: "Consumer", places: Sequence[TopicPartition], start: tuple[str, int], bootstrap: str
    ) -> None:
        self._consumer = consumer
        self.ends = consumer.end_offsets(places)
        """Where the partitions end now."""
        begins = consumer.beginning_offsets(places)
        kind, value = start
        starts = {"earliest": begins, "latest": self.ends}.get(kind) or dict.fromkeys(places, value)
        if kind == "time":
            found = consumer.offsets_for_times(dict.fromkeys(places, value))
            starts = {where: self.ends[where] if at is None else at.offset for where, at in found.items()}
        consumer.assign(places)
        for where, offset in starts.items():
            if not begins[where] <= offset <= self.ends[where]:
                is_early = offset < begins[where]
                limit = f"begins at {begins[where]}" if is_early else f"ends at {self.ends[where]}"
                raise OffsetOutOfRangeException(
                    f"{where} at {bootstrap} has no offset {offset}: it {limit}; ask for earliest or latest"
                )
            consumer.seek(where, offset)

    def is_over(self) -> bool:
        """Whether everything was handed out that there was."""
        return all(self._consumer.position(where) >= end for where, end in self.ends.items())

    def printed(self, record: "ConsumerRecord") -> None:
        """Nothing to remember."""

    def all_printed(self, partitions: Iterable[TopicPartition]) -> None:
        """Nothing to remember."""

    def end(self) -> None:
        """Nothing to commit."""


class _Member:
    """The records a group gives; printed ones are committed."""

    commits = True

    def __init__(self, consumer: "Consumer", topic: str) -> None:
        self._consumer = consumer
        self.ends: dict[TopicPartition, int] = {}
        """Where partitions ended when the group gave them."""
        self._is_joined = False
        self._done: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._interval_s = int(consumer.config["auto.commit.interval.ms"]) / 1000
        self._commit_at = 0.0
        consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._forget)

    def is_over(self) -> bool:
        """Whether everything was handed out that there was when the group gave it."""
        return self._is_joined and all(
            where in self.ends and self._consumer.position(where) >= self.ends[where]
            for where in self._consumer.assignment()
        )

    def printed(self, record: "ConsumerRecord") -> None:
        """This may be committed."""
        self._done[record.topic_partition] = record.offset + 1

    def all_printed(self, partitions: Iterable[TopicPartition]) -> None:
        """So may what is hidden behind the last record of these; from time to time it is."""
        for where in partitions:
            self._done[where] = self._consumer.position(where)
        now = monotonic()
        if now >= self._commit_at:
            self._commit_at = now + self._interval_s
            if news := self._news(self._done):
                self._committed |= news
                self._consumer.commit_async(news)

    def end(self) -> None:
        """Commit."""
        self._commit(self._done)

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.ends |= self._consumer.end_offsets(partitions)
        self._is_joined = True

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._commit(partitions)
        self._forget(partitions)

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            for kept in (self.ends, self._done, self._committed):
                kept.pop(where, None)

    def _news(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {
            where: self._done[where]
            for where in partitions
            if where in self._done and self._done[where] != self._committed.get(where)
        }

    def _commit(self, partitions: Iterable[TopicPartition]) -> None:
        news = {where: self._done[where] for where in partitions if where in self._done}
        if not news:
            return
        try:
            self._consumer.commit(news, timeout_ms=_COMMIT_MS)
        except KafkaException as error:
            click.echo(f"semel: what was printed last is not committed: {error}", err=True)


class _Printer:
    """Writes records to a stream."""

    def __init__(self, stream: BinaryIO, output: str, key_separator: str | None) -> None:
        self._stream = stream
        self.output = output
        self._separator = None if key_separator is None else key_separator.encode()

    def show(self, record: "ConsumerRecord") -> None:
        key, value = _bytes(record.key), _bytes(record.value)
        if self.output == "json":
            document: dict[str, Json] = {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                **_text("key", key),
                **_text("value", value),
                "headers": [{"name": name, **_text("value", value)} for name, value in record.headers],
            }
            self.line(json.dumps(document, ensure_ascii=False).encode())
        elif self.output == "table":
            place = f"{record.partition}  {record.offset}  {time_text(record.timestamp) or '-'}  "
            self.line(place.encode() + _shown(key) + b"  " + _shown(value))
        elif self._separator is None:
            self.line(value or b"")
        else:
            self.line((key or b"") + self._separator + (value or b""))

    def line(self, data: bytes) -> None:
        self._stream.write(data + b"\n")

    def flush(self) -> None:
        self._stream.flush()


def _bytes(content: object) -> bytes | None:
    """A deserialized key or value as text; without a deserializer it is bytes already."""
    return content if content is None or isinstance(content, bytes) else str(content).encode()


def _shown(data: bytes | None) -> bytes:
    return b"null" if data is None else data


def _text(name: str, data: bytes | None) -> dict[str, Json]:
    """The bytes as text; as base64, under another name, where they are none."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}
