"""`semel produce`: lines from standard input become records, each stored once.

Flow.   whatever standard input has at a moment is given to the public producer and waited for: a file goes in large batches, a
        person's line at once.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext
from typing import BinaryIO, Final, NamedTuple

import click

from semel.cli.options import connection_options, output_option, partitions_of
from semel.cli.output import print_json
from semel.errors import InvalidRecordError

_CHUNK_BYTES: Final = 4 * 1024 * 1024
_LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_PATIENCE: Final = {"max.block.ms": "10000"}  # A person is waiting: Kafka's default is a minute.


class Stored(NamedTuple):
    """A run of offsets; `base_offset` is -1 where nobody says it (acks=0)."""

    partition: int
    base_offset: int
    records: int


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

    A retry after a lost answer never stores a record twice. With -X transactional.id=NAME, lines that come together are
    committed together.
    """
    from semel.client.sync.producer import Producer

    if key_separator == "":
        raise click.BadParameter("it must not be empty.", param_hint="--key-separator")
    if settings.get("acks", acks) != acks:
        raise click.UsageError(f"--acks {acks} and -X acks={settings['acks']} name one thing: keep one.")
    partitions_of(topic, bootstrap, settings, partition, create=True)
    stored: list[Stored] = []
    given = {"bootstrap.servers": bootstrap, **_PATIENCE, **settings, "acks": acks}
    with Producer(given) as producer:
        is_transactional = producer.config["transactional.id"] is not None
        if is_transactional:
            producer.init_transactions()
        for lines in line_groups(sys.stdin.buffer):
            records = list(_records(lines, key_separator, settings))
            with producer.transaction() if is_transactional else nullcontext():
                sent = [producer.send(topic, value, key, partition) for key, value in records]
                producer.flush()
            for one in sent:
                place = one.result()
                _add(stored, place.partition, place.offset)
    _report(topic, stored, acks, output)


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


def _records(
    lines: Iterable[bytes], key_separator: str | None, settings: Mapping[str, str]
) -> Iterator[tuple[bytes | str | None, bytes | str]]:
    """Keys and values: bytes, or text where a serializer asks for it."""
    key_as, value_as = (
        bytes.decode if settings.get(f"{one}.serializer", "").endswith("StringSerializer") else bytes
        for one in ("key", "value")
    )
    separator = None if key_separator is None else key_separator.encode()
    for line in lines:
        if separator is None:
            yield None, value_as(line)
            continue
        key, found, value = line.partition(separator)
        if not found:
            shown = line[:60].decode(errors="replace")
            raise InvalidRecordError(
                f"the line {shown!r} has no {key_separator!r} between key and value (--key-separator); "
                "the lines before it are stored as far as they were sent"
            )
        yield key_as(key), value_as(value)


def _add(stored: list[Stored], partition: int, offset: int) -> None:
    """Keep one entry per run of offsets."""
    for at, one in enumerate(stored):
        if one.partition == partition and (one.base_offset < 0 or one.base_offset + one.records == offset):
            stored[at] = one._replace(records=one.records + 1)
            return
    stored.append(Stored(partition, offset, 1))


def _report(topic: str, stored: list[Stored], acks: str, output: str) -> None:
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
