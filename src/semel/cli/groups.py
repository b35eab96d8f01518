"""`semel groups`: list, describe, delete, remove members."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from semel.cli.names import complete_groups
from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import CSV, FOR_PEOPLE, Column, Json, print_csv, show, show_document
from semel.core.groups.listing import STATES, TYPES

if TYPE_CHECKING:
    from semel.client.calls.describe_group import GroupView, MemberView
    from semel.client.cluster import Cluster
    from semel.insight.lag import PartitionLag
    from semel.types import TopicPartition

_LISTED: Final = (
    Column("GROUP", "group_id"),
    Column("TYPE", "type"),
    Column("PROTOCOL", lambda row: row["protocol_type"] or None),
    Column("STATE", "state"),
    Column("COORDINATOR", "coordinator"),
)
_OFFSETS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("COMMITTED", "committed_offset"),
    Column("END", "end_offset"),
    Column("LAG", "lag"),
    Column("MEMBER", "member_id"),
)
_MEMBERS: Final = (
    Column("MEMBER", "member_id"),
    Column("INSTANCE", "group_instance_id"),
    Column("CLIENT", "client_id"),
    Column("HOST", "client_host"),
    Column("SUBSCRIBED", lambda row: row["topic_regex"] or ",".join(row["topics"])),
    Column("PARTITIONS", lambda row: len(row["assignment"])),
    Column("ASSIGNED", lambda row: ",".join(row["assignment"]) or None, wide=True),
    Column("EPOCH", "member_epoch", wide=True),
)


@click.group(name="groups", epilog="Example: semel groups describe orders-app")
def command() -> None:
    """See consumer groups, their members and their lag; remove members; delete groups."""


@command.command(name="list", epilog="Example: semel groups list --state Empty -o json")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES, case_sensitive=False),
    help="Only groups in this state; may be repeated.",
)
@click.option(
    "--type",
    "types",
    multiple=True,
    type=click.Choice(TYPES, case_sensitive=False),
    help="Only groups that speak this protocol; may be repeated.",
)
@connection_options
@output_option
def list_(
    states: Sequence[str], types: Sequence[str], bootstrap: str, settings: dict[str, str], output: str
) -> None:
    """Print every group with its protocol and state."""
    from semel.client.calls.list_groups import list_groups

    with connected(bootstrap, settings) as client:
        groups = client.run(list_groups, states=states, types=types)
    show(output, [one._asdict() for one in groups], _LISTED)


class _Description(NamedTuple):
    group: "GroupView"
    lags: "list[PartitionLag]"

    def owner(self, partition: "TopicPartition") -> "MemberView | None":
        return next((one for one in self.group.members if partition in one.assignment), None)

    @property
    def lag(self) -> int:
        return sum(one.lag or 0 for one in self.lags)


@command.command(epilog="Example: semel groups describe orders-app -o json")
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_groups)
@connection_options
@output_option
def describe(names: Sequence[str], bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Print a group's state, its lag in every partition, and its members.

    The lag is what a consumer with the isolation.level of -X (read_committed by default) has before it.
    """
    with connected(bootstrap, settings) as client:
        described = [client.run(_describe, name) for name in names]
    documents = [_description_json(one) for one in described]
    if output == CSV:
        print_csv([{"group": one["group_id"], **row} for one in documents for row in one["offsets"]])
    elif output not in FOR_PEOPLE:
        show_document(output, documents)
    else:
        for number, one in enumerate(documents):
            if number:
                click.echo()
            _print(one, output)


async def _describe(cluster: "Cluster", name: str) -> _Description:
    from semel.client.calls.describe_group import describe_group
    from semel.client.calls.offset_fetch import committed_offsets
    from semel.insight.lag import lag

    group = await describe_group(cluster, name)
    committed = await committed_offsets(cluster, name)
    owned = [partition for member in group.members for partition in member.assignment]
    return _Description(group, await lag(cluster, committed, owned))


def _print(group: Mapping[str, Any], output: str) -> None:
    facts = [group["group_id"], f"type {group['type']}", f"state {group['state']}"]
    if group["assignor"]:
        facts.append(f"assignor {group['assignor']}")
    if group["group_epoch"] is not None:
        facts.append(f"epoch {group['group_epoch']}")
    facts += [f"coordinator {group['coordinator']}", f"lag {group['lag']}"]
    click.echo("  ".join(facts))
    if group["offsets"]:
        click.echo()
        show(output, group["offsets"], _OFFSETS)
    click.echo()
    if group["members"]:
        show(output, group["members"], _MEMBERS)
    else:
        click.echo("no members")


def _description_json(one: _Description) -> dict[str, Any]:
    group = one.group
    return {
        **{name: value for name, value in group._asdict().items() if name != "members"},
        "lag": one.lag,
        "offsets": [_lag_json(one, lag) for lag in one.lags],
        "members": [
            {
                **member._asdict(),
                "assignment": [str(partition) for partition in member.assignment],
                "target_assignment": (
                    None
                    if member.target_assignment is None
                    else [str(partition) for partition in member.target_assignment]
                ),
            }
            for member in group.members
        ],
    }


def _lag_json(one: _Description, lag: "PartitionLag") -> dict[str, Json]:
    owner = one.owner(lag.partition)
    return {
        "topic": lag.partition.topic,
        "partition": lag.partition.partition,
        "committed_offset": None if lag.committed is None else lag.committed.offset,
        "end_offset": lag.end_offset,
        "lag": lag.lag,
        "member_id": None if owner is None else owner.member_id,
    }


@command.command(epilog="Example: semel groups delete orders-app")
@click.argument("names", nargs=-1, required=True, metavar="GROUP…", shell_complete=complete_groups)
@connection_options
def delete(names: Sequence[str], bootstrap: str, settings: dict[str, str]) -> None:
    """Delete groups without members, with their offsets."""
    from semel.client.calls.delete_group import delete_group

    with connected(bootstrap, settings) as client:
        for name in names:
            client.run(delete_group, name)
            click.echo(f"deleted {name}")


@command.command(
    name="remove-members", epilog="Example: semel groups remove-members orders-app --instance worker-3"
)
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@click.option("--member", "member_ids", multiple=True, metavar="ID", help="A member id; may be repeated.")
@click.option(
    "--instance", "instance_ids", multiple=True, metavar="ID", help="A group.instance.id; may be repeated."
)
@click.option("--all", "everybody", is_flag=True, help="Every member.")
@connection_options
def remove_members(
    name: str,
    member_ids: Sequence[str],
    instance_ids: Sequence[str],
    everybody: bool,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """Take members out of a group; their partitions go to the others at once.

    A member that is alive notices and joins again. A static member that will not come back is the usual reason.
    """
    if everybody == bool(member_ids or instance_ids):
        raise click.UsageError("Name members with --member or --instance, or take --all of them.")
    with connected(bootstrap, settings) as client:
        count = client.run(_remove, name, member_ids, instance_ids, everybody)
    click.echo(f"removed {count} {'member' if count == 1 else 'members'} of {name}")


async def _remove(
    cluster: "Cluster", name: str, member_ids: Sequence[str], instance_ids: Sequence[str], everybody: bool
) -> int:
    from semel.client.calls.describe_group import describe_group
    from semel.client.calls.remove_members import remove_members

    group = await describe_group(cluster, name)
    if everybody:
        instance_ids = [one.group_instance_id for one in group.members if one.group_instance_id is not None]
        member_ids = [one.member_id for one in group.members if one.group_instance_id is None]
    await remove_members(cluster, name, member_ids=member_ids, group_instance_ids=instance_ids)
    return len(member_ids) + len(instance_ids)
