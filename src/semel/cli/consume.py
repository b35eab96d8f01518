"""`semel consume`: a topic's records on standard output."""

import base64
import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, BinaryIO

import click

from semel.cli.options import connected, connection_options
from semel.cli.output import Json, time_text
from semel.cli.times import OFFSET_MAX, timestamp_ms

if TYPE_CHECKING:
    from semel.client.cluster import Cluster, TopicView
    from semel.client.group_reader import GroupReader
    from semel.client.reader import Fetched


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
    help="Where to begin; a time is in milliseconds since 1970 or ISO 8601.",
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
    With --group the partitions are shared with the group's other members, and --offset is where those begin that nothing is
    committed for.
    """
    if group is not None and (partition is not None or start[0] not in ("earliest", "latest")):
        raise click.UsageError(
            "With --group the group decides what is read: leave --partition out, and --offset is earliest or latest."
        )
    printer = _Printer(sys.stdout.buffer, output, key_separator)
    member: GroupReader | None = None

    async def read_all(cluster: "Cluster") -> None:
        from semel.client import reader
        from semel.client.group_reader import GroupReader

        nonlocal member
        view = await cluster.topic(topic)
        if group is None:
            starts = await _starts(cluster, view, partition, start)
            records = reader.read(cluster, view, starts, follow=follow)
        else:
            begins = reader.LATEST if start[0] == "latest" else reader.EARLIEST
            member = GroupReader(cluster, view, group, start=begins)
            records = member.records(follow=follow)
        left = max_messages
        if output == "table":
            printer.line(b"PARTITION  OFFSET  TIME  KEY  VALUE")
        async with aclosing(records):
            async for fetched in records:
                printer.show(topic, fetched)
                if follow or member is not None:
                    printer.flush()  # Somebody is waiting for it, or it is about to be committed.
                if member is not None:
                    member.done(fetched)
                if left is not None and (left := left - 1) == 0:
                    return

    with connected(bootstrap, settings) as client:
        try:
            client.run(read_all)
        except KeyboardInterrupt:
            if member is not None:
                client.run(_left, member)
            if not follow:
                raise
        finally:
            printer.flush()


async def _left(_cluster: "Cluster", member: "GroupReader") -> None:
    """Let an interrupted member commit and leave."""
    await member.has_left.wait()


async def _starts(
    cluster: "Cluster", topic: "TopicView", partition: int | None, start: tuple[str, int]
) -> dict[int, int]:
    from semel.client import reader

    count = len(topic.partitions)
    if partition is not None and partition >= count:
        raise click.BadParameter(
            f"{topic.name} has the partitions 0 to {count - 1}.", param_hint="--partition"
        )
    wanted = list(range(count)) if partition is None else [partition]
    kind, value = start
    if kind == "offset":
        return dict.fromkeys(wanted, value)
    timestamp = {"earliest": reader.EARLIEST, "latest": reader.LATEST}.get(kind, value)
    return await reader.offsets_at(cluster, topic, wanted, timestamp)


class _Printer:
    """Writes records to a stream."""

    def __init__(self, stream: BinaryIO, output: str, key_separator: str | None) -> None:
        self._stream = stream
        self._output = output
        self._separator = None if key_separator is None else key_separator.encode()

    def show(self, topic: str, fetched: "Fetched") -> None:
        record = fetched.record
        if self._output == "json":
            document: dict[str, Json] = {
                "topic": topic,
                "partition": fetched.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                **_text("key", record.key),
                **_text("value", record.value),
                "headers": [{"name": name, **_text("value", value)} for name, value in record.headers],
            }
            self.line(json.dumps(document, ensure_ascii=False).encode())
        elif self._output == "table":
            place = f"{fetched.partition}  {record.offset}  {time_text(record.timestamp_ms) or '-'}  "
            self.line(place.encode() + _shown(record.key) + b"  " + _shown(record.value))
        elif self._separator is None:
            self.line(record.value or b"")
        else:
            self.line((record.key or b"") + self._separator + (record.value or b""))

    def line(self, data: bytes) -> None:
        self._stream.write(data + b"\n")

    def flush(self) -> None:
        self._stream.flush()


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
