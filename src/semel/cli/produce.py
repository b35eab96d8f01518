"""`semel produce`: lines from standard input become records, each stored once.

Flow.   whatever standard input has at a moment is one call of `client.writer`: a file goes in large batches, a person's
        line at once.
"""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import print_json
from semel.errors import InvalidRecordError

if TYPE_CHECKING:
    from semel.client.cluster import Cluster
    from semel.client.writer import Stored, Writer
    from semel.core.records.build import RecordInput

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024


@click.command(
    name="produce",
    epilog="Example: semel produce orders --key-separator : < lines.txt",
)
@click.argument("topic")
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="What stands between key and value; without it a line is a value.",
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Write to this partition only.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Only all promises anything: each record stored, once, in order.",
)
@connection_options
@output_option
def command(
    topic: str,
    key_separator: str | None,
    partition: int | None,
    acks: str,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Write the lines of standard input to TOPIC.

    A retry after a lost answer never stores a record twice.
    """
    from semel.client.writer import Writer

    if key_separator == "":
        raise click.BadParameter("it must not be empty.", param_hint="--key-separator")
    if settings.get("acks", acks) != acks:
        raise click.UsageError(f"--acks {acks} and -X acks={settings['acks']} name one thing: keep one.")

    async def open_writer(cluster: "Cluster") -> Writer:
        view = await cluster.topic(topic, create=True)
        if partition is not None and partition >= len(view.partitions):
            raise click.BadParameter(
                f"{topic} has the partitions 0 to {len(view.partitions) - 1}.", param_hint="--partition"
            )
        return Writer(cluster, view)

    stored: list[Stored] = []
    with connected(bootstrap, {**settings, "acks": acks}) as client:
        writer = client.run(open_writer)
        for lines in line_groups(sys.stdin.buffer):
            records = list(_records(lines, key_separator))
            for one in client.run(_send, writer, records, partition):
                _merge(stored, one)
    _report(topic, stored, acks, output)


async def _send(
    _cluster: "Cluster", writer: "Writer", records: "list[RecordInput]", partition: int | None
) -> "list[Stored]":
    return await writer.send(records, partition=partition)


def line_groups(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines that are there at a time, without their ends; the last one may lack its newline."""
    read = getattr(stream, "read1", stream.read)
    rest = b""
    while chunk := read(_CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LINE_BYTES_MAX:
            raise InvalidRecordError(
                f"a line is longer than {_LINE_BYTES_MAX} bytes: no broker takes such a record"
            )
        if lines:
            yield [line.removesuffix(b"\r") for line in lines]
    if rest:
        yield [rest.removesuffix(b"\r")]


def _records(lines: Iterable[bytes], key_separator: str | None) -> "Iterator[RecordInput]":
    from semel.core.records.build import RecordInput
    from semel.runtime.clock import RealClock

    now_ms = RealClock().now_ms()
    separator = None if key_separator is None else key_separator.encode()
    for line in lines:
        key, value = None, line
        if separator is not None:
            key, found, value = line.partition(separator)
            if not found:
                shown = line[:60].decode(errors="replace")
                raise InvalidRecordError(
                    f"the line {shown!r} has no {key_separator!r} between key and value (--key-separator); "
                    "the lines before it are stored as far as they were sent"
                )
        yield RecordInput(key, value, now_ms)


def _merge(stored: "list[Stored]", new: "Stored") -> None:
    """Keep one entry per run of offsets."""
    for at, one in enumerate(stored):
        if one.partition == new.partition and (
            one.base_offset < 0 or one.base_offset + one.records == new.base_offset
        ):
            stored[at] = one._replace(records=one.records + new.records)
            return
    stored.append(new)


def _report(topic: str, stored: "list[Stored]", acks: str, output: str) -> None:
    stored.sort()
    total = sum(one.records for one in stored)
    if output == "json":
        print_json(
            {
                "topic": topic,
                "records": total,
                "partitions": [
                    {
                        "partition": one.partition,
                        "records": one.records,
                        "base_offset": None if one.base_offset < 0 else one.base_offset,
                    }
                    for one in stored
                ],
            }
        )
        return
    verb = "sent to" if acks == "0" else "stored in"
    click.echo(f"{total} {'record' if total == 1 else 'records'} {verb} {topic}")
    for one in stored:
        if one.base_offset >= 0:
            last = one.base_offset + one.records - 1
            click.echo(f"  partition {one.partition}: offsets {one.base_offset} to {last}")
