"""`semel offsets`: what groups have committed: show, reset, delete, export, import.

Rules.  `reset` and `import` print a plan and change nothing without `--execute`; `delete` acts at once, as Kafka's tool does.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from semel.cli import offset_files
from semel.cli.names import complete_groups, complete_topics
from semel.cli.offset_plans import PlanCommand, carry_out, execution_options, print_plan
from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import Column
from semel.cli.output import show as print_rows
from semel.cli.times import OFFSET_MAX, duration_ms, timestamp_ms

if TYPE_CHECKING:
    from semel.client.cluster import Cluster
    from semel.client.values.consuming import OffsetAndMetadata
    from semel.core.groups.resetting import Target
    from semel.insight.lag import PartitionLag
    from semel.types import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])
_SHOWN: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("COMMITTED", "offset"),
    Column("END", "end_offset"),
    Column("LAG", "lag"),
    Column("EPOCH", "leader_epoch", wide=True),
    Column("METADATA", lambda row: row["metadata"] or None),
)


class Selected(NamedTuple):
    """A topic and some of its partitions, or all (None)."""

    topic: str
    partitions: tuple[int, ...] | None

    def has(self, partition: "TopicPartition") -> bool:
        is_among = self.partitions is None or partition.partition in self.partitions
        return self.topic == partition.topic and is_among


@click.group(name="offsets", epilog="Example: semel offsets reset orders-app --all-topics --to earliest")
def command() -> None:
    """See, reset, delete, export and import the offsets of groups."""


def _selected(_ctx: click.Context, _param: click.Parameter, values: Sequence[str]) -> list[Selected]:
    """TOPIC or TOPIC:0,1,2; a topic's name has no colon."""
    found = []
    for value in values:
        topic, colon, listed = value.partition(":")
        indexes = listed.split(",") if colon else []
        if not topic or not all(one.isdecimal() for one in indexes):
            raise click.BadParameter(f"{value!r} is neither TOPIC nor TOPIC:PARTITION[,PARTITION…].")
        found.append(Selected(topic, tuple(map(int, indexes)) if colon else None))
    return found


def topic_option(command: F) -> F:
    """`--topic T[:0,1]`, repeated."""
    return click.option(
        "--topic",
        "topics",
        multiple=True,
        callback=_selected,
        shell_complete=complete_topics,
        metavar="TOPIC[:N,…]",
        help="A topic, or some partitions of it; may be repeated.",
    )(command)


@command.command(epilog="Example: semel offsets show orders-app --topic orders -o json")
@click.argument("group", shell_complete=complete_groups)
@topic_option
@connection_options
@output_option
def show(group: str, topics: list[Selected], bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Print what a group has committed, with the end of each partition and the lag."""
    with connected(bootstrap, settings) as client:
        lags = client.run(_lags, group, topics)
    rows = [
        {
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "offset": one.committed.offset,
            "leader_epoch": one.committed.leader_epoch,
            "metadata": one.committed.metadata,
            "end_offset": one.end_offset,
            "lag": one.lag,
        }
        for one in lags
        if one.committed is not None
    ]
    print_rows(output, rows, _SHOWN)


async def _lags(cluster: "Cluster", group: str, topics: Sequence[Selected]) -> "list[PartitionLag]":
    from semel.insight.lag import lag

    return await lag(cluster, await _committed(cluster, group, topics))


async def _committed(
    cluster: "Cluster", group: str, topics: Sequence[Selected]
) -> "dict[TopicPartition, OffsetAndMetadata]":
    """The offsets the group has committed of these topics, or of all if none is named; the group must exist."""
    from semel.client.calls.describe_group import describe_group
    from semel.client.calls.offset_fetch import committed_offsets

    await describe_group(cluster, group)
    committed = await committed_offsets(cluster, group)
    return {
        where: one
        for where, one in committed.items()
        if not topics or any(selected.has(where) for selected in topics)
    }


# Reset


def _to(_ctx: click.Context, _param: click.Parameter, value: str | None) -> "Target | None":
    from semel.core.groups.resetting import Kind, Target

    if value is None:
        return None
    if value in (Kind.EARLIEST, Kind.LATEST, Kind.CURRENT):
        return Target(Kind(value))
    if value.isdecimal() and int(value) <= OFFSET_MAX:
        return Target(Kind.OFFSET, int(value))
    if value.startswith("@"):
        return Target(Kind.TIME, timestamp_ms(value[1:]))
    raise click.BadParameter(f"{value!r} is neither earliest, latest, current, an offset nor @TIME.")


def _ago(_ctx: click.Context, _param: click.Parameter, value: str | None) -> "Target | None":
    from semel.core.groups.resetting import Kind, Target

    if value is None:
        return None
    return Target(Kind.TIME, max(0, time.time_ns() // 1_000_000 - duration_ms(value)))


def _shift(_ctx: click.Context, _param: click.Parameter, value: int | None) -> "Target | None":
    from semel.core.groups.resetting import Kind, Target

    return None if value is None else Target(Kind.SHIFT, value)


@command.command(
    cls=PlanCommand,
    epilog="Example: semel offsets reset orders-app --topic orders:0,1 --to @2026-01-31T12:00:00Z --execute",
)
@click.argument("group", shell_complete=complete_groups)
@topic_option
@click.option("--all-topics", is_flag=True, help="Every topic the group has offsets of.")
@click.option(
    "--to",
    callback=_to,
    metavar="earliest|latest|current|N|@TIME",
    help="Where to; a time is in milliseconds since 1970 or ISO 8601, without a zone UTC.",
)
@click.option(
    "--shift-by", "shift", type=int, callback=_shift, metavar="N", help="So many records on, or back with -N."
)
@click.option(
    "--by-duration",
    "ago",
    callback=_ago,
    metavar="DURATION",
    help="As far back as this: 90m, 12h, 7d, or ISO 8601 as PT1H30M.",
)
@execution_options
@connection_options
@output_option
def reset(
    group: str,
    topics: list[Selected],
    all_topics: bool,
    to: "Target | None",
    shift: "Target | None",
    ago: "Target | None",
    execute: bool,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Set a group's offsets to the beginning, the end, a time, an offset, or so many records on.

    Prints the plan and changes nothing; with --execute it carries the plan out.
    The group must have no members: they would go on from where they are. An offset outside the log becomes the nearest one
    inside. A group that does not exist yet is made, so that its first members begin there.
    """
    chosen = [one for one in (to, shift, ago) if one is not None]
    if len(chosen) != 1:
        raise click.UsageError("Say where to with one of --to, --shift-by and --by-duration.")
    if all_topics == bool(topics):
        raise click.UsageError("Name topics with --topic, or take --all-topics.")

    async def targets(cluster: "Cluster") -> "dict[TopicPartition, Target]":
        if all_topics:
            known = {where.topic for where in await _committed(cluster, group, [])}
            wanted = [Selected(topic, None) for topic in sorted(known)]
        else:
            wanted = topics
        return dict.fromkeys(await _partitions(cluster, wanted), chosen[0])

    with connected(bootstrap, settings) as client:
        steps = client.run(carry_out, group, targets, execute=execute)
    print_plan(group, steps, output, executed=execute)


async def _partitions(cluster: "Cluster", topics: Sequence[Selected]) -> "list[TopicPartition]":
    from semel.types import TopicPartition

    found: list[TopicPartition] = []
    for selected in topics:
        count = len((await cluster.topic(selected.topic)).partitions)
        indexes = range(count) if selected.partitions is None else selected.partitions
        if beyond := [index for index in indexes if index >= count]:
            raise click.BadParameter(
                f"{selected.topic} has the partitions 0 to {count - 1}, not {beyond[0]}.",
                param_hint="--topic",
            )
        found += [TopicPartition(selected.topic, index) for index in indexes]
    return found


# Delete


@command.command(epilog="Example: semel offsets delete orders-app --topic orders")
@click.argument("group", shell_complete=complete_groups)
@topic_option
@connection_options
def delete(group: str, topics: list[Selected], bootstrap: str, settings: dict[str, str]) -> None:
    """Forget what a group has committed for topics its members are not subscribed to."""
    if not topics:
        raise click.UsageError("Name topics with --topic; 'semel groups delete' forgets all of a group.")
    with connected(bootstrap, settings) as client:
        deleted = client.run(_delete, group, topics)
    for where in deleted:
        click.echo(f"deleted the offset of {group} in {where}")


async def _delete(cluster: "Cluster", group: str, topics: Sequence[Selected]) -> "list[TopicPartition]":
    from semel.client.calls.offset_delete import delete_offsets
    from semel.errors import ErrorCode, RefusedError

    committed = await _committed(cluster, group, topics)
    for selected in topics:
        if not any(selected.has(where) for where in committed):
            raise RefusedError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"group {group} at {cluster.where} has no offsets of {selected.topic}: "
                f"see 'semel offsets show {group}'",
            )
    await delete_offsets(cluster, group, committed)
    return list(committed)


# Files


@command.command(epilog="Example: semel offsets export orders-app > orders-app.csv")
@click.argument("group", shell_complete=complete_groups)
@topic_option
@click.option(
    "-o",
    "--output",
    "file_format",
    type=click.Choice(["csv", "json"]),
    default="csv",
    show_default=True,
    help="CSV is what Kafka's own tool exports and takes.",
)
@click.option(
    "--with-group", is_flag=True, help="The group's name in each row, as Kafka does for several groups."
)
@connection_options
def export(
    group: str,
    topics: list[Selected],
    file_format: str,
    with_group: bool,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """Write a group's offsets to standard output, to keep them or to give them to another group."""
    with connected(bootstrap, settings) as client:
        committed = client.run(_committed, group, topics)
    offsets = {where: one.offset for where, one in committed.items()}
    text = offset_files.write(offsets, file_format=file_format, group=group if with_group else None)
    click.echo(text, nl=False)


@command.command(
    name="import",
    cls=PlanCommand,
    epilog="Example: semel offsets import orders-app orders-app.csv --execute",
)
@click.argument("group", shell_complete=complete_groups)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@execution_options
@connection_options
@output_option
def import_(
    group: str, file: str, execute: bool, bootstrap: str, settings: dict[str, str], output: str
) -> None:
    """Set a group's offsets to those in FILE ('-': standard input): CSV or JSON, by Semel or Kafka.

    Prints the plan and changes nothing; with --execute it carries the plan out.
    Rows that name another group are left out. The group must have no members.
    """
    with click.open_file(file, encoding="utf-8") as stream:
        content = stream.read()
    offsets = offset_files.read(content, name="standard input" if file == "-" else file, group=group)

    async def targets(cluster: "Cluster") -> "dict[TopicPartition, Target]":
        from semel.core.groups.resetting import Kind, Target

        by_topic: dict[str, list[int]] = {}
        for where in offsets:
            by_topic.setdefault(where.topic, []).append(where.partition)
        await _partitions(cluster, [Selected(topic, tuple(indexes)) for topic, indexes in by_topic.items()])
        return {where: Target(Kind.OFFSET, offset) for where, offset in offsets.items()}

    with connected(bootstrap, settings) as client:
        steps = client.run(carry_out, group, targets, execute=execute)
    print_plan(group, steps, output, executed=execute)
