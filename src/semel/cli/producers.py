"""`semel producers`: what makes a retry harmless, seen from outside."""

from typing import TYPE_CHECKING, Final

import click

from semel.cli.names import complete_topics
from semel.cli.options import connected, connection_options, output_option
from semel.cli.output import Column, show
from semel.insight.sentences import time_text

if TYPE_CHECKING:
    from semel.client.calls.describe_producers import ProducerView
    from semel.client.cluster import Cluster

_COLUMNS: Final = (
    Column("PARTITION", "partition"),
    Column("PRODUCER ID", "producer_id"),
    Column("EPOCH", "producer_epoch"),
    Column("LAST SEQUENCE", "last_sequence"),
    Column("LAST TIMESTAMP", lambda row: time_text(row["last_timestamp_ms"])),
    Column("OPEN TRANSACTION FROM", "transaction_start_offset"),
)


@click.group(name="producers", epilog="Example: semel producers describe orders")
def command() -> None:
    """The producers that partitions remember."""


@command.command(epilog="Example: semel producers describe orders --partition 0 -o json")
@click.argument("topic", shell_complete=complete_topics)
@click.option("--partition", type=click.IntRange(0), metavar="N", help="This partition only.")
@connection_options
@output_option
def describe(
    topic: str, partition: int | None, bootstrap: str, settings: dict[str, str], output: str
) -> None:
    """Print each producer's id, epoch, last sequence and last timestamp, and where its open transaction begins.

    The timestamp is that of the producer's last record: a producer that sets times of its own can be busy with an old one.
    The protocol does not tell the offset of a producer's last record: 'semel log dump' of a snapshot does.
    """

    async def ask(cluster: "Cluster") -> "list[ProducerView]":
        from semel.client.calls.describe_producers import describe_producers

        view = await cluster.topic(topic)
        if partition is not None and partition >= len(view.partitions):
            raise click.BadParameter(
                f"{topic} has the partitions 0 to {len(view.partitions) - 1}.", param_hint="--partition"
            )
        return await describe_producers(cluster, view, None if partition is None else [partition])

    with connected(bootstrap, settings) as client:
        found = client.run(ask)
    show(output, [one._asdict() for one in found], _COLUMNS)
