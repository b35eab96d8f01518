"""`semel cluster`: who is in the cluster, what each broker carries, and which partitions lack something.

Role.   Asks for metadata and settings, and prints what `insight.partition_health` makes of them.
Rules.  * Works on Semel and on Apache Kafka, with one broker or many.
        * A broker that partitions name and the cluster does not is listed as gone: its replicas are out of sync.
        * Nothing is changed here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from semel.cli.names import complete_topics
from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import CSV, FOR_PEOPLE, Column, print_csv, show, show_document
from semel.insight.partition_health import Health, Placed, burdens, placed
from semel.insight.sentences import several

if TYPE_CHECKING:
    from semel.client.cluster import Cluster

_UNHEALTHY: Final = tuple(one for one in Health if one is not Health.OK)


def _ids(brokers: Sequence[int]) -> str:
    return ",".join(map(str, brokers)) or "none"


_BROKERS: Final = (
    Column("BROKER", "id"),
    Column("ADDRESS", "address"),
    Column("RACK", "rack"),
    Column("CONTROLLER", lambda row: "yes" if row["controller"] else ""),
    Column("LEADERS", "leaders"),
    Column("REPLICAS", "replicas"),
    Column("OUT OF SYNC", "not_in_sync"),
    Column("NOT PREFERRED", "not_preferred", wide=True),
)
_PARTITIONS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("STATE", "state"),
    Column("LEADER", lambda row: None if row["leader"] < 0 else row["leader"]),
    Column("EPOCH", "leader_epoch", wide=True),
    Column("REPLICAS", lambda row: _ids(row["replicas"])),
    Column("IN SYNC", lambda row: _ids(row["isr"])),
    Column("MISSING", lambda row: _ids(row["missing"])),
)


@click.group(name="cluster", epilog="Example: semel cluster describe -b localhost:9092")
def command() -> None:
    """Brokers and partitions of a cluster: what is led where, and what lacks a leader or a replica."""


@command.command(epilog="Example: semel cluster describe -o json")
@connection_options
@output_option
def describe(bootstrap: str, settings: dict[str, str], output: str) -> None:
    """Sum the cluster up: id, controller, brokers, partitions by state."""
    with connected(bootstrap, settings) as client:
        brokers, partitions, about = client.run(_asked, ())
    states = {state.value: sum(one.health is state for one in partitions) for state in Health}
    summary = {
        **about,
        "brokers": sum(one["address"] is not None for one in brokers),
        "brokers_gone": [one["id"] for one in brokers if one["address"] is None],
        "topics": len({one.topic for one in partitions}),
        "partitions": len(partitions),
        **{state.replace("-", "_"): count for state, count in states.items()},
        "not_preferred": sum(not one.is_preferred for one in partitions if one.leader >= 0),
    }
    if output == CSV:
        print_csv([summary])
    elif output not in FOR_PEOPLE:
        show_document(output, summary)
    else:
        _tell(summary, states)


def _tell(summary: dict[str, Any], states: dict[str, int]) -> None:
    gone = summary["brokers_gone"]
    click.echo(f"cluster {summary['cluster_id']}, controller {summary['controller_id']}")
    click.echo(
        several(summary["brokers"], "broker") + (f"; gone, and still named: {_ids(gone)}" if gone else "")
    )
    click.echo(f"{several(summary['topics'], 'topic')}, {several(summary['partitions'], 'partition')}:")
    for state, count in states.items():
        if count or state == Health.OK:
            click.echo(f"  {count:>6}  {state}")
    if summary["not_preferred"]:
        click.echo(f"{several(summary['not_preferred'], 'partition')} led by another than the first replica")


@command.command(epilog="Example: semel cluster brokers -o wide")
@connection_options
@output_option
def brokers(bootstrap: str, settings: dict[str, str], output: str) -> None:
    """List the brokers with the partitions on each."""
    with connected(bootstrap, settings) as client:
        found, _partitions, _about = client.run(_asked, ())
    show(output, found, _BROKERS)


@command.command(epilog="Example: semel cluster partitions orders --state under-min-isr --state offline")
@click.argument("topics", nargs=-1, metavar="[TOPIC]…", shell_complete=complete_topics)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([one.value for one in Health]),
    help="Only partitions in this state; may be repeated.  [default: all]",
)
@connection_options
@output_option
def partitions(
    topics: Sequence[str], states: Sequence[str], bootstrap: str, settings: dict[str, str], output: str
) -> None:
    """List partitions with leader, replicas and state; of all topics, if none is named."""
    with connected(bootstrap, settings) as client:
        _brokers, found, _about = client.run(_asked, topics)
    show(output, [_row(one) for one in found if not states or one.health in states], _PARTITIONS)


@command.command(name="under-replicated", epilog="Example: semel cluster under-replicated -o csv")
@connection_options
@output_option
def under_replicated(bootstrap: str, settings: dict[str, str], output: str) -> None:
    """List the partitions that lack a leader or a replica in sync; nothing, if all is well."""
    with connected(bootstrap, settings) as client:
        _brokers, found, _about = client.run(_asked, ())
    rows = [_row(one) for one in found if one.health in _UNHEALTHY]
    if rows or output not in FOR_PEOPLE:
        show(output, rows, _PARTITIONS)
    else:
        click.echo(f"{several(len(found), 'partition')}, all of them led and in sync")


def _row(one: Placed) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "state": one.health.value,
        "leader": one.leader,
        "leader_epoch": one.leader_epoch,
        "replicas": list(one.replicas),
        "isr": list(one.isr),
        "missing": list(one.missing),
    }


async def _asked(
    cluster: "Cluster", names: Sequence[str]
) -> tuple[list[dict[str, Any]], list[Placed], dict[str, Any]]:
    """Brokers, partitions of these topics or of all, and what the cluster is called."""
    from semel.client.calls.list_topics import list_topics
    from semel.insight.min_insync import min_insync_replicas

    everything = await list_topics(cluster)
    for name in names:
        await cluster.topic(name)  # A topic that is not there is refused by its name.
    topics = [one for one in everything if not names or one.name in names]
    replicated = [one.name for one in topics if any(len(part.replicas) > 1 for part in one.partitions)]
    minima = await min_insync_replicas(cluster, replicated)
    judged = placed(topics, {name: int(value) for name, value in minima.items() if value.isdecimal()})
    whole = judged if not names else placed(everything, {})
    rows = [
        {
            "id": broker,
            "address": None if broker not in cluster.nodes else str(cluster.nodes[broker].address),
            "rack": None if broker not in cluster.nodes else cluster.nodes[broker].rack,
            "controller": broker == cluster.controller_id,
            "leaders": burden.leaders,
            "replicas": burden.replicas,
            "not_in_sync": burden.not_in_sync,
            "not_preferred": burden.not_preferred,
        }
        for broker, burden in sorted(burdens(whole, cluster.nodes).items())
    ]
    return rows, judged, {"cluster_id": cluster.cluster_id, "controller_id": cluster.controller_id}
