"""Setting the offsets of a group: a plan is made and shown, and carried out with `--execute`.

Flow.   `semel offsets reset` and `import` say what they want of each partition; the facts are asked for; `core.groups.
        resetting` makes the plan.
Rules.  * Without `--execute` nothing changes, as with Kafka's tool, and the command that carries the plan out is named.
        * A group with members is refused, because they would go on from where they are; its plan can be seen all the same.
        * Standard output holds the plan alone. Everything said about it goes to standard error.
"""

import functools
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from semel.cli.output import Column, show
from semel.insight.sentences import several

if TYPE_CHECKING:
    from semel.client.cluster import Cluster
    from semel.core.groups.resetting import Facts, Step, Target
    from semel.types import TopicPartition

F = TypeVar("F", bound=Callable[..., Any])
_STEPS: Final = (
    Column("GROUP", "group"),
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("FROM", "committed_offset"),
    Column("TO", "new_offset"),
    Column("REMARK", "remark", wide=True),
)
_WORDS: Final = "semel.cli.offset_plans.words"


class PlanCommand(click.Command):
    """A command that remembers its words: the plan names the command that carries it out."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        words = list(args)
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[_WORDS] = words
        return context


def execution_options(command: F) -> F:
    """`--execute`, and `--dry-run` for habits of Kafka's tool; the function gets `execute`."""

    @functools.wraps(command)
    def checked(*, dry_run: bool, execute: bool, **given: Any) -> Any:
        if dry_run and execute:
            raise click.UsageError("--execute carries the plan out and --dry-run does not: keep one.")
        return command(execute=execute, **given)

    dry_run = click.option("--dry-run", is_flag=True, help="Print the plan and change nothing: the default.")
    execute = click.option("--execute", is_flag=True, help="Carry the plan out; without it nothing changes.")
    return cast("F", execute(dry_run(checked)))


async def carry_out(
    cluster: "Cluster",
    group: str,
    targets_of: "Callable[[Cluster], Awaitable[Mapping[TopicPartition, Target]]]",
    *,
    execute: bool,
) -> "list[Step]":
    """Make a plan and, if it is to be executed, commit it."""
    from semel.client.calls.describe_group import EMPTY_STATES, find_group
    from semel.client.calls.offset_commit import alter_offsets
    from semel.client.values.consuming import OffsetAndMetadata
    from semel.core.groups.resetting import plan
    from semel.errors import ConfigError, ErrorCode, RefusedError

    found = await find_group(cluster, group)
    if found is not None and found.state not in EMPTY_STATES:
        said = (
            f"group {group} at {cluster.where} is {found.state} with {several(len(found.members), 'member')}: "
            "its offsets can be changed only while it has none"
        )
        if execute:
            raise RefusedError(
                ErrorCode.NON_EMPTY_GROUP, f"{said}; stop them first, or see the plan without --execute"
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
    if execute and steps:
        wanted = {one.partition: OffsetAndMetadata(one.target) for one in steps if one.target is not None}
        await alter_offsets(cluster, group, wanted)
    return steps


async def _facts(
    cluster: "Cluster", group: str, targets: "Mapping[TopicPartition, Target]"
) -> "dict[TopicPartition, Facts]":
    from semel.client.calls.list_offsets import EARLIEST, LATEST, all_found, list_offsets, offsets_at
    from semel.client.calls.offset_fetch import committed_offsets
    from semel.core.groups.resetting import Facts, Kind
    from semel.types import UNKNOWN_OFFSET, TopicPartition

    committed = await committed_offsets(cluster, group)
    facts: dict[TopicPartition, Facts] = {}
    for topic in dict.fromkeys(one.topic for one in targets):
        wanted = [one for one in targets if one.topic == topic]
        earliest = await offsets_at(cluster, dict.fromkeys(wanted, EARLIEST))
        latest = await offsets_at(cluster, dict.fromkeys(wanted, LATEST))
        times = {
            one.value for where, one in targets.items() if where.topic == topic and one.kind is Kind.TIME
        }
        at_time: dict[TopicPartition, int] = {}
        for moment in times:
            answers = all_found(await list_offsets(cluster, dict.fromkeys(wanted, moment)))
            at_time |= {where: one.offset for where, one in answers.items() if one.offset != UNKNOWN_OFFSET}
        for where in wanted:
            now = committed.get(where)
            facts[where] = Facts(
                earliest[where], latest[where], None if now is None else now.offset, at_time.get(where)
            )
    return facts


def print_plan(group: str, steps: "Sequence[Step]", output: str, *, executed: bool) -> None:
    """The plan, and whether it was carried out, or how to."""
    _print_steps(group, steps, output)
    offsets = several(len(steps), "offset")
    if not steps:
        click.echo(f"group {group} has nothing to set", err=True)
    elif executed:
        click.echo(f"done: {offsets} of group {group} set", err=True)
    else:
        click.echo(
            f"a plan, nothing is changed; to set {offsets} of group {group}: {execution('offsets')}", err=True
        )


def execution(group: str) -> str:
    """The command that is running, as it carries its plan out; passwords are not repeated."""
    from semel.client.security_keys import SECURITY_KEYS
    from semel.core.metadata.config_types import PASSWORD

    secrets = {one.name for one in SECURITY_KEYS if one.type is PASSWORD}
    context = click.get_current_context()
    words = ["semel", group, str(context.info_name)]
    for word in context.meta[_WORDS]:
        flag = "-X" if word.startswith("-X") else ""
        key, equals, _value = word.removeprefix(flag).partition("=")
        if word != "--dry-run":
            words.append(f"{flag}{key}=…" if equals and key.strip() in secrets else word)
    return shlex.join([*words, "--execute"])


def _print_steps(group: str, steps: "Sequence[Step]", output: str) -> None:
    rows = [
        {
            "group": group,
            "topic": one.partition.topic,
            "partition": one.partition.partition,
            "committed_offset": one.committed,
            "new_offset": one.target,
            "remark": one.remark,
        }
        for one in steps
    ]
    show(output, rows, _STEPS)
