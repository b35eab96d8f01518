"""`semel topics trim`: delete the records before an offset or a time, for good.

Rules.  * Without `--execute` nothing is deleted, as with `offsets reset`: the plan is printed, with the command that carries it out.
        * A partition that begins there already, or later, stays as it is.
        * An offset beyond a partition's end is refused: what does not exist cannot be meant.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from semel.cli.names import complete_topics
from semel.cli.offset_plans import PlanCommand, execution, execution_options
from semel.cli.options import connected, connection_options, output_option, reach_of
from semel.cli.output import Column, show
from semel.cli.ranges import Kind, Point, resolved, until
from semel.insight.sentences import several
from semel.types import UNKNOWN_OFFSET, TopicPartition

if TYPE_CHECKING:
    from semel.client.cluster import Cluster

_COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM", "start_offset"),
    Column("TO", "new_start_offset"),
    Column("OFFSETS", "offsets"),
    Column("ENDS AT", "end_offset", wide=True),
)


def _before(_ctx: click.Context, _param: click.Parameter, value: str) -> Point:
    return until(value)


@click.command(
    name="trim",
    cls=PlanCommand,
    epilog="Example: semel topics trim orders --before @2026-01-31T12:00:00Z --execute",
)
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--before",
    required=True,
    callback=_before,
    metavar="N|@TIME|latest",
    help="Records before this offset or time go; latest: all that there are now. A time is in milliseconds since 1970 or ISO 8601, "
    "without a zone UTC.",
)
@click.option(
    "--partition",
    "chosen",
    type=click.IntRange(0),
    multiple=True,
    metavar="N",
    help="Only of this partition; may be repeated.",
)
@execution_options
@connection_options
@output_option
def trim(
    topic: str,
    before: Point,
    chosen: Sequence[int],
    execute: bool,
    bootstrap: str,
    settings: dict[str, str],
    output: str,
) -> None:
    """Delete the records of TOPIC before an offset or a time.

    Prints the plan and deletes nothing; with --execute it carries the plan out. Deleted records are gone for every reader. The last
    column of the plan counts offsets: markers of transactions are among them, and what compaction removed.
    """
    with connected(bootstrap, settings) as client:
        rows = client.run(_plan, topic, before, sorted(set(chosen)))
    steps = [one for one in rows if one["offsets"] > 0]
    if execute and steps:
        _delete(bootstrap, settings, steps)
    show(output, rows, _COLUMNS)
    offsets = several(sum(one["offsets"] for one in steps), "offset")
    if not steps:
        click.echo(f"{topic} has nothing to delete there", err=True)
    elif execute:
        click.echo(f"done: {offsets} of {topic} deleted", err=True)
    else:
        click.echo(
            f"a plan, nothing is deleted; to delete {offsets} of {topic}: {execution('topics')}", err=True
        )


async def _plan(cluster: "Cluster", topic: str, before: Point, chosen: Sequence[int]) -> list[dict[str, Any]]:
    from semel.client.calls.list_offsets import EARLIEST, LATEST, all_found, list_offsets, offsets_at

    count = len((await cluster.topic(topic)).partitions)
    if beyond := [one for one in chosen if one >= count]:
        raise click.BadParameter(
            f"{topic} has the partitions 0 to {count - 1}, not {beyond[0]}.", param_hint="--partition"
        )
    places = [TopicPartition(topic, index) for index in chosen or range(count)]
    # What is deleted may lie in an open transaction: the end is that of the log, not of committed records.
    level = "read_uncommitted"
    begins = await offsets_at(cluster, dict.fromkeys(places, EARLIEST), isolation_level=level)
    ends = await offsets_at(cluster, dict.fromkeys(places, LATEST), isolation_level=level)
    at_time: Mapping[TopicPartition, int] = {}
    if before.kind is Kind.TIME:
        found = all_found(
            await list_offsets(cluster, dict.fromkeys(places, before.value), isolation_level=level)
        )
        at_time = {where: one.offset for where, one in found.items() if one.offset != UNKNOWN_OFFSET}
    rows = []
    for where in places:
        to = resolved(before, begins[where], ends[where], at_time.get(where))
        if to > ends[where]:
            raise click.BadParameter(
                f"{where} ends at {ends[where]}: there is nothing at {to}; choose partitions with --partition, or write latest.",
                param_hint="--before",
            )
        to = max(to, begins[where])
        rows.append(
            {
                "topic": topic,
                "partition": where.partition,
                "start_offset": begins[where],
                "new_start_offset": to,
                "offsets": to - begins[where],
                "end_offset": ends[where],
            }
        )
    return rows


def _delete(bootstrap: str, settings: Mapping[str, str], steps: Sequence[Mapping[str, Any]]) -> None:
    """Carry the plan out."""
    from semel.client.sync.admin import Admin

    wanted = {TopicPartition(one["topic"], one["partition"]): one["new_start_offset"] for one in steps}
    with Admin({"bootstrap.servers": bootstrap, **reach_of(settings)}) as admin:
        admin.delete_records(wanted)
