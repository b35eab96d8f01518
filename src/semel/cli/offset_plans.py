"""Setting the offsets of a group: a plan is made, shown, and carried out if it is wanted.

Flow.   `semel offsets reset` and `import` say what they want of each partition; the facts are asked for; `core.groups.
        resetting` makes the plan.
Rules.  A group with members is refused, because they would go on from where they are; its plan can be seen all the same.
        What is not as it was asked for is said on standard error.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from semel.cli.output import print_json, print_table

if TYPE_CHECKING:
    from semel.client.cluster import Cluster
    from semel.core.groups.resetting import Facts, Step, Target
    from semel.types import TopicPartition


async def carry_out(
    cluster: "Cluster",
    group: str,
    targets_of: "Callable[[Cluster], Awaitable[Mapping[TopicPartition, Target]]]",
    *,
    dry_run: bool,
) -> "list[Step]":
    """Make a plan and, unless it is wanted only to be seen, commit it."""
    from semel.client import admin_groups, admin_offsets
    from semel.core.groups.resetting import plan
    from semel.errors import ConfigError, ErrorCode, RefusedError

    found = await admin_groups.find_group(cluster, group)
    if found is not None and found.state not in admin_groups.EMPTY_STATES:
        said = (
            f"group {group} at {cluster.where} is {found.state} with {_count(len(found.members))}: "
            "its offsets can be changed only while it has none"
        )
        if not dry_run:
            raise RefusedError(
                ErrorCode.NON_EMPTY_GROUP, f"{said}; stop them first, or see the plan with --dry-run"
            )
        click.echo(said, err=True)
    targets = await targets_of(cluster)
    steps = plan(targets, await _facts(cluster, group, targets))
    stuck = [one.remark for one in steps if one.target is None]
    if stuck:
        raise ConfigError("; ".join(map(str, stuck)))
    for one in steps:
        if one.remark is not None:
            click.echo(one.remark, err=True)
    if not dry_run and steps:
        wanted = {
            one.partition: admin_offsets.Committed(one.target) for one in steps if one.target is not None
        }
        await admin_offsets.alter_offsets(cluster, group, wanted)
    return steps


async def _facts(
    cluster: "Cluster", group: str, targets: "Mapping[TopicPartition, Target]"
) -> "dict[TopicPartition, Facts]":
    from semel.client import admin_offsets
    from semel.client.list_offsets import EARLIEST, LATEST, list_offsets, offsets_at
    from semel.core.groups.resetting import Facts, Kind
    from semel.types import UNKNOWN_OFFSET, TopicPartition

    committed = await admin_offsets.committed_offsets(cluster, group)
    facts: dict[TopicPartition, Facts] = {}
    for topic in dict.fromkeys(one.topic for one in targets):
        view = await cluster.topic(topic)
        indexes = [one.partition for one in targets if one.topic == topic]
        earliest = await offsets_at(cluster, view, indexes, EARLIEST)
        latest = await offsets_at(cluster, view, indexes, LATEST)
        times = {
            one.value for where, one in targets.items() if where.topic == topic and one.kind is Kind.TIME
        }
        at_time: dict[int, int] = {}
        for moment in times:
            answers = await list_offsets(cluster, view, indexes, moment)
            at_time |= {index: one.offset for index, one in answers.items() if one.offset != UNKNOWN_OFFSET}
        for index in indexes:
            where = TopicPartition(topic, index)
            now = committed.get(where)
            facts[where] = Facts(
                earliest[index], latest[index], None if now is None else now.offset, at_time.get(index)
            )
    return facts


def print_plan(steps: "Sequence[Step]", output: str) -> None:
    """The plan, carried out or not."""
    if output == "json":
        print_json(
            [
                {
                    "topic": one.partition.topic,
                    "partition": one.partition.partition,
                    "committed_offset": one.committed,
                    "new_offset": one.target,
                    "remark": one.remark,
                }
                for one in steps
            ]
        )
        return
    rows = [[*one.partition, one.committed, one.target] for one in steps]
    print_table(["TOPIC", "PARTITION", "COMMITTED", "NEW"], rows)


def _count(members: int) -> str:
    return "1 member" if members == 1 else f"{members} members"
