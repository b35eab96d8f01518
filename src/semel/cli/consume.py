"""`semel consume`: a topic's records on standard output, or in a file.

Flow.   `reading` says what the public consumer reads and when that is all. `record_printers` prints records one by one;
        `record_files` writes columns, for which no object is made per record. In a group what was printed is committed.
Rules.  * `-o` is the format of the output, as everywhere; `-f` is the user's own format of a record.
        * Control records are read beside the consumer, which passes over them, and printed at their offsets.
        * A file of Parquet or Arrow is whole only at its end, so a group, which commits on the way, cannot be written to one.
"""

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from semel.cli.names import complete_groups, complete_topics
from semel.cli.options import PATIENCE, connected, connection_options, partitions_of
from semel.cli.output import CSV, JSON, TABLE, WIDE, drop_output
from semel.cli.progress import Progress
from semel.cli.ranges import BEGINNING, Kind, Point, start_and_end, until
from semel.cli.reading import Member, Places
from semel.cli.record_files import ARROW, PARQUET, OutputFile, Sink, format_of
from semel.cli.record_format import compiled
from semel.cli.record_printers import Lines, Printer, printer_for, value_lines
from semel.cli.schema_options import decode_options, decoding
from semel.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from semel.client.calls.fetch_control import ControlRecord
    from semel.client.sync.consumer import Consumer
    from semel.client.values.consuming import ConsumerRecord

_POLL_MS: Final = 500
_JSONL: Final = "jsonl"
_VALUE: Final = "value"
_OUTPUTS: Final = (_VALUE, TABLE, WIDE, JSON, _JSONL, CSV, PARQUET, ARROW)
_OF_COLUMNS: Final = (CSV, PARQUET, ARROW)
_AT_THE_END: Final = (PARQUET, ARROW)
_WITH_CONTROL: Final = (TABLE, WIDE, JSON, _JSONL)

Controls = Callable[[TopicPartition, int, int], "list[ControlRecord]"]
"""The control records of a partition from an offset up to another."""


def _range(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> tuple[Point, Point | None] | None:
    return None if value is None else start_and_end(value)


def _until(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Point | None:
    return None if value is None else until(value)


@click.command(
    name="consume",
    epilog="Example: semel consume orders --offset -10 -f '%p %o %k %v\\n'",
)
@click.argument("topic", shell_complete=complete_topics)
@click.argument("file", required=False, type=click.Path(dir_okay=False))
@click.option("--partition", type=click.IntRange(0), metavar="N", help="Read this partition only.")
@click.option(
    "--offset",
    "wanted",
    callback=_range,
    metavar="earliest|latest|N|-N|@TIME|FROM:TO",
    help="Where to begin; -N is N offsets before the end of each partition, 96:120 ends before 120. A time is in milliseconds since "
    "1970 or ISO 8601, without a zone UTC.  [default: earliest]",
)
@click.option(
    "--until", "end", callback=_until, metavar="N|@TIME", help="Where to end: before this offset or time."
)
@click.option(
    "--group",
    metavar="NAME",
    shell_complete=complete_groups,
    help="Read as a member of this group: go on where it has committed, and commit what was printed.",
)
@click.option("-n", "--max-messages", type=click.IntRange(1), metavar="N", help="End after so many records.")
@click.option("--follow", is_flag=True, help="Wait for more at the end, until Ctrl-C.")
@click.option(
    "-f",
    "--format",
    "text",
    metavar="FORMAT",
    help="A record as text: %t topic, %p partition, %o offset, %k key, %v or %s value, %h headers, %T timestamp in ms, %d the same in "
    "UTC, %e leader epoch, %K and %V sizes; \\n ends a line.",
)
@click.option("--key-separator", metavar="TEXT", help="With values: print the key and this before the value.")
@click.option(
    "--null",
    metavar="TEXT",
    help="With values or --format: stands for a null key or value.  [default: nothing]",
)
@click.option(
    "--control", is_flag=True, help="Also show control records: commits and aborts of transactions."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(_OUTPUTS),
    help="Values as they are, a table, JSON (one array, or a line per record), or columns as CSV, Parquet or Arrow.  [default: "
    "what FILE ends with, or value]",
)
@decode_options
@connection_options
def command(
    topic: str,
    file: str | None,
    partition: int | None,
    wanted: tuple[Point, Point | None] | None,
    end: Point | None,
    group: str | None,
    max_messages: int | None,
    follow: bool,
    text: str | None,
    key_separator: str | None,
    null: str | None,
    control: bool,
    output: str | None,
    decode: str | None,
    registry: str | None,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """Print the records of TOPIC, up to where it ends now. With FILE they are written there.

    Records of open and aborted transactions are not shown: -X isolation.level=read_uncommitted shows them.
    A reader that closes the pipe, as head does, ends the command like --max-messages.
    With --group the partitions are shared with the group's other members, and --offset is where those begin that nothing is
    committed for.
    """
    start, last = wanted or (BEGINNING, None)
    if last is not None and end is not None:
        raise click.UsageError("--offset FROM:TO and --until both say where to end: keep one.")
    end = end or last
    form = output or format_of(file) or _VALUE
    if text is not None and (output is not None or key_separator is not None):
        raise click.UsageError(
            "--format says all of how a record looks: leave --output and --key-separator out."
        )
    if text is not None:
        form = _VALUE
    _check(form, file, start, end, partition, group, follow=follow, control=control)
    if null is not None and form != _VALUE:
        raise click.UsageError(f"--null is for values and --format; -o {form} tells null in its own way.")
    contents = decoding(decode, registry, form)
    fill = None
    if form == _VALUE:
        nothing = (null or "").encode()
        fill = (
            value_lines(contents, key_separator, nothing)
            if text is None
            else compiled(text, contents, nothing)
        )
    elif key_separator is not None:
        raise click.UsageError(f"--key-separator is for values; -o {form} shows keys in its own way.")
    from semel.client.sync.consumer import Consumer

    partitions = partitions_of(topic, bootstrap, settings, partition)
    given: dict[str, str | bool] = {"bootstrap.servers": bootstrap, **PATIENCE}
    reset = "none" if group is None else start.kind.value
    given |= {"auto.offset.reset": reset, "enable.auto.commit": False, **settings}
    if group is not None:
        given |= {"group.id": group, "enable.auto.commit": False}  # Only printed records are committed.
    places = [TopicPartition(topic, index) for index in partitions]
    with contextlib.ExitStack() as stack:
        stream = sys.stdout.buffer if file is None else stack.enter_context(OutputFile(file))
        progress = stack.enter_context(Progress()) if file is not None else None
        controls = stack.enter_context(_controls(bootstrap, settings)) if control else None
        consumer = stack.enter_context(Consumer(given))
        reading: Places | Member
        if group is None:
            reading = Places(consumer, places, start, end, bootstrap, follow=follow)
        else:
            reading = Member(consumer, topic, follow=follow)
        loop = _Loop(consumer, reading, max_messages, follow=follow, progress=progress)
        try:
            if form in _OF_COLUMNS:
                loop.write(Sink(form, stream, is_stream=file is None), stream)
            else:
                printer = printer_for(form, stream, contents) if fill is None else Lines(stream, fill)
                loop.print(printer, controls)
        except BrokenPipeError:
            drop_output()  # The reader has enough. A record that did not reach it is not committed.


def _check(
    form: str,
    file: str | None,
    start: Point,
    end: Point | None,
    partition: int | None,
    group: str | None,
    *,
    follow: bool,
    control: bool,
) -> None:
    """Options that exclude each other."""
    if group is not None:
        if partition is not None or end is not None or start.kind not in (Kind.EARLIEST, Kind.LATEST):
            raise click.UsageError(
                "With --group the group decides what is read: leave --partition and --until out, and --offset is earliest or latest."
            )
        if control:
            raise click.UsageError("Control records belong to no group: leave --group or --control out.")
        if form in _AT_THE_END:
            raise click.UsageError(
                f"A group commits what was printed, and a file of {form} is whole only at its end: leave --group out, or use -o jsonl or csv."
            )
        if file is not None:
            raise click.UsageError(
                "A group commits what was printed, and FILE appears only at the end: leave --group out, or write '> FILE'."
            )
    if control and form not in _WITH_CONTROL:
        raise click.UsageError(f"--control needs -o {', '.join(_WITH_CONTROL[:-1])} or {_WITH_CONTROL[-1]}.")
    if follow and end is not None and end.kind is not Kind.OFFSET:
        raise click.UsageError(
            "With --follow the end is an offset: a time is found only in what is there already."
        )
    if file is None and form in _AT_THE_END and sys.stdout.isatty():
        raise click.UsageError(
            f"-o {form} is nothing for a terminal: name a FILE, or send it through a pipe."
        )


@contextlib.contextmanager
def _controls(bootstrap: str, settings: dict[str, str]) -> Iterator[Controls]:
    from semel.cli.options import reach_of
    from semel.client.calls.fetch_control import control_records

    with connected(bootstrap, reach_of(settings)) as client:
        yield lambda where, start, end: client.run(control_records, where, start, end)


class _Loop:
    """Polls until the reading is over, so many records were printed, or Ctrl-C ended a follow."""

    def __init__(
        self,
        consumer: "Consumer",
        reading: Places | Member,
        max_messages: int | None,
        *,
        follow: bool,
        progress: Progress | None,
    ) -> None:
        self._consumer = consumer
        self._reading = reading
        self._left = max_messages
        self._follow = follow
        self._progress = progress
        self._count = 0

    def print(self, printer: Printer, controls: Controls | None) -> None:
        """Print records; `controls` finds those between them."""
        from semel.client.calls.fetch_control import ControlRecord

        shown = dict(self._reading.starts) if controls and isinstance(self._reading, Places) else {}
        with self._ended(printer.flush):
            while not self._is_over():
                records = self._consumer.poll(_POLL_MS, self._left)
                for record in self._with_controls(records, shown, controls):
                    if isinstance(record, ControlRecord):
                        printer.control(record)
                        continue
                    printer.record(record)
                    self._reading.printed(record)
                    self._counted(1)
                if records and (self._follow or self._reading.commits):
                    printer.flush()  # Somebody is waiting for it, or it is about to be committed.
                self._reading.all_printed(records.partitions())
        printer.end()

    def _with_controls(
        self, records: "Iterable[ConsumerRecord]", shown: dict[TopicPartition, int], controls: Controls | None
    ) -> "Iterator[ConsumerRecord | ControlRecord]":
        """The records that are wanted; with control records, in the order of their offsets in each partition."""
        wants = self._reading.wants
        if controls is None:
            yield from (one for one in records if wants(one.topic_partition, one.offset))
            return
        by_partition: dict[TopicPartition, list[ConsumerRecord | ControlRecord]] = {}
        for one in records:
            if wants(one.topic_partition, one.offset):
                by_partition.setdefault(one.topic_partition, []).append(one)
        for where in self._consumer.assignment():
            position = min(self._consumer.position(where), self._reading.ends[where])
            if position > shown[where]:
                found = by_partition.setdefault(where, [])
                found += controls(where, shown[where], position)
                found.sort(key=lambda one: one.offset)
                shown[where] = position
        for where in sorted(by_partition):
            yield from by_partition[where]

    def write(self, sink: Sink, stream: BinaryIO) -> None:
        """Write columns."""
        with self._ended(stream.flush):
            while not self._is_over():
                polled = self._consumer.poll_arrow(_POLL_MS, self._left)
                if polled.num_rows == 0:
                    continue
                places = _places_of(polled)
                records = self._wanted(polled, places)
                if records.num_rows:
                    sink.write(records)
                self._counted(records.num_rows)
                if self._follow or self._reading.commits:
                    stream.flush()
                self._reading.all_printed(places)
        sink.end()

    def _wanted(self, records: "pa.RecordBatch", places: Sequence[TopicPartition]) -> "pa.RecordBatch":
        """The records before the ends."""
        import pyarrow.compute as pc

        if isinstance(self._reading, Member):
            return records
        wanted = None
        for where in places:
            is_here = pc.equal(records.column("partition"), where.partition)
            is_before = pc.less(records.column("offset"), self._reading.ends[where])
            one = pc.and_(is_here, is_before)
            wanted = one if wanted is None else pc.or_(wanted, one)
        return records.filter(wanted)

    def _is_over(self) -> bool:
        return self._left == 0 or self._reading.is_over()

    def _counted(self, records: int) -> None:
        self._count += records
        if self._left is not None:
            self._left -= records
        if self._progress is not None:
            self._progress.show(lambda: f"{self._count:,} records")

    @contextlib.contextmanager
    def _ended(self, flush: Callable[[], object]) -> Iterator[None]:
        """However it ends, what was printed is seen, and then committed."""
        try:
            try:
                yield
            except KeyboardInterrupt:
                if not self._follow:
                    raise
        finally:
            flush()
            self._reading.end()


def _places_of(records: "pa.RecordBatch") -> list[TopicPartition]:
    """The partitions with records there; a command reads one topic."""
    topic = records.column("topic")[0].as_py()
    return [TopicPartition(topic, index) for index in records.column("partition").unique().to_pylist()]
