"""`semel produce`: lines of standard input, or the rows of a file, become records, each stored once.

Flow.   whatever standard input has at a moment is given to the public producer and waited for: a file goes in large batches, a
        person's line at once. With `--input` the rows of `record_rows` and `record_files` go through `send_arrow`, no object per record.
Rules.  * With a transactional id, lines that come together are committed together; a file of columns is one transaction.
        * A mistake names the file, the row and the column, and says how many rows before it are stored.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple, cast

import click

from semel.cli.contents import Contents
from semel.cli.lines import line_groups
from semel.cli.names import complete_topics
from semel.cli.options import connection_options, output_option, partitions_of
from semel.cli.output import CSV as CSV_OUTPUT
from semel.cli.output import FOR_PEOPLE, Column, show, show_document
from semel.cli.progress import Progress
from semel.cli.record_files import ARROW, CSV, PARQUET, format_of
from semel.cli.schema_options import encoding, schema_options
from semel.errors import InvalidRecordError, SemelError
from semel.insight.sentences import several

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.client.producer.future import ArrowFuture
    from semel.client.sync.producer import Producer

_SENDS_MAX: Final = 16
"""So many pieces of a file are under way at most."""
_PATIENCE: Final = {"max.block.ms": "10000"}  # A person is waiting: Kafka's default is a minute.
_JSONL: Final = "jsonl"
_INPUTS: Final = (_JSONL, CSV, PARQUET, ARROW)
_RUNS: Final = (
    Column("PARTITION", "partition"),
    Column("RECORDS", "records"),
    Column("BASE OFFSET", "base_offset"),
)

Header = tuple[str, bytes | None]


class Stored(NamedTuple):
    """A run of offsets; `base_offset` is -1 where nobody says it (acks=0)."""

    partition: int
    base_offset: int
    records: int


class Lines(NamedTuple):
    """How a line becomes a record."""

    key_separator: str | None
    key: str | None
    """The key of all records."""
    headers: tuple[Header, ...]
    tombstones: bool
    """Whether an empty value is none."""


def _headers(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> tuple[Header, ...]:
    found = []
    for given in values:
        name, equals, value = given.partition("=")
        if not name:
            raise click.BadParameter(f"{given!r} is not NAME=VALUE.")
        found.append((name, value.encode() if equals else None))
    return tuple(found)


@click.command(
    name="produce",
    epilog="Example: semel produce orders --key-separator : -H source=shop < lines.txt",
)
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", required=False, type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--input",
    "kind",
    type=click.Choice(_INPUTS),
    help="FILE, or standard input, has rows with the columns key, value, timestamp, headers and partition, as consume writes them.  "
    "[default: what FILE ends with, or lines]",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="COLUMN",
    help="With --input: pass over this column; may be repeated.",
)
@click.option(
    "--key-separator",
    metavar="TEXT",
    help="What stands between key and value; without it a line is a value.",
)
@click.option("-k", "--key", metavar="TEXT", help="The key of every line.")
@click.option(
    "-H",
    "--header",
    "headers",
    multiple=True,
    metavar="NAME=VALUE",
    callback=_headers,
    help="A header of every line; without '=' its value is null. May be repeated.",
)
@click.option(
    "-Z", "--tombstone", "tombstones", is_flag=True, help="A line with an empty value is a tombstone."
)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Write to this partition only.")
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Only all promises anything: each record stored, once, in order.",
)
@schema_options
@connection_options
@output_option
def command(
    topic: str,
    file: str | None,
    kind: str | None,
    ignored: tuple[str, ...],
    key_separator: str | None,
    key: str | None,
    headers: tuple[Header, ...],
    tombstones: bool,
    partition: int | None,
    acks: str,
    schema: str | None,
    message: str | None,
    registry: str | None,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Write the lines of standard input, or of FILE, to TOPIC; with --input the rows of a file of records.

    A retry after a lost answer never stores a record twice. With -X transactional.id=NAME, lines that come together are
    committed together, and so is all of a file that --input reads.
    """
    from semel.cli.record_rows import rows
    from semel.client.sync.producer import Producer

    if key_separator == "":
        raise click.BadParameter("it must not be empty.", param_hint="--key-separator")
    if key is not None and key_separator is not None:
        raise click.UsageError(
            "--key is the key of every line and --key-separator finds one in it: keep one."
        )
    if settings.get("acks", acks) != acks:
        raise click.UsageError(f"--acks {acks} and -X acks={settings['acks']} name one thing: keep one.")
    kind = kind or format_of(file)
    lines = Lines(key_separator, key, headers, tombstones)
    if kind is not None and (lines != Lines(None, None, (), False) or partition is not None):
        raise click.UsageError(
            "--input has keys, headers, nulls and partitions in its columns: leave --key, --key-separator, --header, --tombstone "
            "and --partition out."
        )
    if kind is None and ignored:
        raise click.UsageError("--ignore passes over columns of --input, and lines have none.")
    contents = encoding(schema, message, registry, topic)
    partitions = partitions_of(topic, bootstrap, settings, partition, create=True)
    given = {"bootstrap.servers": bootstrap, **_PATIENCE, **settings, "acks": acks}
    stored: list[Stored] = []
    with Producer(given) as producer:
        if producer.config["transactional.id"] is not None:
            producer.init_transactions()
        if kind is None:
            with click.open_file(file or "-", "rb") as stream:
                for group in line_groups(cast("BinaryIO", stream)):
                    _send_lines(
                        producer,
                        topic,
                        list(_records(topic, group, lines, settings, contents)),
                        partition,
                        stored,
                    )
        else:
            found = rows(kind, file or "-", ignored, topic, len(partitions), contents)
            _send_rows(producer, topic, file or "-", found, stored)
    _report(topic, stored, acks, output)


def _transaction(producer: "Producer") -> "AbstractContextManager[object]":
    """A transaction, if the producer has an id for one."""
    return nullcontext() if producer.config["transactional.id"] is None else producer.transaction()


def _send_lines(
    producer: "Producer",
    topic: str,
    records: "list[tuple[bytes | str | None, bytes | str | None, tuple[Header, ...]]]",
    partition: int | None,
    stored: list[Stored],
) -> None:
    with _transaction(producer):
        sent = [
            producer.send(topic, value, key, partition, headers=headers) for key, value, headers in records
        ]
        producer.flush()
    for one in sent:
        place = one.result()
        _add(stored, place.partition, place.offset, 1)


def _send_rows(
    producer: "Producer",
    topic: str,
    file: str,
    found: "Iterator[pa.RecordBatch]",
    stored: list[Stored],
) -> None:
    """The rows of a file; those before a mistake are stored, unless a transaction holds them all."""
    sends: deque[ArrowFuture] = deque()

    def settle(most: int) -> None:
        while len(sends) > most:
            for run in sends.popleft().result():
                _add(stored, run.partition, run.base_offset, run.records)

    count = 0
    with Progress() as progress:
        try:
            with _transaction(producer):
                for rows in found:
                    sends.append(_given(producer, topic, rows, file, count))
                    count += rows.num_rows
                    settle(_SENDS_MAX)
                    progress.show(f"{count:,} rows")
                producer.flush()
                settle(0)
        except SemelError as error:
            if producer.config["transactional.id"] is not None:
                raise InvalidRecordError(f"{error}; nothing of it is committed") from error
            producer.flush()
            settle(0)
            total = sum(one.records for one in stored)
            left = (
                f"{several(total, 'row')} before it {'is' if total == 1 else 'are'}"
                if total
                else "nothing is"
            )
            raise InvalidRecordError(f"{error}; {left} stored") from error


def _given(
    producer: "Producer", topic: str, rows: "pa.RecordBatch", file: str, rows_before: int
) -> "ArrowFuture":
    try:
        return producer.send_arrow(topic, rows)
    except SemelError as error:
        name = "standard input" if file == "-" else file
        last = rows_before + rows.num_rows
        raise InvalidRecordError(f"{name}, records {rows_before + 1} to {last}: {error}") from error


def _records(
    topic: str, lines: Iterable[bytes], how: Lines, settings: Mapping[str, str], contents: Contents
) -> "Iterator[tuple[bytes | str | None, bytes | str | None, tuple[Header, ...]]]":
    """Keys, values and headers: bytes, or text where a serializer asks for it."""
    key_as, value_as = (
        bytes.decode if settings.get(f"{one}.serializer", "").endswith("StringSerializer") else bytes
        for one in ("key", "value")
    )
    separator = None if how.key_separator is None else how.key_separator.encode()
    fixed = None if how.key is None else key_as(contents.stored(topic, True, how.key))
    for line in lines:
        key, value = fixed, line
        if separator is not None:
            begin, found, value = line.partition(separator)
            if not found:
                shown = line[:60].decode(errors="replace")
                raise InvalidRecordError(
                    f"the line {shown!r} has no {how.key_separator!r} between key and value (--key-separator); "
                    "the lines before it are stored as far as they were sent"
                )
            key = key_as(contents.stored(topic, True, begin))
        is_tombstone = how.tombstones and not value
        yield key, None if is_tombstone else value_as(contents.stored(topic, False, value)), how.headers


def _add(stored: list[Stored], partition: int, offset: int, count: int) -> None:
    """Keep one entry per run of offsets."""
    for at, one in enumerate(stored):
        if one.partition == partition and (one.base_offset < 0 or one.base_offset + one.records == offset):
            stored[at] = one._replace(records=one.records + count)
            return
    stored.append(Stored(partition, offset, count))


def _report(topic: str, stored: list[Stored], acks: str, output: str) -> None:
    stored.sort()
    total = sum(one.records for one in stored)
    runs = [
        {
            "partition": one.partition,
            "records": one.records,
            "base_offset": None if one.base_offset < 0 else one.base_offset,
        }
        for one in stored
    ]
    if output == CSV_OUTPUT:
        show(output, runs, _RUNS)
        return
    if output not in FOR_PEOPLE:
        show_document(output, {"topic": topic, "records": total, "partitions": runs})
        return
    verb = "sent to" if acks == "0" else "stored in"
    click.echo(f"{several(total, 'record')} {verb} {topic}")
    for one in stored:
        if one.base_offset >= 0:
            last = one.base_offset + one.records - 1
            click.echo(f"  partition {one.partition}: offsets {one.base_offset} to {last}")
