"""`semel topics`: list, create, delete, describe, add partitions. Trimming: `trim`."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from semel.cli.names import complete_topics
from semel.cli.options import connected, connection_options, output_option, pairs, reach_of
from semel.cli.output import CSV, FOR_PEOPLE, Column, Json, print_csv, show, show_document
from semel.cli.trim import trim
from semel.insight.sentences import several

if TYPE_CHECKING:
    from semel.client.cluster import Cluster, TopicView
    from semel.client.values.administration import ConfigEntry

_PARTITIONS_PER_CORE: Final = 2
_DEFAULT: Final = -1
_LISTED: Final = (
    Column("TOPIC", "name"),
    Column("PARTITIONS", "partitions"),
    Column("REPLICAS", "replicas"),
    Column("ID", "id", wide=True),
    Column("INTERNAL", lambda row: "yes" if row["internal"] else "no", wide=True),
)
_PARTITIONS: Final = (
    Column("PARTITION", "partition"),
    Column("LEADER", "leader"),
    Column("EPOCH", "leader_epoch", wide=True),
    Column("REPLICAS", lambda row: _ids(row["replicas"])),
    Column("IN SYNC", lambda row: _ids(row["isr"])),
    Column("BEGINS AT", "start_offset"),
    Column("ENDS AT", "end_offset"),
)


@click.group(name="topics", epilog="Example: semel topics list")
def command() -> None:
    """List, create, delete, describe, grow and trim topics."""


command.add_command(trim)


@command.command(name="list", epilog="Example: semel topics list -b localhost:9092 -o json")
@connection_options
@output_option
def list_(bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Print every topic with its partitions and replicas."""
    from semel.client.calls.list_topics import list_topics

    with connected(bootstrap, settings) as client:
        topics = client.run(list_topics)
    show(output, [_topic_json(topic) for topic in topics], _LISTED)


def _partitions(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int:
    if value is None:
        return _DEFAULT
    if value == "auto":
        return _PARTITIONS_PER_CORE * (os.cpu_count() or 1)
    if not value.isdecimal() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a number from 1 on nor 'auto'.")
    return int(value)


@command.command(
    epilog="Example: semel topics create orders --partitions auto --config cleanup.policy=compact",
)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…")
@click.option(
    "--partitions",
    metavar="N|auto",
    callback=_partitions,
    help="How many; auto is two per CPU core of this machine.  [default: the broker's num.partitions]",
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1, 32767),
    default=None,
    metavar="N",
    help="Copies of each partition.  [default: the broker's default.replication.factor]",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    metavar="KEY=VALUE",
    callback=pairs,
    help="A topic setting by Kafka's name; may be repeated.",
)
@click.option("--if-not-exists", is_flag=True, help="A topic that is there already is no error.")
@connection_options
def create(
    names: Sequence[str],
    partitions: int,
    replication_factor: int | None,
    configs: dict[str, str],
    if_not_exists: bool,
    bootstrap: str,
    settings: dict[str, str],
) -> None:
    """Create topics."""
    from semel.client.calls.create_topics import create_topic
    from semel.errors import ErrorCode, RefusedError

    async def create_one(cluster: "Cluster", name: str) -> int | None:
        try:
            await create_topic(
                cluster,
                name,
                partitions=partitions,
                replication_factor=_DEFAULT if replication_factor is None else replication_factor,
                configs=configs,
            )
        except RefusedError as error:
            if if_not_exists and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return None
            raise
        return len((await cluster.topic(name)).partitions)

    with connected(bootstrap, settings) as client:
        for name in names:
            made = client.run(create_one, name)
            click.echo(
                f"{name} exists already"
                if made is None
                else f"created {name} with {several(made, 'partition')}"
            )


@command.command(epilog="Example: semel topics delete orders")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@connection_options
def delete(names: Sequence[str], bootstrap: str, settings: dict[str, str]) -> None:
    """Delete topics with all their records."""
    from semel.client.calls.delete_topics import delete_topic

    with connected(bootstrap, settings) as client:
        for name in names:
            client.run(delete_topic, name)
            click.echo(f"deleted {name}")


@command.command(name="add-partitions", epilog="Example: semel topics add-partitions orders --total 12")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@click.option("--total", type=click.IntRange(1, 2**31 - 1), metavar="N", help="How many there are to be.")
@click.option("--add", "more", type=click.IntRange(1, 2**31 - 1), metavar="N", help="How many are added.")
@connection_options
def add_partitions(
    names: Sequence[str], total: int | None, more: int | None, bootstrap: str, settings: dict[str, str]
) -> None:
    """Give topics more partitions; there is no way back.

    Records stay where they are, but keys move: new records of a key go to another partition than its old ones, so readers see them in no
    order. Kafka's own topics and topics of keyed tables are better made anew.
    """
    from semel.client.sync.admin import Admin

    if (total is None) == (more is None):
        raise click.UsageError("Say how many with one of --total and --add.")
    with connected(bootstrap, settings) as client:
        counts = {name: len(client.run(_topic, name).partitions) for name in names}
    wanted = {name: total if total is not None else count + (more or 0) for name, count in counts.items()}
    for name, count in counts.items():
        if wanted[name] <= count:
            raise click.BadParameter(
                f"{name} has {several(count, 'partition')} already, and partitions cannot be taken away.",
                param_hint="--total",
            )
    with Admin({"bootstrap.servers": bootstrap, **reach_of(settings)}) as admin:
        for name, count in counts.items():
            admin.create_partitions({name: wanted[name]})
            click.echo(
                f"{name} has {several(wanted[name], 'partition')} now, {wanted[name] - count} of them new"
            )


async def _topic(cluster: "Cluster", name: str) -> "TopicView":
    return await cluster.topic(name)


class _Description(NamedTuple):
    topic: "TopicView"
    starts: dict[int, int]
    ends: dict[int, int]
    settings: "list[ConfigEntry]"


@command.command(epilog="Example: semel topics describe orders -o json")
@click.argument("names", nargs=-1, required=True, metavar="TOPIC…", shell_complete=complete_topics)
@connection_options
@output_option
def describe(names: Sequence[str], bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Print a topic's partitions, where they begin and end, and its own settings."""
    with connected(bootstrap, settings) as client:
        described = [client.run(_describe, name) for name in names]
    documents = [_description_json(one) for one in described]
    if output == CSV:
        print_csv([{"topic": one["name"], **row} for one in documents for row in one["partitions"]])
    elif output not in FOR_PEOPLE:
        show_document(output, documents)
    else:
        for one in documents:
            click.echo(f"{one['name']}  id {one['id']}  {several(len(one['partitions']), 'partition')}")
            for key, value in one["configs"].items():
                click.echo(f"  {key}={value}")
            show(output, one["partitions"], _PARTITIONS)


async def _describe(cluster: "Cluster", name: str) -> _Description:
    from semel.client.calls.describe_configs import Resource, describe_configs
    from semel.client.calls.list_offsets import EARLIEST, LATEST, offsets_at
    from semel.types import TopicPartition

    topic = await cluster.topic(name)
    partitions = [TopicPartition(name, one.partition) for one in topic.partitions]
    starts = await offsets_at(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = await offsets_at(cluster, dict.fromkeys(partitions, LATEST))
    own = [one for one in await describe_configs(cluster, Resource.TOPIC, name) if one.source == "topic"]
    return _Description(
        topic,
        {where.partition: offset for where, offset in starts.items()},
        {where.partition: offset for where, offset in ends.items()},
        own,
    )


def _topic_json(topic: "TopicView") -> dict[str, Json]:
    return {
        "name": topic.name,
        "id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replicas": _replication(topic),
    }


def _description_json(one: _Description) -> dict[str, Any]:
    return {
        "name": one.topic.name,
        "id": str(one.topic.topic_id),
        "internal": one.topic.is_internal,
        "configs": {setting.name: setting.value for setting in one.settings},
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": p.replicas,
                "isr": p.isr,
                "start_offset": one.starts[p.partition],
                "end_offset": one.ends[p.partition],
            }
            for p in one.topic.partitions
        ],
    }


def _replication(topic: "TopicView") -> int:
    return max((len(one.replicas) for one in topic.partitions), default=0)


def _ids(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
